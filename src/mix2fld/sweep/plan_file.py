"""Plans as TOML: written by hand, and ``sweep.toml`` in the folder of a sweep."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import tomli_w

from mix2fld.base.errors import InputError, Mix2fldError, did_you_mean
from mix2fld.base.files import write_atomic, writing
from mix2fld.config.grid import Grid
from mix2fld.config.settings import field_names, setting
from mix2fld.runs.config_file import parse_config
from mix2fld.sweep.plan import SweepPlan, expand, make_plan, shown

ENTRIES = ("protocols", "seed", "settings", "cross", "zip")
NAME = "sweep.toml"
FORMAT = 2
"""Of that file."""
MOST_BYTES = 1 << 20


class Written(NamedTuple):
    """A plan as a file has it."""

    base: Grid
    varied: dict[str, Sequence[Any]]
    zipped: tuple[tuple[str, ...], ...]


def read_plan(path: Path, start: Grid) -> Written:
    """Read a plan; what it does not name is as in ``start``."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise InputError(f"larger than {MOST_BYTES:,} bytes")
        return _parse(tomllib.loads(data.decode()), start)
    except OSError as error:
        raise InputError(
            field="plan", value=path, hint=f"cannot be read ({error.strerror})"
        ) from None
    except Mix2fldError as error:
        raise InputError(field="plan", value=path, hint=f"{error}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(field="plan", value=path, hint=f"not a TOML file ({error})") from None


def _parse(tree: dict[str, Any], start: Grid) -> Written:
    for name in tree:
        if name not in ENTRIES:
            raise InputError(f"{name}: no such entry; {did_you_mean(name, ENTRIES)}")
    fixed = _table(tree, "settings")
    chosen = {name: expand(_listed(tree[name])) for name in ("protocols", "seed") if name in tree}
    varied: dict[str, Sequence[Any]] = {}
    groups = tree.get("zip", [])
    if not isinstance(groups, list) or not all(isinstance(group, dict) for group in groups):
        raise InputError(field="zip", hint="must be tables of fields and values, each [[zip]]")
    for group in (*groups, _table(tree, "cross")):
        for name, values in group.items():
            if name in varied:
                raise InputError(f"{name}: is on two axes; must be on one")
            varied[name] = _listed(values)
    return Written(start.replace(**fixed, **chosen), varied, tuple(tuple(g) for g in groups))


def _table(tree: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = tree.get(name, {})
    if not isinstance(found, dict):
        raise InputError(f"{name}: must be a table of fields, [{name}]")
    return found


def _listed(values: Any) -> Sequence[Any]:
    return values if isinstance(values, list) else [values]


def dump_plan(plan: SweepPlan) -> bytes:
    """The file that the folder of a sweep holds."""
    base = plan.base.model_dump(mode="json", exclude_none=True)
    axes = [
        {name: [_plain(value) for value in values] for name, values in axis.items()}
        for axis in plan.axes
    ]
    return tomli_w.dumps({"format": FORMAT, "axes": axes, "base": base}).encode()


def claim_folder(plan: SweepPlan, out: Path) -> None:
    """Write the plan into the folder of its runs; refuse a folder of another sweep.

    A plan with more values, protocols or seeds adds to what the folder holds.
    """
    path = out / NAME
    if path.exists():
        _refuse_other(path, plan)
    elif out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(
            field="out", value=out, hint=f"holds other files and no {NAME}; choose another folder"
        )
    with writing("out", out):
        out.mkdir(parents=True, exist_ok=True)
        write_atomic(path, dump_plan(plan))


def _refuse_other(path: Path, plan: SweepPlan) -> None:
    before = _stored(path)

    def refuse(name: str, old: Any, new: Any) -> None:
        raise InputError(
            field="out",
            value=path.parent,
            hint=f"holds another sweep, with {name} = {old}, not {new}; name another folder",
        )

    groups, now = ([tuple(axis) for axis in p.axes] for p in (before, plan))
    if groups != now:
        refuse("axes", _words(groups), _words(now))
    for name in type(plan.base).model_fields:
        old, new = getattr(before.base, name), getattr(plan.base, name)
        if name in ("protocols", "seed"):
            if not set(old) <= set(new):
                refuse(name, shown(old), shown(new))
        elif old != new:
            refuse(*_first_change(before.base, plan.base))
    for old_axis, axis in zip(before.axes, plan.axes, strict=True):
        for values in zip(*old_axis.values(), strict=True):
            if values not in zip(*axis.values(), strict=True):
                refuse(" ".join(axis), shown(values), "among the values now")


def _first_change(old: Grid, new: Grid) -> tuple[str, Any, Any]:
    name = next(n for n in field_names() if setting(old, n) != setting(new, n))
    return name, setting(old, name), setting(new, name)


def _words(groups: Sequence[tuple[str, ...]]) -> str:
    return " × ".join("+".join(names) for names in groups) or "none"


def _stored(path: Path) -> SweepPlan:
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
        if tree.get("format") not in (1, FORMAT):
            raise InputError(f"format {tree.get('format')}, this version reads up to {FORMAT}")
        base = parse_config(tomli_w.dumps({"format": tree["format"], **tree["base"]}).encode())
        zipped = [tuple(axis) for axis in tree["axes"]]
        return make_plan(base, {n: v for axis in tree["axes"] for n, v in axis.items()}, zipped)
    except (OSError, ValueError, KeyError, TypeError, Mix2fldError) as error:
        raise InputError(
            f"{path}: is not the plan of a sweep ({error}); remove it, then repeat the command "
            "with the whole plan"
        ) from None


def _plain(value: Any) -> Any:
    """A value as TOML has it."""
    if isinstance(value, tuple):
        return list(value)
    return str(value) if isinstance(value, Path) else value
