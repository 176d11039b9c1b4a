"""Makes ``records/kept_numbers.json``: short runs of every protocol, and what they sent.

Parts ``toy``, ``lossy`` and ``mnist`` were made with version 0.1.0, before the round was written
for any fleet; part ``rows`` with version 0.2.0, for every row of the protocol table (but the
seconds of dp-seeds and dp-seeds-sum, which had no time for the server until 0.3.0). Both are kept:
run this again only to add a protocol or a setting, never to make a test pass; what is in the file
is not made again. Run it as the tests are run, with ``OPENBLAS_NUM_THREADS=1``: the last digits of
a sum depend on its threads. All of these had weights on the downlink, and ask for them;
what protocols send down by themselves since 0.3.0 is in the case ``own downlink``.
"""

import hashlib
import json
import os
import platform
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent))

import mix2fld
from mix2fld.engine.fleet_interface import Delivered, LocalPhaseOutcome, Order, Outcome, Scores
from mix2fld.engine.fleets.device_states import DeviceStates
from mix2fld.engine.fleets.local import LocalFleet, ModelsToEvaluate, PendingRound, States
from mix2fld.engine.scenario import Scenario
from mix2fld.links import Link
from mix2fld.native.processor import cpu_flags
from mix2fld.types import Dataset, Model, Tensors
from toys import CoinLink, toy_config, toy_dataset

KEPT = Path(__file__).parent / "records" / "kept_numbers.json"
FADING = {"link": "rayleigh", "bandwidth_hz": 1e6, "max_slots": 420, "uplink_power_dbm": 12.0}
LOSSY = {**FADING, "max_slots": 8, "uplink_power_dbm": 9.0, "downlink_power_dbm": 5.0}
FEW_BITS = {**FADING, "update_bits": 600, "last_layer_share": 0.3}
MNIST = {
    "local_steps": 200,
    "server_steps": 100,
    "rounds": 2,
    "test_samples": 1000,
    "max_slots": 114,
    "seed_samples": 10,
    "inverse_samples": 20,
}
FIELDS = ("round", "bits", "slots", "seconds", "change", "converged", "seeds")
OF_0_1_0 = ("isolated", "fl", "fl8", "fl4", "fd", "fld", "mixfld", "mix2fld")
"""Rows whose numbers are of that version, and kept as parts of their own."""
SCHEDULE = {"learning_rate": 0.2, "final_learning_rate": 0.05}
"""For all other rows: a schedule that does not depend on what a row recommends."""
ACCURACIES = ("devices", "reference", "global")


def numbers_of(result: Any) -> list[dict[str, Any]]:
    """What must stay: accuracies, bits, slots and seconds of every round."""
    return [
        {
            **{name: info[name] for name in FIELDS},
            "accuracy": {name: info["scores"][name] for name in ACCURACIES},
            "curve": [
                {"accuracy" if of == "score" else of: value for of, value in point.items()}
                for point in info["curve"]
            ],
            "uploads": [info["uploads"]["attempted"], info["uploads"]["delivered"]],
            "downloads": [info["downloads"]["attempted"], info["downloads"]["delivered"]],
        }
        for info in result.rounds
    ]


class Recorder(LocalFleet):
    """All devices in this process, and a digest of what crossed the link in each round."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.digests: list[dict[str, str | None]] = []
        self._messages: Any = {}

    def train(self, states: States, order: Order) -> tuple[PendingRound, LocalPhaseOutcome]:
        """Keep the uploads until it is known which were delivered."""
        pending, trained = super().train(states, order)
        self._messages = trained.messages
        return pending, trained

    def deliver(self, states: PendingRound, outcome: Outcome) -> tuple[States, Delivered]:
        """Note what was delivered, in both directions."""
        messages = [self._messages[device] for device in sorted(outcome.uploaded)]
        up = [part.data for m in messages for part in (m.body, m.once) if part is not None]
        down = [] if outcome.download is None else [outcome.download]
        self.digests.append({"up": digest_of(up), "down": digest_of(down)})
        return super().deliver(states, outcome)

    def measure(self, observed: ModelsToEvaluate, models: Sequence[Tensors]) -> Scores:
        """Note the models measured beside those of devices: the server's is the last."""
        self.digests[-1]["models"] = digest_of(array.tobytes() for m in models for array in m)
        return super().measure(observed, models)


