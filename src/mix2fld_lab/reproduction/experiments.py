"""The paper's figures and open questions as grids of configs.

A cell is one setting, simulated once for every seed. Two experiments that need the same setting
name the same cell, so that it is simulated once.
"""

from dataclasses import dataclass
from typing import Any

from mix2fld.config.grid import Grid

SEED_PAIRS = ((10, 10), (10, 20), (50, 50), (50, 100))
DEVICE_COUNTS = (10, 20, 30, 40, 50)
MIXING_RATIOS = (0.01, 0.1, 0.2, 0.3, 0.4, 0.45, 0.49)
INVERSE_COUNTS = (5, 10, 20, 50, 100, 200, 500)
RELAXED_SLOTS = (110, 114, 120)


@dataclass(frozen=True)
class Scale:
    """How much is simulated: every cell in full, or scaled down."""

    name: str
    seeds: tuple[int, ...]
    most_rounds: int
    changes: dict[str, Any]


FULL = Scale("full", seeds=(0, 1, 2, 3, 4), most_rounds=10, changes={})
QUICK = Scale(
    "quick",
    seeds=(0,),
    most_rounds=3,
    changes={"local_steps": 640, "server_steps": 320, "test_samples": 1000},
)


@dataclass(frozen=True)
class Cell:
    """One setting: ``key`` is its folder and its name in the records."""

    key: str
    label: str
    changes: dict[str, Any]

    @property
    def protocol(self) -> str:
        """The protocol that is simulated."""
        return str(self.changes["protocols"])

    def grid(self, scale: Scale) -> Grid:
        """All its runs at that scale."""
        grid = Grid.of(**self.changes).replace(seeds=scale.seeds, **scale.changes)
        return grid.replace(rounds=min(grid.rounds, scale.most_rounds))


@dataclass(frozen=True)
class Experiment:
    """A figure or a question, with the cells that it needs."""

    name: str
    title: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class PaperSetting:
    """A channel and a partition: one panel of Fig. 2."""

    key: str
    title: str
    changes: dict[str, Any]


SETTINGS: dict[str, PaperSetting] = {
    setting.key: setting
    for setting in (
        PaperSetting(
            "asymmetric-iid",
            "asymmetric channels, IID",
            {"partition": "iid", "uplink_power_dbm": 23.0},
        ),
        PaperSetting(
            "symmetric-iid",
            "symmetric channels, IID",
            {"partition": "iid", "uplink_power_dbm": 40.0},
        ),
        PaperSetting(
            "asymmetric-non-iid",
            "asymmetric channels, non-IID",
            {"partition": "non-iid", "uplink_power_dbm": 23.0},
        ),
        PaperSetting(
            "symmetric-non-iid",
            "symmetric channels, non-IID",
            {"partition": "non-iid", "uplink_power_dbm": 40.0},
        ),
    )
}
PANELS = dict(zip(("fig2a", "fig2b", "fig2c", "fig2d"), SETTINGS, strict=True))


def cell(setting: str, name: str, label: str, protocol: str, **changes: Any) -> Cell:
    """A cell of one of the four settings."""
    fields = {**SETTINGS[setting].changes, "protocols": protocol, **changes}
    return Cell(f"{setting}/{name}", label, fields)


def _isolated(setting: str) -> Cell:
    """The same cell in both channels: isolated devices send nothing."""
    split = SETTINGS[setting].changes["partition"]
    fields = {"protocols": "isolated", "partition": split, "link": "ideal"}
    return Cell(f"{split}/isolated", "isolated", fields)


def _panel(name: str) -> Experiment:
    setting = PANELS[name]
    cells = [
        cell(setting, "fl", "FL", "fl"),
        cell(setting, "fd", "FD", "fd"),
        *(
            cell(setting, f"mixfld-{count}", f"MixFLD ({count})", "mixfld", seed_samples=count)
            for count in (10, 50)
        ),
        *(
            cell(
                setting,
                f"mix2fld-{sent}-{made}",
                f"Mix2FLD ({sent}, {made})",
                "mix2fld",
                seed_samples=sent,
                inverse_samples=made,
            )
            for sent, made in SEED_PAIRS
        ),
        cell(setting, "fl8", "FL 8-bit", "fl8"),
        cell(setting, "fl4", "FL 4-bit", "fl4"),
        _isolated(setting),
        cell(setting, "fl-literal", "FL, T_max 100", "fl", max_slots=100),
        cell(
            setting, "mix2fld-50-100-literal", "Mix2FLD (50, 100), T_max 100", "mix2fld",
            max_slots=100,
        ),
    ]  # fmt: skip
    return Experiment(name, f"Fig. 2{name[-1]}: {SETTINGS[setting].title}", tuple(cells))


