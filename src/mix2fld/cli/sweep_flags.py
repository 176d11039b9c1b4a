"""Flags of a sweep: a setting with several values is an axis, with one value it is fixed.

Of a setting that is a list, such as columns of a table, several values are one list; lists with
commas, ``--columns a,b a,c``, are an axis.
"""

import argparse
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from mix2fld.cli.suggestions import values_of
from mix2fld.config.grid import Grid
from mix2fld.config.settings import SECTIONS, field_names

Axes = dict[str, Any]
"""``varied`` and ``zipped`` of a plan."""
WHOLE = ("protocols", "seed")
"""Fields that are lists in every grid."""


def take_axes(given: Sequence[str]) -> tuple[list[str], Axes]:
    """The flags that are left, and the settings that vary."""
    from mix2fld.sweep.plan import expand

    rest: list[str] = []
    varied: dict[str, list[Any]] = {}
    for flag, values in _flags(given):
        name = flag.removeprefix("--").replace("-", "_")
        if name not in field_names(Grid):
            rest += [flag, *values] if flag else values
        elif name in WHOLE:
            apart = [part for value in values for part in values_of(value)]
            rest += [flag, *map(str, expand(apart))]
        elif name in _lists() and not any("," in value for value in values):
            rest += [flag, *values]
        elif len(values) > 1 or any(".." in value for value in values):
            whole = name in _lists()
            varied[name] = [v.split(",") if whole or "," in v else v for v in values]
        else:
            rest += [flag, *(part for value in values for part in value.split(","))]
    return rest, {"varied": varied}


@cache
def _lists() -> frozenset[str]:
    """The settings that are lists of names."""
    return frozenset(
        name
        for section in SECTIONS.values()
        for name, field in section.model_fields.items()
        if field.annotation == tuple[str, ...]
    )


def with_plan(given: Sequence[str], start: Grid, own: Axes) -> tuple[Grid, Axes]:
    """The defaults of all flags and the axes, with ``--plan`` applied; flags override it."""
    early = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    early.add_argument("--plan", type=Path)
    early.add_argument("--zip", nargs="*", default=[])
    chosen, _ = early.parse_known_args(given)
    zipped: list[tuple[str, ...]] = []
    varied = dict(own["varied"])
    if chosen.plan is not None:
        from mix2fld.sweep.plan_file import read_plan

        written = read_plan(chosen.plan, start)
        fixed = {flag.removeprefix("--").replace("-", "_") for flag, _ in _flags(given)}
        start = written.base
        varied = {name: v for name, v in written.varied.items() if name not in fixed} | varied
        zipped = [names for names in written.zipped if set(names) <= set(varied)]
    if chosen.zip:
        zipped.append(tuple(name.replace("-", "_") for name in chosen.zip))
    return start, {"varied": varied, "zipped": tuple(zipped)}


def _flags(given: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Every flag with the words after it; words before the first flag come with none."""
    flag, values = "", list[str]()
    for word in given:
        if word.startswith("--"):
            if flag or values:
                yield flag, values
            flag, _, value = word.partition("=")
            values = [value] if value else []
        else:
            values.append(word)
    if flag or values:
        yield flag, values
