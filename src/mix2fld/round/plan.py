"""What a link means for each protocol, worked out before anything runs."""

from dataclasses import asdict, dataclass
from typing import Any

from mix2fld.learning.task import Sizes
from mix2fld.link import Budget, Direction, Link, Size
from mix2fld.protocol import get_protocol
from mix2fld.round.wire import Wire


@dataclass(frozen=True)
class PlannedTransfer:
    """One kind of transfer of a protocol, with its budget."""

    protocol: str
    transfer: str  # upload, first upload, later uploads, and the same of downloads
    size: Size
    budget: Budget

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        named = {"protocol": self.protocol, "transfer": self.transfer}
        return {**named, **asdict(self.budget), "exact_bits": self.size.exact}

    @property
    def problem(self) -> str | None:
        """Why this transfer can never succeed, if it cannot."""
        plan, title = self.budget, get_protocol(self.protocol).title
        if plan.fits:
            return None
        what = f"{title}: {self.transfer} of {self.size} bits"
        if plan.slots_needed is None:
            return f"{what} did not arrive in any of {plan.draws:,} simulated transmissions"
        never = "it never arrives" if self.size.exact else "the largest never arrives"
        return f"{what} needs {plan.slots_needed:,} slots, max_slots is {plan.max_slots:,}: {never}"


def plan_transfers(name: str, sizes: Sizes, link: Link) -> list[PlannedTransfer]:
    """Every kind of transfer that the protocol makes over this link, by all participants."""
    wire = Wire(get_protocol(name), sizes)
    devices = sizes.config.participants_per_round

    def planned(transfer: str, direction: Direction, size: Size) -> PlannedTransfer:
        return PlannedTransfer(name, transfer, size, link.budget(direction, size.bits, devices))

    return [
        *(planned(kind, "uplink", size) for kind, size in _uploads(wire)),
        *(planned(kind, "downlink", size) for kind, size in _downloads(wire)),
    ]


def _uploads(wire: Wire) -> list[tuple[str, Size]]:
    plain, first = wire.upload_size(with_seeds=False), wire.upload_size(with_seeds=True)
    if not plain.bits:
        return []
    if first == plain:
        return [("upload", plain)]
    return [("first upload", first), ("later uploads", plain)]


def _downloads(wire: Wire) -> list[tuple[str, Size]]:
    plain, first = wire.download_size(with_seeds=False), wire.download_size()
    if not plain.bits:
        return []
    if first == plain:
        return [("download", plain)]
    return [("first download", first), ("later downloads", plain)]
