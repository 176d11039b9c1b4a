"""The audit: a list of stages, each an attack with its null experiment, run once and recorded."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, replace
from functools import cached_property, partial
from itertools import chain, product
from pathlib import Path
from typing import Any, NamedTuple

from mix2fld.base.errors import InputError, did_you_mean
from mix2fld.config.grid import Grid
from mix2fld.data import fingerprint
from mix2fld.engine.wire import Wire, check_mixable
from mix2fld.protocols.parts import Seeding
from mix2fld.protocols.seed_samples import mixed, raw
from mix2fld.protocols.table import as_spelled, get_protocol, guarantee_of
from mix2fld.runs.interrupts import raise_if_remembered
from mix2fld.runs.old_formats import with_rates_as_used
from mix2fld.types import Dataset
from mix2fld_lab.attacks.rates import FALSE_POSITIVES, check_candidates
from mix2fld_lab.attacks.residual import Prior, fit_prior
from mix2fld_lab.audit.effort import Effort
from mix2fld_lab.audit.findings import (
    KINDS,
    distinct_uplinks,
    noisy_statistics,
    uploads_samples,
)
from mix2fld_lab.audit.ground import Ground
from mix2fld_lab.audit.records import AuditRecord
from mix2fld_lab.audit.seeds import NULLS, inversion, membership
from mix2fld_lab.audit.separators import PUBLIC_AT_MOST, Separators

ATTACKS = set(KINDS) - {"noise", "accuracy", "budget"}
"""The kinds of stages that need outsiders."""
SECONDS_A_STEP, SECONDS_A_BATCH = 3e-5, 0.05
"""Of one core: a step of a device, and one of the separation network."""
SECONDS_AN_UPLOAD = 0.2
"""Of one core: what an upload of weights says about all candidates."""
SECONDS_A_TRIAL = 2e-3
"""Of one core: two uploads of statistics, made and read."""
Note = Callable[[str], None]


class Stage(NamedTuple):
    """One entry of the record, how long it takes on an idle core, and how it is found."""

    name: str
    seconds: float
    find: Callable[[], Any]


class Audit:
    """The audit of a grid: every protocol and seed that it names."""

    def __init__(
        self,
        config: Grid,
        dataset: Dataset,
        effort: Effort,
        kinds: Collection[str] = tuple(KINDS),
    ) -> None:
        effort.check()
        _check_kinds(kinds)
        if dataset.train_targets is not None:
            raise InputError(
                field="dataset",
                value=dataset.name,
                hint="has numbers as targets; the audit attacks uploads of labelled samples",
            )
        for name in config.protocols:
            check_mixable(get_protocol(name), dataset.samples)
        self.config, self.dataset, self.effort, self.kinds = config, dataset, effort, kinds
        self.ground = Ground(dataset, config, effort.outsiders)
        self.devices = range(min(effort.devices, config.data.devices))
        if ATTACKS & set(kinds):
            self._check_candidates()

    def _check_candidates(self) -> None:
        """Refuse in advance what leaves too few outsiders for the smallest rate."""
        own = [part for seed in self.config.seeds for part in self.ground.parts(seed)]
        outside = sum(len(self.ground.outsiders_like(own[device])) for device in self.devices)
        # each part of a mix has its share of the rate
        parts = len(self.config.seeding.ratios) if "mixed" in self._seedings else 1
        check_candidates(outside, min(FALSE_POSITIVES) / parts)
        by_shadows = bool({"uploads", "rounds"} & set(self.kinds))
        if by_shadows and distinct_uplinks(self.config.protocols):  # as many outsiders as own
            attacked = sum(len(own[device]) for device in self.devices)
            check_candidates(attacked, min(FALSE_POSITIVES))

    def about(self) -> dict[str, Any]:
        """What decides the numbers of the record."""
        return {
            "config": self.config.model_dump(mode="json"),
            "data": fingerprint(self.dataset),
            "effort": vars(self.effort),
        }

    def stages(self) -> list[Stage]:
        """Everything that is to be done, in order."""
        seeds = (self._on_seeds(), self._recovery(), self._on_averages())
        rest = (self._on_noise(), self._on_uploads(), self._accuracy(), self._budgets())
        every = chain(*seeds, *rest)
        return [stage for stage in every if stage.name.split("/")[0] in self.kinds]

    def run(self, out: Path | None, note: Note = lambda _: None) -> AuditRecord:
        """Run every stage that the record does not hold yet."""
        record = AuditRecord(out, self.about(), _with_defaults)
        stages = self.stages()
        for number, stage in enumerate(stages):
            if stage.name in record.stages:
                continue
            note(f"{number + 1}/{len(stages)} {stage.name}")
            record.add(stage.name, stage.find())
            raise_if_remembered()
        return record

    @property
    def _seedings(self) -> dict[str, Seeding]:
        """The kinds of seeds that the protocols upload."""
        rows = [get_protocol(name) for name in self.config.protocols]
        kinds = [row.seeds for row in rows if uploads_samples(row.seeds)]
        found = {"raw": raw} if any(kind and not kind.mixed for kind in kinds) else {}
        return {**found, **({"mixed": mixed} if any(kind and kind.mixed for kind in kinds) else {})}

    def _grounds(self) -> Iterator[tuple[str, Ground]]:
        """The ground at every mixing ratio of mixes of two."""
        own = self.config.seeding.mixing_ratio
        more = {(ratio,) for ratio in self.effort.ratios} if len(own) == 1 else set()
        for ratios in sorted({own, *more}):
            config = self.config.replace(mixing_ratio=ratios)
            shown = ",".join(f"{ratio:g}" for ratio in ratios)
            yield shown, Ground(self.dataset, config, self.effort.outsiders)

    @cached_property
    def _prior(self) -> Prior:
        public = self.ground.candidates(self.ground.public[:PUBLIC_AT_MOST])
        return fit_prior(public, self.dataset.num_labels)

    def _on_seeds(self) -> Iterator[Stage]:
        pixels = self.effort.outsiders * len(self.devices) * self.dataset.train_inputs[0].size
        cost = pixels * self.config.seeding.seed_samples * 4e-10
        for seed in self.config.seeds:
            for kind, seeding in self._seedings.items():
                for shown, ground in self._grounds() if seeding.mixed else [("1", self.ground)]:
                    where, of = f"seeds/{kind}/{shown}/s{seed}", (ground, seeding, seed)
                    yield Stage(f"{where}/box", cost, partial(membership, *of, self.devices))
                    if seeding.mixed:
                        residual = partial(self._by_residual, *of)
                        yield Stage(f"{where}/residual", 2 * cost, residual)
                        yield Stage(f"{where}/inversion", 1.0, partial(inversion, *of))

    def _by_residual(self, ground: Ground, seeding: Seeding, seed: int) -> dict[str, Any]:
        return membership(ground, seeding, seed, self.devices, self._prior)

    def _on_averages(self) -> Iterator[Stage]:
        """Statistics without noise, and beside them means of ten samples."""
        from mix2fld_lab.audit.averages import attack_device_statistics, attack_means_of_ten

        if not any(get_protocol(n).statistics for n in self.config.protocols):
            return
        for seed in self.config.seeds:
            for name, attack in (
                ("statistics", attack_device_statistics),
                ("ten", attack_means_of_ten),
            ):
                find = partial(attack, self.ground, seed, self.devices)
                yield Stage(f"averages/{name}/s{seed}", 2.0 * len(self.devices), find)

    def _on_uploads(self) -> Iterator[Stage]:
        """LiRA on first uploads, which some protocols share, and on those of several rounds."""
        from mix2fld_lab.audit.shadows import Watched, attack_rounds, attack_uploads

        names = list(dict.fromkeys(distinct_uplinks(self.config.protocols).values()))
        recipes = len({get_protocol(name).training for name in names})
        models = (self.effort.shadows + 1 + NULLS) * len(self.devices)
        training = recipes * self.config.learning.local_steps * SECONDS_A_STEP
        seconds = models * (training + len(names) * SECONDS_AN_UPLOAD)
        for seed in self.config.seeds if names else ():
            config = self.config.replace(rounds=self.effort.rounds)
            ground = replace(self.ground, config=config)
            watched = Watched(ground, seed, self.devices, self.effort.shadows)
            yield Stage(f"uploads/s{seed}", seconds, partial(attack_uploads, watched, names))
            rounds = self.effort.attacked_rounds
            for name in names if rounds > 1 else ():
                find = partial(attack_rounds, watched, name, rounds)
                yield Stage(f"rounds/{name}/s{seed}", seconds * rounds, find)

    def _accuracy(self) -> Iterator[Stage]:
        learning = self.config.learning
        steps = self.effort.rounds * learning.local_steps * self.config.data.devices
        for seed in self.config.seeds:
            for name in self.config.protocols:
                find = partial(self._run_once, name, seed)
                yield Stage(f"accuracy/{name}/s{seed}", steps * SECONDS_A_STEP, find)

    def _budgets(self) -> Iterator[Stage]:
        learning = self.config.learning
        steps = self.effort.rounds * learning.local_steps * self.config.data.devices
        named = [name for name in self.config.protocols if get_protocol(name).promise]
        tried = product(self.config.seeds, self.effort.budgets, named)
        for seed, (epsilon, side), name in tried:  # every budget once before any a second time
            changes = {"epsilon": epsilon, "feature_side": side}
            find = partial(self._run_once, name, seed, **changes)
            where = f"budget/{name}/{epsilon:g}:{side}/s{seed}"
            yield Stage(where, steps * SECONDS_A_STEP, find)

    def _on_noise(self) -> Iterator[Stage]:
        seconds = 3 * self.effort.trials * SECONDS_A_TRIAL
        for seed, name in product(self.config.seeds, noisy_statistics(self.config.protocols)):
            yield Stage(f"noise/{name}/s{seed}", seconds, partial(self._attack_noise, name, seed))

    def _attack_noise(self, name: str, seed: int) -> dict[str, Any]:
        from mix2fld.tasks.classification import Classification
        from mix2fld.tasks.make_learning import make_learning
        from mix2fld.tasks.private_statistics import measure_samples
        from mix2fld_lab.audit.known_others import attack_statistics, far_neighbours, private_of

        data = self.dataset
        config = as_spelled(self.config.at(name, seed))
        learning = make_learning(config, data.samples, Classification(data.num_labels))
        wire, rows = Wire(get_protocol(name), learning), self.ground.parts(seed)[0]
        own = measure_samples(
            learning, data.train_inputs[rows], data.train_labels[rows], private_of(wire).features_of
        )
        sides = far_neighbours(own, data.num_labels)
        return attack_statistics(learning, wire, sides, self.effort.trials)

    def _run_once(self, name: str, seed: int, **changes: Any) -> dict[str, Any]:
        from mix2fld.runs.simulation import run

        changed = {"link": "ideal", "curve_points": 1, "rounds": self.effort.rounds, **changes}
        single = as_spelled(self.config.at(name, seed)).replace(**changed)
        summary = run(single, dataset=self.dataset)[0].summary
        each = summary["bits"]["up"] / self.config.data.devices
        found = {"accuracy": summary["scores"]["mean"], "uplink_bits": each}
        promise = guarantee_of(single)
        return found if promise is None else {**found, "guarantee": promise.as_record()}

    def _recovery(self) -> Iterator[Stage]:
        """Separation by networks, with public samples of two kinds, and without any network."""
        if "mixed" not in self._seedings or len(self.config.seeding.ratios) != 2:
            return
        separators = Separators(self.ground, self.effort.separator_steps, self.effort.foreign)
        training = self.effort.separator_steps * SECONDS_A_BATCH
        trained = set()
        for seed, (shown, ground) in product(self.config.seeds, list(self._grounds())):
            find = partial(separators.without_network, ground, seed)
            yield Stage(f"recurring/{shown}/s{seed}", 1.0, find)
            for kind in separators.kinds:
                seconds = 2 + (0 if kind in trained else training)
                trained.add(kind)
                find = partial(separators.recover, kind, ground, seed)
                yield Stage(f"{kind}/{shown}/s{seed}", seconds, find)


def _check_kinds(kinds: Collection[str]) -> None:
    for kind in kinds:
        if kind not in KINDS:
            raise InputError(
                field="stages",
                value=f"{kind!r}",
                hint=f"no such stage; {did_you_mean(kind, KINDS)}",
            )


def _with_defaults(about: dict[str, Any]) -> dict[str, Any]:
    """What an older record is about: settings that did not exist then had their defaults."""
    effort = asdict(Effort(**about["effort"]))
    config = Grid(**with_rates_as_used(about["config"]))
    return {**about, "config": config.model_dump(mode="json"), "effort": effort}
