"""``mix2fld predict``."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from mix2fld.base.errors import InputError, Mix2fldError
from mix2fld.cli.options import Output

if TYPE_CHECKING:
    from mix2fld.data.tables import Columns
    from mix2fld.runs.model import TrainedModel


@dataclass(frozen=True)
class PredictCommand:
    """Label new samples with a trained model: its columns, then the label and its probability.

    Samples are as they were measured; the model scales them as those that it was trained on. A
    forecast predicts, from each row that ends a window, the target ``horizon`` rows later.

    Examples:
      mix2fld predict runs/mine/fl8-s0 new.csv -o labelled.csv
      mix2fld predict model.safetensors new.csv
      mix2fld predict runs/mine/isolated-s0 new.csv --device 3
    """

    run_or_model: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(name="run")]
    """Run folder, also of a deployment, or a .safetensors file of mix2fld export --to model."""
    data: tyro.conf.Positional[Path]
    """A .csv, .parquet or .feather table; or an .npz file with inputs."""
    out: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """CSV file to write; by default it goes to standard output."""
    device: int | None = None
    """Use the own model of this device, in place of the server's."""
    trust_code: bool = False
    """Import a custom model that the stored settings name from the working folder."""
    output: tyro.conf.OmitArgPrefixes[Output] = field(default_factory=Output)

    def run(self) -> None:
        """Write a line for each sample, and how many known labels were right."""
        import csv
        import io

        from mix2fld.base.files import write_atomic, writing
        from mix2fld.cli.console import bold
        from mix2fld.runs.load_model import load_model

        if self.output.json and self.out is None:
            raise InputError(field="json", hint="needs out: the labels go to standard output")
        model = load_model(self.run_or_model, device=self.device)
        columns, samples = self._read(model)
        outputs = model.outputs(samples)
        said = model.named(outputs)
        several = (
            {f"predicted {n}": own for n, own in enumerate(said.T, 1)} if said.ndim > 1 else {}
        )
        computed = several or {"predicted": said}
        if model.labels:
            computed["probability"] = model.probabilities(outputs).max(axis=1).round(4)
        columns.update(computed)
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(columns)
        rows.writerows(zip(*(_cells(c, n in computed) for n, c in columns.items()), strict=True))
        found: dict[str, Any] = {"samples": len(outputs), **self._compared(columns, model)}
        if self.out is None:
            print(text.getvalue(), end="")
            return
        with writing("out", self.out):
            self.out.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(self.out, text.getvalue().encode())
        words = f"{len(outputs):,} samples in {bold(self.out)}"
        if "accuracy" in found:
            words += f"; {found['accuracy']:.1%} of {found['labelled']:,} known labels are right"
        if "RMSE" in found:
            words += f"; RMSE {found['RMSE']:.4g} on {found['known']:,} known numbers"
        self.output.console().print(words)
        self.output.print_json({"out": self.out, **found})

    def _read(self, model: "TrainedModel") -> "tuple[Columns, Any]":
        """The columns to write again, and the samples."""
        import numpy as np

        from mix2fld.data.npz import MissingArrayError, read_npz
        from mix2fld.data.place_errors import PlaceError
        from mix2fld.data.sources import TABLE_ENDINGS
        from mix2fld.data.tables import read_columns

        if not self.data.is_file():
            raise InputError(field="data", value=self.data, hint="there is no such file")
        try:
            if self.data.suffix in TABLE_ENDINGS:
                columns = read_columns(self.data)
                if model.series is None:
                    return dict(columns), model.of_table(columns)
                samples, rows = model.of_series(columns)
                return {name: column[rows] for name, column in columns.items()}, samples
            samples = read_npz(self.data, "inputs", "test_inputs", "x_test")
        except MissingArrayError as error:
            raise InputError(
                field="data", value=self.data, hint=f"must hold inputs; {error}"
            ) from None
        except (Mix2fldError, PlaceError, OSError) as error:
            raise InputError(field="data", value=self.data, hint=f"{error}") from None
        return {"sample": np.arange(len(samples))}, samples

    def _compared(self, columns: "Columns", model: "TrainedModel") -> dict[str, float]:
        """How many of the labels are right, if the table has them."""
        import numpy as np

        from mix2fld.config.settings import Config
        from mix2fld.runs.reader import read_run

        run = read_run(self.run_or_model) if self.run_or_model.is_dir() else None
        data = (run.config if run else Config()).data
        if len(data.target_column) == 1 and data.target_column[0] in columns:
            known = columns[data.target_column[0]].astype(float)
            truth = known if model.series is None else model.series.later(columns, known)
            errors = columns["predicted"] - truth
            errors = errors[np.isfinite(errors)]
            return {"known": len(errors), "RMSE": float(np.sqrt(np.mean(errors**2)))}
        name = data.label_column
        if name not in columns:
            return {}
        known = np.array([str(value) for value in columns[name].tolist()])
        there = np.array([value not in ("", "nan", "None") for value in known])
        if not there.any():
            return {}
        said = np.array([str(value) for value in columns["predicted"].tolist()])
        return {
            "labelled": int(there.sum()),
            "accuracy": float((known == said)[there].mean()),
        }


def _cells(column: Any, computed: bool) -> list[Any]:
    """A column as it is written: what a model computed has as many digits as it is worth."""
    values: list[Any] = column.tolist()
    return [f"{x:.6g}" for x in values] if computed and column.dtype.kind == "f" else values
