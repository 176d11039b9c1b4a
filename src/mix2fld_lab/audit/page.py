"""The page about privacy, written from the records of audits alone."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mix2fld.advice.reveals import seen_of
from mix2fld.data.partition import OF_SOURCES
from mix2fld_lab.audit.conclusions import conclude, key_findings
from mix2fld_lab.audit.effort import audit_command
from mix2fld_lab.audit.findings import KINDS, Stages, matching
from mix2fld_lab.audit.page_tables import (
    averages_table,
    budget_table,
    inversion_table,
    known_others_table,
    leak_words,
    lira_table,
    membership_table,
    number,
    own_samples,
    recurring_table,
    rounds_table,
    separation_table,
)
from mix2fld_lab.audit.reference import reference_table
from mix2fld_lab.audit.sections import AuditSection, Record, sections
from mix2fld_lab.made_with import said_of
from mix2fld_lab.markdown import markdown_table
from mix2fld_lab.pages import render
from mix2fld_lab.trainings import titled

ATTACKS = {
    each.__name__: each
    for each in (
        inversion_table, membership_table, separation_table, recurring_table, averages_table,
        lira_table, rounds_table, known_others_table,
    )
}  # fmt: skip
TEMPLATE = Path(__file__).parent / "templates" / "privacy.md.j2"


def privacy_page(records: Mapping[str, Record]) -> str:
    """The whole page; every figure is from a record."""
    return render(
        TEMPLATE,
        names=" ".join(records),
        found=sections(records),
        explained=set(),
        settings=_settings,
        missing=_missing,
        matching=matching,
        protocol_table=protocol_table,
        budget_table=budget_table,
        reference_table=reference_table,
        conclude=conclude,
        key_findings=key_findings,
        **ATTACKS,
    )


def draw_privacy_figure(records: Mapping[str, Record], path: Path) -> None:
    """The figure of the page, from the records of the first dataset."""
    from mix2fld_lab.audit.figure import draw_leaks

    draw_leaks(sections(records)[0], path)


def _settings(section: AuditSection) -> str:
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
    return "\n".join([devices, "", *made, "", said_of(*section.records)])


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


def protocol_table(section: AuditSection) -> str:
    """Protocols by what they reveal, leaks, accuracy and bits."""
    cells = [
        (
            titled(row.name), seen_of(section.config_of(row.name)) or "nothing",
            own_samples(section, row), leak_words(row), number(row.accuracy, 100),
            number(row.uplink_bits, 1e-3), str(row.runs),
        )
        for row in section.rows()
    ]  # fmt: skip
    rounds = section.records[0]["about"]["effort"]["rounds"]
    heads = (
        "protocol",
        "reveals nothing beyond",
        "the sample itself",
        "share of a device's samples found at 0.1 % false positives",
        f"mean device accuracy after {rounds} rounds, %",
        "uplink of a device, kbit",
        "runs",
    )
    return markdown_table(heads, cells)
