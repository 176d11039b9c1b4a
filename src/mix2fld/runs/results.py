"""Finished runs together, with a face for notebooks."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mix2fld.config import Config

if TYPE_CHECKING:
    import pandas as pd

    from mix2fld.runs.reader import Rows


@dataclass(frozen=True)
class RunResult:
    """One finished run: its config, its rounds as recorded, its summary."""

    config: Config
    rounds: list[dict[str, Any]]
    summary: dict[str, Any]

    def _repr_html_(self) -> str:
        """A table and a picture, in a notebook."""
        from mix2fld.report.notebook import results_html

        return results_html([self])


class Results(list[RunResult]):
    """The runs of a config: a list that a notebook shows as a table and a picture."""

    def frame(self, rows: "Rows" = "rounds") -> "pd.DataFrame":
        """As ``mix2fld.load_runs``, of these runs."""
        from mix2fld.runs.reader import LoadedRun, frame_of

        runs = [LoadedRun(Path(r.config.run_name), r.config, r.rounds, True) for r in self]
        return frame_of(runs, rows)

    def __repr__(self) -> str:
        lines = [
            f"{r.config.run_name}: accuracy {100 * r.summary['accuracy']['mean']:.1f} %"
            for r in self
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from mix2fld.report.notebook import results_html

        return results_html(self) if self else "no runs"
