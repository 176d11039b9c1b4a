"""A sweep as a plan: settings that stay, settings that vary, protocols and seeds.

Axes are crossed; the fields of one axis advance together. Every combination has a folder named
after its values, with one run for each protocol and seed in it.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from mix2fld.base.errors import InputError, Mix2fldError, did_you_mean
from mix2fld.config.grid import Grid
from mix2fld.config.settings import CommonSettings, field_names, setting
from mix2fld.protocols.table import get_protocol, single_runs
from mix2fld.sweep.jobs import Job

Axis = dict[str, tuple[Any, ...]]
"""Fields that advance together, each with as many values."""
NOT_SWEPT = {
    "data_folder": "it says where files are, not what is run",
    "device_states": "it changes no result",
    "protocols": "it has its own place: protocols = [...]",
    "seed": "it has its own place: seed = [...]",
}
MOST_RUNS = 1000
LONGEST_NAME = 60
RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)(?:\.\.(\d+))?")


@dataclass(frozen=True)
class SweepPlan:
    """What a sweep runs."""

    base: Grid
    """Its protocols and seeds are those of every combination."""
    axes: tuple[Axis, ...]

    def __post_init__(self) -> None:
        names = [name for axis in self.axes for name in axis]
        for name in names:
            _check_swept(name)
            if names.count(name) > 1:
                raise InputError(f"{name}: is on two axes; must be on one")
        for axis in self.axes:
            _check_axis(axis)
        for name in self.base.protocols:
            get_protocol(name)

    def __len__(self) -> int:
        """How many runs there are."""
        lengths = (len(next(iter(axis.values()))) for axis in self.axes)
        return prod(lengths) * len(self.base.protocols) * len(self.base.seeds)

    def check_size(self, most: int = MOST_RUNS) -> None:
        """Ask back before very many runs."""
        if len(self) > most:
            raise InputError(
                f"{len(self):,} runs: more than max_runs = {most:,}; if they are meant, give "
                f"--max-runs {len(self)}"
            )

    def settings(self) -> dict[str, Grid]:
        """The runs of every combination, by the name of its folder; empty without axes."""
        found: dict[str, Grid] = {}
        for values in self._combinations():
            found[_folder_name(values)] = self.base.replace(**values)
        return found

    def jobs(self, out: Path) -> list[Job]:
        """All runs, seed by seed, so that every combination has a first result early."""
        settings = self.settings()
        return [
            Job(out / key / single.run_name, single, f"{key}/{single.run_name}".lstrip("/"))
            for seed in self.base.seeds
            for key, grid in settings.items()
            for single in single_runs(grid.replace(seeds=seed))
        ]

    def describe(self) -> dict[str, list[str]]:
        """The axes as text; what advances together stands together."""
        axes = {
            " + ".join(axis): [
                " + ".join(map(shown, values)) for values in zip(*axis.values(), strict=True)
            ]
            for axis in self.axes
        }
        base = self.base
        return {"protocols": list(base.protocols), "seed": list(map(str, base.seeds)), **axes}

    def _combinations(self) -> list[dict[str, Any]]:
        rows = [
            [dict(zip(axis, values, strict=True)) for values in zip(*axis.values(), strict=True)]
            for axis in self.axes
        ]
        return [
            {name: value for part in parts for name, value in part.items()}
            for parts in product(*rows)
        ]


def make_plan(
    base: Grid, varied: Mapping[str, Sequence[Any]], zipped: Sequence[Sequence[str]] = ()
) -> SweepPlan:
    """The plan in which each field is an axis, but for those that are zipped."""
    for name in (name for names in zipped for name in names):
        if name not in varied:
            raise InputError(
                field="zip", value=name, hint="no values are given for it; name a field that varies"
            )
    together = {name for names in zipped for name in names}
    axes = [{name: varied[name] for name in names} for names in zipped]
    axes += [{name: values} for name, values in varied.items() if name not in together]
    return SweepPlan(base, tuple(_typed(base, axis) for axis in axes))


def expand(values: Sequence[Any]) -> list[Any]:
    """Values with ranges spelled out: ``0..4`` is 0 1 2 3 4, ``10..50..20`` is 10 30 50."""
    found: list[Any] = []
    for value in values:
        match = RANGE.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            found.append(value)
            continue
        first, last, step = int(match[1]), int(match[2]), int(match[3] or 1)
        if not step or last < first:
            raise InputError(
                f"{value}: an empty range; must be FIRST..LAST or FIRST..LAST..STEP, upwards"
            )
        if (last - first) // step >= 10**6:
            raise InputError(
                f"{value}: a range of {(last - first) // step + 1:,} values; must be at most "
                "1,000,000"
            )
        found += range(first, last + 1, step)
    return found


def shown(value: Any) -> str:
    """A value as it is written in a flag."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _typed(base: CommonSettings, axis: Mapping[str, Sequence[Any]]) -> Axis:
    """The values as the config holds them; as given where they are valid only with other axes."""
    for name in axis:
        _check_swept(name)
    given = {name: tuple(expand(values)) for name, values in axis.items()}
    _check_axis(given)
    rows = []
    for values in zip(*given.values(), strict=True):
        row = dict(zip(given, values, strict=True))
        with suppress(Mix2fldError):
            settings = base.replace(**row)
            row = {name: setting(settings, name) for name in row}
        rows.append(row)
    return {name: tuple(row[name] for row in rows) for name in given}


def _check_swept(name: str) -> None:
    known = field_names(Grid)
    if name not in known:
        raise InputError(f"{name}: no such field; {did_you_mean(name, known)}")
    if name in NOT_SWEPT:
        raise InputError(f"{name}: cannot be swept: {NOT_SWEPT[name]}")


def _check_axis(axis: Axis) -> None:
    lengths = {name: len(values) for name, values in axis.items()}
    if not lengths or 0 in lengths.values():
        raise InputError(f"{', '.join(axis) or 'zip'}: no values, so that there is nothing to run")
    if len(set(lengths.values())) > 1:
        counted = ", ".join(f"{name} has {count}" for name, count in lengths.items())
        raise InputError(field="zip", hint=f"{counted} values; all must have the same number")
    _refuse_twice(" ".join(axis), list(zip(*axis.values(), strict=True)))


def _refuse_twice(name: str, values: Sequence[Any]) -> None:
    counts = Counter(map(repr, values))
    for value in values:
        if counts[repr(value)] > 1:
            raise InputError(f"{name} = {shown(value)}: given twice; each value must be given once")


def _folder_name(values: Mapping[str, Any]) -> str:
    """A name for a folder, from the values; what is long or has odd signs is shortened."""
    return ",".join(f"{name}={_plain(shown(value))}" for name, value in values.items())


def _plain(text: str) -> str:
    plain = re.sub(r"[^\w.+-]+", "_", text)
    if plain == text and len(text) <= LONGEST_NAME:
        return text
    return f"{plain[-LONGEST_NAME:].strip('_.')}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"
