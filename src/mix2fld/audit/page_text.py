"""The sentences of the page about privacy."""

import re
from collections.abc import Sequence

from mix2fld.audit.findings import LOW, Stages, mixing_ratios, pooled

HEAD = """
# What the server can find out

A distance between a raw sample and what is made of it (Tables II and III of the paper) is not
privacy. This page holds attacks. It is made by

    mix2fld privacy page {names} --out docs/privacy.md

from records that `mix2fld privacy audit` writes; `about` in a record holds every setting. A
demonstration that takes a minute: `mix2fld privacy audit --quick`.

**Threat model.** The server is honest but curious: it follows the protocol, and looks at what it
receives. It knows the protocol, the mixing ratio, the labels of seeds (they are uploaded), the
weights that devices started from, and public samples of the same kind that no device holds. It does
not know a device's samples or its random draws. It is asked whether a candidate sample is one of a
device's. Thresholds come from outsiders, samples that are in no upload and that the attacker did
not train on, with the label frequencies of the device. **The null experiment** beside every attack
is the same attack on an upload made of other samples: it must call candidates members as often as
the stated false-positive rate says. Brackets are exact (Clopper-Pearson) 95 % intervals, which take
candidates for independent; those of one upload are not quite."""
INVERSION = """
Which samples the server pairs depends on labels, device numbers and a generator, not on what the
samples show. So raw samples, mixes and inverse samples are a chain of processing: whatever can be
told from the last can be told from the mixes. For λ < 0.5 the mixing matrix of Eq. 8 has an
inverse, so the two inverse samples of a pair, mixed again, are the two uploads. Inverse-Mixup
therefore adds no privacy against the server, and takes none away: Mix2FLD's is MixFLD's, and
Table III's growth towards λ = 0.5 is that of a factor 1 / (1 - 2λ)."""
SEEDS = """
*Box*: a candidate x can have weight w in a mix m only where m - w x stays within [0, 1 - w],
beyond rounding; the sum of squared violations is the score. It needs no training. *Residual*:
what a candidate leaves of the mix must also be likely as a sample of the other label, taken as
Gaussian with public means and one public covariance; this finds what the box cannot where few
values are at the ends of their range. A mix touches two samples, so that mixed seeds touch nearly
twice as many of a device's samples as raw ones do."""
SEPARATION = """
A small network, trained on mixes of public samples, is given the mix, both labels, λ and the
interval that the range of values leaves for the minor part; it answers with the minor part inside
that interval, and the dominant one follows by subtraction. *Among 5,000*: how often the nearest
of 5,000 candidates is the true constituent."""
LIRA = """
LiRA: shadow models, each trained like the device on a quarter of the candidates and as many public
samples, say how large the margin of a candidate is for models that saw it and for models that did
not; of mean outputs, the row of the candidate's label takes the place of the margin. Thresholds
come from eight models of other samples altogether, and the null experiment is on eight more, so
that a stranger's upload is called a member's as often as stated. *By outsiders*: with thresholds
from the outsiders of the same uploads, as many as the device has samples; more is found, but
strangers would pass more often than stated, since shadow models resemble the device's more than
theirs (trained on halves of the candidates alone, they let three times as many strangers pass at 1
%). Of mean outputs, all candidates of a label share what is seen: intervals are too narrow there.
The upload attacked is that of the first round, as the server decodes it. Protocols with the same
upload share a row."""
NOISE = """
Only the noise is left to whoever knows all samples of a device but one, and both candidates for
that one: the longest sample, or the same under another label, which moves class sums by all that
their sensitivity allows. The attack is the likelihood ratio of both uploads, from the bytes that
cross the link; no other test of them is better. *Allowed* is the true-positive rate of Gaussian
noise with exactly this budget. The lower bounds of ε follow from the ends of both 95 % intervals,
for any mechanism and for Gaussian noise: one above the claim would refute the accounting."""
BUDGETS = """
Statistics of fixed features with noise, in two uploads; k squared low frequencies of each of six
maps count. δ, clipping and everything else as in the record. The same start from a device's own
statistics, with nothing uploaded, is in the first table (own statistics): a protocol that needs a
budget must beat it. *DP sum* trusts whoever sums the uploads, which is simulated."""
NOT_TRIED = """
## Not tried

Attacks that use several rounds together, the gradients inside a model (only its outputs are
used), LiRA on statistics without noise, DP-FedAvg with a trusted sum, secure aggregation in a
deployment (its sum is simulated), seeds generated from noisy statistics, linear algebra over
samples that recur in several mixes, public data from another domain,
and an active server that chooses what it sends down. Fashion-MNIST and CIFAR-10 are not recorded,
nor several partitions. LPIPS is not measured: its weights are not
part of any dependency. What an attack here does not find may be found by a better one: the rates
are lower bounds of what leaks."""


def conclude(all_stages: Sequence[Stages]) -> str:
    """What the figures say, in words."""
    least = [
        pooled(stages, rf"seeds/mixed/{re.escape(ratio)}/s\d+/box", LOW, part).rate
        for stages in all_stages
        for ratio in mixing_ratios(stages)
        for part in ("minor", "dominant")
    ]
    if not least:
        return ""
    hides = (
        "Mixing hides nothing from a server that looks"
        if min(least) > 0.99
        else f"The box test alone finds at least {100 * min(least):.1f} % of the constituents"
    )
    return f"""
## Conclusion

{hides}.
Unmixing cannot change that: what the server holds of a device is what was uploaded.
Seeds give away the samples that they touch. The first table of each dataset puts the uploads that
were attacked on one scale. Only noise with accounting gives a guarantee: the rows with ε. If a
server must not learn about single samples, use one of them, or upload nothing."""
