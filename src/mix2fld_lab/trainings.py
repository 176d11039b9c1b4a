"""How the devices of a protocol train, in words: pages that compare protocols say it in a row."""

from dataclasses import replace

from mix2fld.protocols.table import get_protocol
from mix2fld.tasks.training import Training


def plain(training: Training) -> bool:
    """Whether devices train as the paper's do: constant rate, no adjustment, no averaging."""
    return replace(training, replay=0.0) == Training()


def titled(protocol: str) -> str:
    """The title of a row whose devices train as its protocol recommends."""
    row = get_protocol(protocol)
    return row.title if plain(row.training) else f"{row.title}, own training"


def training_words(training: Training) -> list[str]:
    """What a recommended training does besides plain steps."""
    words = []
    if training.logit_adjustment:
        tau = f"{training.logit_adjustment:g}"
        if training.scarce_adjustment is not None:
            tau = f"{training.scarce_adjustment:g} to {tau}, by the labels that a device holds"
        words.append(f"logit adjustment with τ = {tau}")
    first, last = training.rate_factors
    if (first, last) != (1.0, 1.0):
        words.append(f"a learning rate from {first:g} to {last:g} times the default")
    if training.device_model == "mean":
        words.append("the mean of downloaded and trained weights on the device")
    return words
