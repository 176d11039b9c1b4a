"""``mix2fld deploy testbed``."""

import signal
from dataclasses import dataclass, field
from pathlib import Path

import tyro

from mix2fld.cli.deploy import check_positive, needs_flower
from mix2fld.cli.options import Configured
from mix2fld.config.grid import Grid


@dataclass(frozen=True)
class DeployTestbed(Configured):
    """Measure protocols over real links with a limited uplink: network namespaces, tc, root.

    Devices and their data are the same for every protocol. Bytes on the wire and seconds are
    measured for each transfer, and compared with what ``mix2fld link`` predicts for the payload.
    """

    uplink_kbit_s: float = 200.0
    """Rate of each device's uplink."""
    downlink_kbit_s: float = 4000.0
    """Rate of each device's downlink."""
    out: Path = Path("runs/testbed")
    """Folder for the runs and all files of Flower; must not exist yet."""
    record: Path | None = None
    """JSON file for the measurements."""
    page: Path | None = None
    """Markdown file for the table."""
    settings: tyro.conf.OmitArgPrefixes[Grid] = field(default_factory=Grid)

    def run(self) -> None:
        """Measure, and print the table."""
        needs_flower()
        check_positive(uplink_kbit_s=self.uplink_kbit_s, downlink_kbit_s=self.downlink_kbit_s)
        from json import dumps

        from mix2fld.cli.console import PipedConsole
        from mix2fld.cli.progress import RichWatcher
        from mix2fld.data import load_dataset
        from mix2fld.runs.simulation import check
        from mix2fld_lab.made_with import made_with
        from mix2fld_lab.testbed import Rates, check_possible, measure
        from mix2fld_lab.testbed_page import render, table

        check_possible()
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        console = PipedConsole()
        settings = self.settings.replace(link="ideal", seeds=self.settings.seeds[0])
        dataset = load_dataset(settings.data, console=console)
        check(settings, dataset)
        rates = Rates(self.uplink_kbit_s * 1e3, self.downlink_kbit_s * 1e3)
        with RichWatcher(console, settings) as watcher:
            found = measure(settings, rates, self.out, dataset, watcher)
        print(table(found))
        for file, text in (
            (self.record, dumps({**found, "made_with": made_with()}, indent=2) + "\n"),
            (self.page, render(found)),
        ):
            if file is not None:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
