"""The table of commands: their groups, descriptions and classes."""

from dataclasses import dataclass, fields
from functools import reduce
from importlib import import_module
from inspect import cleandoc
from operator import or_
from typing import Annotated, Any, Protocol

from mix2fld.base.lab import LAB, has_lab, lab
from mix2fld.cli.suggestions import (
    check_effects,
    check_flags,
    check_subcommand,
    named_flags,
    seeds_by_number,
    split_commas,
)

HERE = "mix2fld.cli"


class Runnable(Protocol):
    """A parsed command."""

    def run(self) -> None:
        """Run the command."""


@dataclass(frozen=True)
class Command:
    """A row of the table."""

    group: str
    does: str
    home: str | dict[str, str]
    """Module and class of the command, or of each of its subcommands."""

    @property
    def homes(self) -> dict[str, str]:
        """By subcommand, which is empty where there are none."""
        return {"": self.home} if isinstance(self.home, str) else self.home


COMMANDS: dict[str, Command] = {
    "run": Command(
        "Run", "compare protocols: one run for each protocol and seed", "run:RunCommand"
    ),
    "sweep": Command("Run", "run a grid of settings, or search for the best", "sweep:SweepCommand"),
    "reproduce": Command(
        "Run",
        "regenerate the paper's figures, tables and claims",
        "mix2fld_lab.cli.reproduce:ReproduceCommand",
    ),
    "resume": Command("Run", "resume interrupted runs", "run:ResumeCommand"),
    "deploy": Command(
        "Run",
        "run the protocols over Flower or MQTT, with real processes",
        {
            "local": "mix2fld_lab.cli.deploy:DeployLocal",
            "mqtt": "mix2fld_lab.cli.deploy:DeployMqtt",
            "server": "deploy:DeployServer",
            "keys": "deploy:DeployKeys",
            "key": "deploy_key:DeployKey",
            "status": "deploy:DeployStatus",
            "rollback": "deploy_rollback:DeployRollback",
            "check": "mix2fld_lab.cli.deploy:DeployCheck",
            "testbed": "mix2fld_lab.cli.testbed:DeployTestbed",
        },
    ),
    "link": Command(
        "Plan",
        "compute delivery, time and energy of every transfer over a link",
        "link:LinkCommand",
    ),
    "advise": Command(
        "Plan", "recommend a protocol for a link, a fleet and its data", "advise:AdviseCommand"
    ),
    "data": Command(
        "Plan",
        "list datasets, download them, show their partition",
        {"list": "data:DataList", "get": "data:DataGet", "show": "data:DataShow"},
    ),
    "report": Command(
        "Inspect", "write an HTML report of runs, and figures for a paper", "report:ReportCommand"
    ),
    "privacy": Command(
        "Inspect",
        "attack what devices upload, and report what was found",
        {
            "audit": "mix2fld_lab.cli.privacy:PrivacyAudit",
            "page": "mix2fld_lab.cli.privacy:PrivacyPage",
        },
    ),
    "watch": Command(
        "Inspect",
        "serve the report as a live page while runs are in progress",
        "report:WatchCommand",
    ),
    "export": Command(
        "Inspect", "write runs as a table, or a trained model", "export:ExportCommand"
    ),
    "predict": Command(
        "Inspect", "label new samples with a trained model", "predict:PredictCommand"
    ),
    "doctor": Command(
        "Shell",
        "show what this machine has, what is missing, and what that costs",
        "doctor:DoctorCommand",
    ),
    "completion": Command(
        "Shell", "print the completion script of a shell", "doctor:CompletionCommand"
    ),
}
RESUMES = frozenset({"run", "sweep", "reproduce", "resume", "deploy"})
"""Where the same command resumes after an interrupt."""
COMPUTES = RESUMES | {"predict", "privacy", "doctor"}
"""What needs JAX."""

EXAMPLES = """Examples:
  mix2fld run                                    the paper's head-to-head
  mix2fld run --protocols fl8 mix2fld --preset symmetric --seed 0 1 2
  mix2fld sweep --mixing-ratio 0.1 0.3 --seed 0..4 --out runs/lambda
  mix2fld reproduce fig2c --quick                a figure, scaled down
  mix2fld resume runs/mine                       resume interrupted runs
  mix2fld report runs/head-to-head -o report.html
  mix2fld predict runs/mine/fl8-s0 new.csv       label new rows
  mix2fld link --preset nb-iot                   delivery, time and energy
  mix2fld advise --devices 20 --out map.png      which protocol to use
  mix2fld data show --partition dirichlet        label distribution
  mix2fld privacy audit --quick                  what uploads reveal
  mix2fld deploy local --protocols mix2fld --devices 4      over Flower
  mix2fld deploy mqtt --protocols murmur --devices 4        over MQTT"""


