"""``mix2fld run``."""

import hashlib
import time
from dataclasses import dataclass, field
from pathlib import Path

import tyro

from mix2fld.config import Config, dump_config


@dataclass(frozen=True)
class RunCommand:
    """Compare protocols: one run for each protocol and seed, a table and a picture at the end.

    A run that is in the output folder already goes on where it stopped.
    """

    config: Path | None = None
    """TOML file with any of the fields below; flags win over it."""
    preset: tuple[str, ...] = ()
    """Named settings: symmetric, literal, ideal, iid."""
    out: Path | None = None
    """Folder for the runs; by default one under runs/ named after the settings."""
    overwrite: bool = False
    """Replace runs that are in the folder already."""
    settings: tyro.conf.OmitArgPrefixes[Config] = field(default_factory=Config)

    def run(self) -> None:
        """Play all runs."""
        from rich.console import Console

        from mix2fld.cli.progress import RichWatcher
        from mix2fld.compilation import CompileClock, keep_compiled_code
        from mix2fld.data import cache_folder, load_dataset
        from mix2fld.report.tables import results_table
        from mix2fld.runner import check, run

        console = Console()
        keep_compiled_code(cache_folder() / "compiled")
        compiling, started = CompileClock(), time.perf_counter()
        out = self.out or default_folder(self.settings)
        dataset = load_dataset(self.settings.data, console=console)
        for problem in check(self.settings, dataset):
            console.print(f"[yellow]note[/]: {problem}")
        try:
            with RichWatcher(console, self.settings) as watcher:
                results = run(
                    self.settings, out, dataset=dataset, watcher=watcher, overwrite=self.overwrite
                )
        except KeyboardInterrupt:
            raise KeyboardInterrupt(out) from None
        from mix2fld.report.figures import draw_curves  # slow to import, needed only now

        picture = out / "curves.png"
        draw_curves(results, picture)
        console.print(results_table(results))
        console.print(f"runs in [bold]{out}[/], learning curves in [bold]{picture}[/]")
        seconds = time.perf_counter() - started
        console.print(
            f"took {seconds:.0f} s on this machine, of which {compiling.seconds:.0f} s compiling"
        )


def default_folder(config: Config) -> Path:
    """The same folder for the same settings, whatever the protocols and seeds."""
    settings = dump_config(config.replace(protocols="fl", seed=0))
    digest = hashlib.sha256(settings.encode()).hexdigest()[:8]
    name = Path(config.data.dataset).stem
    return Path("runs") / f"{name}-{config.data.partition}-{digest}"
