"""The sentences of the page about privacy."""

import re
from collections.abc import Sequence

from mix2fld.audit.findings import (
    LOW,
    Stages,
    attacked_uploads,
    budgets,
    matching,
    mean,
    mixing_ratios,
    pooled,
    statistics_with_noise,
    strongest,
)
from mix2fld.audit.sections import Section
from mix2fld.protocols.table import get_protocol

HIDES_NOTHING = 0.99
"""If attacks find more than this share of the constituents, at every mixing ratio tried."""

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
device's. Thresholds come from outsiders, samples that are in no upload, with the label frequencies
of the device, and under the same upload; the attacker's public samples are others again. **The null
experiment** beside every attack is the same attack on an upload made of other samples: it must call
candidates members as often as the stated false-positive rate says. Brackets are exact (Clopper-
Pearson) 95 % intervals, which take candidates for independent; those of one upload are not quite,
and in null experiments every candidate is tried on four uploads, so that their intervals are too
narrow."""
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
values are at the ends of their range. A sample of the device counts as found if either part finds
it, each at half of the false-positive rate. A mix touches two samples, so that mixed seeds touch
nearly twice as many of a device's samples as raw ones do."""
SEPARATION = """
A small network, trained on mixes of public samples, is given the mix, both labels, λ and the
interval that the range of values leaves for the minor part; it answers with the minor part inside
that interval, and the dominant one follows by subtraction. *Among 5,000*: how often the nearest
of 5,000 candidates, the constituents of that kind and outsiders, is the true one. *Among the
device's own*: the nearest of all its samples, the other part of the mix among them, for which a
poor estimate is easily taken. *Another dataset*: the network never saw a sample of this kind, and
labels mean other things there."""
RECURRING = """
No network, only what is uploaded and the mean public sample of each label. Two mixes with the same
dominant sample differ by at most λ in every value, which links them. Each mix leaves an interval
for its dominant sample; those of linked mixes are intersected, and within what is left the estimate
is what the mixes say if their minor parts are the mean of their label. The minor parts follow by
subtraction. *Determined*: constituents that linear equations alone would give, if it were known
which samples recur where. Figures are of the mixes that are linked to another one."""
AVERAGES = """
A sum of n samples of a label is looked at along one direction for each candidate: that in which the
candidate moves it most, measured by the covariance of public samples of the label. There it is
taken as Gaussian, with the candidate and without. Where values have a range, the box test comes
first: what a candidate leaves of the sum must lie between 0 and n - 1, beyond rounding, or it is no
member. A scatter about class means is taken as a Wishart matrix. *Statistics*: what the row
statistics uploads, of fixed features, as the server decodes it. *Means of ten*: the pictures that
the samples of a label give in groups of ten, in 8 bits a value; no protocol here uploads them, they
say what averages without noise are worth. Every sample of a device is in them, so that shares are
of all its samples."""
LIRA = """
LiRA: the server has a list of candidates, the device's samples and as many outsiders with the same
labels, and does not know which are which. Shadow models are trained like the device, each on a
random half of the list, so that half of them saw a candidate and both kinds are treated alike. Two
numbers are read from an upload for each candidate: its *margin*, the logit of the true label's
probability, and its *coefficient*. A step on a sample adds a multiple of its features, the inputs
of the last layer, to the kernel of that layer, so that an update is a sum of features; ridge
regression ascribes the update of the label's row to the candidates (its ridge was chosen on the
first device of the MNIST run with seed 0). The likelihood ratio is that of two Gaussians, from
models that saw the candidate and from models that did not, with variances partly its own and partly
its label's. *By margin alone* is the usual attack, which needs the outputs of the model only. Of
mean outputs, the row of the candidate's label takes the place of both numbers, and all candidates
of a label share what is seen: intervals are too narrow there. What a candidate moves the row by is
shrunk by the part that the error of its estimate explains within the label, so that labels with
many samples, whose rows tell next to nothing, do not decide the threshold. In the paper's split two
labels of a device have two samples each, 0.8 % of all. The upload attacked is that of the first
round, as the server decodes it. Protocols with the same upload share a row."""
ROUNDS = """
The same attack on the first uploads of a device together. Shadow models receive what the devices
of the run received: a download is made of uploads that the server has, so that each upload is
judged given the download before it. The statistics of all rounds are taken as jointly Gaussian.
Rows of one round are those of the devices attacked here."""
NOISE = """
Only the noise is left to whoever knows all samples of a device but one, and both candidates for
that one: the longest sample, or the same under another label, which moves class sums by all that
their sensitivity allows. The attack is the likelihood ratio of both uploads, from the bytes that
cross the link; no other test of them is better. *Allowed* is the true-positive rate of Gaussian
noise with exactly this budget. The lower bounds of ε follow from the ends of both 95 % intervals,
for any mechanism and for Gaussian noise: one above the claim would refute the accounting."""
BUDGETS = """
Statistics with noise in two uploads: of k squared low frequencies of each of six maps, or, where
seeds are generated, of the low frequencies of the sample itself. δ, clipping and everything else as
in the record. The same start from a device's own statistics, with nothing uploaded, is in the first
table (own statistics): a protocol that needs a budget must beat it. [What else was
tried](private_ideas.md) within the same budgets is on a page of its own. A row with a sum trusts
whoever sums the uploads, which is simulated. DP-FL and DP-Murmur protect everything that a device
holds, not one sample, and add noise to each of thousands of weights: whatever the clip is, at a
small ε that noise is far longer than the update, also in the mean of ten, so the server takes no
step that is longer than updates are clipped to."""
REFERENCE = """
An attack that finds less than is known to be findable proves nothing. *Before* is what an earlier
trial reached on one partition of the same data with attacks of the same kinds (LiRA by margin alone
there), and what rows with a budget are meant to reach."""
NOT_TRIED = """
## Not tried

What the convolutions of an update say (only outputs and the last layer are used), reconstruction of
samples from weights, DP-FedAvg with a trusted sum, secure aggregation in a deployment (its sum is
simulated), an active server that chooses what it sends down, and attacks on weights and outputs
with the smartwatch data: they need at least 1,000 samples on devices, as many outsiders with the
same labels and as many public ones, and its training set is smaller than that. For the same reason
its seeds are attacked with few samples on each device, partitioned at random: where each device is
a person, others are no outsiders of the same kind. The noise of a deployment comes from a
generator (PCG64) with a secret key of 128 bits; that generator is not a cryptographic one, and
predicting it from what is uploaded was not tried. LPIPS is not measured: its weights are not part
of any dependency. What an attack here does not find may be found by a better one: the rates are
lower bounds of what leaks."""


