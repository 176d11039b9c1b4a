"""What a transport adds to a payload, beside what was measured on a real link."""

import json

import pytest

from mix2fld.cli import main
from mix2fld.codecs import Size
from mix2fld.links.transports import TRANSPORTS


@pytest.mark.parametrize(("payload", "measured"), [(169, 373), (400, 607), (50_176, 52_757)])
def test_an_upload_over_mqtt_is_as_measured(payload: int, measured: int) -> None:
    """The interface counts 14 bytes of Ethernet header for each segment, and for one more."""
    carried = TRANSPORTS["mqtt"].carried(Size(8 * payload), "uplink").bits / 8
    segments = -(-payload // 1448) + 1
    assert carried + 14 * segments == pytest.approx(measured, rel=0.02)


@pytest.mark.parametrize(("payload", "measured"), [(400, 4775), (50_176, 60_246)])
def test_an_upload_over_flower_is_as_measured(payload: int, measured: int) -> None:
    carried = TRANSPORTS["flower"].carried(Size(8 * payload), "uplink").bits / 8
    assert carried == pytest.approx(measured, rel=0.06)


@pytest.mark.parametrize("name", TRANSPORTS)
def test_nothing_stays_nothing(name: str) -> None:
    assert TRANSPORTS[name].carried(Size(0), "uplink") == Size(0)


def test_the_link_command_adds_the_overhead(capsys: pytest.CaptureFixture[str]) -> None:
    bits = {}
    for transport in ("none", "mqtt", "flower"):
        main(["link", "--protocols", "fd", "--link", "ideal", "--transport", transport, "--json"])
        bits[transport] = {
            row["transfer"]: row["bits"] for row in json.loads(capsys.readouterr().out)
        }
    assert bits["none"] == {"upload": 3200, "download": 3200}
    added = {name: (found["upload"] - 3200) / 8 for name, found in bits.items()}
    assert added["mqtt"] <= 300
    assert added["flower"] > 4000