# Where only the accuracy of whole rounds counts, five rounds and no points in between.
BRIEF: dict[str, Any] = {"rounds": 5, "curve_points": 1}


def _fig3() -> Experiment:
    cells = [
        cell(
            f"symmetric-{split}",
            f"devices-{count}",
            f"{count} devices, {split}",
            "mix2fld",
            devices=count,
            seed_samples=10,
            inverse_samples=20,
            **BRIEF,
        )
        for split in ("iid", "non-iid")
        for count in DEVICE_COUNTS
    ]
    return Experiment("fig3", "Fig. 3: accuracy against the number of devices", tuple(cells))


def _privacy_accuracy() -> Experiment:
    """On an ideal link: 32-bit values would not fit the slots, and only rounding should count."""
    cells = [
        Cell(
            f"privacy-accuracy/{protocol}-{ratio:g}-{bits}bit",
            f"{title}, {bits}-bit seeds, λ = {ratio:g}",
            {
                "protocols": protocol,
                "mixing_ratio": ratio,
                "seed_bits": bits,
                "link": "ideal",
                **BRIEF,
            },
        )
        for protocol, title in (("mixfld", "MixFLD"), ("mix2fld", "Mix2FLD"))
        for bits in (8, 32)
        for ratio in MIXING_RATIOS
    ]
    return Experiment("privacy-accuracy", "Accuracy against sample privacy", tuple(cells))


def _inverse_count() -> Experiment:
    cells = [
        Cell(
            f"inverse-count/{sent}-{made}",
            f"N_S = {sent}, N_I = {made}",
            {
                "protocols": "mix2fld",
                "seed_samples": sent,
                "inverse_samples": made,
                **BRIEF,
            },
        )
        for sent in (10, 50)
        for made in INVERSE_COUNTS
    ]
    return Experiment("inverse-count", "Accuracy against N_I", tuple(cells))


READINGS: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "decided": ("as decided", {}, ("fd", "fld", "mixfld", "mix2fld")),
    "fresh-student": (
        "student starts untrained",
        {"student_start": "fresh"},
        ("mixfld", "mix2fld"),
    ),
    "own-weights": (
        "devices start from their own weights",
        {"initial_weights": "independent"},
        ("mixfld", "mix2fld", "fd"),
    ),
    "dominant-teacher": (
        "teacher of the largest label",
        {"soft_label_teacher": "dominant"},
        ("mixfld",),
    ),
    "hard-labels": ("hard labels for MixFLD", {"mixed_labels": "hard"}, ("mixfld",)),
    "clipped": ("inverse-mixed samples clipped", {"inverse_clip": True}, ("mix2fld",)),
    "beta-0": ("β = 0", {"distillation_weight": 0.0}, ("mixfld", "mix2fld")),
    "beta-0.1": ("β = 0.1", {"distillation_weight": 0.1}, ("mixfld", "mix2fld", "fd")),
    "beta-1": ("β = 1", {"distillation_weight": 1.0}, ("mixfld", "mix2fld", "fd")),
    "printed-sign": (
        "ψ with its printed sign",
        {"distillation_loss": "printed"},
        ("mixfld", "mix2fld", "fd"),
    ),
    "ratio-0.4": ("λ = 0.4", {"mixing_ratio": 0.4}, ("mixfld", "mix2fld")),
}
"""Readings of the paper other than the decided one, and the protocols that each concerns."""


def _why() -> Experiment:
    readings = [
        cell(
            "asymmetric-non-iid",
            f"why/{name}/{protocol}",
            f"{protocol}, {label}",
            protocol,
            **changes,
            **BRIEF,
        )
        for name, (label, changes, protocols) in READINGS.items()
        for protocol in protocols
    ]
    relaxed = [
        cell(
            f"asymmetric-{split}",
            f"why/slots-{slots}/fl",
            f"FL, T_max {slots}, {split}",
            "fl",
            max_slots=slots,
            **BRIEF,
        )
        for split in ("non-iid", "iid")
        for slots in RELAXED_SLOTS
    ]
    return Experiment("why", "Other readings of the paper", (*readings, *relaxed))


EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        *map(_panel, PANELS),
        _fig3(),
        _privacy_accuracy(),
        _inverse_count(),
        _why(),
    )
}
