"""The description of a report's charts: what the page and the figures for papers draw."""

import re

import pytest

from mix2fld.config.settings import Config
from mix2fld.report.charts import bars, charts, transfers
from mix2fld.report.html import SCRIPTS
from mix2fld.report.protocol_view import payload_names
from mix2fld.runs.summary import PARTS
from mix2fld.tasks.metric import ACCURACY
from places import ROOT

PAGE = ROOT / "src" / "mix2fld" / "report" / "page"
MIX2FLD = {
    "up": "mean outputs", "seeds": True, "down": "weights",
    "first_bits": 317_200, "later_bits": 3200.0, "down_bits": 401_408,
}  # fmt: skip


def test_a_bar_for_each_transfer_of_another_size() -> None:
    assert transfers(MIX2FLD) == [
        ("first upload: mean outputs + samples", 317_200),
        ("later uploads: mean outputs", 3200.0),
        ("download: weights", 401_408),
    ]
    same = {**MIX2FLD, "seeds": False, "first_bits": 3200}
    assert transfers(same) == [("upload: mean outputs", 3200), ("download: weights", 401_408)]
    assert transfers({**MIX2FLD, "first_bits": 0, "later_bits": None, "down_bits": 0}) == []


def test_every_part_of_a_bar_is_described() -> None:
    described = charts(ACCURACY)
    rows = bars(dict.fromkeys(PARTS, 1.0), MIX2FLD)
    assert set(rows["time"][0]["parts"]) == set(described["time"]["parts"])
    assert {"name", "light", "dark"} <= set(described["time"]["parts"]["uplink"])
    assert [row["label"] for row in rows["payload"]] == [label for label, _ in transfers(MIX2FLD)]


def test_the_page_names_nothing_that_the_description_names() -> None:
    """A title or name that stood in a script again would be a second description."""
    described = charts(ACCURACY)
    kinds = [
        *described["curves"]["axes"].values(), *described["curves"]["measures"].values(),
        *described["time"]["parts"].values(),
    ]  # fmt: skip
    names = {kind["name"] for kind in kinds if " " in kind["name"]}
    names |= {kind["title"] for kind in kinds if "title" in kind and " " in kind["title"]}
    scripts = "\n".join((PAGE / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS)
    assert len(names) > 8
    assert not [name for name in names if re.search(rf'[a-z]+: "{re.escape(name)}"', scripts)]


@pytest.mark.parametrize(
    ("protocol", "settings", "words"),
    [
        ("fl", {}, "weights"),
        ("murmur", {}, "relayed uploads or weights"),
        ("murmur", {"downlink": "relay"}, "relayed uploads"),
        ("murmur", {"downlink": "weights"}, "weights"),
        ("fl", {"downlink": "coded"}, "coded step"),
    ],
)
def test_a_download_is_named_by_what_comes_down(
    protocol: str, settings: dict[str, str], words: str
) -> None:
    config = Config.of(protocol=protocol, **settings)
    assert payload_names(protocol, config)[1] == words
