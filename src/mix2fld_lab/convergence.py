"""A bound on convergence of FLD where transmissions fail, beside what the engine measures.

``python -m mix2fld_lab.convergence`` runs the convex task below and writes
``docs/explanation/convergence.md``, which states and proves the bound.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from mix2fld.base.files import write_atomic
from mix2fld.config.settings import Config
from mix2fld.dataset import Dataset
from mix2fld.extend import Delivery, Direction, Memoryless
from mix2fld.runs.simulation import Simulation, make_simulation
from mix2fld.types import ServerState, Tensors
from mix2fld_lab.pages import render

PAGE = Path("docs/explanation/convergence.md")
FIGURE = Path("docs/images/convergence.png")
TEMPLATE = Path(__file__).parent / "templates" / "convergence.md.j2"
DEVICES, SAMPLES, FEATURES, ROUNDS, RUNS = 10, 200, 5, 12, 20
OUTAGES = ((0.0, 0.0), (0.5, 0.1), (0.9, 0.3), (0.9, 0.7))
"""Of an upload, and of a download at one device."""
Floats = NDArray[np.float64]


class Outages(Memoryless):
    """Every transmission fails with a probability of its own direction."""

    slot_seconds, max_slots = 1e-3, 1

    def __init__(self, up: float, down: float) -> None:
        self._outage = {"uplink": up, "downlink": down}

    def deliver(
        self, direction: Direction, bits: NDArray[np.int64], rng: np.random.Generator
    ) -> Delivery:
        """Independent draws; who has nothing to send needs no time."""
        arrived = (rng.random(len(bits)) >= self._outage[direction]) | (bits == 0)
        return Delivery(arrived, np.where(bits > 0, 1, 0))


def lines_of_devices(seed: int = 0) -> Dataset:
    """Ten devices, each with a line and a place of its own: least squares on the union is convex.

    Devices disagree: each minimises its own loss elsewhere, and few seed samples say little.
    """
    rng = np.random.default_rng(seed)
    common = rng.normal(size=FEATURES)
    inputs, targets = [], []
    for _ in range(DEVICES + 1):  # the last has the test samples
        own = common + 0.4 * rng.normal(size=FEATURES)
        x = (0.5 * rng.normal(size=FEATURES) + rng.normal(size=(SAMPLES, FEATURES))) / 2
        inputs.append(x)
        targets.append(x @ own + 0.3 * rng.normal(size=SAMPLES))
    return Dataset(
        "lines",
        train_inputs=np.concatenate(inputs[:-1]).astype(np.float32),
        train_targets=np.concatenate(targets[:-1]).astype(np.float32),
        test_inputs=inputs[-1].astype(np.float32),
        test_targets=targets[-1].astype(np.float32),
        train_sources=np.repeat(np.arange(DEVICES), SAMPLES),
    )


def settings_of(seed: int, **changes: Any) -> Config:
    """FLD on the lines: batch 1, squared loss, seed samples as they are."""
    fields = {
        "protocol": "fld", "model": "linear", "devices": DEVICES, "samples_per_device": SAMPLES,
        "partition": "by-source", "target_loss": "squared", "standardise": "never",
        "local_steps": 400, "server_steps": 400, "seed_samples": 20, "seed_bits": 32,
        "learning_rate": 0.02, "rounds": ROUNDS, "curve_points": 1, "link": "ideal", "seed": seed,
    }  # fmt: skip
    return Config.of(**{**fields, **changes})


class Quadratic(NamedTuple):
    """Weighted least squares: mean of w (x v - y)^2 / 2, with rows and targets times root w."""

    rows: Floats  # [n, F + 1]
    targets: Floats  # [n]

    @classmethod
    def of(
        cls, inputs: NDArray[Any], targets: NDArray[Any], weights: Floats | None = None
    ) -> "Quadratic":
        """Of samples, with a one for the bias ahead of each."""
        rows = np.hstack([np.ones((len(inputs), 1)), np.asarray(inputs, np.float64)])
        roots = np.ones(len(rows)) if weights is None else np.sqrt(weights)
        return cls(rows * roots[:, None], np.asarray(targets, np.float64).ravel() * roots)

    @property
    def hessian(self) -> Floats:
        """The matrix of second derivatives."""
        found: Floats = (self.rows.T @ self.rows / len(self.targets)).astype(np.float64)
        return found

    @property
    def minimiser(self) -> Floats:
        """Where the gradient is zero."""
        right = self.rows.T @ self.targets / len(self.targets)
        return np.linalg.solve(self.hessian, right).astype(np.float64)

    @property
    def convexity(self) -> float:
        """mu: the smallest eigenvalue of the Hessian."""
        return float(np.linalg.eigvalsh(self.hessian)[0])

    @property
    def smoothness(self) -> float:
        """L: the largest Lipschitz constant of one sample's gradient."""
        return float(np.square(self.rows).sum(axis=1).max())

    @property
    def noise(self) -> float:
        """sigma^2: the mean squared norm of a sample's gradient at the minimiser."""
        slopes = (self.rows @ self.minimiser - self.targets)[:, None] * self.rows
        return float(np.square(slopes).sum(axis=1).mean())


