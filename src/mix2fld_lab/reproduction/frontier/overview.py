"""All settings at a glance: who is best in each, and what that says of Murmur and of Mix2FLD."""

import re
from collections.abc import Mapping, Sequence
from math import isnan
from statistics import median

from mix2fld_lab.markdown import paragraph
from mix2fld_lab.reproduction.frontier.contenders import OURS, PAPERS, Contender, contenders
from mix2fld_lab.reproduction.frontier.leads import (
    LEVEL,
    Lead,
    distinct_leads,
    from_random_weights,
    leads_among,
)
from mix2fld_lab.reproduction.frontier.points import (
    BUDGETS,
    FrontierPoint,
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
    "Accuracy in %, device accuracy except in the server column, and uplink bits. "
    f"{EDGES_MARK} from edges, {PUBLISHED_MARK} as published. The number after a name says how "
    "much is sent: bits of an upload (Murmur), seeds (Murmur-Mix, CFD), features (statistics, "
    "Murmur-Stat), "
    "bits of a weight (EDEN)."
)
Points = Mapping[str, Sequence[FrontierPoint]]
"""The contenders of every setting that was measured."""


def short_title(contender: Contender) -> str:
    """A name for a table: what it is, how much it sends, where it starts."""
    name, *rest = contender.title.split(", ")
    number = next((found[0] for part in rest if (found := re.match(r"[\d.,]+", part))), "")
    marks = {"from edges": EDGES_MARK, "as published": PUBLISHED_MARK}
    return f"{name} {number}".rstrip() + "".join(marks.get(part, "") for part in rest)


def seed_count(points: Sequence[FrontierPoint]) -> str:
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


def how_sure(points: Points) -> str:
    """How a lead is tested, and all settings in which others are ahead."""
    leads = distinct_leads(points)
    paragraphs = (_how_it_is_tested(leads), _others_ahead(leads))
    return "\n\n".join(paragraph(text) for text in paragraphs if text)


def key_findings(points: Points) -> list[str]:
    """What few bits reach, who is ahead and how often, and where the paper's protocols are."""
    leads = distinct_leads(points)
    once = {lead.settings[0]: points[lead.settings[0]] for lead in leads}
    servers = [best_server(each) for each in once.values()]
    served = sum(point is not None and point.contender.protocol in OURS for point in servers)
    ahead = (
        f"Devices are most accurate with Murmur or a relative in {_counted(leads)}. The best "
        f"server's model is theirs in {served}. {_at_random(once)}"
    )
    found = [_how_few_bits(once), ahead.rstrip(), _where_relatives_are(points)]
    return [text for text in found if text]


def _how_few_bits(points: Points) -> str:
    """How many bits come within a point of the best, beside 8-bit FL."""
    near = []
    for each in points.values():
        full = next((point for point in each if point.contender.key == "fl8"), None)
        top = best(each)
        if full and top:
            near.append((cheapest_near(each, top, NEAR), full.bits))
    ratios = [full / point.bits for point, full in near if point.bits]
    if not ratios:
        return ""
    ours = sum(point.contender.protocol in OURS for point, _ in near)
    return (
        f"Of the contenders within {NEAR:g} point of the best device accuracy, the one with the "
        f"fewest uplink bits sends {median(ratios):,.0f} times fewer bits than 8-bit FL (median of "
        f"{len(near)} settings; {min(ratios):,.1f} to {max(ratios):,.0f} times). In {ours} of them "
        "it is Murmur or a relative."
    )


def _where_relatives_are(points: Points) -> str:
    """Whether the paper's protocols are on the frontier anywhere."""
    on_it = [
        f"{SETTINGS[key].title} ({short_title(point.contender)})"
        for key, each in points.items()
        for point in frontier(each)
        if point.contender.protocol in PAPERS
    ]
    if on_it:
        return f"Mix2FLD and its relatives are on the frontier only in: {'; '.join(on_it)}."
    return "Mix2FLD and its relatives are on the frontier in no setting."


def few_bits(points: Points) -> str:
    """What the columns of the smallest budgets cannot say, since no rival was entered there."""
    rivals = [point.bits for each in points.values() for point in _others(each) if point.bits > 0]
    alone = max((budget for budget in BUDGETS if not rivals or budget < min(rivals)), default=0)
    if not alone:
        return ""
    return paragraph(
        f"Up to {alone:,} bits, only Murmur and contenders that upload nothing were measured. "
        "These columns show how accurate devices are with so few bits, not which code is best."
    )


def anchor(title: str) -> str:
    """Of a heading, as GitHub and the site make it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def row(*cells: str) -> str:
    """Of a table."""
    return f"| {' | '.join(cells)} |"


def _counted(leads: Sequence[Lead]) -> str:
    ahead = [lead for lead in leads if lead.ahead]
    clear = sum(lead.clear for lead in ahead)
    return f"{len(ahead)} of {len(leads)} settings, clearly in {clear}"


def _at_random(points: Points) -> str:
    """What is left of the lead where nobody has edges or statistics."""
    leads = leads_among(points, from_random_weights)
    if not leads:
        return ""
    return (
        "Among contenders with random initial weights and without statistics, they lead in "
        f"{_counted(leads)}."
    )


def _how_it_is_tested(leads: Sequence[Lead]) -> str:
    uncorrected = sum(lead.points.above_zero for lead in leads if lead.ahead)
    repeated = [SETTINGS[key].title for lead in leads for key in lead.settings[1:]]
    once = (
        f" Two settings whose compared runs are identical, because everything is delivered, count "
        f"once; not counted again: {'; '.join(repeated)}."
        if repeated
        else ""
    )
    return (
        "*Clearly* means: significant at "
        f"{100 * LEVEL:g} % in a two-sided t test, paired by seed, of the best of Murmur and its "
        "relatives against the best of the others, with Holm's correction over all settings "
        f"(uncorrected: {uncorrected} settings). Both are selected by the test accuracies that are "
        f"then compared, so the test is optimistic.{once}"
    )


def _others_ahead(leads: Sequence[Lead]) -> str:
    behind = [
        f"{SETTINGS[lead.settings[0]].title} ({short_title(lead.other.contender)} by {_gap(lead)})"
        for lead in leads
        if not lead.ahead
    ]
    return f"Others lead in: {'; '.join(behind)}." if behind else ""


def _gap(lead: Lead) -> str:
    """How far ours is behind, and how sure that is."""
    behind = -lead.points.mean
    size = f"{behind:.1f} points" if behind >= 0.05 else "less than 0.1 points"
    if isnan(lead.points.std):
        return f"{size}, one seed"
    return f"{size}, {'clearly' if lead.clear else 'not clearly'}"


def _of(points: Sequence[FrontierPoint], protocols: Sequence[str]) -> list[FrontierPoint]:
    return [point for point in points if point.contender.protocol in protocols]


def _others(points: Sequence[FrontierPoint]) -> list[FrontierPoint]:
    return [point for point in points if point.contender.protocol not in OURS]


def _cell(point: FrontierPoint, at_the_server: bool = False) -> str:
    found = point.server if at_the_server and point.server else point.devices
    return f"{short_title(point.contender)}: {found.mean:.1f}, {point.bits:,.0f} bits"


def _accuracy(point: FrontierPoint) -> str:
    return f"{point.devices.mean:.1f}"