def conclude(found: Sequence[Section]) -> str:
    """What the figures say, in words."""
    said = [line for section in found for line in _of_dataset(section)]
    if not said:
        return ""
    lines = "\n".join(f"- {line}" for line in said)
    return f"""
## Conclusion

{lines}

Unmixing changes nothing: what the server holds of a device is what was uploaded. Seeds give away
the samples that they touch, and means of few samples touch all. Weights give away a part of what
they were trained on, a smaller one in few bits. Only noise with accounting gives a guarantee: the
rows with ε. If a server must not learn about single samples, use one of them, or upload nothing."""


def _of_dataset(section: Section) -> list[str]:
    """Sentences about one dataset, each from its records."""
    sentences = (
        _mixing(section.stages),
        _worst(section),
        _weights(section.stages),
        _rounds(section.stages),
        _budget(section),
        _updates(section),
    )
    return [f"{section.dataset}: {sentence}" for sentence in sentences if sentence]


def _mixing(stages: Stages) -> str:
    least = [
        strongest(stages, ratio, LOW, part).rate
        for ratio in mixing_ratios(stages)
        for part in ("minor", "dominant")
    ]
    if not least:
        return ""
    if min(least) > HIDES_NOTHING:
        return "mixing hides nothing from a server that looks"
    return (
        f"of the constituents of mixes {100 * min(least):.1f} to {100 * max(least):.1f} % are "
        "found, by λ and part"
    )


