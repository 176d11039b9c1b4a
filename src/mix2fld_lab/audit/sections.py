"""Records of one dataset taken together, and what each protocol leaks, reaches and uploads."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from mix2fld.base.accounting import Guarantee
from mix2fld.base.errors import InputError
from mix2fld.config.grid import Grid
from mix2fld.config.settings import Config
from mix2fld.protocols.table import PROTOCOLS, as_spelled, get_protocol, guarantee_of, split_name
from mix2fld.runs.old_formats import with_rates_as_used
from mix2fld_lab.attacks.rates import Share
from mix2fld_lab.audit.findings import LOW, Stages, leak_of, matching, mean, pooled

Record = dict[str, Any]
SAME = ("data", "learning")
"""Parts of the config in which all records of a section agree."""


class Row(NamedTuple):
    """What is known of one protocol."""

    name: str
    title: str
    sends: bool
    leaks: dict[str, Share]  # of a device's samples, by upload
    guarantee: Guarantee | None
    known_others: Share  # found by an attacker who knows all samples but one
    accuracy: float | None
    uplink_bits: float | None  # of one device, all rounds
    runs: int


@dataclass(frozen=True)
class AuditSection:
    """All records of one dataset, with the same devices and training."""

    dataset: str
    records: tuple[Record, ...]
    paths: tuple[str, ...]

    @cached_property
    def stages(self) -> Stages:
        """The stages of all records; none is in two of them."""
        found: dict[str, Any] = {}
        for record in self.records:
            for name, stage in record["stages"].items():
                if name in found:
                    raise InputError(
                        field="records", hint=f"two of {self.dataset} hold {name}; give one of them"
                    )
                found[name] = stage
        return found

    @cached_property
    def protocols(self) -> list[str]:
        """Those of all records, in the order of the table."""
        named = {name for record in self.records for name in record["about"]["config"]["protocols"]}
        order = list(PROTOCOLS)
        return sorted(named, key=lambda name: (order.index(split_name(name)[0]), name))

    def config_of(self, protocol: str) -> Config:
        """The settings that the accuracy of a protocol was measured with, if it was."""
        naming = [r for r in self.records if protocol in r["about"]["config"]["protocols"]]
        measured = [r for r in naming if matching(r["stages"], rf"accuracy/{protocol}/s\d+")]
        grid = Grid(**with_rates_as_used((measured or naming)[0]["about"]["config"]))
        return as_spelled(grid.at(protocol))

    def rows(self) -> list[Row]:
        """Every protocol of the records."""
        return [self._row(name) for name in self.protocols]

    def _row(self, name: str) -> Row:
        protocol, stages, config = get_protocol(name), self.stages, self.config_of(name)
        where = rf"accuracy/{name}/s\d+"
        ratio = ",".join(f"{value:g}" for value in config.seeding.mixing_ratio)
        return Row(
            name,
            protocol.title,
            protocol.once is not None or bool(protocol.promise or protocol.upload_kind),
            {kind: share for kind, share in leak_of(stages, name, ratio).items() if share.of},
            guarantee_of(config),
            pooled(stages, rf"noise/{name}/s\d+", LOW, "true"),
            mean(stages, where, "accuracy"),
            mean(stages, where, "uplink_bits"),
            len(matching(stages, where)),
        )


def sections(records: Mapping[str, Record]) -> list[AuditSection]:
    """Records by dataset and by what devices hold and train, in the order of their first ones."""
    groups: dict[str, dict[str, Record]] = {}
    first: dict[str, tuple[str, Record]] = {}
    for path, record in records.items():
        about = record["about"]
        dataset = about["config"]["data"]["dataset"]
        known_path, known = first.setdefault(dataset, (path, about))
        if known["data"] != about["data"]:
            raise InputError(
                field="records",
                hint=f"{path} and {known_path} name {dataset}, but their samples differ; make "
                "a page of its own for one of them",
            )
        groups.setdefault(_title(dataset, known["config"], about["config"]), {})[path] = record
    return [
        AuditSection(name, tuple(found.values()), tuple(found)) for name, found in groups.items()
    ]


def _title(dataset: str, first: Record, other: Record) -> str:
    """The dataset, and by which settings its devices are not those of its first record."""
    differing = [
        f"{name.replace('_', ' ')} {value}"
        for part in SAME
        for name, value in other[part].items()
        if value != first[part].get(name)
    ]
    return ", ".join([dataset, *differing])
