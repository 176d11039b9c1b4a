"""``mix2fld resume``."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from mix2fld.base.errors import InputError
from mix2fld.cli.options import Output

if TYPE_CHECKING:
    from rich.console import Console

    from mix2fld.runs.results import RunResult


@dataclass(frozen=True)
class ResumeCommand:
    """Resume all runs in a folder and below it, with the settings stored with them.

    Finished runs are kept. Damaged files are set aside, and their rounds run again.
    """

    folder: tyro.conf.Positional[Path]
    """Folder of a run, of a comparison, or of many of them."""
    trust_code: bool = False
    """Import a custom model that the stored settings name from the working folder."""
    output: tyro.conf.OmitArgPrefixes[Output] = field(default_factory=Output)

    def run(self) -> None:
        """Run all of them to their end."""
        from mix2fld.base.folders import cache_folder
        from mix2fld.cli.console import bold
        from mix2fld.report.tables import results_table
        from mix2fld.runs.reader import find_run_folders, holds_run
        from mix2fld.tasks.compilation import keep_compiled_code

        if not self.folder.is_dir():
            raise InputError(field="folder", value=self.folder, hint="there is no such folder")
        runs = [path for path in find_run_folders([self.folder]) if holds_run(path)]
        if not runs:
            raise InputError(
                field="folder",
                value=self.folder,
                hint="holds no runs; must be the --out folder of runs",
            )
        console = self.output.console()
        keep_compiled_code(cache_folder() / "compiled")
        results: dict[Path, list[RunResult]] = {}
        try:
            for path in runs:
                results.setdefault(path.parent, []).append(_resume(path, console))
        except KeyboardInterrupt:
            raise KeyboardInterrupt(self.folder) from None
        for folder, compared in results.items():
            console.print(results_table(compared), soft_wrap=False)
            console.print(f"runs in {bold(folder)}")
        self.output.print_json(
            [result.summary for compared in results.values() for result in compared]
        )


def _resume(path: Path, console: "Console") -> "RunResult":
    from mix2fld.cli.progress import RichWatcher
    from mix2fld.data import load_dataset
    from mix2fld.runs.folder import RunFolder
    from mix2fld.runs.simulation import resume_run

    config = RunFolder(path).config()
    dataset = load_dataset(config.data, console=console)
    with RichWatcher(console, config) as watcher:
        return resume_run(path, dataset, watcher)
