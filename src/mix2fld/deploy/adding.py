"""Masked sums of devices at the other end of a network: four exchanges, each with those left."""

import secrets
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

import numpy as np

from mix2fld.codecs.bits import from_bits
from mix2fld.deploy.diary import Say, one_line
from mix2fld.deploy.edge.adding import KEYS, NUMBERS, REVEAL, SHARES, place_of, survivors_of
from mix2fld.deploy.edge.messages import Answer, MessageError, Refused, SumAnswer, SumOrder
from mix2fld.engine.masked_sums import PartialSum, Total
from mix2fld.masking.collector import Collector
from mix2fld.masking.party import ADVERT_BYTES, SEALED_BYTES, Terms, pack_parts, unpack_parts
from mix2fld.masking.shamir import SHARE_BYTES, MaskError
from mix2fld.protocols.masked import MaskedSums

Refuse = Callable[[int, int, str], None]
HearSum = Callable[[int, Answer | MessageError], None]


class AskSums(Protocol):
    """Sends devices a step of a sum, and hears who answers it before the time is over."""

    def ask_sum(self, round_number: int, orders: Mapping[int, SumOrder], hear: HearSum, /) -> None:
        """Devices that lost their connection or were restarted: they will not answer."""


class RoundsAlone:
    """Of a transport without masked sums and late uploads: its settings refuse them."""

    def ask_sum(self, *asked: object) -> None:
        """Never called."""
        raise NotImplementedError(f"masked sums of {type(self).__name__}: {len(asked)}")

    def gather(self, *asked: object) -> None:
        """Never called."""
        raise NotImplementedError(f"late uploads of {type(self).__name__}: {len(asked)}")


class RemoteSum:
    """One sum, which is tried from the beginning if the transport is lost."""

    def __init__(
        self, nodes: AskSums, run: str, masks: MaskedSums, part: PartialSum, refuse: Refuse,
        say: Say,
    ) -> None:  # fmt: skip
        self._nodes, self._run, self._masks, self._part = nodes, run, masks, part
        self._refuse, self._say, self._place = refuse, say, secrets.token_bytes(8)

    def add_up(self) -> Total | None:
        """The sum of those that take part to the end; None if these are too few."""
        part, masks = self._part, self._masks
        place = place_of(self._run, self._place, part.number)
        collector = Collector(Terms(place, masks.threshold, masks.codec.bits))
        count = masks.codec.counts[part.kind]

        def keys(device: int, data: bytes) -> None:
            if len(data) != ADVERT_BYTES:
                raise MaskError(f"keys of {len(data)} bytes; must be {ADVERT_BYTES}")
            collector.adverts[device] = data

        def shares(device: int, data: bytes) -> None:
            collector.take_shares(device, unpack_parts(data, SEALED_BYTES))

        def numbers(device: int, data: bytes) -> None:
            bits = count * masks.codec.bits
            if len(data) != -(-bits // 8):
                raise MaskError(f"{len(data)} bytes of numbers; must be {-(-bits // 8)}")
            read = np.unpackbits(np.frombuffer(data, np.uint8), count=bits)
            collector.masked[device] = from_bits(read, masks.codec.bits, count)

        self._ask(KEYS, dict.fromkeys(sorted(part.messages), b""), keys)
        if self._too_few(collector.adverts, "sent their keys"):
            return None
        told = pack_parts(collector.adverts)
        self._ask(SHARES, dict.fromkeys(sorted(collector.adverts), told), shares)
        members = collector.members
        if self._too_few(members, "sent their shares"):
            return None
        sealed = {device: pack_parts(collector.sealed_for(device)) for device in members}
        self._ask(NUMBERS, sealed, numbers)
        arrived = sorted(collector.masked.keys() & set(part.arrived))
        if self._too_few(arrived, "sent their numbers"):
            return None
        return self._unmask(collector, arrived)

    def _unmask(self, collector: Collector, arrived: list[int]) -> Total | None:
        revealed: dict[int, Mapping[int, bytes]] = {}

        def reveal(device: int, data: bytes) -> None:
            shares = unpack_parts(data, SHARE_BYTES)
            if sorted(shares) != collector.members:
                raise MaskError("shares that are not one of each device")
            revealed[device] = shares

        self._ask(REVEAL, dict.fromkeys(arrived, survivors_of(arrived)), reveal)
        try:
            return Total(collector.total(arrived, revealed), frozenset(arrived))
        except MaskError as error:
            self._say(f"round {self._part.number}: no sum: {error}")
            return None

    def _too_few(self, left: Collection[int], did: str) -> bool:
        needed = self._masks.threshold
        if len(left) < needed:
            words = f"{len(left)} of at least {needed} devices {did}"
            self._say(f"round {self._part.number}: no sum: {words}")
        return len(left) < needed

    def _ask(
        self, step: int, told: Mapping[int, bytes], take: Callable[[int, bytes], None]
    ) -> None:
        number = self._part.number
        orders = {
            device: SumOrder(self._run, number, step, self._place, data)
            for device, data in told.items()
        }

        def hear(device: int, reply: Answer | MessageError) -> None:
            if isinstance(reply, Refused):
                self._refuse(device, number, f"it says: {one_line(reply.reason)}")
            elif isinstance(reply, SumAnswer):
                try:
                    take(device, reply.data)
                except MaskError as error:
                    self._refuse(device, number, str(error))
            else:
                self._refuse(device, number, str(reply))

        self._nodes.ask_sum(number, orders, hear)
