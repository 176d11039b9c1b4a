"""``mix2fld advise``."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from mix2fld.base.lab import lab
from mix2fld.cli.options import Configured
from mix2fld.config.grid import Grid
from mix2fld.config.settings import Config

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.table import Table

    from mix2fld.advice.measured import MeasuredSetting
    from mix2fld.advice.ranking import Case, Option
    from mix2fld.runs.results import Results, RunResult

PILOT: dict[str, Any] = {"rounds": 3, "local_steps": 800, "server_steps": 400, "curve_points": 1}
"""Enough to see an order, not the final accuracy."""
PILOT_OPTIONS = 3
MORE_SETTINGS = 2
"""Settings that are named beside the nearest one, if they are close too."""


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
    """Simulate the best three on your data, scaled down and measured on a validation split."""
    json: bool = False
    """Print JSON instead of a table."""
    out: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """Also draw the regime map to this file."""
    settings: tyro.conf.OmitArgPrefixes[Grid] = field(default_factory=Grid)

    def run(self) -> None:
        from json import dumps

        from mix2fld.advice.measured import load_measured
        from mix2fld.advice.ranking import best_by_protocol, nearest, rank
        from mix2fld.cli.console import PipedConsole

        if self.out is not None:
            from mix2fld.report.maps import check_format

            check_format(self.out)
            draw_regime_map = lab("regime_map").draw_regime_map
        measured = load_measured()
        case = self._case()
        near, *others = nearest(case, measured)
        options = best_by_protocol(rank(case, near))
        pilot = self._pilot(options) if self.pilot else None
        if self.out is not None:
            draw_regime_map(measured, case, self.out)
        if self.json:
            print(dumps(_as_dict(case, near, options, pilot), indent=2, default=str))
            return
        console = PipedConsole(soft_wrap=True, highlight=False)
        console.print(_table(options), soft_wrap=False)
        for line in _remarks(case, near, others, options, measured):
            console.print(line, markup=False, soft_wrap=not console.is_terminal)
        console.print(self._to_check(case, options), markup=False)
        if pilot is not None:
            from mix2fld.report.tables import results_table

            console.print(results_table(pilot), soft_wrap=False)
        if self.out is not None:
            console.print(f"regime map: {self.out}", markup=False)

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
        config = case.config.replace(protocol=best.point.protocol, **best.point.changes)
        grid = Grid.of_run(config).replace(seeds=self.settings.seeds)
        described = self.label_counts is not None or self.weights is not None
        own = " (with your own --dataset and --model)" if described else ""
        return f"to check{own}: {command(grid, self.preset)}"

    def _pilot(self, options: "Sequence[Option]") -> "Results":
        from mix2fld.base.errors import InputError
        from mix2fld.data import load_dataset
        from mix2fld.runs.results import Results
        from mix2fld.runs.simulation import run

        if self.label_counts is not None or self.weights is not None:
            raise InputError(
                field="pilot",
                hint="needs your data and your model, as --dataset and --model; label_counts and "
                "weights only describe them",
            )
        dataset = load_dataset(self.settings.data)
        changes = {**PILOT, "measured_on": "validation", "test_samples": 2000}
        done: list[RunResult] = []
        for option in [each for each in options if each.suits][:PILOT_OPTIONS]:
            own = {"protocols": option.point.protocol, **option.point.changes}
            done += run(self.settings.replace(**changes, **own), dataset=dataset)
        return Results(done)


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


def _table(options: "Sequence[Option]") -> "Table":
    from rich.table import Table

    from mix2fld.report.protocol_view import title_of
    from mix2fld.report.tables import PLAIN
    from mix2fld.report.units import in_joules, in_time, percent

    table = Table(
        title="Protocols for this link, the most promising first",
        caption="per round and device; alone: nothing uploaded; ideal FL: every "
        "upload delivered; gains in points of accuracy ± 95 % interval, as measured",
        **PLAIN,
    )
    table.add_column("protocol", no_wrap=True)
    for heading in (
        "kbit\nup",
        "delivered",
        "on\nair",
        "radio",
        "rounds per\nbattery",
        "over\nalone",
        "over\nideal FL",
    ):
        table.add_column(heading, justify="right")
    for option in options:
        table.add_row(
            title_of(option.point.protocol),
            _kilobits(option.bits_per_round),
            percent(option.chance) if option.bits_per_round else "-",
            in_time(option.seconds),
            in_joules(option.joules),
            "-" if option.battery_rounds is None else f"{option.battery_rounds:,.0f}",
            _gain(option.over_alone),
            "-" if option.over_fl is None else _gain(option.over_fl),
            style="" if option.suits else "red",
        )
    return table


def _gain(spread: Any) -> str:
    mean = f"{round(spread.mean, 1) + 0.0:+.1f}"  # no negative zero
    if spread.low == float("-inf"):
        return mean
    return f"{mean} ± {(spread.high - spread.low) / 2:.1f}"


def _kilobits(bits: float) -> str:
    return f"{bits / 1e3:,.0f}" if bits >= 1e5 else f"{bits / 1e3:.3g}"


def _described(setting: "MeasuredSetting") -> str:
    seeds = "one seed" if setting.seeds == 1 else f"{setting.seeds} seeds"
    return (
        f"{setting.title} ({setting.devices} devices, {setting.weights:,} weights, "
        f"{setting.rounds} rounds, {seeds})"
    )


def _remarks(
    case: "Case",
    near: "MeasuredSetting",
    others: "Sequence[MeasuredSetting]",
    options: "Sequence[Option]",
    measured: "Mapping[str, MeasuredSetting]",
) -> list[str]:
    skew = f"label skew {case.skew:.2f}" if case.kind == "labels" else "devices are sources"
    lines = [f"your case: {skew}, {case.sizes.dims.num_weights:,} weights"]
    lines.append(f"nearest measured setting: {_described(near)}")
    close = [setting for setting in others if not case.outside(setting)]
    if close:
        lines.append(f"also close: {'; '.join(map(_described, close[:MORE_SETTINGS]))}")
    outside = case.outside(near)
    if outside:
        lines.append(
            f"outside what was measured: {'; '.join(outside)}; a pilot gives a better estimate"
        )
    return [*lines, *_with_features(case, measured), *_exclusions(options)]


def _with_features(case: "Case", measured: "Mapping[str, MeasuredSetting]") -> list[str]:
    """What a pre-trained network is worth where the case is nearest to a setting with one."""
    from mix2fld.advice.ranking import IDEAL_FL, cheapest_like_fl
    from mix2fld.report.units import in_bits, percent

    frozen = [one for one in measured.values() if one.features != "none" and one.kind == case.kind]
    near = min(frozen, key=lambda one: abs(one.skew - case.skew), default=None)
    best = None if near is None else cheapest_like_fl(near)
    if near is None or best is None:
        return []
    point = near.point(IDEAL_FL)
    assert point is not None
    shown = [percent(sum(one.devices) / len(one.devices)) for one in (best, point, near.alone)]
    return [
        f"with a pre-trained network (--features {near.features}), {best.title} needed "
        f"{in_bits(best.bits)} of a device in all for {shown[0]}; FL {in_bits(point.bits)} for "
        f"{shown[1]}, devices alone {shown[2]} ({near.title})"
    ]


def _exclusions(options: "Sequence[Option]") -> list[str]:
    """Who does not suit; those with the same reasons in one line."""
    from mix2fld.report.protocol_view import title_of

    by_reason: dict[str, list[str]] = {}
    for option in options:
        if not option.suits:
            who = title_of(option.point.protocol)
            by_reason.setdefault("; ".join(option.reasons), []).append(who)
    lines = [f"not suitable: {', '.join(who)}: {why}" for why, who in by_reason.items()]
    if lines and not any(option.suits and option.bits_per_round for option in options):
        lines.append("no protocol that uploads is suitable: devices train alone")
    return lines


def _as_dict(
    case: "Case", near: "MeasuredSetting", options: "Sequence[Option]", pilot: "Results | None"
) -> dict[str, Any]:
    return {
        "case": {
            "kind": case.kind,
            "label_skew": case.skew,
            "weights": case.sizes.dims.num_weights,
            "devices": case.config.data.devices,
        },
        "nearest": {"setting": near.key, "title": near.title, "outside": case.outside(near)},
        "options": [option.as_dict() for option in options],
        "pilot": None if pilot is None else [result.summary for result in pilot],
    }
