"""FRONTIER.md: who does best with how many uplink bits, in sentences drawn from the records."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mix2fld.protocols.table import PROTOCOLS, get_protocol
from mix2fld_lab.made_with import said_of
from mix2fld_lab.markdown import paragraph
from mix2fld_lab.pages import render
from mix2fld_lab.reproduction.cell_records import CellRecord
from mix2fld_lab.reproduction.conclusions import listed
from mix2fld_lab.reproduction.frontier.contenders import (
    CANDIDATES_EACH,
    CONTENDERS,
    FROM_EDGES,
    OURS,
    PAPERS,
    SEARCHED,
    contenders,
)
from mix2fld_lab.reproduction.frontier.link_section import link_section
from mix2fld_lab.reproduction.frontier.overview import (
    NEAR,
    few_bits,
    how_sure,
    key_findings,
    overview,
    row,
    seed_count,
    winners,
)
from mix2fld_lab.reproduction.frontier.points import (
    FrontierPoint,
    best,
    best_server,
    cheapest_near,
    frontier,
    points_of,
)
from mix2fld_lab.reproduction.frontier.search import Choices
from mix2fld_lab.reproduction.frontier.settings import SETTINGS
from mix2fld_lab.reproduction.number_text import delivery

GRIDS = listed([PROTOCOLS[name].title for name in SEARCHED])
"""Families that searched other settings than most."""
MOST_NAMED = 3
"""Contenders that are named one by one."""
Records = Mapping[str, Mapping[str, CellRecord]]
"""The cells of every setting that was measured."""

NOT_FROM_EDGES = listed(
    list(
        dict.fromkeys(
            PROTOCOLS[one.protocol].title
            for one in CONTENDERS
            if one.network == "any"
            and one.family
            and not any(other.family == f"{one.family}{FROM_EDGES}" for other in CONTENDERS)
        )
    )
)
TEMPLATE = Path(__file__).parent.parent / "templates" / "frontier.md.j2"
OVER_A_LINK = "-paper-link"
"""Ends the keys of settings with a link, which otherwise are those without one."""
FRONT = ("mnist-non-iid-paper-link", "mnist-non-iid")
"""Settings whose figure stands first, the first of them that was measured."""


def write_page(
    records: Records, choices: Mapping[str, Choices], by_training: str = "", other_tasks: str = ""
) -> str:
    """The whole page; settings without records are named as missing.

    ``other_tasks`` are the tables of settings that are not of images or recordings.

    ``by_training`` is the table of trainings and starts over the paper's link, if there is one.
    """
    points = {key: points_of(cells) for key, cells in records.items()}
    front = next((key for key in FRONT if key in points), next(iter(points)))
    settings = [
        {
            "key": key,
            "title": SETTINGS[key].title,
            "findings": " ".join(
                filter(None, (findings(each), _by_default(key, points), _absent(key, each)))
            ),
            "contenders": len(each),
            "table": _table(each, over_link=SETTINGS[key].changes["link"] != "ideal"),
        }
        for key, each in points.items()
    ]
    return render(
        TEMPLATE,
        key_findings=key_findings(points),
        front=front,
        front_title=SETTINGS[front].title,
        measured=len(points),
        how_sure=how_sure(points),
        overview=overview(points),
        winners=winners(points),
        few_bits=few_bits(points),
        settings=settings,
        over_the_link=link_section(points),
        by_training=by_training,
        other_tasks=other_tasks,
        made_with=said_of(*_runs(records)),
        candidates=CANDIDATES_EACH,
        grids=GRIDS,
        not_from_edges=NOT_FROM_EDGES,
        chosen=_chosen(choices),
    )


def findings(points: Sequence[FrontierPoint]) -> str:
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


def _runs(records: Records) -> list[dict[str, Any]]:
    return [run for cells in records.values() for cell in cells.values() for run in cell.runs]


def _by_default(key: str, points: Mapping[str, Sequence[FrontierPoint]]) -> str:
    """Who comes close with fewer bits over an ideal link, where that was not entered over this."""
    twin = points.get(key.removesuffix(OVER_A_LINK))
    if not key.endswith(OVER_A_LINK) or twin is None:
        return ""
    top = best(twin)
    assert top is not None
    near = cheapest_near(twin, top, NEAR)
    if any(point.contender.key == near.contender.key for point in points[key]):
        return ""
    return (
        f"Fewest bits among those measured here: over an ideal link {_named(near)} comes within "
        f"{NEAR:g} point of the best, but was not measured over this one."
    )


def _absent(key: str, points: Sequence[FrontierPoint]) -> str:
    """Who has no record: refused, since the server would find no mixes to unmix; or not run yet."""
    there = {point.contender.key for point in points}
    absent = [one for one in contenders(SETTINGS[key]) if one.key not in there]
    refused = [one.title for one in absent if _unmixes(one.protocol)]
    missing = [one.title for one in absent if not _unmixes(one.protocol)]
    sentences = [f"Refused before the run: {'; '.join(refused)}."] if refused else []
    if missing:
        who = "; ".join(missing) if len(missing) <= MOST_NAMED else f"{len(missing)} contenders"
        sentences.append(f"Not run yet: {who}.")
    return " ".join(sentences)


def _unmixes(protocol: str) -> bool:
    seeding = get_protocol(protocol).seeds
    return seeding is not None and seeding.unmixed


def _at_the_server(points: Sequence[FrontierPoint], top: FrontierPoint) -> str:
    """Whose server's model is best, if it is another's; devices may use that instead."""
    found = best_server(points)
    if found is None or found.server is None or found is top:
        return ""
    who = f"{found.contender.title} ({found.server.mean:.1f} %, {found.bits:,.0f} bits)"
    return f"The best server's model is that of {who}."


def _where_ours_loses(points: Sequence[FrontierPoint], top: FrontierPoint) -> str:
    ours = best([point for point in points if point.contender.protocol in OURS])
    if ours is None or top.contender.protocol in OURS:
        return ""
    behind = top.lead_over(ours)
    interval = f"95 % interval over seeds, uncorrected: {behind.low:+.2f} to {behind.high:+.2f}"
    sure = "one seed" if _seeds(points) == 1 else interval
    return f"The best of Murmur, {_named(ours)}, is {behind.mean:.2f} points below ({sure})."


def _where_the_paper_stands(points: Sequence[FrontierPoint]) -> str:
    relatives = [point for point in points if point.contender.protocol in PAPERS]
    if not relatives:
        return ""
    on_it = [point for point in frontier(points) if point in relatives]
    if on_it:
        return f"Of Mix2FLD and its relatives, on the frontier: {'; '.join(map(_named, on_it))}."
    ours = best(relatives)
    assert ours is not None
    rival = best(points, ours.bits)
    assert rival is not None
    gap = rival.lead_over(ours)
    return (
        f"Neither Mix2FLD nor a relative is on the frontier: {_named(ours)} is {gap.mean:.1f} "
        f"points below {_named(rival)}."
    )


def _fewer(ratio: float) -> str:
    return f"{ratio:,.0f} times fewer" if ratio >= 2 else f"{100 * (1 - 1 / ratio):.0f} % fewer"


def _named(point: FrontierPoint) -> str:
    return f"{point.contender.title} ({point.devices.mean:.1f} %, {point.bits:,.0f} bits)"


def _table(points: Sequence[FrontierPoint], over_link: bool) -> str:
    """Bits and accuracies; over a link also what was delivered, and what that took."""
    heads = ["contender", "bits up", "bits down", "devices, %", "server, %", "frontier"]
    heads += ["delivered", "s", "J"] if over_link else []
    lines = [row(*heads), row("---", *["---:"] * (len(heads) - 1))]
    on_it = frontier(points)
    for point in points:
        measured = (
            (
                delivery(point.cell),
                f"{point.cell.values('summary', 'seconds', 'communication').mean():.3f}",
                f"{point.radio_joules:.3f}",
            )
            if over_link
            else ()
        )
        lines.append(
            row(
                point.contender.title,
                f"{point.bits:,.0f}",
                f"{point.bits_down:,.0f}",
                str(point.devices),
                str(point.server) if point.server else "–",
                "●" if point in on_it else "",
                *measured,
            )
        )
    note = _over_seeds(points)
    if over_link:
        note += (
            " The last three columns are measured: share of uploads that were delivered, seconds "
            "on the air in all rounds, joules of a device's radio."
        )
    else:
        note += " Over an ideal link."
    return "\n".join(lines) + "\n\n" + paragraph(note)


def _over_seeds(points: Sequence[FrontierPoint]) -> str:
    seeds = seed_count(points)
    return "One seed." if seeds == "1" else f"± sample std over {seeds} seeds."


def _seeds(points: Sequence[FrontierPoint]) -> int:
    return min(len(point.cell.runs) for point in points)


def _chosen(choices: Mapping[str, Choices]) -> str:
    names = list(choices)
    families = list(dict.fromkeys(family for each in choices.values() for family in each))
    lines = [row("family", *names), row("---", *["---"] * len(names))]
    lines += [
        row(family, *(_training(choices[name].get(family)) for name in names))
        for family in families
    ]
    note = "Weight τ of the logit adjustment, and the learning rates of the first and last round."
    return note + "\n\n" + "\n".join(lines)


def _training(chosen: Mapping[str, object] | None) -> str:
    if chosen is None:
        return "–"
    rates = f"{chosen['learning_rate']} → {chosen['final_learning_rate']}"
    replay = f", replay {chosen['replay']}" if "replay" in chosen else ""
    return f"τ = {chosen['logit_adjustment']:g}, {rates}{replay}"
