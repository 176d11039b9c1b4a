"""All settings at a glance: who is best in each, and what that says of Murmur and of Mix2FLD."""

import re
from collections.abc import Mapping, Sequence
from math import isnan

from mix2fld.base.spread import Spread
from mix2fld_lab.markdown import paragraph
from mix2fld_lab.reproduction.frontier.contenders import OURS, PAPERS, Contender, contenders
from mix2fld_lab.reproduction.frontier.points import (
    BUDGETS,
    Point,
    best,
    best_server,
    cheapest_near,
    frontier,
)
from mix2fld_lab.reproduction.frontier.settings import SETTINGS

NEAR = 1.0
"""Points of accuracy that count as close."""
EDGES_MARK, PUBLISHED_MARK = "†", "°"
LEGEND = (
    "Accuracy in %, of devices but for the models of servers, and uplink bits. "
    f"{EDGES_MARK} from edges, {PUBLISHED_MARK} as published. The number after a name says how "
    "much is sent: bits of an upload (Murmur), seeds (Murmur-Mix, CFD), features (statistics, "
    "Murmur-Stat), "
    "bits of a weight (EDEN)."
)
Points = Mapping[str, Sequence[Point]]
"""The contenders of every setting that was measured."""


def short_title(contender: Contender) -> str:
    """A name for a table: what it is, how much it sends, where it starts."""
    name, *rest = contender.title.split(", ")
    number = next((found[0] for part in rest if (found := re.match(r"[\d.,]+", part))), "")
    marks = {"from edges": EDGES_MARK, "as published": PUBLISHED_MARK}
    return f"{name} {number}".rstrip() + "".join(marks.get(part, "") for part in rest)


def seed_count(points: Sequence[Point]) -> str:
    """Over how many seeds a setting was measured; contenders may differ."""
    counts = [len(point.cell.runs) for point in points]
    return f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)}–{max(counts)}"


def overview(points: Points) -> str:
    """A line for every setting, measured or not."""
    heads = ("setting", "seeds", "run", "most accurate", f"within {NEAR:g} point, fewest bits")
    last = ("best model of a server", "Mix2FLD's family")
    lines = [row(*heads, *last), row("---", "---:", "---:", *["---"] * 4)]
    for key, setting in SETTINGS.items():
        wanted = {one.key for one in contenders(setting)}
        if key not in points:
            lines.append(row(setting.title, "–", f"0 / {len(wanted)}", *[""] * 4))
            continue
        each = points[key]
        top = best(each)
        assert top is not None
        relative, served = best(_of(each, PAPERS)), best_server(each)
        lines.append(
            row(
                f"[{setting.title}](#{anchor(setting.title)})",
                seed_count(each),
                f"{sum(point.contender.key in wanted for point in each)} / {len(wanted)}",
                _cell(top),
                _cell(cheapest_near(each, top, NEAR)),
                "–" if served is None else _cell(served, at_the_server=True),
                "–" if relative is None else _cell(relative),
            )
        )
    return "\n".join(lines) + "\n\n" + paragraph(LEGEND)


def winners(points: Points) -> str:
    """Who is most accurate within each budget."""
    heads = [f"≤ {budget:,}" for budget in BUDGETS[1:]]
    lines = [row("uplink bits of a device", "0", *heads), row("---", *["---"] * len(BUDGETS))]
    for key, each in points.items():
        cells, last = [], None
        for budget in BUDGETS:
            found = best(each, budget)
            if found is None or found is last:
                cells.append("″")
            else:
                cells.append(f"{short_title(found.contender)}: {_accuracy(found)}")
            last = found
        lines.append(row(SETTINGS[key].title, *cells))
    return "\n".join(lines)


def summary(points: Points) -> str:
    """What all settings together say of Murmur, and of Mix2FLD and its relatives."""
    leads = {key: lead for key, each in points.items() if (lead := _lead(each))}
    ahead = [lead for lead in leads.values() if lead.mean >= 0]
    clearly = sum(lead.above_zero for lead in ahead)
    servers = [best_server(each) for each in points.values()]
    served = sum(point is not None and point.contender.protocol in OURS for point in servers)
    sentences = [
        f"Devices are most accurate with Murmur or a relative in {len(ahead)} of {len(points)} "
        f"settings, in {clearly} of them by more than the seeds differ; the server's model in "
        f"{served}."
    ]
    behind = [
        f"{SETTINGS[key].title} ({_rival(points[key])} by {_gap(lead)})"
        for key, lead in leads.items()
        if lead.mean < 0
    ]
    if behind:
        sentences.append(f"Others are ahead in: {'; '.join(behind)}.")
    relatives = [
        f"{SETTINGS[key].title} ({short_title(point.contender)})"
        for key, each in points.items()
        for point in frontier(each)
        if point.contender.protocol in PAPERS
    ]
    where = f"in: {'; '.join(relatives)}" if relatives else "nowhere"
    sentences.append(f"Mix2FLD or a relative is on the frontier {where}.")
    return paragraph(" ".join(sentences))


def anchor(title: str) -> str:
    """Of a heading, as GitHub and the site make it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def row(*cells: str) -> str:
    """Of a table."""
    return f"| {' | '.join(cells)} |"


def _lead(points: Sequence[Point]) -> Spread | None:
    """Points of accuracy of the best of ours above the best of the others, on devices."""
    ours, other = best(_of(points, OURS)), best(_others(points))
    return None if ours is None or other is None else ours.above(other)


def _gap(lead: Spread) -> str:
    """How far ours is behind, and how sure that is."""
    size = f"{-lead.mean:.1f} points" if lead.mean <= -0.05 else "less than 0.1 points"
    if isnan(lead.std):
        return f"{size}, one seed"
    return size if lead.below_zero else f"{size}, less than the seeds differ"


def _rival(points: Sequence[Point]) -> str:
    rival = best(_others(points))
    assert rival is not None
    return short_title(rival.contender)


def _of(points: Sequence[Point], protocols: Sequence[str]) -> list[Point]:
    return [point for point in points if point.contender.protocol in protocols]


def _others(points: Sequence[Point]) -> list[Point]:
    return [point for point in points if point.contender.protocol not in OURS]


def _cell(point: Point, at_the_server: bool = False) -> str:
    found = point.server if at_the_server and point.server else point.devices
    return f"{short_title(point.contender)}: {found.mean:.1f}, {point.bits:,.0f} bits"


def _accuracy(point: Point) -> str:
    return f"{point.devices.mean:.1f}"