def _worst(section: Section) -> str:
    leaks = {
        f"{row.title} ({kind})": share
        for row in section.rows()
        for kind, share in row.leaks.items()
    }
    if len(leaks) < 2:
        return ""
    order = sorted(leaks, key=lambda name: leaks[name].rate)
    least, most = order[0], order[-1]
    return (
        f"most samples of a device are found in {most}, {100 * leaks[most].rate:.1f} %, fewest in "
        f"{least}, {100 * leaks[least].rate:.1f} %"
    )


def _weights(stages: Stages) -> str:
    """What reading the last layer adds to reading outputs."""
    where, parts = r"uploads/s\d+", []
    for name in attacked_uploads(stages):
        by_margin = pooled(stages, where, name, "by margin", LOW, "device")
        if by_margin.of:
            found = pooled(stages, where, name, LOW, "device")
            parts.append(
                f"{get_protocol(name).title} {100 * found.rate:.1f} % "
                f"({100 * by_margin.rate:.1f} % by margin alone)"
            )
    return "samples of a device found in its first upload: " + ", ".join(parts) if parts else ""


def _rounds(stages: Stages) -> str:
    parts = []
    for name in dict.fromkeys(stage.split("/")[1] for stage in matching(stages, "rounds/.*")):
        where = rf"rounds/{re.escape(name)}/s\d+"
        counts = sorted({int(n) for stage in matching(stages, where) for n in stages[stage]})
        first, last = (pooled(stages, where, str(n), LOW, "device") for n in (1, counts[-1]))
        clear = last.interval()[0] > first.interval()[1]
        grows = "which is more" if clear else "no clear difference"
        parts.append(
            f"{get_protocol(name).title} {100 * first.rate:.1f} % in one round and "
            f"{100 * last.rate:.1f} % in {counts[-1]} together, {grows}"
        )
    return "uploads of several rounds: " + "; ".join(parts) if parts else ""


def _budget(section: Section) -> str:
    """What rows with a budget gain over what needs none, on the runs that both have."""
    own = _by_run(section.stages, "own-statistics")
    gains = []
    for row in section.rows():
        accuracies = _by_run(section.stages, row.name)
        common = own.keys() & accuracies.keys()
        if row.guarantee is not None and common:
            gain = sum(accuracies[run] - own[run] for run in common) / len(common)
            gains.append(f"{row.title} at ε = {row.guarantee.epsilon:g} {100 * gain:+.1f}")
    if not gains:
        return ""
    return "points beyond own statistics, which upload nothing: " + ", ".join(gains)


def _updates(section: Section) -> str:
    """What noise on updates costs, beside devices that upload nothing."""
    alone = mean(section.stages, r"accuracy/isolated/s\d+", "accuracy")
    said = []
    for name in section.protocols:
        row = get_protocol(name)
        if row.promise is None or statistics_with_noise(row):
            continue
        by_budget = {
            epsilon: mean(section.stages, where, "accuracy")
            for epsilon, where in _budgets_of(section, name)
        }
        figures = [
            f"{100 * found:.1f} % at ε = {epsilon:g}"
            for epsilon, found in sorted(by_budget.items())
            if found is not None
        ]
        if figures:
            said.append(f"{row.title} {_listed(figures)}")
    if not said:
        return ""
    compared = "" if alone is None else f"; isolated devices reach {100 * alone:.1f} %"
    return f"noise on updates: {'; '.join(said)}{compared}"


def _budgets_of(section: Section, name: str) -> list[tuple[float, str]]:
    """Every ε that a protocol was run with, and the stages of these runs."""
    own = section.config_of(name).privacy.epsilon
    others = [(epsilon, side) for known, epsilon, side in budgets(section.stages) if known == name]
    return [
        (own, rf"accuracy/{re.escape(name)}/s\d+"),
        *((e, rf"budget/{re.escape(name)}/{e:g}:{side}/s\d+") for e, side in others),
    ]


def _listed(values: Sequence[str]) -> str:
    return ", ".join(values)


def _by_run(stages: Stages, name: str) -> dict[str, float]:
    """The accuracy of a protocol in each run."""
    found = matching(stages, rf"accuracy/{re.escape(name)}/s\d+")
    return {stage.split("/")[-1]: stages[stage]["accuracy"] for stage in found}
