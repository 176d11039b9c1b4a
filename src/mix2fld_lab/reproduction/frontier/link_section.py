"""What the transfers of every contender would take over the paper's link, in closed form.

The accuracies of most settings are those of an ideal link, so these numbers are kept apart: what
does not arrive cannot have contributed to an accuracy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mix2fld.config.settings import Config
from mix2fld_lab.markdown import paragraph
from mix2fld_lab.reproduction.frontier.contenders import FROM_EDGES
from mix2fld_lab.reproduction.frontier.link_costs import LinkCost, link_cost
from mix2fld_lab.reproduction.frontier.overview import row
from mix2fld_lab.reproduction.frontier.points import FrontierPoint
from mix2fld_lab.reproduction.frontier.settings import SETTINGS

TEXT = (
    "The accuracies above are those of an ideal link, which delivers everything, except in the "
    "settings with the paper's asymmetric link. This is what the same transfers would take over "
    "that link, all of them attempted, in closed form: the chance of the least likely upload and "
    "of the least likely download, bits of a device in both directions, seconds on the air in all "
    "rounds, joules of a device's radio. Where a chance is below 100 %, that link would not yield "
    "the accuracy above. Downlinks are each protocol's own. Murmur and Murmur-Mix relay uploads: "
    "devices have the same weights, bit for bit, as in the records above, in which the server "
    "multicast its weights after every step, so that their bits down, seconds and joules are "
    "larger. Where the download is weights, it takes more of the time and energy than any upload "
    "of few bits, so that fewer uplink bits alone save little."
)
VARIANTS = (FROM_EDGES, "-plain")
"""How devices start and train; neither changes a transfer."""


@dataclass(frozen=True)
class _Group:
    """Settings in which the same contenders have the same costs."""

    titles: list[str]
    costs: dict[str, tuple[str, LinkCost]]
    """By the key of a contender: its title and what its transfers take."""


def link_section(points: Mapping[str, Sequence[FrontierPoint]]) -> str:
    """The costs of all settings; settings with equal ones share a table."""
    groups: list[_Group] = []
    for key, each in points.items():
        costs = {
            _without_variant(point.contender.key): (
                point.contender.title.removesuffix(", from edges").removesuffix(", as published"),
                link_cost(point.cell),
            )
            for point in each
            if point.bits
        }
        same = next((group for group in groups if _agree(group.costs, costs)), None)
        if same is None:
            groups.append(_Group([SETTINGS[key].title], costs))
        else:
            same.titles.append(SETTINGS[key].title)
            same.costs.update(
                {name: cost for name, cost in costs.items() if name not in same.costs}
            )
    parts = [paragraph(TEXT)]
    for group in groups:
        parts += [paragraph(f"**{'; '.join(group.titles)}**"), _table(group.costs)]
        parts += [paragraph(text)] if (text := _of_downloads(group.costs)) else []
    return "\n\n".join(parts)


def _without_variant(key: str) -> str:
    for ending in VARIANTS:
        key = key.removesuffix(ending)
    return key


def _agree(
    costs: Mapping[str, tuple[str, LinkCost]], others: Mapping[str, tuple[str, LinkCost]]
) -> bool:
    both = costs.keys() & others.keys()
    return bool(both) and all(costs[name] == others[name] for name in both)


def _table(costs: Mapping[str, tuple[str, LinkCost]]) -> str:
    heads = ("bits up", "bits down", "both", "uploads", "downloads", "s", "J")
    lines = [row("contender", *heads), row("---", *["---:"] * len(heads))]
    for title, cost in costs.values():
        chances = (f"{100 * chance:.1f} %" for chance in (cost.chance, cost.download_chance))
        both = (cost.bits_up, cost.bits_down, cost.bits_up + cost.bits_down)
        bits = (f"{each:,.0f}" for each in both)
        lines.append(row(title, *bits, *chances, f"{cost.seconds:.3f}", f"{cost.joules:.3f}"))
    return "\n".join(lines)


def _of_downloads(costs: Mapping[str, tuple[str, LinkCost]]) -> str:
    """What to do where that link cannot carry a download."""
    least = min((cost.download_chance for _, cost in costs.values()), default=1.0)
    if least >= Config().updates.delivery_target:
        return ""
    return (
        f"Not all downloads fit that link: the largest has a chance of {100 * least:.1f} %. It "
        "would take a wider downlink, or weights of fewer bits (`downlink_bits`)."
    )
