"""What the figures of the ledger mean, in words; every number in them comes from the records."""

from mix2fld.reproduction.evidence import Evidence
from mix2fld.reproduction.experiments import INVERSE_COUNTS, MIXING_RATIOS, SETTINGS
from mix2fld.reproduction.privacy_records import row
from mix2fld.reproduction.records import CellRecord
from mix2fld.reproduction.statistics import accuracy, downloaded_gain, gain
from mix2fld.reproduction.times import times_longer

ASYMMETRIC, SYMMETRIC = "asymmetric-non-iid", "symmetric-non-iid"
OURS = "mix2fld-50-100"
A_POINT = 1.0


def in_short(evidence: Evidence) -> str:
    """The paragraph that a reader in a hurry needs."""
    at = evidence.at
    over_fl = gain(at(ASYMMETRIC, OURS), at(ASYMMETRIC, "fl")).mean
    over_fd = gain(at(ASYMMETRIC, OURS), at(ASYMMETRIC, "fd")).mean
    behind = gain(at(SYMMETRIC, "fl"), at(SYMMETRIC, OURS)).mean
    eight = gain(at(ASYMMETRIC, "fl8"), at(ASYMMETRIC, OURS)).mean
    idle = gain(_why(evidence, "decided", "mix2fld"), _why(evidence, "beta-0", "mix2fld"), "mean")
    return f"""
- **Where FL's uploads do not arrive, Mix2FLD wins**, by {over_fl:.1f} points over FL and {over_fd:.1f} over FD with
  non-IID data: about half of what the paper reports. With IID data there is little to win.
- **Where they arrive, FL wins** with non-IID data too, by {behind:.1f} points; the paper has the two level there.
- **FL with 8-bit weights**, which the paper does not consider, fits the paper's slots in both channels and
  ends {eight:.1f} points above Mix2FLD in the setting where Mix2FLD is at its best.
- **What Mix2FLD gains comes from the labelled seeds**, not from the uploaded outputs: without distillation
  (β = 0) its devices are {abs(idle.mean):.1f} points away, within the spread. The uplink savings are real.
- **MixFLD is not worse than FD**, unless one looks right after a download.
- **Unmixing protects no better than mixing** for λ up to about 0.2: Mix2up's samples are as close to raw ones
  as Mixup's or closer. Towards 0.5 it protects more, because it then destroys the samples."""


def why(evidence: Evidence) -> str:
    """Half a page on what did not come out."""
    at = evidence.at
    fd, mixed, unmixed = (_mean(_why(evidence, "decided", p)) for p in ("fd", "mixfld", "mix2fld"))
    raw, hard = (
        _mean(_why(evidence, "decided", "fld")),
        _mean(_why(evidence, "hard-labels", "mixfld")),
    )
    names = ("fresh-student", "own-weights", "dominant-teacher", "hard-labels", "beta-0",
             "beta-0.1", "beta-1", "printed-sign", "ratio-0.4")  # fmt: skip
    lowest = min(_mean(_why(evidence, name, "mixfld")) for name in names)
    dropped = [
        downloaded_gain(at(s, f"mixfld-{n}"), at(s, "fd")).mean for s in SETTINGS for n in (10, 50)
    ]
    below = sum(drop < 0 for drop in dropped)
    under = sum(
        downloaded_gain(at(s, f"mixfld-{n}"), at(s, f"mix2fld-{n}-{2 * n}")).mean < 0
        for s in SETTINGS
        for n in (10, 50)
    )
    after = downloaded_gain(at(ASYMMETRIC, OURS), at(ASYMMETRIC, "fl")).mean
    more = gain(_why(evidence, "beta-1", "mix2fld"), _why(evidence, "decided", "mix2fld"), "mean")
    idle = [
        gain(_why(evidence, "decided", p), _why(evidence, "beta-0", p), "mean").mean
        for p in ("mixfld", "mix2fld")
    ]
    literal = gain(at(SYMMETRIC, "mix2fld-50-100-literal"), at(SYMMETRIC, "fl-literal")).mean
    few = at(ASYMMETRIC, "why/slots-110/fl")
    share = 100 * few.values("summary", "uploads", "delivered").mean() / 50
    slow = evidence.costs[-1]
    fl_slow = times_longer(at(SYMMETRIC, "fl"), at(SYMMETRIC, OURS), slow).value
    fd_slow = times_longer(at(ASYMMETRIC, OURS), at(ASYMMETRIC, "fd"), slow).value
    return f"""
**MixFLD against FD and Mix2FLD (C5).** No reading of the table below puts MixFLD under FD at the end of a
local phase: FD has {fd:.1f} %, the lowest MixFLD {lowest:.1f} %. What does is looking right after a download,
when the device holds the server's model: there MixFLD is below FD in {below} of {len(dropped)} settings, by up to
{-min(dropped):.0f} points, and below Mix2FLD in {under} of {len(dropped)}. That is also where the drops of C9 are. Of all readings this
comes closest to the paper, whose figure was probably read, or averaged, with the drops in it; it implies
that a device which uses its model after its local steps sees none of this. And the "noise" of mixed-up samples is mostly their soft labels: with the label of
their larger part MixFLD reaches {hard:.1f} %, as much as FLD with raw samples ({raw:.1f} %) and no less than
Mix2FLD ({unmixed:.1f} %; MixFLD as decided {mixed:.1f} %). At λ = 0.1 a mix *is* nearly one raw sample.

**Half the gain (C1, C2).** Devices that learn alone are at {accuracy(at(ASYMMETRIC, "isolated"), "mean").mean:.1f} % after 6,400 steps, so FL
without uploads cannot be much lower, and 500 seeds in all carry the devices no further than {raw:.1f} % even
when they are raw (FLD). Right after a download Mix2FLD is {after:.1f} points above FL, nearer to the paper's 16.7. The
distillation term is idle at β = 0.01: with β = 0 MixFLD loses {idle[0]:.1f} and Mix2FLD {idle[1]:.1f} points. With
β = 1 Mix2FLD gains {more.mean:.1f} points: a hundred times the paper's β would suit its purpose better.

**FL in the symmetric channel (C3, C4).** FL averages models of 5,000 samples; no reading lets a server with
500 seeds come near. Taken literally, with 100 slots, FL cannot upload at all and Mix2FLD is {literal:.1f} points above
it: "as accurate as FL" lies between two readings of T_max. In the asymmetric channel the same few slots
decide: with 110 of them {share:.0f} % of FL's uploads arrive, and that is enough for {_mean(few):.1f} % after five rounds.
Mix2FLD's advantage over FL is one of a link on which almost nothing gets through.

**Times (C1 to C3).** They hang on who computes how fast. The conversion is 3,200 steps a round on top of the
devices' 6,400, so Mix2FLD cannot be within 2.5 % of FD unless the server is many times faster than a device:
with devices at 1 ms and the server at 0.1 ms a step it takes {fd_slow:.2f} times as long. The same costs give
{fl_slow:.2f} times FL's speed in the symmetric channel, the paper's 1.9: FL's rule fires twice as late.

**Sample privacy (C10).** From Eqs. 6 to 8, an inversely mixed-up sample differs from the raw one that dominates
it by λ²/(1−2λ) times one difference of two samples *of the same label* and λ(1−λ)/(1−2λ) times another. For small λ that
is λ times a distance within a label, while Mixup has λ times a distance between labels, which is larger. So
Mix2up is above Mixup only where 1/(1−2λ) has grown enough."""


