"""Uploads that are added under masks: values as whole numbers, and what their sum is taken for."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.codecs import Addends, Encoded, PayloadError, WholeNumbers
from mix2fld.protocols.lateness import Lateness
from mix2fld.protocols.parts import Turn

if TYPE_CHECKING:
    from mix2fld.config.settings import Config
    from mix2fld.protocols.base import Protocol

MOST_BITS = 32
NOISE_BITS = 1
"""So that noise on whole numbers hardly ever wraps around."""


def sum_threshold(config: "Config") -> int:
    """How many devices a sum needs, at least."""
    given = config.privacy.sum_threshold
    return auto_threshold(config.participants_per_round) if given == "auto" else given


def auto_threshold(devices: int) -> int:
    """Two thirds, rounded up, and more than half."""
    return max(-(-2 * devices // 3), devices // 2 + 1)


class MaskedSums:
    """What devices of a run add, and how."""

    def __init__(self, protocol: "Protocol", policy: Lateness) -> None:
        self._protocol, config = protocol, protocol.config
        asked = config.participants_per_round
        self.members = int(min(asked, policy.enough(asked))) if policy.uses_late else asked
        """Devices in a sum, at most."""
        _check(protocol, config, policy, self.members)
        given = config.privacy.sum_threshold
        self.threshold = auto_threshold(self.members) if given == "auto" else given
        bits = (2 * self.members * protocol.grid.largest).bit_length()
        bits += NOISE_BITS * protocol.trusted_sum
        if bits > MOST_BITS:
            raise InputError(
                field="sum_bits",
                value=config.privacy.sum_bits,
                hint=f"sums of {self.members:,} devices take {bits} bits, and at most {MOST_BITS} "
                "are added; must be fewer",
            )
        self.codec = WholeNumbers(protocol.counts, bits)

    def addends(self, value: Any) -> Addends | None:
        """The values of an upload in steps of the grid."""
        due = self._protocol.to_add(value)
        if due is None:
            return None
        kind, values = due
        step, largest = self._protocol.grid
        if values.dtype.kind == "f":
            values = np.clip(np.rint(values.astype(np.float64) / step), -largest, largest)
        return Addends(kind, self.codec.wrapped(values.astype(np.int64)))

    def held(self, kind: bytes) -> Encoded:
        """An upload of which a device has told the kind alone: its numbers come under masks."""
        kinds = {bytes([n]): count for n, count in enumerate(self.codec.counts)}
        if kind and kind not in kinds:
            raise PayloadError(f"{self.codec.name}: kind {kind[:4].hex()}, which no upload has")
        return Encoded(kind, self.codec.bits_of(kinds[kind]) if kind else 0)

    def read(self, addends: Addends | None, turn: Turn) -> Any:
        """What a device takes its own upload for."""
        return None if addends is None else self.read_sum(*addends, 1, turn)

    def read_sum(self, kind: int, total: NDArray[np.uint32], devices: int, turn: Turn) -> Any:
        """What the server takes a sum of so many devices for."""
        values = self._protocol.grid.step * self.codec.signed(total).astype(np.float64)
        return self._protocol.from_added(kind, values, devices, turn)


def _check(protocol: "Protocol", config: "Config", policy: Lateness, members: int) -> None:
    """Refuse what has no meaning under masks."""

    def refuse(field: str, value: object, hint: str) -> InputError:
        return InputError(field=field, value=value, hint=f"{hint}, with sums = masked")

    given = config.privacy.sum_threshold
    if not protocol.adds_codes or protocol.once is not None:
        raise InputError(
            field="sums",
            value="masked",
            hint=f"a sum of the codes of {protocol.title} has no meaning; choose fl, projected, "
            "vote, dp-sum or dp-seeds-sum, or open sums",
        )
    if given != "auto" and not members < 2 * given <= 2 * members:
        hint = f"must be more than half of the {members} devices of a sum, and at most all of them"
        raise refuse("sum_threshold", given, hint)
    if members < 2:
        raise refuse("participants", members, "must be at least 2 devices in a sum")
    if config.defence.aggregation != "mean":
        hint = "needs single uploads, which nobody sees; must be mean"
        raise refuse("aggregation", config.defence.aggregation, hint)
    if config.defence.sample_weights != "ignored" and not protocol.trusted_sum:
        hint = "all devices of a sum count alike; must be ignored"
        raise refuse("sample_weights", config.defence.sample_weights, hint)
    if policy.uses_late and not protocol.same_in_all_rounds:
        hint = f"{protocol.title} sends other directions in each round; must be all, or share=1"
        raise refuse("wait", config.availability.wait, hint)
    if config.updates.downlink in ("auto", "relay"):
        hint = "uploads that nobody reads cannot be relayed; must be weights, coded or default"
        raise refuse("downlink", config.updates.downlink, hint)


def check_masked(config: "Config") -> None:
    """Refuse what of a run, beside what devices know of it, has no meaning under masks."""
    attack, link = config.attack.attack, config.channel.link
    if config.privacy.sums == "masked" and attack != "none":
        hint = "is of single uploads; must be none, with sums = masked"
        raise InputError(field="attack", value=attack, hint=hint)
    if config.privacy.sums == "masked" and link == "air":
        hint = "adds signals, not numbers; must be another, with sums = masked"
        raise InputError(field="link", value=link, hint=hint)
