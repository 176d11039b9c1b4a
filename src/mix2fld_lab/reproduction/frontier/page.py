"""FRONTIER.md: who does best with how many uplink bits, in sentences drawn from the records."""

from collections.abc import Mapping, Sequence

from mix2fld.protocols.table import PROTOCOLS
from mix2fld_lab.markdown import paragraph
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
TRAINING = (
    'Except for the contenders marked "as published", each family chose its training (weight of '
    "the logit adjustment, learning rates) on a validation split: training samples that no device "
    "holds, with one seed, which is not reported. The candidate with the most accurate devices "
    f"counts. All families have the same budget of {CANDIDATES_EACH} candidates, but not the same "
    f"candidates: {GRIDS} have grids of their own, with other rates or with replay. All of them "
    "use the mean of downloaded and trained weights on the device. So a row shows a protocol "
    'together with its training. Contenders marked "from edges" start from oriented derivatives '
    "and a last layer of zeros instead of random weights (`initial_weights = edges`): a formula "
    "that every device knows, so that it costs no bits. Not entered from edges: "
    f"{NOT_FROM_EDGES}. Nobody but Murmur-Mix was entered with replay of seeds on the devices."
)

INTRODUCTION = f"""# Accuracy against uplink bits

Made by `mix2fld reproduce frontier --results results`; redrawn from the records by
`mix2fld reproduce frontier --results results --from-records`.

Every protocol that a practitioner would pick, on the same data, partitions and seeds. Accuracy is
measured on the test set after the last of five rounds. The link is **ideal**, it delivers
everything, except in the two settings that name the paper's asymmetric link. Bits up are those that
a device uploads in all rounds, bits down those that the server broadcasts.

{paragraph(TRAINING)}

Fashion-MNIST uses the training that was chosen on MNIST with the same partition, and so do more
devices and the network of 80,000 weights; CIFAR-10, the smartwatch data and, on each dataset, the
MLPs (at 400,000 weights) have searches of their own. All contenders run with the paper's split of
MNIST and on the smartwatch data, the main ones elsewhere. Where the last layer is a small part of
the network, which it is in the MLPs, Murmur codes it by itself (`last_layer_share`). Murmur with
20,000 bits a round and Murmur-Mix with 200 seeds run with larger networks alone: they were added
once the first seed had shown that fewer bits are too few there. With CIFAR-10, larger networks and
more devices there are fewer local steps. Seeds that leave a device with only one label are skipped,
since it would have nothing to mix."""


def write_page(records: Records, choices: Mapping[str, Choices]) -> str:
    """The whole page; settings without records are named as missing."""
    points = {key: points_of(cells) for key, cells in records.items()}
    parts = [INTRODUCTION, "## Overview", summary(points), overview(points)]
    parts += ["## Best within a budget", winners(points)]
    parts += [text for text in (few_bits(points),) if text]
    for key, each in points.items():
        parts += [
            f"## {SETTINGS[key].title}",
            paragraph(f"{findings(each)} {_absent(key, each)}"),
            f"![accuracy against bits](figures/frontier-{key}.png)",
            _table(each, over_link=SETTINGS[key].changes["link"] != "ideal"),
        ]
    parts += ["## Over the paper's link", link_section(points)]
    parts += ["## What was chosen", _chosen(choices)]
    return "\n\n".join(parts) + "\n"


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
        who = "; ".join(missing) if len(missing) <= MOST_NAMED else f"{len(missing)} contenders"
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
    interval = f"95 % interval over seeds, uncorrected: {behind.low:+.2f} to {behind.high:+.2f}"
    sure = "one seed" if _seeds(points) == 1 else interval
    return f"The best of Murmur, {_named(ours)}, is {behind.mean:.2f} points below ({sure})."


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


def _table(points: Sequence[Point], over_link: bool) -> str:
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
    note = "Weight τ of the logit adjustment, and the learning rates of the first and last round."
    return note + "\n\n" + "\n".join(lines)


def _training(chosen: Mapping[str, object] | None) -> str:
    if chosen is None:
        return "–"
    rates = f"{chosen['learning_rate']} → {chosen['final_learning_rate']}"
    replay = f", replay {chosen['replay']}" if "replay" in chosen else ""
    return f"τ = {chosen['logit_adjustment']:g}, {rates}{replay}"
