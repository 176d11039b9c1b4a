"""Writes the tables of docs/links.md: ``make links``, a few minutes on one core.

Tables stand between ``<!-- name -->`` and ``<!-- end -->``; the words around them are left alone.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mix2fld.config.grid import Grid
from mix2fld.config.presets import DEVICE_CLASSES, STANDARDS
from mix2fld.config.presets.sourced import Fields
from mix2fld.config.settings import PRESETS
from mix2fld.engine.plan import PlannedTransfer
from mix2fld.protocols.table import PROTOCOLS
from mix2fld.report.units import in_joules, in_time
from mix2fld.runs.link_plan import LinkPlan, plan_all
from mix2fld_lab.preset_sources import UNCHECKED, where_checked

PAGE = Path(__file__).parent / "links.md"
DRAWS = 200
RELIABLE = 0.95
NAMES = tuple(
    name
    for name, row in PROTOCOLS.items()
    if name not in ("isolated", "own-statistics") and row.promise is None
)
"""Protocols that send something."""
Plans = dict[str, LinkPlan]


def make_plans(names: tuple[str, ...] = tuple(STANDARDS)) -> Plans:
    """Every protocol over the link of every standard."""
    plans = {}
    for name in names:
        plans[name] = plan_all(Grid.of(**PRESETS[name], protocols=NAMES), DRAWS)
        print(name, file=sys.stderr)
    return plans


def everything(plans: Plans) -> str:
    """One row for each standard, one column for each protocol."""
    header = ["link", *(PROTOCOLS[name].title for name in NAMES)]
    rows = [[f"`{name}`", *(_cell(plan, each) for each in NAMES)] for name, plan in plans.items()]
    return _table(header, rows)


def asymmetry(plans: Plans) -> str:
    """What a model takes in both directions."""
    rows = []
    for name, plan in plans.items():
        up, down = (each for each in plan.transfers if each.protocol == "fl")
        ratio = "-"
        if up.budget.fits:
            ratio = f"{up.round_seconds / down.round_seconds:.2g}"
        limit = in_time(up.budget.max_slots * up.slot_seconds)
        chance = _chance(up)
        rows.append([f"`{name}`", limit, chance, _time(up), _chance(down), _time(down), ratio])
    head = ["link", "limit", "upload", "all uploads", "download", "slowest download", "up / down"]
    return _table(head, rows)


def batteries(plans: Plans) -> str:
    """What a round costs a device."""
    rows = []
    for name, plan in plans.items():
        by_name = {each.protocol: each for each in plan.rounds}
        for each in (by_name[protocol] for protocol in ("fl", "fd", "mix2fld")):
            mine = [one for one in plan.transfers if one.protocol == each.protocol]
            radio = sum(one.joules for one in mine if not one.only_first)
            assert each.battery_rounds is not None
            title = PROTOCOLS[each.protocol].title
            costs = [in_joules(radio), in_joules(each.joules), f"{each.battery_rounds:,.0f}"]
            if not all(one.budget.fits for one in mine):
                costs = ["never delivered", "-", "-"]
            rows.append([f"`{name}`", STANDARDS[name].device, title, *costs])
    head = ["link", "device", "protocol", "radio", "whole round", "rounds per battery charge"]
    return _table(head, rows)


def sources() -> str:
    """Every number of every standard; data rates of LoRaWAN in one table."""
    parts = []
    for name, standard in STANDARDS.items():
        device = f"Devices: `{standard.device}`."
        parts.append(f"### `{name}`: {standard.title}\n\n{standard.says} {device}\n")
        parts.append(_sources(standard.fields))
    return "\n".join(parts)


def devices() -> str:
    """Every number of every class of devices."""
    parts = []
    for name, kind in DEVICE_CLASSES.items():
        parts.append(f"### `{name}`: {kind.title}\n")
        parts.append(_sources(kind.fields))
    return "\n".join(parts)


def replaced(page: str, name: str, text: str) -> str:
    """The page with another table of that name."""
    pattern = rf"(<!-- {name} -->\n).*?(<!-- end -->)"
    if not re.search(pattern, page, re.DOTALL):
        raise ValueError(f"{PAGE}: has no table {name}")
    return re.sub(pattern, lambda found: f"{found[1]}{text}{found[2]}", page, flags=re.DOTALL)


def _cell(plan: LinkPlan, protocol: str) -> str:
    mine = [each for each in plan.transfers if each.protocol == protocol]
    if not all(each.budget.fits for each in mine):
        return "never"
    (one,) = (each for each in plan.rounds if each.protocol == protocol)
    least = min(mine, key=lambda each: each.budget.delivery_probability)
    text = f"{_chance(least)}<br>{in_time(one.communication)}".replace(" ", "\u00a0")
    return f"**{text}**" if least.budget.delivery_probability >= RELIABLE else text


def _chance(plan: PlannedTransfer) -> str:
    """Of one device, on average."""
    return f"{100 * plan.budget.delivery_probability:.1f} %" if plan.budget.fits else "never"


def _time(plan: PlannedTransfer) -> str:
    return in_time(plan.round_seconds) if plan.budget.fits else "-"


def _sources(fields: Fields) -> str:
    """How sure the values of a preset are, in a sentence, and each of them."""
    places = {name: where_checked(source) for name, (_, source) in fields.items()}
    stated = sum(place == UNCHECKED for place in places.values())
    ours = sum(not place for place in places.values())
    rows = [
        [f"`{name}`", _value(value), source, "" if places[name] == UNCHECKED else places[name]]
        for name, (value, source) in fields.items()
    ]
    table = _table(["setting", "value", "source", "read in"], rows)
    sure = (
        f"Read in a public document: {len(fields) - ours - stated} of {len(fields)} values; our "
        f"choice: {ours}; of the named source, not available to check: {stated}."
    )
    return f"{sure}\n\n{table}"


def _value(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(_value, value))
    return f"{value:,.6g}" if isinstance(value, float) else str(value)


def _table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


MEASURED: dict[str, Callable[[Plans], str]] = {
    "everything": everything,
    "asymmetry": asymmetry,
    "batteries": batteries,
}
STATED: dict[str, Callable[[], str]] = {"sources": sources, "devices": devices}


def with_stated(page: str) -> str:
    """The page with the values of all presets, which need no plans."""
    for name, text in STATED.items():
        page = replaced(page, name, text())
    return page


def main() -> None:
    """Write the page."""
    page, plans = PAGE.read_text(encoding="utf-8"), make_plans()
    for name, table in MEASURED.items():
        page = replaced(page, name, table(plans))
    PAGE.write_text(with_stated(page), encoding="utf-8")


if __name__ == "__main__":
    main()
