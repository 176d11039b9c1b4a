"""``mix2fld export``."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from mix2fld.base.errors import InputError
from mix2fld.cli.options import Output


@dataclass(frozen=True)
class ExportCommand:
    """Write runs as one table for other programs, CSV or Parquet; or the trained model of one run.

    The extension of the file decides how a model is written: .safetensors, .pt (a state_dict)
    or .onnx.

    Examples:
      mix2fld export runs/head-to-head > rounds.csv
      mix2fld export runs/head-to-head/mix2fld-s0 --to model -o model.onnx
      mix2fld export runs/tuned/murmur-s0 --to adapters -o adapters
      mix2fld export runs --to parquet --rows devices -o devices.parquet
    """

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run folders, or folders of runs; finished or in progress."""
    to: Literal["csv", "parquet", "model", "adapters"] = "csv"
    """Format of the table; or model: the trained model of the server, or of one device, adapters
    merged; or adapters: those of --trained lora:RANK, a folder that PEFT reads."""
    rows: Literal["rounds", "runs", "devices"] = "rounds"
    """What a row is: a round, a whole run, or a device in a round."""
    out: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """File to write; by default CSV goes to standard output."""
    device: int | None = None
    """Model or adapters: of this device, in place of the server's."""
    trust_code: bool = False
    """Model: import a custom one that the stored settings name from the working folder."""
    output: tyro.conf.OmitArgPrefixes[Output] = field(default_factory=Output)

    def run(self) -> None:
        if self.to in ("model", "adapters"):
            self._write_model()
            return
        from mix2fld.base.files import writing
        from mix2fld.cli.console import bold
        from mix2fld.runs.reader import frame_of

        if self.to == "parquet" and self.out is None:
            raise InputError(
                field="out", hint="must name the file to write for parquet, e.g. -o runs.parquet"
            )
        if self.output.json and self.out is None:
            raise InputError(
                field="json", hint="needs out, since the table goes to standard output otherwise"
            )
        frame = frame_of(self.output.read_runs(self.runs).runs, self.rows)
        if self.out is None:
            print(frame.to_csv(index=False), end="")
            return
        try:
            with writing("out", self.out):
                self.out.parent.mkdir(parents=True, exist_ok=True)
                if self.to == "csv":
                    frame.to_csv(self.out, index=False)
                else:
                    frame.to_parquet(self.out, index=False)
        except ImportError:
            raise InputError(
                field="to",
                value="'parquet'",
                hint="needs pyarrow; install it with: pip install 'mix2fld[frames]'",
            ) from None
        shape = f"{len(frame):,} rows, {len(frame.columns)} columns"
        self.output.console().print(f"{shape} in {bold(self.out)}")
        self.output.print_json({"out": self.out, "rows": len(frame), "columns": list(frame)})

    def _write_model(self) -> None:
        from mix2fld.cli.console import bold
        from mix2fld.runs.load_model import load_model
        from mix2fld.runs.reader import require_runs

        if self.out is None:
            example = "model.safetensors" if self.to == "model" else "adapters"
            raise InputError(field="out", hint=f"must name what to write, e.g. -o {example}")
        found = require_runs(self.runs or (Path(),)).runs
        if len(found) > 1:
            names = ", ".join(str(run.folder) for run in found[:3])
            raise InputError(
                field="runs", hint=f"{len(found)} runs ({names} ...); name the one that is wanted"
            )
        (run,) = found
        model = load_model(run.folder, device=self.device)
        if self.to == "adapters":
            model.save_adapters(self.out)
            words, files = "adapters", sorted(self.out.iterdir())
        else:
            model.save(self.out)
            words, files = "model", [self.out]
        verb = "are" if self.to == "adapters" else "is"
        self.output.console().print(f"the {words} of {run.folder.name} {verb} in {bold(self.out)}")
        size = sum(file.stat().st_size for file in files)
        self.output.print_json({"out": self.out, "run": run.folder, "bytes": size})