def privacy_accuracy(evidence: Evidence) -> str:
    """What the trade is."""
    last = MIXING_RATIOS[-1]

    def mean(protocol: str, ratio: float, bits: int = 8) -> float:
        return _mean(evidence.cells[f"privacy-accuracy/{protocol}-{ratio:g}-{bits}bit"])

    best, worst = (pick(MIXING_RATIOS, key=lambda r: mean("mixfld", r)) for pick in (max, min))
    best_unmixed = max(MIXING_RATIOS, key=lambda ratio: mean("mix2fld", ratio))
    private = row(evidence.privacy["mnist"], "mixup", "min", (best,))[0]
    private_unmixed = row(evidence.privacy["mnist"], "mix2up", "min", (best_unmixed, last))
    rounding = {r: abs(mean("mix2fld", r, 32) - mean("mix2fld", r, 8)) for r in MIXING_RATIOS}
    most = max(MIXING_RATIOS, key=lambda ratio: rounding[ratio])
    return (
        f"MixFLD's devices are most accurate at λ = {best:g} ({mean('mixfld', best):.1f} %, sample privacy {private:.1f}) "
        f"and least at {worst:g} ({mean('mixfld', worst):.1f} %); Mix2FLD's are most accurate at λ = {best_unmixed:g} "
        f"({mean('mix2fld', best_unmixed):.1f} %, {private_unmixed[0]:.1f}) and fall to {mean('mix2fld', last):.1f} % at {last:g}, where a privacy of "
        f"{private_unmixed[1]:.1f} only says that its samples are far from any picture. So with λ near 0.5 and "
        "without unmixing there is hardly a trade at all: the simpler protocol is both more private than "
        "Mix2FLD at its best and no less accurate. Rounding the seeds to 8 bits changes Mix2FLD's devices by "
        f"at most {rounding[most]:.1f} points (at λ = {most:g}): near 0.5 the pictures themselves are amplified by the same "
        "1/(1−2λ), and that hurts first."
    )


def inverse_count(evidence: Evidence) -> str:
    """Where more samples stop paying."""
    texts = []
    for sent in (10, 50):
        cells = [evidence.cells[f"inverse-count/{sent}-{made}"] for made in INVERSE_COUNTS]
        means = [accuracy(cell, "global").mean for cell in cells]
        enough = next(
            made
            for made, mean in zip(INVERSE_COUNTS, means, strict=True)
            if mean > max(means) - A_POINT
        )
        texts.append(f"N_I = {enough} with N_S = {sent}")
    return (
        f"The smallest N_I within a point of the best server model is {' and '.join(texts)}: about "
        "where the pairs that were not used yet come to an end. That is what stops paying."
    )


def _why(evidence: Evidence, reading: str, protocol: str) -> CellRecord:
    return evidence.at(ASYMMETRIC, f"why/{reading}/{protocol}")


def _mean(cell: CellRecord) -> float:
    return accuracy(cell, "mean").mean
