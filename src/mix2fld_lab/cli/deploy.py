"""``mix2fld deploy local`` and ``deploy mqtt``, trials on one machine; ``deploy check``."""

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from mix2fld.base.errors import InputError
from mix2fld.cli.deploy import check_positive, needs_flower, needs_mqtt
from mix2fld.cli.options import Configured, Output
from mix2fld.config.grid import Grid

if TYPE_CHECKING:
    from mix2fld.runs.loop import Watcher
    from mix2fld.runs.results import RunResult
    from mix2fld.types import Dataset

    RunAll = Callable[[Grid, Path, Dataset, Watcher], list[RunResult]]


@dataclass(frozen=True)
class DeployLocal(Configured):
    """Run protocols over Flower with real processes on this machine, one node for each device.

    Creates certificates and keys, starts a SuperLink and the nodes, runs the protocols, and prints
    the table of ``mix2fld run``. A run that already exists in the output folder is resumed.
    """

    out: Path | None = None
    """Folder for the runs and all files of Flower; by default one under runs/."""
    overwrite: bool = False
    """Replace runs that already exist in the folder."""
    proxy: bool = False
    """Put nginx in front of the SuperLink, as in a closed deployment."""
    shared_network: bool = False
    """Use the loopback of the machine: all of its users can then run code as this one."""
    timeout_s: float = 600.0
    """Seconds after which a round continues without the missing replies."""
    output: tyro.conf.OmitArgPrefixes[Output] = field(default_factory=Output)
    settings: tyro.conf.OmitArgPrefixes[Grid] = field(default_factory=Grid)

    def run(self) -> None:
        """Run all protocols and seeds."""
        needs_flower()
        check_positive(timeout_s=self.timeout_s)
        from mix2fld_lab.trials.flower import run_locally
        from mix2fld_lab.trials.trial import Trial

        trial = Trial(self.timeout_s, self.overwrite, self.proxy, self.shared_network)
        out = trial_folder(self.out, self.settings, "deploy")
        run_all = partial(run_locally, trial=trial)
        run_and_show(self.settings, out, self.output, run_all, ("Flower", out / "flower"))


@dataclass(frozen=True)
class DeployMqtt(Configured):
    """Run protocols over an MQTT broker with real processes on this machine, one for each device.

    Creates certificates, starts Mosquitto and the devices, runs the protocols, and prints the table
    of ``mix2fld run``. A run that already exists in the output folder is resumed.
    """

    out: Path | None = None
    """Folder for the runs and all files of the broker; by default one under runs/."""
    overwrite: bool = False
    """Replace runs that already exist in the folder."""
    proxy: bool = False
    """Put the front of a deployment before the broker: it closes what proves no key."""
    timeout_s: float = 600.0
    """Seconds after which a round continues without the missing replies."""
    output: tyro.conf.OmitArgPrefixes[Output] = field(default_factory=Output)
    settings: tyro.conf.OmitArgPrefixes[Grid] = field(default_factory=Grid)

    def run(self) -> None:
        """Run all protocols and seeds."""
        needs_mqtt()
        check_positive(timeout_s=self.timeout_s)
        from mix2fld_lab.trials.mqtt import run_over_mqtt
        from mix2fld_lab.trials.trial import Trial

        trial = Trial(self.timeout_s, self.overwrite, self.proxy)
        out = trial_folder(self.out, self.settings, "mqtt")
        run_all = partial(run_over_mqtt, trial=trial)
        run_and_show(self.settings, out, self.output, run_all, ("broker and devices", out / "mqtt"))


@dataclass(frozen=True)
class DeployCheck:
    """Check what a stranger could do at the address of a deployment; fails if anything is open.

    Control API, runtime API, certificate, size of a request, and paths in disguise are tried from
    this machine, without any key; of an MQTT broker, certificate and connections without a key and
    with one of others. Nothing is changed there.
    """

    address: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="HOST:PORT")]
    """Host and port that nodes use, such as link.example.org:8443."""
    root_certificates: Path | None = None
    """The ca.crt that nodes trust; without it, the certificate's signature is not checked."""
    transport: Literal["flower", "mqtt"] = "flower"
    """What is at the address: a SuperLink's proxy, or a broker."""
    keys: Path | None = None
    """Folder of keys in which certificates that end within 30 days are named, too."""

    def run(self) -> None:
        """Print what was tried and found."""
        (needs_flower if self.transport == "flower" else needs_mqtt)()
        from mix2fld_lab.trials.check import check_address, check_broker, check_keys

        check = check_address if self.transport == "flower" else check_broker
        found = check(self.address, self.root_certificates)
        found += check_keys(self.keys) if self.keys is not None else []
        for one in found:
            print(f"{'ok  ' if one.closed else 'OPEN'}  {one.tried}: {one.found}")
        faults = sum(not one.closed for one in found)
        if faults:
            raise InputError(f"{self.address}: {faults} of {len(found)} checks failed")


def run_and_show(
    settings: Grid, out: Path, output: Output, run_all: "RunAll", logs: tuple[str, Path]
) -> None:
    """Run all protocols and seeds with real processes, and print the table of ``mix2fld run``.

    ``logs`` says whose logs are kept, and in which folder.
    """
    from mix2fld.cli.console import bold, print_table
    from mix2fld.cli.progress import RichWatcher
    from mix2fld.data import load_dataset
    from mix2fld.deploy.serving import check_uploads
    from mix2fld.deploy.settings import check_deployable
    from mix2fld.protocols.table import single_runs
    from mix2fld.report.tables import results_table
    from mix2fld.runs.simulation import check

    for single in single_runs(settings):
        check_deployable(single)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console, started = output.console(), time.perf_counter()
    settings = settings.replace(link="ideal")  # the link is a real one
    dataset = load_dataset(settings.data, console=console)
    check(settings, dataset)
    with RichWatcher(console, settings) as watcher:
        results = run_all(settings, out, dataset, watcher)
    print_table(console, results_table(results))
    console.print(
        f"runs in {bold(out)}, logs of {logs[0]} in {bold(logs[1])}; s on air: the time of a round "
        "that is not spent computing"
    )
    console.print(f"took {time.perf_counter() - started:.0f} s on this machine")
    output.print_json([result.summary for result in results])
    check_uploads(results)


def trial_folder(out: Path | None, settings: Grid, name: str) -> Path:
    """The folder that the user named, or one under runs/ that begins with ``name``."""
    from mix2fld.cli.run import default_folder

    chosen = default_folder(settings)
    return out or chosen.with_name(f"{name}-{chosen.name}")
