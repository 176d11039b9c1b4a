"""New kinds of uplink, link and participation touch nothing else: the examples, on toy data."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from examples.adding_channel import AddingChannel
from examples.own_channel_with_memory import GilbertElliott
from examples.own_uplink import LargeEntries, Largest
from examples.scaffold import Scaffold
from hypothesis import given
from hypothesis import strategies as st

from mix2fld.base.errors import InputError
from mix2fld.extend import FL, StepInfo, parameter
from mix2fld.protocols.table import PROTOCOLS
from mix2fld.runs.link_plan import plan_all
from mix2fld.runs.simulation import make_simulation, run
from mix2fld.sweep.jobs import Job
from mix2fld.types import Dimensions, SampleFormat
from stored_runs import check_resumed
from toys import CoinLink, toy_config, toy_dataset

PROTOCOLS.pop("scaffold", None)  # other tests know the table without the example


@pytest.fixture(autouse=True)
def _with_the_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROTOCOLS, "largest", Largest())


DIMS = Dimensions(((3, 5), (5,)), 4, SampleFormat((8, 8, 1)), 10, 8, (8, 8, 1))


@pytest.mark.parametrize(
    ("fields", "link"),
    [
        ({"protocol": "largest"}, CoinLink),
        ({"protocol": "largest", "participants": 2}, CoinLink),
        ({"protocol": "mix2fld"}, GilbertElliott),
        ({"protocol": "largest", "participants": 0.5}, GilbertElliott),
    ],
)
def test_what_is_remembered_survives_a_stop(tmp_path: Path, fields, link) -> None:
    config = toy_config(**fields, rounds=4)
    check_resumed(tmp_path, config, 1, 3, link=link())


def test_bits_of_a_sparse_update_are_those_that_it_has() -> None:
    simulation = make_simulation(toy_config(protocol="largest", rounds=3), toy_dataset())
    state, charged = simulation.start(), []
    for _ in range(3):
        state, info = simulation.run_round(state)
        charged.append(info.bits["up"])
    assert len(set(charged)) == 3
    size = simulation.scenario.wire.upload_size(with_seeds=False)
    assert not size.exact
    assert all(0 < bits < 4 * size.bits for bits in charged)


@given(
    values=st.lists(st.floats(-1e6, 1e6, width=32, allow_subnormal=False), min_size=20, max_size=20)
)
def test_a_custom_codec_carries_its_largest_entries(values) -> None:
    codec, sent, rng = LargeEntries(), np.array(values, np.float32), np.random.default_rng(0)
    encoded = codec.encode(codec.compress(sent, rng, None), DIMS)
    assert len(encoded.data) == encoded.bits // 8 <= codec.size(DIMS).bits // 8
    read = codec.restore(codec.decode(encoded.data, DIMS), rng, len(sent)).update
    np.testing.assert_array_equal(read[read != 0], sent[read != 0])
    assert np.abs(sent[read == 0]).max(initial=0) <= np.abs(sent).max() / 2


def test_a_link_remembers_each_device() -> None:
    simulation = make_simulation(toy_config(rounds=3), toy_dataset(), link=GilbertElliott())
    state, seen = simulation.start(), []
    for _ in range(8):
        seen.append(state.link["good"].tolist())
        state, info = simulation.run_round(state)
        assert info.uploads["devices"] == np.flatnonzero(seen[-1]).tolist()
    assert len({tuple(row) for row in seen}) > 1
    budget = GilbertElliott().budget("uplink", 40_000, 10)
    assert 0.2 < budget.delivery_probability < 0.8
    assert budget.draws > 0


def test_a_few_of_many_devices() -> None:
    config = toy_config(
        protocol="fl", devices=24, samples_per_device=8, participants=3, rounds=5, link="rayleigh"
    )
    (result,) = run(config, dataset=toy_dataset())
    asked = [tuple(info["asked"]) for info in result.rounds]
    assert all(len(set(who)) == 3 for who in asked)
    assert len(set(asked)) > 1
    assert result.summary["uploads"]["attempted"] == 15
    alone = make_simulation(config.replace(participants="all"), toy_dataset()).scenario.link
    shared = alone.radio("uplink", 3).bits_per_slot / alone.radio("uplink", 24).bits_per_slot
    assert shared == pytest.approx(8)


@dataclass(frozen=True, kw_only=True)
class TrainsAtTheServer(FL):
    said: int = parameter(50)
    took: int = parameter(50)

    @property
    def server_steps(self) -> int:
        return self.said

    def step(self, server: Any, inbox: Any, round_number: int) -> Any:
        after, _ = super().step(server, inbox, round_number)
        return after, StepInfo(self.took)


def test_steps_of_a_custom_server_are_planned_as_they_are_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PROTOCOLS, "trains", TrainsAtTheServer())
    config = toy_config(protocol="trains", server_step_us=1000.0, device_step_us=1000.0)
    (result,) = run(config, dataset=toy_dataset())
    (planned,) = plan_all(config.replace(dataset="mnist")).rounds
    local = config.learning.local_steps
    assert planned.computing == pytest.approx((local + 50) * 1e-3)
    charged = result.summary["seconds"]["computing"]
    assert charged == pytest.approx(config.rounds * planned.computing)
    assert Job(tmp_path, config, "").round_cost == config.data.devices * local + 50
    with pytest.raises(InputError, match=r"server_steps = 0: the server took 50 SGD steps"):
        run(config.replace(protocol="trains:said=0"), dataset=toy_dataset())


@pytest.mark.parametrize(
    ("link", "fields", "words"),
    [
        (
            AddingChannel(20),
            {},
            "SCAFFOLD: the link adds uploads, and a sum of these has no meaning",
        ),
        (None, {"attack": "sign-flip", "attackers": 1}, "replaces uploads.*SCAFFOLD has none"),
    ],
)
def test_another_upload_is_no_longer_weights_of_which_a_sum_has_a_meaning(
    monkeypatch: pytest.MonkeyPatch, link: Any, fields: dict[str, Any], words: str
) -> None:
    monkeypatch.setitem(PROTOCOLS, "scaffold", Scaffold())
    with pytest.raises(InputError, match=words):
        run(toy_config(protocol="scaffold", **fields), dataset=toy_dataset(), link=link)


def test_a_class_says_itself_what_another_upload_is() -> None:
    class Halved(FL):
        sums = True
        upload_kind = "weights"

        def upload(self, device: Any, local: Any) -> Any:
            return tuple(part / 2 for part in local.weights)

    assert (Halved.sums, Halved.upload_kind) == (True, "weights")
    assert (Scaffold.sums, Scaffold.upload_kind) == (False, None)
    assert (TrainsAtTheServer.sums, TrainsAtTheServer.upload_kind) == (True, "weights")
