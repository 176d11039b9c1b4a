"""The README's first table and sentence: one link, each family before and after tuning."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mix2fld.advice.reveals import kinds_seen
from mix2fld.base.spread import spread
from mix2fld.config.settings import Config
from mix2fld_lab.markdown import paragraph
from mix2fld_lab.reproduction.cell_records import CellRecord
from mix2fld_lab.reproduction.conclusions import in_points
from mix2fld_lab.reproduction.frontier.contenders import FROM_EDGES, OURS
from mix2fld_lab.reproduction.frontier.leads import WITH_STATISTICS
from mix2fld_lab.reproduction.frontier.link_costs import link_cost
from mix2fld_lab.reproduction.frontier.overview import row
from mix2fld_lab.reproduction.frontier.points import FrontierPoint
from mix2fld_lab.reproduction.frontier.settings import SETTINGS
from mix2fld_lab.reproduction.number_text import delivery

LINK_SETTING, IDEAL_TWIN = "mnist-non-iid-paper-link", "mnist-non-iid"
PAPERS_TRAINING = {
    "isolated": ("fig2c", "non-iid/isolated"),
    "fl": ("fig2c", "asymmetric-non-iid/fl"),
    "fl8": ("fig2c", "asymmetric-non-iid/fl8"),
    "fd": ("fig2c", "asymmetric-non-iid/fd"),
    "fld": ("why", "asymmetric-non-iid/why/decided/fld"),
    "mixfld": ("fig2c", "asymmetric-non-iid/mixfld-50"),
    "mix2fld": ("fig2c", "asymmetric-non-iid/mix2fld-50-100"),
}
"""Contenders that the paper's own experiments also ran, over the same link and with the same seeds:
the experiment, and the key of the cell. Some have more rounds; the same number of them counts."""
SAME_TRANSFERS = {"mixfld": "mix2fld"}
"""Recorded over an ideal link alone; over the paper's its transfers are those of the other, all of
which arrive, so that its accuracy is the same."""
MARK = "‡"
README_WIDTH = 120
IN_THE_README = (
    "isolated", "own-statistics", "murmur-200", "eden-0.1", "fd", "murmur-stat-4", "mix2fld", "fl8",
    "fl",
)  # fmt: skip
"""Contenders of the short table; the whole one is on the page of the frontier."""


@dataclass(frozen=True)
class HeadlineRow:
    """A contender: what its transfers took, and accuracies by training and start, in per cent."""

    key: str
    title: str
    link: FrontierPoint
    """A run of it over the link."""
    papers_training: float | None
    tuned: FrontierPoint | None
    from_edges: FrontierPoint | None
    twin: bool = False
    """Whether its tuned run is that over an ideal link."""

    @property
    def cells(self) -> tuple[str, ...]:
        """One for each column."""
        mark = MARK if self.twin else ""
        tuned = None if self.tuned is None else self.tuned.devices.mean
        edges = None if self.from_edges is None else self.from_edges.devices.mean
        return (
            self.title,
            kinds_seen(Config.of(protocol=self.link.contender.protocol)) or "nothing",
            f"{self.link.bits:,.0f}",
            f"{self.link.bits_down:,.0f}",
            self._delivered,
            f"{self.link.cell.values('summary', 'seconds', 'communication').mean():.2f}",
            f"{self.link.radio_joules:.2f}",
            _percent(self.papers_training),
            f"{_percent(tuned)}{mark}",
            _percent(edges),
        )

    @property
    def _delivered(self) -> str:
        """Measured, and in closed form where that is something else."""
        measured = delivery(self.link.cell)
        expected = f"{100 * link_cost(self.link.cell).chance:.1f} %"
        return measured if measured in ("–", expected) else f"{measured} ({expected})"


HEADS = (
    "protocol", "reveals", "bits up", "bits down", "delivered (expected)", "s", "J",
    "paper's training, %", "tuned, %", "tuned, from edges, %",
)  # fmt: skip


def headline_rows(
    points: Sequence[FrontierPoint],
    ideal: Sequence[FrontierPoint],
    papers: Mapping[str, CellRecord],
) -> list[HeadlineRow]:
    """Every contender of the setting, fewest bits first.

    ``points`` are those over the paper's link, ``ideal`` those of the twin over an ideal link,
    ``papers`` the cells of the paper's own experiments, by the key of their contender.
    """
    by_key = {point.contender.key: point for point in points}
    without_link = {point.contender.key: point for point in ideal}
    names = list(dict.fromkeys(key.removesuffix(FROM_EDGES) for key in by_key))
    rows = []
    for name in [*names, *SAME_TRANSFERS]:
        twin = SAME_TRANSFERS.get(name)
        plain = without_link[name] if twin else by_key.get(name)
        edges = by_key.get(f"{name}{FROM_EDGES}")
        if plain is not None and plain.contender.protocol in WITH_STATISTICS:
            plain, edges = None, plain
        link = by_key[twin] if twin else plain or edges
        title = (plain or edges or by_key[name]).contender.title.removesuffix(", from edges")
        assert link is not None
        before = _after(papers[name], link.cell.rounds) if name in papers else None
        rows.append(HeadlineRow(name, title, link, before, plain, edges, twin is not None))
    return sorted(rows, key=lambda one: one.link.bits)


def short_table(rows: Sequence[HeadlineRow]) -> str:
    """The table of the README."""
    return headline_table([one for one in rows if one.key in IN_THE_README])


def headline_table(rows: Sequence[HeadlineRow]) -> str:
    """Every contender, by training and start."""
    lines = [row(*HEADS), row("---", "---", *["---:"] * (len(HEADS) - 2))]
    return "\n".join([*lines, *(row(*one.cells) for one in rows)])


def finding(rows: Sequence[HeadlineRow]) -> str:
    """How near the fewest bits come to FL with 8-bit weights, and who else is near."""
    by_key = {one.key: one for one in rows}
    few, full, eden, alone = (
        _from_edges(by_key[name]) for name in ("murmur-200", "fl8", "eden-0.1", "own-statistics")
    )
    few_at_random, full_at_random = (_tuned(by_key[name]) for name in ("murmur-200", "fl8"))
    behind, at_random = full.lead_over(few), full_at_random.lead_over(few_at_random)
    rivals = [one.link.bits for one in rows if one.link.contender.protocol not in OURS]
    least = min(bits for bits in rivals if bits)
    config = SETTINGS[LINK_SETTING].title
    return paragraph(
        f"**With {few.bits:,.0f} uploaded bits per device, Murmur came within {behind.mean:.1f} "
        f"points of 8-bit FL**, which uploads {full.bits:,.0f}: {few.devices.mean:.1f} against "
        f"{full.devices.mean:.1f} % ({in_points(behind)}; {config}; {few.cell.devices} devices, "
        f"{few.cell.rounds} rounds, {len(few.cell.runs)} seeds; both tuned, both initialised with "
        f"edge filters; {at_random.mean:.1f} points with random initial weights). EDEN, tuned and "
        f"initialised alike, comes within {full.lead_over(eden).mean:.1f} points with "
        f"{eden.bits:,.0f} bits. This is not a comparison of codes at equal bits: no contender but "
        f"Murmur uploads more than nothing and fewer than {least:,.0f} bits. Devices that upload "
        f"nothing reach {alone.devices.mean:.1f} %.",
        README_WIDTH,
    )


def relayed(rows: Sequence[HeadlineRow], runs: Sequence[Mapping[str, float]], key: str) -> str:
    """What a contender receives if devices take the server's steps themselves, and what they reach;
    ``runs`` are those with a relay, one for each seed."""
    before = next(one.from_edges for one in rows if f"{one.key}{FROM_EDGES}" == key)
    assert before is not None
    down = spread([run["down"] for run in runs]).mean
    reached = spread([100 * run["mean"] for run in runs]).mean
    full = next(one.link for one in rows if one.key == "fl8")
    slow, few = (_seconds(point) for point in (full, before))
    planned = link_cost(before.cell).seconds
    return paragraph(
        f"In these runs the server broadcasts weights. Devices can also apply the server's steps "
        f"themselves, from relayed uploads: {before.contender.title}, then receives {down:,.0f} "
        f"bits instead of {before.bits_down:,.0f} and reaches {reached:.1f} % "
        f"([both directions](docs/downlink.md)). It uploads {full.bits / before.bits:,.0f} times "
        f"fewer bits than {full.contender.title}; that saves a factor of {slow / few:.1f} in time "
        f"on the air if weights are broadcast, and of {slow / planned:.0f} (planned) if steps are.",
        README_WIDTH,
    )


def _seconds(point: FrontierPoint) -> float:
    """On the air, in all rounds."""
    return float(point.cell.values("summary", "seconds", "communication").mean())


def _from_edges(one: HeadlineRow) -> FrontierPoint:
    assert one.from_edges is not None
    return one.from_edges


def _tuned(one: HeadlineRow) -> FrontierPoint:
    assert one.tuned is not None
    return one.tuned


def _after(cell: CellRecord, rounds: int) -> float:
    """Mean accuracy of the devices after so many rounds, in per cent."""
    return spread([100 * run["rounds"]["mean"][rounds - 1] for run in cell.runs]).mean


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"