class Contraction(NamedTuple):
    """What steps of SGD do to the distance from a minimiser (the lemma of the page)."""

    shrinks: float
    """s = (1 - eta mu)^(steps / 2)."""
    noise: float
    """n = sqrt(2 eta sigma^2 / mu)."""

    @classmethod
    def of(cls, losses: Sequence[Quadratic], rate: float, steps: int) -> "Contraction":
        """The worst of these losses."""
        limit = 1 / (2 * max(loss.smoothness for loss in losses))
        if rate > limit:
            raise ValueError(f"rate {rate:g} is above 1 / (2 L) = {limit:g}")
        mu, noise = min(one.convexity for one in losses), max(one.noise for one in losses)
        return cls((1 - rate * mu) ** (steps / 2), float(np.sqrt(2 * rate * noise / mu)))

    def after(self, distance: Floats | float) -> Any:
        """Root mean squared distances after the steps, of those before them."""
        kept = self.shrinks**2
        return np.sqrt(kept * np.square(distance) + (1 - kept) * self.noise**2)


class DeviceTerms(NamedTuple):
    """What the theorem asks of one device."""

    phase: Contraction
    bias: float
    """delta_d: from its own minimiser to the optimum."""


class ServerTerms(NamedTuple):
    """What the theorem asks of the server."""

    phase: Contraction
    bias: float
    """delta: from the minimiser on all seed samples to the optimum."""
    drift: float
    """b: from that of any round to that on all seed samples."""
    first: float
    """From the first model to the minimiser on all seed samples."""


def bound(
    server: ServerTerms,
    own: DeviceTerms,
    begun: float,
    steps_made: float,
    delivered: float,
    rounds: int,
) -> list[float]:
    """The theorem: a device's root mean squared distance from the optimum after each round.

    ``begun`` is that of the first model; the server steps with probability ``steps_made``, and its
    download reaches the device with probability ``delivered``.
    """
    conversions = [server.first]
    for _ in range(rounds):
        conversions.append(server.phase.after(conversions[-1] + server.drift) + server.drift)
    squares = np.square(np.array(conversions) + server.bias)
    replaced, found, distance = steps_made * delivered, list[float](), begun
    for number in range(1, rounds + 1):
        before = binom.pmf(np.arange(number), number - 1, steps_made)
        of_server = float(before @ squares[1 : number + 1])
        trained = own.phase.after(distance + own.bias) + own.bias
        distance = float(np.sqrt(replaced * of_server + (1 - replaced) * trained**2))
        found.append(distance)
    return found


class OutageCase(NamedTuple):
    """One pair of outage probabilities; root mean squares over devices and runs."""

    up: float
    down: float
    bound: list[float]
    """After each round."""
    measured: list[float]
    bias: float
    drift: float
    noise: float
    own_bias: float


def measure(up: float, down: float, seeds: Sequence[int]) -> OutageCase:
    """Runs of the engine over links with these outages, and the theorem for each."""
    runs = [_measure(up, down, seed) for seed in seeds]
    server = [[one.bias, one.drift, one.phase.noise] for one, _, _, _ in runs]
    bias, drift, noise = _rms(np.array(server))
    owns = [[own.bias] for _, devices, _, _ in runs for own in devices]
    return OutageCase(
        up, down,
        bound=_rms(np.concatenate([bounds for _, _, bounds, _ in runs])),
        measured=_rms(np.concatenate([found for _, _, _, found in runs])),
        bias=bias, drift=drift, noise=noise, own_bias=_rms(np.array(owns))[0],
    )  # fmt: skip


