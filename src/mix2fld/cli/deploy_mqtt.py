"""``mix2fld deploy mqtt`` and ``mix2fld deploy server``."""

import signal
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import tyro

from mix2fld.base.errors import InputError
from mix2fld.cli.deploy_trial import check_timeout, run_and_show, trial_folder
from mix2fld.cli.output import Output
from mix2fld.config.grid import Grid


@dataclass(frozen=True)
class DeployMqtt:
    """Run protocols over an MQTT broker with real processes on this machine, one for each device.

    Creates certificates, starts Mosquitto and the devices, runs the protocols, and prints the table
    of ``mix2fld run``. A run that already exists in the output folder is resumed.
    """

    config: Path | None = None
    """TOML file with any of the fields below; flags override it."""
    preset: tuple[str, ...] = ()
    """Named settings: symmetric, literal, ideal, iid, robust; nb-iot and others; phone, sensor."""
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
        check_timeout(self.timeout_s)
        from mix2fld.cli.console import bold
        from mix2fld.deploy.mqtt_trial import run_over_mqtt
        from mix2fld.deploy.trial import Trial

        trial = Trial(self.timeout_s, self.overwrite, self.proxy)
        out = trial_folder(self.out, self.settings, "mqtt")
        run_all = partial(run_over_mqtt, trial=trial)
        run_and_show(
            self.settings,
            out,
            self.output,
            run_all,
            logs=f"logs of broker and devices in {bold(out / 'mqtt')}",
        )


@dataclass(frozen=True)
class DeployServer:
    """Serve runs to devices on other machines, over an MQTT broker.

    A run that already exists in the output folder is resumed. Devices are started with
    mix2fld-device on their machines.
    """

    broker: tyro.conf.Positional[str] = "localhost:8883"
    """Host and port of the broker, such as broker.example.org:8883."""
    keys: Path = Path("keys")
    """Folder of mix2fld deploy keys --transport mqtt."""
    config: Path | None = None
    """TOML file with any of the fields below; flags override it."""
    preset: tuple[str, ...] = ()
    """Named settings: symmetric, literal, ideal, iid, robust; nb-iot and others; phone, sensor."""
    out: Path = Path("runs/deployment")
    """Folder for the runs."""
    overwrite: bool = False
    """Replace runs that already exist in the folder."""
    timeout_s: float = 600.0
    """Seconds after which a round continues without the missing replies."""
    wait_s: float = 120.0
    """Seconds to wait for all devices to be connected before the first round."""
    output: tyro.conf.OmitArgPrefixes[Output] = field(default_factory=Output)
    settings: tyro.conf.OmitArgPrefixes[Grid] = field(default_factory=Grid)

    def run(self) -> None:
        """Run all protocols and seeds, one after another."""
        needs_mqtt()
        for name in ("timeout_s", "wait_s"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name} = {getattr(self, name):g}: must be above 0")
        from mix2fld.cli.progress import RichWatcher
        from mix2fld.data import load_dataset
        from mix2fld.deploy.edge.__main__ import broker_address
        from mix2fld.deploy.mqtt_server import NAME, serve_mqtt
        from mix2fld.deploy.settings import Settings
        from mix2fld.deploy.trial import forget
        from mix2fld.protocols.table import single_runs
        from mix2fld.report.tables import results_table
        from mix2fld.runs.simulation import check

        signal.signal(signal.SIGTERM, signal.default_int_handler)
        address = broker_address(self.broker, self.keys, NAME)
        console = self.output.console()
        settings = self.settings.replace(link="ideal", computing_time="measured")
        check(settings, load_dataset(settings.data, console=console))
        devices = settings.data.devices
        console.print(f"waiting up to {self.wait_s:g} s for {devices} devices at {address}")
        with RichWatcher(console, settings) as watcher:
            results = []
            for single in single_runs(settings):
                if self.overwrite:
                    forget(self.out / single.run_name)
                each = Settings(single, self.out, self.timeout_s, self.wait_s)
                results.append(serve_mqtt(each, address, watcher))
        console.print(results_table(results), soft_wrap=False)
        self.output.print_json([result.summary for result in results])


def needs_mqtt() -> None:
    """Raise ``InputError`` if the MQTT client or what makes certificates is not installed."""
    for module in ("paho", "cryptography"):
        if find_spec(module) is None:
            raise InputError(
                f"needs {module}, which is not installed; install it with: pip install "
                "'mix2fld[mqtt]'"
            )
