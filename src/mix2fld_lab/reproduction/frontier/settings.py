"""Where they are compared: data, partitions, and one factor at a time."""

from dataclasses import dataclass
from typing import Any

IDEAL: dict[str, Any] = {"link": "ideal", "rounds": 5, "curve_points": 1}
PARTITIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "non-iid": ("the paper's non-IID split", {"partition": "non-iid"}),
    "shards": ("two shards a device", {"partition": "shards", "shards_per_device": 2}),
    "dirichlet-0.1": ("Dirichlet 0.1", {"partition": "dirichlet", "dirichlet_alpha": 0.1}),
    "dirichlet-0.3": ("Dirichlet 0.3", {"partition": "dirichlet", "dirichlet_alpha": 0.3}),
    "iid": ("IID", {"partition": "iid"}),
}
DATASETS: dict[str, tuple[str, dict[str, Any]]] = {
    "mnist": ("MNIST", {}),
    "fashion-mnist": ("Fashion-MNIST", {}),
    "cifar10": ("CIFAR-10", {"model": "paper-cnn", "local_steps": 3200}),
}
"""CIFAR-10 with the small network, which takes twice as long there, and half the steps."""
TUNED_ON = {"mnist": "mnist", "fashion-mnist": "mnist", "cifar10": "cifar10"}
"""Whose search a dataset uses, with the same partition."""


@dataclass(frozen=True)
class FrontierSetting:
    """One panel: where all contenders run, and the setting whose search they use."""

    key: str
    title: str
    dataset: str
    changes: dict[str, Any]
    tuned_at: str
    core: bool = False
    """Whether only the contenders marked so run: all of them with the paper's split and on the
    smartwatch data."""

    @property
    def papers_network(self) -> bool:
        """Whether the paper's network is trained, on images."""
        return self.dataset in DATASETS and not self.larger_network

    @property
    def larger_network(self) -> bool:
        """Whether a network with more weights is trained."""
        return self.changes.get("model", "paper-cnn") != "paper-cnn"


def _grid() -> list[FrontierSetting]:
    return [
        FrontierSetting(
            f"{name}-{split}",
            f"{title}, {words}",
            name,
            {**IDEAL, "dataset": name, **changes, **divided},
            tuned_at=f"{TUNED_ON[name]}-{split}",
            core=(name, split) != ("mnist", "non-iid"),
        )
        for name, (title, changes) in DATASETS.items()
        for split, (words, divided) in PARTITIONS.items()
    ]


WATCH = FrontierSetting(
    "smartwatch",
    "smartwatch, a person is a device",
    "smartwatch",
    {**IDEAL, "dataset": "smartwatch", "partition": "by-source", "local_steps": 1600},
    tuned_at="smartwatch",
)
FEWER_STEPS = {"local_steps": 400}
NETWORKS = "mix2fld_lab.reproduction.frontier.networks:"
FACTORS: dict[str, tuple[str, dict[str, Any]]] = {
    "paper-link": ("the paper's asymmetric link", {"link": "rayleigh"}),
    "50-devices": ("50 devices", {"devices": 50, "local_steps": 1280}),
    "20-of-100": (
        "20 of 100 devices a round",
        {"devices": 100, "participants": 20, "local_steps": 1280},
    ),
    "cifar-cnn": ("a network of 80,000 weights", {"model": "cifar-cnn", **FEWER_STEPS}),
    "wide-mlp": ("an MLP of 400,000 weights", {"model": NETWORKS + "wide_mlp", **FEWER_STEPS}),
    "large-mlp": (
        "an MLP of 1.6 million weights",
        {"model": NETWORKS + "large_mlp", **FEWER_STEPS},
    ),
}
"""More devices and larger networks take fewer local steps, or they would take most of the time."""
TUNED_WITH = {"wide-mlp": "wide-mlp", "large-mlp": "wide-mlp"}
"""Factors that have a search of their own, and the one it is made with; others use that of the
setting they vary."""
VARIED = ("mnist-non-iid", "fashion-mnist-dirichlet-0.3")


def _factors(grid: dict[str, FrontierSetting]) -> list[FrontierSetting]:
    return [
        FrontierSetting(
            f"{base.key}-{name}",
            f"{base.title}, {words}",
            base.dataset,
            {**base.changes, **changes},
            f"{base.key}-{TUNED_WITH[name]}" if name in TUNED_WITH else base.tuned_at,
            core=True,
        )
        for base in (grid[key] for key in VARIED)
        for name, (words, changes) in FACTORS.items()
    ]


def _all() -> dict[str, FrontierSetting]:
    grid = {setting.key: setting for setting in (*_grid(), WATCH)}
    return {**grid, **{one.key: one for one in _factors(grid)}}


SETTINGS: dict[str, FrontierSetting] = _all()
"""Every setting, by its key."""
