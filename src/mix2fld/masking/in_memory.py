"""A masked sum of devices of this process, by the same messages as between machines."""

from collections.abc import Callable, Collection, Mapping

from mix2fld.masking.collector import Collector
from mix2fld.masking.keys import Words
from mix2fld.masking.party import Party, Terms


def masked_sum(
    numbers: Mapping[int, Words],
    survivors: Collection[int],
    terms: Terms,
    secret: Callable[[int], bytes],
) -> Words:
    """The sum of the numbers of the survivors; all others are lost under their masks."""
    parties = {device: Party(device, terms, secret(device)) for device in sorted(numbers)}
    collector = Collector(terms)
    collector.adverts = {device: party.advert() for device, party in parties.items()}
    for device, party in parties.items():
        collector.take_shares(device, party.shares(collector.adverts))
    for device, party in parties.items():
        sealed = collector.sealed_for(device)
        collector.masked[device] = party.masked(numbers[device], sealed)
    revealed = {device: parties[device].reveal(survivors) for device in sorted(survivors)}
    return collector.total(survivors, revealed)
