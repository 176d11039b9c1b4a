"""A link that adds uploads: the server gets their sum, with noise, and never one of them."""

import numpy as np
import pytest
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.engine.uploads import SUM, collect_uploads
from mix2fld.links import Direction, Memoryless
from mix2fld.runs.simulation import Simulation, make_simulation
from mix2fld.types import Delivery
from toys import toy_config, toy_dataset


class Adding(Memoryless):
    adds = True
    slot_seconds, max_slots = 0.001, 10

    def __init__(self, deviation: float = 0.0, lost: tuple[int, ...] = ()) -> None:
        self.deviation, self.lost = deviation, list(lost)

    def deliver(
        self, direction: Direction, bits: NDArray[np.int64], rng: np.random.Generator
    ) -> Delivery:
        delivered = np.ones(len(bits), bool)
        if direction == "uplink":
            delivered[self.lost] = False
        return Delivery(delivered, np.where(delivered, 0, self.max_slots))

    def superpose(
        self, signals: NDArray[np.float64], weights: NDArray[np.float64], rng: np.random.Generator
    ) -> NDArray[np.float64]:
        total = weights @ signals
        return (total + self.deviation * rng.normal(size=total.shape)) / weights.sum()


def simulation_over(link: Memoryless | None, protocol: str = "fl", **fields: object) -> Simulation:
    config = toy_config(protocol=protocol, link="ideal", **fields)
    return make_simulation(config, toy_dataset(), link=link)


def flat_model(simulation: Simulation) -> NDArray[np.float32]:
    state, _ = simulation.run_round(simulation.start())
    assert state.server.weights is not None
    return np.concatenate([part.ravel() for part in state.server.weights])


@pytest.mark.parametrize("protocol", ["fl", "topk"])
def test_a_sum_without_noise_is_the_mean_that_the_server_would_make(protocol: str) -> None:
    fields = (
        {"samples_spread": 0.5, "reuse_samples": True} if protocol == "fl" else {"step_limit": 100}
    )
    added = flat_model(simulation_over(Adding(), protocol, **fields))
    np.testing.assert_allclose(
        added, flat_model(simulation_over(None, protocol, **fields)), atol=1e-6
    )


def test_noise_on_the_sum_is_divided_by_all_samples() -> None:
    """Closed form: the mean of n devices with m samples has noise of deviation / (n m)."""
    deviation, samples = 50.0, 4 * toy_config().data.samples_per_device
    apart = flat_model(simulation_over(Adding(deviation))) - flat_model(simulation_over(Adding()))
    assert np.std(apart) == pytest.approx(deviation / samples, rel=0.05)
    assert abs(np.mean(apart)) < 3 * deviation / samples / np.sqrt(len(apart))


def test_who_is_lost_is_not_in_the_sum_and_the_server_sees_nobody() -> None:
    simulation = simulation_over(Adding(lost=(1,)))
    state = simulation.start()
    after, info = simulation.run_round(state)
    assert info.uploads["devices"] == [0, 2, 3]
    assert info.suspects == []
    assert after.server.updates == 1


def test_the_inbox_of_the_server_is_the_sum_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def spied(*given: object) -> object:
        found = collect_uploads(*given)
        seen.append(dict(found.inbox))
        return found

    monkeypatch.setattr("mix2fld.engine.one_round.collect_uploads", spied)
    simulation = simulation_over(Adding())
    simulation.run_round(simulation.start())
    assert [list(inbox) for inbox in seen] == [[SUM]]


@pytest.mark.parametrize(
    ("protocol", "fields", "message"),
    [
        ("mix2fld", {}, "Mix2FLD.*the link adds uploads, and a sum of these has no meaning"),
        ("fd", {}, "FD.*a sum of these has no meaning"),
        ("murmur-stat", {}, "Murmur-Stat.*a sum of these has no meaning"),
        ("fl", {"aggregation": "median"}, "aggregation = median: the link adds.*must be mean"),
    ],
)
def test_what_has_no_meaning_as_a_sum_is_refused(
    protocol: str, fields: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        simulation_over(Adding(), protocol, **fields)