def digest_of(parts: Iterable[bytes]) -> str | None:
    """The beginning of the SHA-256 of these bytes, one after the other; None without any."""
    every = list(parts)
    return hashlib.sha256(b"".join(every)).hexdigest()[:16] if every else None


class Kept(NamedTuple):
    """What is kept of a run."""

    numbers: list[dict[str, Any]]
    digests: list[dict[str, str | None]]


def run_recorded(
    config: mix2fld.Config, dataset: Dataset | None = None, link: Link | None = None
) -> Kept:
    """One run, with what it sent."""
    fleets: list[Recorder] = []

    def recorder(
        scenario: Scenario, samples: Dataset, model: Model | None, states: DeviceStates
    ) -> Recorder:
        del model
        fleets.append(Recorder(scenario, samples, states))
        return fleets[-1]

    (result,) = mix2fld.run(config, dataset=dataset, link=link, fleet=recorder)
    return Kept(numbers_of(result), fleets[0].digests)


def toy_run(
    protocol: str,
    link: dict[str, Any] = FADING,
    own_link: Link | None = None,
    downlink: str = "weights",
) -> Kept:
    """Three rounds of an MLP over a fading link that loses some uploads."""
    rates = {} if protocol in OF_0_1_0 else SCHEDULE
    fields = {"rounds": 3, "partition": "non-iid", "rare_labels": 1, **link, **rates}
    config = toy_config(protocol=protocol, kernel="auto", downlink=downlink, **fields)
    return run_recorded(config, toy_dataset(), own_link)


def mnist_run(protocol: str) -> Kept:
    """Two rounds of the paper's network and link, at the learning rates of the row."""
    fewer = {} if protocol in OF_0_1_0 else {"devices": 4, "samples_per_device": 120}
    return run_recorded(mix2fld.Config.of(protocol=protocol, downlink="weights", **MNIST, **fewer))


CASES: dict[str, Callable[[str], Kept]] = {
    "toy": toy_run,
    "lossy": lambda protocol: toy_run(protocol, LOSSY),
    "mnist": mnist_run,
    "coin": lambda protocol: toy_run(protocol, own_link=CoinLink()),
    "few bits": lambda protocol: toy_run(protocol, FEW_BITS),
    "own downlink": lambda protocol: toy_run(protocol, downlink="default"),
}
"""Fading, hardly anything delivered, the paper's network, a coin that loses any transfer, the last
layer of an update by itself, and fading with what a protocol sends down by itself."""


def protocols_of(case: str) -> tuple[str, ...]:
    """The rows that a case is made for."""
    if case == "lossy":
        return OF_0_1_0
    if case == "own downlink":
        return tuple(n for n, row in mix2fld.PROTOCOLS.items() if row.downlinks[0] != "weights")
    of_few_bits = ("murmur", "murmur-mix", "murmur-stat", "dp-murmur")
    return of_few_bits if case == "few bits" else tuple(mix2fld.PROTOCOLS)


def processor() -> str:
    """What the last digits of floating point depend on: code is compiled for the processor."""
    described = f"{platform.machine()}{cpu_flags()}"
    return hashlib.sha256(described.encode()).hexdigest()[:16]


def sums_in_order() -> bool:
    """Whether matrices are multiplied by one thread, so that every last digit is kept."""
    return os.environ.get("OPENBLAS_NUM_THREADS") == "1"


if __name__ == "__main__":
    kept = json.loads(KEPT.read_text())
    rows = kept.setdefault("rows", {"version": mix2fld.__version__, "processor": processor()})
    for case, run_case in CASES.items():
        for protocol in protocols_of(case):
            of_case = rows.setdefault(case, {})
            if protocol in of_case:
                continue
            found = run_case(protocol)
            of_case[protocol] = {"digests": found.digests}
            if protocol not in kept.get(case, {}):
                of_case[protocol]["rounds"] = found.numbers
            print(case, protocol, [(r["uploads"], r["downloads"]) for r in found.numbers])
    KEPT.write_text(json.dumps(kept) + "\n")
