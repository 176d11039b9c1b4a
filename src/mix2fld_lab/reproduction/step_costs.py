"""What an SGD step costs: times to converge are given at several costs (decision 13)."""

import json
from dataclasses import dataclass
from pathlib import Path

from mix2fld.base.errors import InputError
from mix2fld.base.files import write_atomic

STATED_STEP_US = 100.0
SLOW_DEVICE_US = 1000.0


@dataclass(frozen=True)
class StepCost:
    """What one SGD step takes on a device and at the server."""

    name: str
    device_us: float
    server_us: float


def save_host(path: Path, measured: dict[str, float]) -> None:
    """Write what ``host_timing.measure_host`` found."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, (json.dumps(measured) + "\n").encode())


def load_costs(path: Path) -> tuple[StepCost, ...]:
    """The costs at which times are given; that of this host is read from its record."""
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
