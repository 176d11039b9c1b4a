"""A device's steps of masked sums: its keys live in this process alone, and only for one sum.

Who is killed in the middle of a sum has lost them, and is left out of it. A device keeps on its
disk in whose sum the numbers of a round are: they are in no other, or the server could tell from
both what they are.
"""

import secrets
from collections.abc import Callable

import numpy as np

from mix2fld.base.errors import InputError
from mix2fld.codecs import Encoded
from mix2fld.codecs.bits import to_bits
from mix2fld.deploy.edge.messages import MessageError, SumAnswer, SumOrder
from mix2fld.deploy.edge.store import Store
from mix2fld.engine.messages import Message
from mix2fld.engine.wire import Wire
from mix2fld.masking.party import (
    ADVERT_BYTES,
    NUMBER_BYTES,
    SEALED_BYTES,
    Party,
    Terms,
    pack_parts,
    unpack_parts,
)
from mix2fld.masking.shamir import MaskError
from mix2fld.protocols.table import get_protocol
from mix2fld.tasks.learning import Learning

KEYS, SHARES, NUMBERS, REVEAL = range(4)


class Adding:
    """The sum that a device takes part in."""

    def __init__(self, device: int) -> None:
        self._device = device
        self._place = b""
        self._party: Party | None = None
        self._wire: Wire | None = None
        self._given: dict[tuple[int, bytes], bytes] = {}

    def answer(self, order: SumOrder, store: Store, learn: Callable[[], Learning]) -> SumAnswer:
        """What is asked for; raises ``MessageError`` if it is not this device's to give."""
        try:
            asked = order.step, order.data
            if order.place != self._place or asked not in self._given:
                data = self._step(order, store, learn)
                self._given[asked] = data
            data = self._given[asked]
        except MaskError as error:
            raise MessageError(f"masked sum: {error}") from None
        return SumAnswer(order.run, order.round, order.step, order.place, data)

    def _step(self, order: SumOrder, store: Store, learn: Callable[[], Learning]) -> bytes:
        if order.step == KEYS and (self._party is None or order.place != self._place):
            self._begin(order, learn())
        if self._party is None or self._wire is None or order.place != self._place:
            raise MaskError("its keys are gone: it was started again")
        match order.step:
            case 0:
                return self._party.advert()
            case 1:
                return pack_parts(self._party.shares(unpack_parts(order.data, ADVERT_BYTES)))
            case 2:
                return self._numbers(self._party, self._wire, order, store)
            case _:
                return self._reveal(self._party, order, store)

    def _begin(self, order: SumOrder, learning: Learning) -> None:
        self._wire = Wire(get_protocol(learning.config.protocol), learning)
        masks = self._wire.masks
        if masks is None:
            raise MaskError("sums are open in this run")
        place = place_of(order.run, order.place, order.round)
        terms = Terms(place, masks.threshold, masks.codec.bits)
        self._party, self._place = Party(self._device, terms, secrets.token_bytes(32)), order.place
        self._given = {}

    def _numbers(self, party: Party, wire: Wire, order: SumOrder, store: Store) -> bytes:
        own = store.addends()
        if own is None or wire.masks is None:
            raise MaskError("it has no numbers to add")
        number, data = own
        message = Message(self._device, number, Encoded(data, 8 * len(data)))
        numbers = wire.addends_in(message).numbers
        masked = party.masked(numbers, unpack_parts(order.data, SEALED_BYTES))
        return np.packbits(to_bits(masked, wire.masks.codec.bits)).tobytes()

    def _reveal(self, party: Party, order: SumOrder, store: Store) -> bytes:
        own, survivors = store.addends(), unpack_parts(order.data, 0)
        if own is None:
            raise MaskError("it has no numbers to add")
        found = party.reveal(survivors)
        try:
            if not store.keep_revealed(own[0], order.data):
                raise MaskError("its numbers were in a sum of other devices before")
        except InputError as error:
            raise MaskError(str(error)) from None
        return pack_parts(found)


def place_of(run: str, place: bytes, round_number: int) -> bytes:
    """Which sum it is: what is sealed for one opens in no other."""
    return b"%b %b %d" % (run.encode(), place, round_number)


def survivors_of(devices: list[int]) -> bytes:
    """The numbers of devices, as the last step of a sum names them."""
    return b"".join(device.to_bytes(NUMBER_BYTES, "little") for device in sorted(devices))
