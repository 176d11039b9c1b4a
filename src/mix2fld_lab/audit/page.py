"""The page about privacy, written from the records of audits alone."""

from collections.abc import Mapping, Sequence
from typing import Any

from mix2fld.data.partition import OF_SOURCES
from mix2fld.protocols.guarantees import EVERYTHING
from mix2fld.report.markdown import markdown_table
from mix2fld_lab.audit import page_text as text
from mix2fld_lab.audit.effort import audit_command
from mix2fld_lab.audit.findings import KINDS, Stages, matching
from mix2fld_lab.audit.page_tables import (
    averages_table,
    budget_table,
    inversion_table,
    known_others_table,
    lira_table,
    membership_table,
    number,
    percent,
    recurring_table,
    rounds_table,
    separation_table,
)
from mix2fld_lab.audit.reference import reference_table
from mix2fld_lab.audit.sections import Record, Row, Section, sections

ATTACKS = {
    "seeds/mixed/.*": ("Inverse-Mixup undone", text.INVERSION, inversion_table),
    "seeds/.*": ("Membership in seeds", text.SEEDS, membership_table),
    "(recovery|foreign)/.*": ("Separation", text.SEPARATION, separation_table),
    "recurring/.*": ("Samples that recur", text.RECURRING, recurring_table),
    "averages/.*": ("Averages without noise", text.AVERAGES, averages_table),
    "uploads/.*": ("Membership in weights and outputs", text.LIRA, lira_table),
    "rounds/.*": ("Several rounds together", text.ROUNDS, rounds_table),
    "noise/.*": ("Who knows all other samples", text.NOISE, known_others_table),
}
"""Title, paragraph and table of each attack, by the stages that it needs."""
EXPLANATIONS = {paragraph for _, paragraph, _ in ATTACKS.values()} | {text.BUDGETS}
"""What the page says once."""


def privacy_page(records: Mapping[str, Record]) -> str:
    """The whole page; every figure is from a record."""
    parts = [text.HEAD.format(names=" ".join(records))]
    found, explained = sections(records), set[str]()
    for section in found:
        parts += [f"## {section.dataset}", _settings(section), _missing(section.stages)]
        parts.append(protocol_table(section))
        attacks = attack_parts(section.stages)
        if matching(section.stages, "budget/.*"):
            attacks += ["### What a budget costs", text.BUDGETS, budget_table(section)]
        compared = reference_table(section)
        if compared:
            attacks += ["### Against known figures", text.REFERENCE, compared]
        parts += [part for part in attacks if part not in explained]
        explained.update(part for part in attacks if part in EXPLANATIONS)
    parts += [text.conclude(found), text.NOT_TRIED]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def attack_parts(stages: Stages) -> list[str]:
    """Each attack in a paragraph, with its table."""
    found = []
    for pattern, (title, paragraph, table) in ATTACKS.items():
        if matching(stages, pattern):
            found += [f"### {title}", paragraph, table(stages)]
    return found


def _settings(section: Section) -> str:
    """What was attacked, one line for each record."""
    first = section.records[0]["about"]["config"]
    data, seeding = first["data"], first["seeding"]
    each = f" with {data['samples_per_device']} samples each"
    held = "" if data["partition"] in OF_SOURCES else each
    devices = (
        f"{data['devices']} devices{held}, partition {data['partition']}, "
        f"K = {first['learning']['local_steps']:,} local steps, "
        f"N_S = {seeding['seed_samples']}, {seeding['seed_bits']}-bit seeds."
    )
    made = [
        f"- {_effort(record)}: `{audit_command(record, path)}`"
        for path, record in zip(section.paths, section.records, strict=True)
    ]
    return "\n".join([devices, "", *made])


def _effort(record: Record) -> str:
    config, effort = record["about"]["config"], record["about"]["effort"]
    begun = {name.split("/")[0] for name in record["stages"]}
    kinds = [what for kind, what in KINDS.items() if kind in begun]
    seeds = {
        int(part[1:]) for name in record["stages"] for part in name.split("/") if _is_seed(part)
    }
    said = f"{_listed(kinds)}: seeds of the runs {_listed(sorted(seeds))}"
    if begun & {"uploads", "rounds", "seeds"}:
        attacked = min(effort["devices"], config["data"]["devices"])
        said += f", {attacked} devices attacked, {effort['outsiders']:,} outsiders"
    if begun & {"uploads", "rounds"}:
        said += f", {effort['shadows']} shadow models for each"
    if begun & {"recovery", "foreign"}:
        said += f", {effort['separator_steps']:,} steps of the separation network"
    if begun & {"accuracy", "budget"}:
        said += f", {effort['rounds']} rounds, all delivered"
    if config["updates"]["update_bits"] != "auto":
        said += f", Murmur with {config['updates']['update_bits']} bits an upload"
    return said


def _is_seed(part: str) -> bool:
    """Whether a part of a stage's name says which run it is of."""
    return part[:1] == "s" and part[1:].isdigit()


def _missing(stages: Stages) -> str:
    """Which kinds of stages no record of the dataset holds."""
    begun = {name.split("/")[0] for name in stages}
    kinds = [what for kind, what in KINDS.items() if kind not in begun]
    return f"Not in these records: {_listed(kinds)}." if kinds else ""


def _listed(values: Sequence[Any]) -> str:
    return ", ".join(map(str, values))


def protocol_table(section: Section) -> str:
    """Protocols by leaks, accuracy and bits."""
    cells = [
        (
            row.title, leak_words(row), number(row.accuracy, 100), number(row.uplink_bits, 1e-3),
            str(row.runs),
        )
        for row in section.rows()
    ]  # fmt: skip
    rounds = section.records[0]["about"]["effort"]["rounds"]
    heads = (
        "protocol",
        "share of a device's samples found at 0.1 % false positives",
        f"mean device accuracy after {rounds} rounds, %",
        "uplink of a device, kbit",
        "runs",
    )
    return markdown_table(heads, cells)


def leak_words(row: Row) -> str:
    """What the uploads of a protocol give away, or what is guaranteed about them."""
    if not row.sends:
        return "nothing is sent"
    said = [f"{kind} {percent(share)}" for kind, share in row.leaks.items()]
    if row.guarantee is not None:
        budget = f"ε = {row.guarantee.epsilon:g}, δ = {row.guarantee.delta:g}"
        whole = " for a whole device" if row.guarantee.protects == EVERYTHING else ""
        said.insert(0, f"guaranteed: {budget}{whole}")
    if row.known_others.of:
        said.append(f"knowing all other samples {percent(row.known_others)}")
    return "; ".join(said) or "not attacked"
