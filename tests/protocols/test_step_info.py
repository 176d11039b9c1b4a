"""What the server did in its step: as the protocol says it, in the record."""

from dataclasses import replace

import pytest

from mix2fld.base.errors import InputError
from mix2fld.protocols.parts import StepInfo
from mix2fld.protocols.seed_samples import mixed
from mix2fld.protocols.table import PROTOCOLS
from mix2fld.runs.simulation import Simulation, make_simulation
from toys import toy_config, toy_dataset

FEATURES = {"model": "paper-cnn", "feature_side": 2}
SEED_SAMPLES = "took in seed samples of 4 devices"
OUTPUTS = "averaged the outputs of 4 devices"
STEPS = "took 20 steps on"


def simulate(protocol: str, **fields: object) -> Simulation:
    config = toy_config(protocol=protocol, link="ideal", server_steps=20, **fields)
    return make_simulation(config, toy_dataset())


@pytest.mark.parametrize(
    ("protocol", "steps", "did"),
    [
        ("isolated", 0, ""),
        ("fl", 0, "averaged the weights of 4 devices"),
        ("murmur", 0, "added the mean of the updates of 4 devices"),
        ("murmur-mix", 0, f"{SEED_SAMPLES}; added the mean of the updates of 4 devices"),
        ("fd", 0, OUTPUTS),
        ("fld", 20, f"{SEED_SAMPLES}; {OUTPUTS}; {STEPS} 40 samples"),
        ("mix2fld", 20, f"{SEED_SAMPLES}; {OUTPUTS}; {STEPS} 64 samples"),
        ("cfd", 20, f"{SEED_SAMPLES}; averaged the labels of 4 devices; {STEPS} 40 samples"),
        ("statistics", 0, "solved for a model from the statistics of 4 devices"),
        ("dp-statistics", 0, "added up statistics of 4 devices and solved for the model"),
        (
            "dp-seeds",
            20,
            "added up statistics of 4 devices and took 20 steps on samples drawn from them",
        ),
    ],
)
def test_the_record_has_the_steps_and_the_words_of_the_protocol(
    protocol: str, steps: int, did: str
) -> None:
    features = FEATURES if "stat" in protocol or "dp" in protocol else {}
    simulation = simulate(protocol, **features)
    _, info = simulation.run_round(simulation.start())
    assert info.server == {"steps": steps, "did": did}


def test_what_was_done_first_comes_first() -> None:
    first, second = StepInfo(2, ({"device": 1},), "judged"), StepInfo(3, (), "trained")
    assert first.then(second) == StepInfo(5, ({"device": 1},), "judged; trained")
    assert StepInfo().then(second) == second


def test_a_step_that_forgets_uploads_of_once_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices would upload them in every round."""
    monkeypatch.setitem(PROTOCOLS, "own", replace(PROTOCOLS["fl"], seeds=mixed))
    simulation = simulate("own")
    with pytest.raises(InputError, match=r"its step does not keep .* must call take_in_seeds"):
        simulation.run_round(simulation.start())
