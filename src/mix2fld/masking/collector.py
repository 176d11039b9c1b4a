"""The server's half of a masked sum: it hands on what devices tell each other, and adds."""

from collections.abc import Iterable, Mapping

import numpy as np

from mix2fld.masking.keys import KEY_BYTES, Words, crypto, mask_of
from mix2fld.masking.party import (
    Terms,
    masking_key,
    with_pair,
)
from mix2fld.masking.shamir import MaskError, join


class Collector:
    """One sum, as the server sees it."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self.adverts: dict[int, bytes] = {}
        self._sealed: dict[int, dict[int, bytes]] = {}
        self.masked: dict[int, Words] = {}

    def take_shares(self, device: int, sealed: Mapping[int, bytes]) -> None:
        """What a device sealed for all others."""
        if sealed.keys() != self.adverts.keys() - {device}:
            raise MaskError("shares that are not one for each of the others")
        self._sealed[device] = dict(sealed)

    @property
    def members(self) -> list[int]:
        """Devices whose shares are with the others."""
        return sorted(self._sealed)

    def sealed_for(self, device: int) -> dict[int, bytes]:
        """What the others sealed for a device."""
        return {other: self._sealed[other][device] for other in self.members if other != device}

    def total(self, survivors: Iterable[int], revealed: Mapping[int, Mapping[int, bytes]]) -> Words:
        """The sum of what these devices have under their masks, by what they ``revealed``."""
        arrived, terms = sorted(survivors), self._terms
        if min(len(arrived), len(revealed)) < terms.threshold:
            raise MaskError(
                f"a sum of {len(arrived)} devices, of which {len(revealed)} say how it is "
                f"unmasked; must be at least {terms.threshold}"
            )
        total = np.zeros_like(self.masked[arrived[0]])
        for device in arrived:
            total += self.masked[device]
        for device in self.members:
            shares = {by: own[device] for by, own in revealed.items() if device in own}
            secret = join(shares, terms.threshold)
            if device in arrived:
                total -= mask_of(secret, len(total), terms.bits)
                continue
            if crypto().public_key(masking_key(secret)) != self.adverts[device][KEY_BYTES:]:
                raise MaskError(f"shares of another key than that of device {device}")
            for other in arrived:  # whose masks with it do not cancel
                public = self.adverts[other][KEY_BYTES:]
                total = with_pair(total, secret, public, (device, other), terms)
        return np.asarray(total & np.uint32((1 << terms.bits) - 1), np.uint32)
