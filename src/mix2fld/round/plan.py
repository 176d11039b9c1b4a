"""What a link means for each protocol, worked out before anything runs."""

from dataclasses import asdict, dataclass
from typing import Any

from mix2fld.config import Config
from mix2fld.data import dataset_sizes
from mix2fld.learning.task import Task, make_task
from mix2fld.link import Budget, Direction, Link, budget, make_link
from mix2fld.protocol import Protocol, get_protocol
from mix2fld.round.wire import download_bits, upload_bits


@dataclass(frozen=True)
class PlannedTransfer:
    """One kind of transfer of a protocol, with its closed-form budget."""

    protocol: str
    transfer: str  # upload, first upload, later uploads, download
    budget: Budget

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"protocol": self.protocol, "transfer": self.transfer, **asdict(self.budget)}

    @property
    def problem(self) -> str | None:
        """Why this transfer can never succeed, if it cannot."""
        plan = self.budget
        if plan.fits:
            return None
        return (
            f"{get_protocol(self.protocol).title}: {self.transfer} of {plan.bits:,} bits needs "
            f"{plan.slots_needed:,} slots, max_slots is {plan.max_slots:,}: it never arrives"
        )


def plan_link(config: Config) -> list[PlannedTransfer]:
    """Every transfer of every protocol of a config; needs no data, only the dataset's sizes."""
    sample_shape, num_labels = dataset_sizes(config.data)
    task = make_task(config, sample_shape, num_labels)
    link = make_link(config.channel, config.data.devices)
    return [plan for name in config.protocols for plan in plan_transfers(name, task, link)]


def plan_transfers(name: str, task: Task, link: Link) -> list[PlannedTransfer]:
    """Every kind of transfer that the protocol makes over this link."""
    protocol = get_protocol(name)
    devices = task.config.data.devices

    def planned(transfer: str, direction: Direction, bits: int) -> PlannedTransfer:
        return PlannedTransfer(name, transfer, budget(link, direction, bits, devices))

    down = download_bits(protocol, task)
    return [
        *(planned(kind, "uplink", bits) for kind, bits in _uploads(protocol, task)),
        *([planned("download", "downlink", down)] if down else []),
    ]


def _uploads(protocol: Protocol, task: Task) -> list[tuple[str, int]]:
    plain = upload_bits(protocol, task, with_seeds=False)
    first = upload_bits(protocol, task, with_seeds=True)
    if not plain:
        return []
    if first == plain:
        return [("upload", plain)]
    return [("first upload", first), ("later uploads", plain)]
