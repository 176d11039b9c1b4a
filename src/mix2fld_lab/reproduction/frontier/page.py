"""FRONTIER.md: who does best with how many uplink bits, in sentences drawn from the records."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from mix2fld.config.settings import Config
from mix2fld.protocols.table import PROTOCOLS
from mix2fld_lab.markdown import paragraph
from mix2fld_lab.pages import render
from mix2fld_lab.reproduction.cell_records import CellRecord
from mix2fld_lab.reproduction.frontier.contenders import CANDIDATES_EACH, OURS, PAPERS, contenders
from mix2fld_lab.reproduction.frontier.link_costs import LinkCost, link_cost
from mix2fld_lab.reproduction.frontier.overview import (
    NEAR,
    overview,
    row,
    seed_count,
    summary,
    winners,
)
from mix2fld_lab.reproduction.frontier.points import (
    Point,
    best,
    best_server,
    cheapest_near,
    frontier,
    points_of,
)
from mix2fld_lab.reproduction.frontier.search import Choices
from mix2fld_lab.reproduction.frontier.settings import SETTINGS

HEADLINE = (
    "own-statistics",
    "murmur-200",
    "murmur-200-edges",
    "murmur-1400-edges",
    "murmur-stat-4-edges",
    "murmur-mix-100-edges",
    "fd-plain",
    "mixfld-plain",
    "mix2fld-plain",
    "fl8",
    "fl8-edges",
    "fl-plain",
)
"""The contenders in the README's table."""
FEW = 3
"""Contenders that are named one by one."""
Records = Mapping[str, Mapping[str, CellRecord]]
"""The cells of every setting that was measured."""
TEMPLATE = Path(__file__).parent / "templates" / "frontier.md.j2"


def write_page(records: Records, choices: Mapping[str, Choices]) -> str:
    """The whole page; settings without records are named as missing."""
    points = {key: points_of(cells) for key, cells in records.items()}
    return render(
        TEMPLATE,
        candidates=CANDIDATES_EACH,
        summary=summary(points),
        overview=overview(points),
        winners=winners(points),
        points=points,
        settings=SETTINGS,
        findings=findings,
        absent=_absent,
        table=_table,
        chosen=_chosen(choices),
    )


def headline_table(points: Sequence[Point]) -> str:
    """The table of the README: ours beside what the paper compares, and FL at its best."""
    by_key = {point.contender.key: point for point in points}
    lines = [
        row("protocol", "uplink bits of a device", "devices, %", "server's model, %", "delivered"),
        row("---", *["---:"] * 4),
    ]
    for key in HEADLINE:
        point = by_key[key]
        server = f"{point.server.mean:.1f}" if point.server else "–"
        chance = f"{100 * link_cost(point.cell).chance:.1f} %" if point.bits else "–"
        cells = f"{point.bits:,.0f}", f"{point.devices.mean:.1f}", server, chance
        lines.append(row(point.contender.title, *cells))
    return "\n".join(lines)


def findings(points: Sequence[Point]) -> str:
    """Who is best, who comes close with the fewest bits, where ours loses and Mix2FLD stands."""
    top = best(points)
    assert top is not None
    near = cheapest_near(points, top, NEAR)
    sentences = [f"{_named(top)} is most accurate."]
    if near is not top and near.bits:
        fewer = _fewer(top.bits / near.bits)
        sentences.append(f"{_named(near)} comes within {NEAR:g} point of it with {fewer} bits.")
    elif near is not top:
        sentences.append(f"{_named(near)} comes within {NEAR:g} point of it.")
    sentences += [
        _at_the_server(points, top),
        _where_ours_loses(points, top),
        _where_the_paper_stands(points),
    ]
    return " ".join(sentence for sentence in sentences if sentence)


def _absent(key: str, points: Sequence[Point]) -> str:
    """Who has no record: refused, since the server would find no mixes to unmix; or not run yet."""
    there = {point.contender.key for point in points}
    absent = [one for one in contenders(SETTINGS[key]) if one.key not in there]
    refused = [one.title for one in absent if _unmixes(one.protocol)]
    missing = [one.title for one in absent if not _unmixes(one.protocol)]
    sentences = [f"Refused before the run: {'; '.join(refused)}."] if refused else []
    if missing:
        who = "; ".join(missing) if len(missing) <= FEW else f"{len(missing)} contenders"
        sentences.append(f"Not run yet: {who}.")
    return " ".join(sentences)


