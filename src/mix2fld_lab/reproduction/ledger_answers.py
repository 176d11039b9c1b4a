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
        f"MixFLD's devices are most accurate at λ = {best:g} ({mean('mixfld', best):.1f} %, sample "
        f"privacy {private:.1f}) and least at {worst:g} ({mean('mixfld', worst):.1f} %); Mix2FLD's "
        f"are most accurate at λ = {ours:g} ({mean('mix2fld', ours):.1f} %, {our_private:.1f}). At "
        f"{last:g}, with a privacy of {last_private:.1f}, Mix2FLD {change(fallen)} against that. "
        f"Each at its best λ, MixFLD is {against(lead, 'Mix2FLD')}. "
        f"{_trade(standing(lead), private > our_private)} Rounding the seeds to 8 bits changes most at λ = {most:g}, "
        f"where Mix2FLD {change(rounding[most])}."
    )


def _trade(simpler: str, more_private: bool) -> str:
    """Whether mixing alone beats mixing and unmixing, in privacy and in accuracy."""
    if more_private and simpler != "below":
        return (
            "So mixing without unmixing costs nothing: at its best λ it is both more private "
            "than Mix2FLD at its best and no less accurate."
        )
    if more_private:
        return "So mixing without unmixing is more private at its best λ, and less accurate."
    if simpler == "above":
        return "So mixing without unmixing is more accurate at its best λ, and no more private."
    return "So unmixing pays: MixFLD at its best λ is neither more private nor more accurate."


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
