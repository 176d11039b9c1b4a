"""``mix2fld advise``."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from mix2fld.base.lab import lab
from mix2fld.cli.options import Configured
from mix2fld.config.grid import Grid
from mix2fld.config.settings import Config

if TYPE_CHECKING:
    from mix2fld.advice.measured import MeasuredSetting
    from mix2fld.advice.pilot import Pilot
    from mix2fld.advice.ranking import Case, Option
    from mix2fld.advice.scarcity import Scarce
    from mix2fld.runs.results import Results, RunResult

PILOT = {"rounds": 3, "local_steps": 800, "server_steps": 400}
CHECKED = {"measured_on": "validation", "test_samples": 2000, "curve_points": 1}
"""At most, of a pilot: enough to see an order, not the final accuracy."""


@dataclass(frozen=True)
class AdviseCommand(Configured):
    """Recommend a protocol for a link, a fleet and its data, with its costs and its gain.

    Costs are computed for your link; gains are those of the nearest measured setting of the
    frontier experiment, which is named. Where nothing close was measured, it says so.

    Examples:
      mix2fld advise --devices 20 --uplink-power-dbm 17 --out map.png
      mix2fld advise --weights 400000 --deadline-s 0.2 --label-counts counts.csv
      mix2fld advise --dataset my.csv --partition by-source --source-column who
    """

    weights: int | None = None
    """Number of weights of your model; by default that of --model."""
    label_counts: Path | None = None
    """CSV without header: a row for each device, its number of samples of each label."""
    deadline_s: float | None = None
    """Longest time on air that a round may take."""
    pilot: bool = False
    """Simulate the best of each family, or the named protocols, and devices alone on your data,
    scaled down, with 3 to 5 seeds; ends in a verdict."""
    scarce: Literal["auto", "bits", "seconds", "joules"] = "auto"
    """What to save among protocols within a point of accuracy; auto: what the link makes scarce."""
    json: bool = False
    """Print JSON instead of a table."""
    out: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """Also draw the regime map to this file."""
    settings: tyro.conf.OmitArgPrefixes[Grid] = field(default_factory=Grid)
    stated: tyro.conf.Suppress[tyro.conf.Fixed[tuple[str, ...]]] = ()
    """Settings that the user states: these win over those of measured contenders."""

    def run(self) -> None:
        from json import dumps

        from mix2fld.advice.measured import load_measured
        from mix2fld.advice.ranking import best_by_protocol, nearest, points_named, rank
        from mix2fld.advice.stated import as_stated
        from mix2fld.advice.verdict import give_verdict
        from mix2fld.base.errors import InputError
        from mix2fld.cli.advise_view import left_out, options_table, remarks
        from mix2fld.cli.console import PipedConsole, print_table

        if self.out is not None:
            from mix2fld.report.maps import check_format

            check_format(self.out)
            draw_regime_map = lab("regime_map").draw_regime_map
        measured = load_measured()
        case = self._case()
        if self.out is not None and not case.sizes.task.by_label:
            raise InputError(
                field="out",
                value=self.out,
                hint=f"the regime map shows gains in accuracy; nothing was measured for "
                f"{case.sizes.task.name}; leave it out",
            )
        near, *others = nearest(case, measured)
        near = as_stated(near, case.config, self.stated)
        everybody = rank(case, near)
        scarce = self._scarce(everybody)
        named = self.settings.protocols != Grid().protocols
        points = points_named(case, near, self.settings.protocols) if named else None
        options = best_by_protocol(rank(case, near, points, scarce.resource))
        piloted = self._pilot(options, everybody, named) if self.pilot else None
        verdict = None if piloted is None else give_verdict(case, piloted[0], options, scarce)
        if self.out is not None:
            draw_regime_map(measured, case, self.out)
        if self.json:
            told = _as_dict(case, near, options, scarce)
            told["pilot"] = piloted and [result.summary for result in piloted[1]]
            told["verdict"] = verdict and verdict.as_dict()
            print(dumps(told, indent=2, default=str))
            return
        console = PipedConsole(soft_wrap=True, highlight=False)
        print_table(console, options_table(options, scarce))
        console.print(str(scarce), markup=False)
        impossible = left_out(points or (), options)
        for line in [*remarks(case, near, others, options, measured), *impossible]:
            console.print(line, markup=False, soft_wrap=not console.is_terminal)
        console.print(self._to_check(case, options), markup=False)
        if self.out is not None:
            console.print(f"regime map: {self.out}", markup=False)
        if piloted is not None and verdict is not None:
            from mix2fld.report.tables import results_table

            print_table(console, results_table(piloted[1]))
            for line in verdict.lines:
                console.print(line, markup=False, soft_wrap=not console.is_terminal)

    def _scarce(self, options: "Sequence[Option]") -> "Scarce":
        from mix2fld.advice.scarcity import Scarce, scarce_of

        if self.scarce == "auto":
            return scarce_of(options, self.deadline_s)
        return Scarce(self.scarce, "as asked")

    def _case(self) -> "Case":
        from mix2fld.advice.ranking import Case
        from mix2fld.base.errors import InputError
        from mix2fld.data.partition import OF_SOURCES
        from mix2fld.runs.link_plan import sizes_of
        from mix2fld.tasks.classification import Classification
        from mix2fld.tasks.of_settings import samples_and_task, sizes_for

        if self.weights is not None and self.weights < 1:
            raise InputError(field="weights", value=self.weights, hint="must be 1 or more")
        if self.deadline_s is not None and self.deadline_s <= 0:
            raise InputError(
                field="deadline_s", value=f"{self.deadline_s:g}", hint="must be above 0"
            )
        config = self.settings.at()
        counts = None if self.label_counts is None else _read_counts(self.label_counts)
        if counts is not None:
            mean = max(1, round(float(counts.sum(axis=1).mean())))
            config = config.replace(devices=len(counts), samples_per_device=mean)
        samples, task = samples_and_task(config)
        if counts is not None:
            task = Classification(counts.shape[1])
        own = None if self.weights is None else ((self.weights,),)
        shapes = own or sizes_of(config).dims.weight_shapes
        by_source = counts is None and config.data.partition in OF_SOURCES
        return Case(
            sizes_for(task, config, samples, shapes),
            kind="sources" if by_source else "labels",
            skew=_skew(config, counts),
            deadline_s=self.deadline_s,
        )

    def _to_check(self, case: "Case", options: "Sequence[Option]") -> str:
        """What runs the best option on the user's link and data."""
        from mix2fld.runs.config_file import command

        best = next((option for option in options if option.suits), None)
        if best is None:
            return "nothing is suitable: send fewer bits, or raise max_slots, power or the deadline"
        config = best.settings_in(case.config)
        grid = Grid.of_run(config).replace(seeds=self.settings.seeds)
        described = self.label_counts is not None or self.weights is not None
        own = " (with your own --dataset and --model)" if described else ""
        return f"to check{own}: {command(grid, self.preset)}"

    def _pilot(
        self, options: "Sequence[Option]", everybody: "Sequence[Option]", named: bool
    ) -> "tuple[Pilot, Results]":
        from mix2fld.advice.pilot import MOST_SEEDS, candidates, run_pilot
        from mix2fld.base.errors import InputError
        from mix2fld.data import load_dataset
        from mix2fld.runs.loop import EachNoteOnce
        from mix2fld.runs.results import Results
        from mix2fld.runs.simulation import run
        from mix2fld.tasks.metric import metric_of

        if self.label_counts is not None or self.weights is not None:
            raise InputError(
                field="pilot",
                hint="needs your data and your model, as --dataset and --model; label_counts and "
                "weights only describe them",
            )
        dataset = load_dataset(self.settings.data)
        watcher = EachNoteOnce()
        done: list[RunResult] = []

        def simulate(option: "Option", seed: int) -> float:
            grid = _scaled_down(self.settings.replace(**option.point.changes))
            grid = grid.replace(protocols=option.point.protocol, seeds=(seed,))
            (result,) = run(grid, dataset=dataset, watcher=watcher)
            done.append(result)
            return float(result.summary["scores"]["mean"])

        seeds = self.settings.seeds
        if len(seeds) == 1:
            seeds = tuple(range(seeds[0], seeds[0] + MOST_SEEDS))
        chosen = candidates(options, everybody, named)
        pilot = run_pilot(chosen, seeds, simulate, lambda: metric_of(done[-1].summary["scores"]))
        return pilot, Results(done)