def _unmixes(protocol: str) -> bool:
    seeding = PROTOCOLS[protocol].seeds
    return seeding is not None and seeding.unmixed


def _at_the_server(points: Sequence[Point], top: Point) -> str:
    """Whose server's model is best, if it is another's; devices may use that instead."""
    found = best_server(points)
    if found is None or found.server is None or found is top:
        return ""
    who = f"{found.contender.title} ({found.server.mean:.1f} %, {found.bits:,.0f} bits)"
    return f"The most accurate model of a server is that of {who}."


def _where_ours_loses(points: Sequence[Point], top: Point) -> str:
    ours = best([point for point in points if point.contender.protocol in OURS])
    if ours is None or top.contender.protocol in OURS:
        return ""
    behind = top.above(ours)
    sure = "more than the seeds differ" if behind.above_zero else "within what the seeds differ"
    sure = "with one seed" if _seeds(points) == 1 else sure
    return f"The best of Murmur, {_named(ours)}, is {behind.mean:.2f} points below: {sure}."


def _where_the_paper_stands(points: Sequence[Point]) -> str:
    relatives = [point for point in points if point.contender.protocol in PAPERS]
    if not relatives:
        return ""
    on_it = [point for point in frontier(points) if point in relatives]
    if on_it:
        return f"On the frontier, of Mix2FLD and its relatives: {'; '.join(map(_named, on_it))}."
    ours = best(relatives)
    assert ours is not None
    rival = best(points, ours.bits)
    assert rival is not None
    gap = rival.above(ours)
    return (
        f"Of Mix2FLD and its relatives none is on the frontier: {_named(ours)} is {gap.mean:.1f} "
        f"points below {_named(rival)}."
    )


def _fewer(ratio: float) -> str:
    return f"{ratio:,.0f} times fewer" if ratio >= 2 else f"{100 * (1 - 1 / ratio):.0f} % fewer"


def _named(point: Point) -> str:
    return f"{point.contender.title} ({point.devices.mean:.1f} %, {point.bits:,.0f} bits)"


def _table(points: Sequence[Point]) -> str:
    heads = ("contender", "bits", "devices, %", "server, %", "frontier", "delivered", "s", "J")
    lines = [row(*heads), row("---", *["---:"] * (len(heads) - 1))]
    on_it, costs = frontier(points), [link_cost(point.cell) for point in points]
    for point, cost in zip(points, costs, strict=True):
        lines.append(
            row(
                point.contender.title,
                f"{point.bits:,.0f}",
                str(point.devices),
                str(point.server) if point.server else "–",
                "●" if point in on_it else "",
                f"{100 * cost.chance:.1f} %" if point.bits else "–",
                f"{cost.seconds:.3f}",
                f"{cost.joules:.3f}",
            )
        )
    note = (
        f"{_over_seeds(points)} The last three columns are closed forms for the paper's link: "
        "chance that an upload is delivered, seconds on the air in all "
        f"rounds, joules of a device's radio.{_of_downloads(costs)}"
    )
    return "\n".join(lines) + "\n\n" + paragraph(note)


def _of_downloads(costs: Sequence[LinkCost]) -> str:
    """What the columns do not show: whether the paper's link carries the downloads."""
    least = min(cost.download_chance for cost in costs)
    if least >= Config().updates.delivery_target:
        return ""
    return (
        f" Not all downloads fit that link: the largest has a chance of {100 * least:.1f} %. It "
        "would take a wider downlink, or weights of fewer bits (`downlink_bits`)."
    )


def _over_seeds(points: Sequence[Point]) -> str:
    seeds = seed_count(points)
    return "One seed." if seeds == "1" else f"± sample std over {seeds} seeds."


def _seeds(points: Sequence[Point]) -> int:
    return min(len(point.cell.runs) for point in points)


def _chosen(choices: Mapping[str, Choices]) -> str:
    names = list(choices)
    families = list(dict.fromkeys(family for each in choices.values() for family in each))
    lines = [row("family", *names), row("---", *["---"] * len(names))]
    lines += [
        row(family, *(_training(choices[name].get(family)) for name in names))
        for family in families
    ]
    return "\n".join(lines)


def _training(chosen: Mapping[str, object] | None) -> str:
    if chosen is None:
        return "–"
    rates = f"{chosen['learning_rate']} → {chosen['final_learning_rate']}"
    replay = f", replay {chosen['replay']}" if "replay" in chosen else ""
    return f"τ = {chosen['logit_adjustment']:g}, {rates}{replay}"
