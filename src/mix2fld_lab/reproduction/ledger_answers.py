"""What the records answer to the paper's two open questions, in words."""

from mix2fld_lab.reproduction.cell_records import CellRecord
from mix2fld_lab.reproduction.conclusions import against, change, listed, standing
from mix2fld_lab.reproduction.evidence import Evidence
from mix2fld_lab.reproduction.experiments import INVERSE_COUNTS, MIXING_RATIOS
from mix2fld_lab.reproduction.privacy_records import row
from mix2fld_lab.reproduction.statistics import accuracy, distinct_per_device, gain

A_POINT = 1.0


def privacy_against_accuracy(evidence: Evidence) -> str:
    """Which of the two protocols trades less accuracy for privacy."""

    def cell(protocol: str, ratio: float, bits: int = 8) -> CellRecord:
        return evidence.cells[f"privacy-accuracy/{protocol}-{ratio:g}-{bits}bit"]

    def mean(protocol: str, ratio: float) -> float:
        return accuracy(cell(protocol, ratio), "mean").mean

    best, worst = (pick(MIXING_RATIOS, key=lambda r: mean("mixfld", r)) for pick in (max, min))
    ours, last = max(MIXING_RATIOS, key=lambda r: mean("mix2fld", r)), MIXING_RATIOS[-1]
    private = row(evidence.privacy["mnist"], "mixup", "min", (best,))[0]
    our_private, last_private = row(evidence.privacy["mnist"], "mix2up", "min", (ours, last))
    fallen = gain(cell("mix2fld", last), cell("mix2fld", ours), "mean")
    lead = gain(cell("mixfld", best), cell("mix2fld", ours), "mean")
    rounding = {
        r: gain(cell("mix2fld", r, 8), cell("mix2fld", r, 32), "mean") for r in MIXING_RATIOS
    }
    most = max(MIXING_RATIOS, key=lambda ratio: abs(rounding[ratio].mean))
    return (
        f"MixFLD's devices are most accurate at λ = {best:g} ({mean('mixfld', best):.1f} %, distance "
        f"{private:.1f}) and least at {worst:g} ({mean('mixfld', worst):.1f} %); Mix2FLD's "
        f"are most accurate at λ = {ours:g} ({mean('mix2fld', ours):.1f} %, {our_private:.1f}). At "
        f"{last:g}, with a distance of {last_private:.1f}, Mix2FLD {change(fallen)} against that. "
        f"Each at its best λ, MixFLD is {against(lead, 'Mix2FLD')}. "
        f"{_trade(standing(lead))} Rounding the seeds to 8 bits changes most at λ = {most:g}, "
        f"where Mix2FLD {change(rounding[most])}."
    )


def _trade(simpler: str) -> str:
    """Whether unmixing pays in accuracy; distances do not rank the two in privacy."""
    words = {
        "above": "So mixing without unmixing is the more accurate at its best λ.",
        "level": "So unmixing gains no accuracy over mixing alone, each at its best λ.",
        "below": "So unmixing pays in accuracy.",
    }
    return (
        f"{words[simpler]} Which of the two is more private, these distances do not say: unmixing "
        "changes them and nothing that the server knows (see *what attacks find*)."
    )


def enough_inverse_samples(evidence: Evidence) -> str:
    """Where more samples stop paying, and whether that is where distinct pairs run out."""
    texts = []
    for sent in (10, 50):
        cells = [evidence.cells[f"inverse-count/{sent}-{made}"] for made in INVERSE_COUNTS]
        means = [accuracy(cell, "global").mean for cell in cells]
        enough = next(
            made
            for made, mean in zip(INVERSE_COUNTS, means, strict=True)
            if mean > max(means) - A_POINT
        )
        texts.append(f"{enough} with N_S = {sent} ({_coverage(enough, cells[-1])})")
    return f"The smallest N_I within a point of the best server model is {listed(texts)}."


def _coverage(enough: int, cell: CellRecord) -> str:
    distinct = round(distinct_per_device(cell))
    covered = max((made for made in INVERSE_COUNTS if made <= distinct), default=0)
    if enough == covered:
        return "the largest N_I tried that distinct pairs still cover"
    if enough < covered:
        return f"although distinct pairs cover {covered}"
    return f"beyond the {distinct} that distinct pairs cover"