def _scaled_down(grid: Grid) -> Grid:
    """The settings of a pilot: at most ``PILOT``."""
    from mix2fld.config.settings import setting

    rounds = min(grid.rounds, PILOT["rounds"])
    every = min(grid.updates.upload_every, rounds)
    most = {name: min(setting(grid, name), value) for name, value in PILOT.items()}
    return grid.replace(**most, **CHECKED, upload_every=every)


def _read_counts(path: Path) -> Any:
    import numpy as np

    from mix2fld.base.errors import InputError

    try:
        counts = np.atleast_2d(np.loadtxt(path, delimiter=",", dtype=np.int64))
    except OSError as error:
        reason = error.strerror or "no such file"
        raise InputError(
            field="label_counts", value=path, hint=f"cannot be read ({reason})"
        ) from None
    except ValueError as error:
        raise InputError(
            field="label_counts",
            value=path,
            hint=f"must be whole numbers, one row of equal length for each device ({error})",
        ) from None
    if counts.min(initial=0) < 0 or not counts.sum() or counts.shape[1] < 2:
        raise InputError(
            field="label_counts",
            value=path,
            hint="must be 0 or more, for at least two labels, and not all 0",
        )
    return counts


def _skew(config: Config, counts: Any) -> float:
    from mix2fld.advice.measured import label_skew
    from mix2fld.data import device_parts, label_counts, labels_of, load_dataset

    if counts is None:
        dataset = load_dataset(config.data)
        parts = device_parts(dataset, config, every_label=False)
        labels, count = labels_of(dataset, config.data)
        counts = label_counts(labels, parts, count)
    return label_skew(counts)


def _as_dict(
    case: "Case", near: "MeasuredSetting", options: "Sequence[Option]", scarce: "Scarce"
) -> dict[str, Any]:
    return {
        "case": {
            "kind": case.kind,
            "label_skew": case.skew,
            "weights": case.sizes.dims.num_weights,
            "devices": case.config.data.devices,
        },
        "nearest": {"setting": near.key, "title": near.title, "outside": case.outside(near)}
        if near.has_gains
        else None,
        "scarce": scarce._asdict(),
        "options": [option.as_dict() for option in options],
    }
