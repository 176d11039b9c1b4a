"""How much an audit computes, and the command that makes a record."""

import shlex
from dataclasses import dataclass
from typing import Any

from mix2fld.base.errors import InputError
from mix2fld.config.grid import Grid
from mix2fld.runs.config_file import command
from mix2fld.runs.old_formats import with_rates_as_used
from mix2fld_lab.attacks.lira import LEAST_SHADOWS

FLAGS = {
    "outsiders": "outsiders",
    "shadows": "shadows",
    "devices": "attacked-devices",
    "separator_steps": "separator-steps",
    "attacked_rounds": "attacked-rounds",
    "foreign": "foreign",
    "ratios": "ratios",
}
"""By which each setting of the effort is given, beside budgets."""


@dataclass(frozen=True)
class Effort:
    """How much an audit computes."""

    outsiders: int = 10_000
    """Samples outside of every upload, on which false positives are counted; at least 1,000."""
    shadows: int = 64
    """Shadow models for each device."""
    devices: int = 10
    """Devices attacked, the first of each run."""
    separator_steps: int = 3000
    """Steps that the separation network is trained for; 0: no separation."""
    rounds: int = 5
    """Rounds of the runs that accuracy and uplink bits are measured by, all delivered."""
    attacked_rounds: int = 1
    """Rounds whose uploads of weights and outputs are attacked together; 1: the first alone."""
    foreign: str = ""
    """Another dataset, whose samples train a second separation network; empty: none."""
    ratios: tuple[float, ...] = ()
    """More mixing ratios to attack, beside the config's."""
    trials: int = 2000
    """Uploads that the attacker who knows all samples but one sees; thrice as many are made."""
    budgets: tuple[tuple[float, int], ...] = ()
    """More runs of protocols that upload statistics with a budget: ε, and the feature side k."""

    def check(self) -> None:
        """Refuse what no rate can be measured with."""
        for name, least in (
            ("devices", 1),
            ("rounds", 1),
            ("attacked_rounds", 1),
            ("separator_steps", 0),
            ("trials", 1),
        ):
            if getattr(self, name) < least:
                raise InputError(f"{name} = {getattr(self, name)}: must be at least {least}")
        if self.shadows < LEAST_SHADOWS:
            raise InputError(
                field="shadows",
                value=self.shadows,
                hint=f"must be at least {LEAST_SHADOWS}, better 64",
            )


QUICK = Effort(outsiders=2000, shadows=16, devices=2, separator_steps=200, rounds=1, trials=1000)


def audit_command(record: dict[str, Any], path: str) -> str:
    """``mix2fld privacy audit`` with the settings of a record, for the stages that it holds."""
    given, default = record["about"]["effort"], vars(Effort())
    words = []
    for name, flag in FLAGS.items():
        value = given.get(name, default[name])
        listed = value if isinstance(value, list | tuple) else [value]
        if listed and value != default[name]:
            words += [f"--{flag}", *map(str, listed)]
    if given["budgets"]:
        words += ["--budgets", *(f"{epsilon:g}:{side}" for epsilon, side in given["budgets"])]
    kinds = dict.fromkeys(name.split("/")[0] for name in record["stages"])
    words += ["--stages", *kinds, "--out", path]
    run = command(Grid(**with_rates_as_used(record["about"]["config"])))
    return run.replace("mix2fld run", "mix2fld privacy audit", 1) + " " + shlex.join(words)
