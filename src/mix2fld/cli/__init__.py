"""The command line. Heavy imports wait until a command runs, so that help is instant."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import tyro

from mix2fld.cli.data import DataGet, DataList, DataShow
from mix2fld.cli.deploy import DeployKeys, DeployLocal, DeployTestbed
from mix2fld.cli.link import LinkCommand
from mix2fld.cli.run import RunCommand
from mix2fld.config import PRESETS, Config, load_config
from mix2fld.errors import InputError, did_you_mean

Command = (
    RunCommand
    | LinkCommand
    | DataList
    | DataGet
    | DataShow
    | DeployLocal
    | DeployKeys
    | DeployTestbed
)
DESCRIPTION = """Federated learning and distillation over thin, fading, unequal links.

Examples:
  mix2fld run                                   the paper's head-to-head on MNIST
  mix2fld run --protocols fl8 mix2fld --preset symmetric --seed 0 1 2
  mix2fld link --devices 50 --seed-samples 10   what fits, and how often it arrives
  mix2fld data show --partition dirichlet       who would hold which labels
  mix2fld deploy local --protocol mix2fld --devices 4   over Flower, real processes"""
BAD_INPUT = 2
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of ``mix2fld``; exits with 2 for bad input."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    sys.path.append(str(Path.cwd()))  # where --model finds a module of the user's
    try:
        _parse(given).run()
    except InputError as error:
        print(f"mix2fld: {error}", file=sys.stderr)
        sys.exit(BAD_INPUT)
    except KeyboardInterrupt:
        print(
            "\nmix2fld: stopped; the same command goes on from the last finished round",
            file=sys.stderr,
        )
        sys.exit(INTERRUPTED)


def _parse(given: list[str]) -> Command:
    given = ["--protocols" if word == "--protocol" else word for word in given]
    start = _starting_config(given)
    subcommand = tyro.conf.subcommand
    data = (
        Annotated[DataList, subcommand("list")]
        | Annotated[DataGet, subcommand("get")]
        | Annotated[DataShow, subcommand("show")]
    )
    deploy = (
        Annotated[DeployLocal, subcommand("local", default=DeployLocal(settings=start))]
        | Annotated[DeployKeys, subcommand("keys")]
        | Annotated[DeployTestbed, subcommand("testbed", default=DeployTestbed(settings=start))]
    )
    commands = (
        Annotated[RunCommand, subcommand("run", default=RunCommand(settings=start))]
        | Annotated[LinkCommand, subcommand("link", default=LinkCommand(settings=start))]
        | Annotated[data, subcommand("data", description="Datasets: list, get, show.")]
        | Annotated[deploy, subcommand("deploy", description="Over Flower, with real processes.")]
    )
    return tyro.cli(commands, args=given, prog="mix2fld", description=DESCRIPTION)


def _starting_config(given: list[str]) -> Config:
    """The defaults of all flags: the paper's, or those of ``--config`` and ``--preset``."""
    early = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    early.add_argument("--config", type=Path)
    early.add_argument("--preset", nargs="*", default=[])
    chosen, _ = early.parse_known_args(given)
    config = load_config(chosen.config) if chosen.config else Config()
    for name in chosen.preset:
        if name not in PRESETS:
            raise InputError(f"preset = {name!r}: no such preset; {did_you_mean(name, PRESETS)}")
        config = config.replace(**PRESETS[name])
    return config