def _measure(
    up: float, down: float, seed: int
) -> tuple[ServerTerms, list[DeviceTerms], Floats, Floats]:
    """One run: what the theorem asks, its bounds [D, rounds], and distances [D, rounds]."""
    simulation = make_simulation(settings_of(seed), lines_of_devices(), link=Outages(up, down))
    learning = simulation.scenario.learning
    settings, task = learning.config.learning, learning.task
    own = [simulation.fleet.own(device) for device in range(DEVICES)]
    whole = [Quadratic.of(inputs, task.targets(values)) for inputs, values in own]
    together = Quadratic(*(np.concatenate(parts) for parts in zip(*whole, strict=True)))
    optimum, begun = together.minimiser, _row(learning.common_weights)

    state, losses, distances = simulation.start(), list[Quadratic](), []
    for _ in range(ROUNDS):
        before = state.server.updates
        state, _ = simulation.run_round(state)
        if state.server.updates > before:
            losses.append(_conversion_loss(simulation, state.server, settings.distillation_weight))
        held = simulation.fleet.states_of(state.devices)
        rows = [_row(held[device]["weights"]) for device in range(DEVICES)]
        distances.append([float(np.linalg.norm(row - optimum)) for row in rows])

    rate = settings.learning_rate
    assert isinstance(rate, float)
    assert state.server.seed_set is not None
    last = _conversion_loss(simulation, state.server, weight=0.0).minimiser
    server = ServerTerms(
        Contraction.of(losses, rate, settings.server_steps),
        bias=float(np.linalg.norm(last - optimum)),
        drift=max(float(np.linalg.norm(loss.minimiser - last)) for loss in losses),
        first=float(np.linalg.norm(begun - last)),
    )
    owns = [
        DeviceTerms(
            Contraction.of([loss], rate, settings.local_steps),
            float(np.linalg.norm(loss.minimiser - optimum)),
        )
        for loss in whole
    ]
    first = float(np.linalg.norm(begun - optimum))
    made, arrives = 1 - up**DEVICES, 1 - down
    bounds = [bound(server, each, first, made, arrives, ROUNDS) for each in owns]
    return server, owns, np.array(bounds), np.array(distances).T


def _conversion_loss(simulation: Simulation, server: ServerState, weight: float) -> Quadratic:
    """What the server minimises in Eq. 5; ``weight`` is beta, without a teacher 0."""
    seeds, task = server.seed_set, simulation.scenario.learning.task
    assert seeds is not None
    assert server.outputs is not None
    taught = task.group_of(seeds.targets) @ server.outputs
    known = weight * (taught != 0).ravel()
    targets = (seeds.targets.ravel() + known * taught.ravel()) / (1 + known)
    return Quadratic.of(seeds.inputs, targets, 1 + known)


def _row(weights: Tensors) -> Floats:
    """Bias and slopes of a linear model with one output."""
    bias, slopes = weights
    return np.concatenate([bias.ravel(), slopes.ravel()]).astype(np.float64)


def _rms(values: Floats) -> list[float]:
    """Over the first axis."""
    return np.sqrt(np.mean(np.square(values), axis=0)).tolist()


def page(cases: Sequence[OutageCase]) -> str:
    """The text of the page."""
    rows = [
        [
            f"{case.up:g}", f"{case.down:g}",
            *(f"{value:.2f}" for value in (case.bias, case.drift, case.noise, case.own_bias)),
            *(f"{own[n]:.2f}" for n in (0, ROUNDS - 1) for own in (case.measured, case.bound)),
            f"{case.bound[-1] / case.measured[-1]:.2f}",
        ]
        for case in cases
    ]  # fmt: skip
    ratios = [b / m for case in cases for b, m in zip(case.bound, case.measured, strict=True)]
    return render(
        TEMPLATE, rows=rows, least=f"{min(ratios):.2f}", most=f"{max(ratios):.2f}",
        holds=min(ratios) >= 1, devices=DEVICES, samples=SAMPLES, features=FEATURES,
        rounds=ROUNDS, runs=RUNS, config=settings_of(0),
    )  # fmt: skip


def draw(cases: Sequence[OutageCase], path: Path) -> None:
    """Bound and measurement over rounds, a panel for each case."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, len(cases), figsize=(11, 3), sharey=True)
    for axes, case in zip(panels, cases, strict=True):
        rounds = range(1, ROUNDS + 1)
        axes.plot(rounds, case.bound, "--", color="#d55e00", label="bound")
        axes.plot(rounds, case.measured, "-", color="#0072b2", label="measured")
        axes.set_title(f"outage {case.up:g} up, {case.down:g} down", fontsize=10)
        axes.set_xlabel("round")
        axes.set_xticks(range(2, ROUNDS + 1, 2))
    panels[0].set_ylim(bottom=0)
    panels[0].set_ylabel("RMS distance from the optimum")
    panels[0].legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main() -> None:
    """Run all cases; write page and figure."""
    cases = [measure(up, down, range(RUNS)) for up, down in OUTAGES]
    for case in cases:
        print(
            case.up,
            case.down,
            [f"{m:.3f}/{b:.3f}" for m, b in zip(case.measured, case.bound, strict=True)],
        )
    draw(cases, FIGURE)
    write_atomic(PAGE, page(cases).encode())


if __name__ == "__main__":
    main()
