"""What an SGD step takes on this machine: one of the costs that times to converge are given at."""

import json
from pathlib import Path

from mix2fld.config import Config
from mix2fld.data.files import write_whole
from mix2fld.errors import InputError
from mix2fld.reproduction.experiments import Scale
from mix2fld.reproduction.times import STATED_STEP_US, StepCost
from mix2fld.runs.simulation import run

SLOW_DEVICE_US = 1000.0


def measure_host(scale: Scale) -> dict[str, float]:
    """Microseconds of a step on a device and at the server, timed in the engine."""
    config = Config.of(
        protocols=("isolated", "mix2fld"), rounds=2, curve_points=1, computing_time="measured",
        link="ideal", **scale.changes,
    )  # fmt: skip
    alone, converted = (result.rounds[-1]["seconds"]["computing"] for result in run(config))
    learning = config.learning
    return {
        "device_us": round(1e6 * alone / learning.local_steps, 1),
        "server_us": round(1e6 * max(0.0, converted - alone) / learning.server_steps, 1),
    }


def save_host(path: Path, measured: dict[str, float]) -> None:
    """Write what ``measure_host`` found."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, (json.dumps(measured) + "\n").encode())


def load_costs(path: Path) -> tuple[StepCost, ...]:
    """The costs at which times are given: decision 13."""
    try:
        measured = json.loads(path.read_text(encoding="utf-8"))
        host = StepCost("this host's steps", measured["device_us"], measured["server_us"])
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not the cost of a step ({error})") from None
    return (
        StepCost("communication alone", 0.0, 0.0),
        host,
        StepCost("the stated cost", STATED_STEP_US, STATED_STEP_US),
        StepCost("slow devices", SLOW_DEVICE_US, STATED_STEP_US),
    )