def overview() -> str:
    """Return the text of ``mix2fld --help``."""
    lines = [
        "usage: mix2fld COMMAND [OPTIONS]",
        "",
        "Federated learning and distillation over fading, asymmetric links.",
    ]
    for group in dict.fromkeys(command.group for command in COMMANDS.values()):
        lines += ["", f"{group}:"]
        lines += [
            f"  {name:<11} {command.does}"
            for name, command in COMMANDS.items()
            if command.group == group
        ]
    lines += [
        "",
        EXAMPLES,
        "",
        "mix2fld COMMAND --help lists its options; mix2fld --version prints the version.",
    ]
    return "\n".join(lines)


def parse(name: str, given: list[str]) -> Runnable:
    """Parse the options of a command."""
    import tyro

    from mix2fld.cli.help_text import plain_errors, tidy_help

    given = named_flags("--protocols" if word == "--protocol" else word for word in given)
    kinds, own = _kinds(name), dict[str, Any]()
    missing = COMMANDS[name].homes.keys() - kinds.keys()
    if not kinds or (given and given[0] in missing):
        lab(name)  # raises InputError: it is not installed
    if name == "sweep":
        from mix2fld.cli.sweep_flags import take_axes

        given, own = take_axes(given)
    if name == "reproduce":
        given = seeds_by_number(given)
    given = split_commas(given)
    if "" not in kinds:
        check_subcommand(name, given, kinds)
    chosen = kinds.get("") or kinds.get(given[0] if given else "")
    if chosen is not None:
        check_flags(given, chosen)
    start: Any = None
    if any(map(_takes_settings, kinds.values())):
        start = starting_config(given, name)
    if name == "sweep":
        from mix2fld.cli.sweep_flags import with_plan

        start, own = with_plan(given, start, own)
    if name == "advise":
        own = {"stated": stated_settings(given, start)}
    does = COMMANDS[name].does
    more: dict[str, Any] = {"description": f"{does[0].upper()}{does[1:]}."}
    if "" in kinds:
        more = {"description": cleandoc(kinds[""].__doc__)}
        if start is not None:
            more["default"] = kinds[""](settings=start, **own)
    with tidy_help(), plain_errors(f"mix2fld {name}"):
        command: Runnable = tyro.cli(form(name, start), args=given, prog=f"mix2fld {name}", **more)
    settings = getattr(command, "settings", None)
    if settings is not None and name != "sweep":  # an axis may set what a flag needs
        check_effects(given, settings)
    return command


def stated_settings(given: list[str], start: Any) -> tuple[str, ...]:
    """The settings that flags, a file or a preset name; ``start`` is what the last two make."""
    from mix2fld.config.grid import Grid
    from mix2fld.config.settings import field_names, setting

    flags = {word[2:].split("=")[0].replace("-", "_") for word in given if word[:2] == "--"}
    flags |= {flag.removeprefix("no_") for flag in flags}
    default = Grid()
    return tuple(
        name
        for name in field_names(Grid)
        if name in flags or setting(start, name) != setting(default, name)
    )


def form(name: str, start: Any) -> Any:
    """Return the class that a command is parsed into, or the union of those of its subcommands.

    ``start`` holds the default settings of a command that takes them.
    """
    import tyro

    def own(own_name: str, kind: Any) -> Any:
        more = {"default": kind(settings=start)} if _takes_settings(kind) else {}
        return Annotated[kind, tyro.conf.subcommand(own_name, **more)]

    kinds = _kinds(name)
    return kinds.get("") or reduce(or_, (own(*item) for item in kinds.items()))


def _kinds(name: str) -> dict[str, Any]:
    homes = {own: home.split(":") for own, home in COMMANDS[name].homes.items()}
    return {
        own: getattr(import_module(module if module.startswith(LAB) else f"{HERE}.{module}"), kind)
        for own, (module, kind) in homes.items()
        if has_lab() or not module.startswith(LAB)
    }


def _takes_settings(kind: Any) -> bool:
    return any(field.name == "settings" for field in fields(kind))


def every_form() -> Any:
    """Return the union of all commands, for completion."""
    import tyro

    from mix2fld.config.grid import Grid

    return reduce(
        or_,
        (
            Annotated[form(name, Grid()), tyro.conf.subcommand(name, description=command.does)]
            for name, command in COMMANDS.items()
            if _kinds(name)
        ),
    )


def starting_config(given: list[str], command: str = "run") -> Any:
    """Return the defaults of all flags: the paper's, with ``--config`` and ``--preset`` applied.

    A deployment is robust by default.
    """
    import argparse
    from pathlib import Path

    from mix2fld.base.errors import InputError, did_you_mean
    from mix2fld.config.grid import Grid
    from mix2fld.config.settings import PRESETS
    from mix2fld.runs.config_file import load_config

    early = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    early.add_argument("--config", type=Path)
    early.add_argument("--preset", nargs="*", default=[])
    chosen, _ = early.parse_known_args(given)
    grid = Grid.of(**PRESETS["robust"]) if command == "deploy" else Grid()
    if chosen.config:
        grid = load_config(chosen.config, grid)
    for name in chosen.preset:
        if name not in PRESETS:
            raise InputError(
                field="preset",
                value=f"{name!r}",
                hint=f"no such preset; {did_you_mean(name, PRESETS)}",
            )
        grid = grid.replace(**PRESETS[name])
    return grid
