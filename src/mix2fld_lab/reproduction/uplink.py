"""What an upload costs in bits, from the records of FL, FD and Mix2FLD."""

from dataclasses import dataclass

from mix2fld_lab.reproduction.evidence import SMALL_PAIR, SYMMETRIC, Evidence

UPDATES = 10
"""Over how many updates the paper spreads the seeds."""


@dataclass(frozen=True)
class UplinkPayloads:
    """Bits of FL's weights, of Mix2FLD's outputs, and of the seeds that a device uploads once."""

    weights: float
    outputs: float
    seeds: float

    @property
    def ratio(self) -> float:
        """How many times smaller Mix2FLD's upload is than FL's."""
        return self.weights / (self.outputs + self.seeds / UPDATES)


def uplink_payloads(evidence: Evidence, pair: str = SMALL_PAIR) -> UplinkPayloads:
    """With the seeds of this Mix2FLD, in the channel in which everything arrives at once."""
    fl, fd, ours = (evidence.at(SYMMETRIC[0], name) for name in ("fl", "fd", pair))
    bits, uploads = ("bits", "up"), ("uploads", "attempted")
    outputs = fd.total("summary", *bits) / fd.total("summary", *uploads)
    seeds = ours.total("summary", *bits) - outputs * ours.total("summary", *uploads)
    return UplinkPayloads(
        weights=fl.total("summary", *bits) / fl.total("summary", *uploads),
        outputs=outputs,
        seeds=seeds / (ours.devices * len(ours.runs)),
    )
