"""The device's half of a masked sum: four answers, each given once.

A device tells others its keys (1), seals shares of its two secrets for them (2), sends its numbers
under masks (3), and tells the server which masks do not cancel (4): of a device whose numbers
arrived its own mask, of one whose numbers did not its key, and never both.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from mix2fld.masking.keys import KEY_BYTES, TAG_BYTES, Words, crypto, mask_of, opened
from mix2fld.masking.shamir import SECRET_BYTES, SHARE_BYTES, MaskError, split

ADVERT_BYTES = 2 * KEY_BYTES
SEALED_BYTES = 2 * SHARE_BYTES + TAG_BYTES
NUMBER_BYTES = 4


class Terms(NamedTuple):
    """What all parties of a sum agree on."""

    place: bytes
    """Which sum it is: what was said in another one is worth nothing here."""
    threshold: int
    """So many devices can recover a mask, and as many numbers must be in the sum."""
    bits: int
    """Numbers are added modulo 2^bits."""


class Overhead(NamedTuple):
    """Bits that a masked sum takes beside the numbers themselves, of one device."""

    up: int = 0
    down: int = 0

    @classmethod
    def of(cls, members: int) -> "Overhead":
        """Keys, shares and what is revealed, where so many devices take part and none is lost."""
        others = members - 1
        up = ADVERT_BYTES + others * (NUMBER_BYTES + SEALED_BYTES)
        up += members * (NUMBER_BYTES + SHARE_BYTES)
        down = members * (NUMBER_BYTES + ADVERT_BYTES) + others * (NUMBER_BYTES + SEALED_BYTES)
        return cls(8 * up, 8 * (down + members * NUMBER_BYTES))


class Party:
    """One device in one sum, from 32 secret random bytes."""

    def __init__(self, device: int, terms: Terms, secret: bytes) -> None:
        self._device, self._terms, self._made = device, terms, crypto()
        self._coefficients = self._of(secret, b"coefficients")
        self._sealing = self._of(secret, b"sealing")
        self._masking = self._of(secret, b"masking")[:SECRET_BYTES]
        self._own = self._of(secret, b"own mask")[:SECRET_BYTES]
        self._adverts: dict[int, bytes] = {}
        self._keys: dict[int, bytes] = {}
        self._shares: dict[int, tuple[bytes, bytes]] = {}
        self._revealed: frozenset[int] | None = None

    def advert(self) -> bytes:
        """Its public keys: one to seal for it, one to agree on masks with it."""
        public = self._made.public_key
        return bytes(public(self._sealing) + public(masking_key(self._masking)))

    def shares(self, adverts: Mapping[int, bytes]) -> dict[int, bytes]:
        """A share of both secrets for each of the others, sealed."""
        threshold, others = self._terms.threshold, sorted(adverts.keys() - {self._device})
        if adverts.get(self._device) != self.advert() or len(adverts) < threshold:
            raise MaskError(f"keys of {len(adverts)} devices, with its own; {threshold} are needed")
        if self._adverts and self._adverts != dict(adverts):
            raise MaskError("other keys than before")
        self._adverts = dict(adverts)
        first = self._split(self._masking, b"masking")
        second = self._split(self._own, b"own mask")
        self._shares[self._device] = first[self._device], second[self._device]
        seal, own = self._made.seal, self._device
        return {
            other: seal(self._sealing_key(other), first[other] + second[other], self._place, own)
            for other in others
        }

    def masked(self, numbers: Words, sealed: Mapping[int, bytes]) -> Words:
        """Its numbers, with a mask of its own and one for each device whose shares it has."""
        if len(sealed) + 1 < self._terms.threshold or not sealed.keys() <= self._adverts.keys():
            raise MaskError(f"shares of {len(sealed)} others; {self._terms.threshold - 1} needed")
        if self._revealed is not None or len(self._shares) > 1:
            raise MaskError("masks its numbers once")
        for other, data in sorted(sealed.items()):
            pair = opened(self._sealing_key(other), data, self._place, other)
            self._shares[other] = pair[:SHARE_BYTES], pair[SHARE_BYTES:]
        bits, count = self._terms.bits, len(numbers)
        total = numbers + mask_of(self._own, count, bits)
        for other in sealed:
            public = self._adverts[other][KEY_BYTES:]
            total = with_pair(total, self._masking, public, (self._device, other), self._terms)
        return np.asarray(total & np.uint32((1 << bits) - 1), np.uint32)

    def reveal(self, survivors: Collection[int]) -> dict[int, bytes]:
        """For each member its share: of its own mask if its numbers arrived, else of its key."""
        arrived = frozenset(survivors)
        if len(arrived) < self._terms.threshold or not arrived <= self._shares.keys():
            raise MaskError(f"a sum of {len(arrived)}; {self._terms.threshold} are needed")
        if self._device not in arrived or self._revealed not in (None, arrived):
            raise MaskError("reveals for one sum alone, which its numbers are in")
        self._revealed = arrived
        return {member: pair[member in arrived] for member, pair in sorted(self._shares.items())}

    @property
    def _place(self) -> bytes:
        return self._terms.place

    def _of(self, secret: bytes, purpose: bytes) -> bytes:
        return bytes(self._made.derived(secret, purpose + self._terms.place))

    def _split(self, secret: bytes, name: bytes) -> dict[int, bytes]:
        def draw(size: int) -> bytes:
            return bytes(self._made.keystream(self._coefficients + name, size))

        return split(secret, sorted(self._adverts), self._terms.threshold, draw)

    def _sealing_key(self, other: int) -> bytes:
        if other not in self._keys:
            public = self._adverts[other][:KEY_BYTES]
            found: bytes | None = self._made.agreed(self._sealing, public, b"sealed" + self._place)
            if found is None:
                raise MaskError(f"keys of device {other} that are none")
            self._keys[other] = found
        return self._keys[other]


def masking_key(secret: bytes) -> bytes:
    """The private key of a device, from what its shares determine."""
    return bytes(crypto().derived(secret, b"mix2fld masking key"))


def with_pair(
    total: Words, secret: bytes, public: bytes, pair: tuple[int, int], terms: Terms
) -> Words:
    """With the mask of a device and another, which one of both adds and the other subtracts."""
    seed: bytes | None = crypto().agreed(masking_key(secret), public, b"masks" + terms.place)
    own, other = pair
    if seed is None:
        raise MaskError(f"keys of device {other} that are none")
    mask = mask_of(seed, len(total), terms.bits)
    return np.asarray(total + mask if own < other else total - mask, np.uint32)


def pack_parts(parts: Mapping[int, bytes]) -> bytes:
    """Bytes for several devices, each after its number."""
    ordered = sorted(parts.items())
    return b"".join(device.to_bytes(NUMBER_BYTES, "little") + data for device, data in ordered)


def unpack_parts(data: bytes, size: int) -> dict[int, bytes]:
    """What ``pack_parts`` packed, each of so many bytes."""
    whole = NUMBER_BYTES + size
    pieces = [data[at : at + whole] for at in range(0, len(data), whole)]
    found = {int.from_bytes(one[:NUMBER_BYTES], "little"): one[NUMBER_BYTES:] for one in pieces}
    if len(data) % whole or len(found) != len(pieces):
        raise MaskError(f"{len(data)} bytes of parts of {size} each")
    return found
