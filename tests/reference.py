"""Every protocol of the table in plain loops: the oracle that the fast code is tested against.

One device, one sample and one slot at a time, in float64, written from the paper and from the
decisions on what it leaves open. Of the package it uses the config and the named random streams;
the partition, the initial weights and the order in which groups are tried are given to it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import ceil, comb, exp, log2

import numpy as np
from numpy.linalg import norm
from numpy.typing import NDArray

from mix2fld.base.streams import stream
from mix2fld.config.settings import Config
from reference_codecs import (
    Coded,
    Memory,
    as_row,
    coded,
    like_weights,
    mean_update,
    the_direction,
    with_noise,
)
from reference_equations import (
    Outputs,
    Sample,
    Seed,
    all_groups,
    enlarged,
    label_shares,
    learn,
    learning_rate,
    logit_offset,
    mean_outputs,
    mean_weights,
    mixed_seeds,
    quantise,
    raw_seeds,
    soft_label,
    unmix,
)
from reference_networks import Floats, Network, Weights, softmax
from reference_statistics import Private, closed_form, edge_kind, empty_network

WEIGHT_BITS = {"fl": 32, "fl8": 8, "fl4": 4}
CODEC = {"murmur-mix": "murmur", "murmur-stat": "murmur", "dp-murmur": "murmur", "dp-fl": "eden"}
"""Protocols with the updates of another one: beside mixed-up seeds or statistics, or with noise."""
FEEDBACK = {"topk": True, "stc": True, "sign": True, "eden": False, "murmur": False}
FEEDBACK |= {"projected": True, "vote": False, "feedsign": False}
FEEDBACK |= {name: FEEDBACK[like] for name, like in CODEC.items()}
"""Protocols that upload updates, and whether what they leave out is sent later."""
MAKE_SEEDS = {"fld": raw_seeds, "mixfld": mixed_seeds, "mix2fld": mixed_seeds}
MAKE_SEEDS |= {"murmur-mix": mixed_seeds, "cfd": mixed_seeds}
ALONE = ("isolated", "own-statistics")
STATISTICS = ("statistics", "murmur-stat")
"""Protocols whose devices upload statistics once."""
FROM_STATISTICS = ("statistics", "own-statistics", "dp-statistics", "dp-sum")
"""Protocols whose devices begin with the network that follows from their own samples."""
PRIVATE = {"dp-statistics": (False, False), "dp-sum": (False, True)}
PRIVATE |= {"dp-seeds": (True, False), "dp-seeds-sum": (True, True)}
"""Protocols of statistics with noise: whether they are of pixels, and summed by a trusted party."""
Arrived = dict[int, tuple[Weights, Outputs]]


@dataclass(frozen=True)
class State:
    """All that goes on from round to round."""

    round: int
    weights: list[Weights]
    teachers: list[Outputs]
    seeds_due: list[bool]
    stocks: list[frozenset[int]]  # whose seeds each device has, to replay them
    memories: list[Memory] = field(default_factory=list)  # of devices that upload updates
    untrained: frozenset[int] = frozenset()  # devices that begin with what follows from their own
    stages: list[int] = field(default_factory=list)  # which part of private statistics is due
    means: list[Floats | None] = field(default_factory=list)  # class means that devices know
    held: frozenset[int] = frozenset()  # whose statistics the server has
    sums: dict[int, Floats] = field(default_factory=dict)  # private ones, by their part
    counted: dict[int, tuple[int, int]] = field(default_factory=dict)  # samples, draws of noise
    global_means: Floats | None = None
    seeds: dict[int, list[Seed]] = field(default_factory=dict)
    global_weights: Weights | None = None
    global_outputs: Outputs | None = None
    updates: int = 0
    communication: float = 0.0
    computing: float = 0.0


@dataclass(frozen=True)
class Record:
    """What is seen of one round."""

    asked: list[int]
    phases: dict[int, tuple[Weights, Outputs]]  # of each device that was asked, after its steps
    uploads: list[bool]
    downloads: list[bool]
    senders: int
    listening: int  # devices of this round and of the next, who take the multicast
    bits: tuple[int, int]  # up: of all devices; down: of the one multicast
    slots: tuple[int, int]
    slowest: int
    change: float | None


def relative_change(before: State, after: State) -> float | None:
    """|G^p - G^(p-1)| / |G^(p-1)| of the weights in FL, of the outputs' worst label elsewhere."""

    def rows(state: State) -> Outputs:
        if state.global_outputs is not None:
            return state.global_outputs
        weights = state.global_weights
        return [None if weights is None else np.concatenate([w.ravel() for w in weights.values()])]

    changes = []
    for old, new in zip(rows(before), rows(after), strict=False):
        if old is None or new is None or after.updates == before.updates:
            return None
        changes.append(float(norm(new - old) / norm(old)))
    return max(changes)


@dataclass(frozen=True)
class Reference:
    """One run of one protocol. What is not in the paper's pseudocode is given from outside."""

    config: Config
    network: Network
    samples: list[list[Sample]]  # of each device
    initial_weights: list[Weights]  # of each device
    student: Callable[[int], Weights]  # the weights that the server's student starts round p with
    order_groups: Callable[[list[Seed], int], list[tuple[int, ...]]]  # (pool, wanted) -> groups

    @property
    def protocol(self) -> str:
        return self.config.protocol

    @property
    def num_labels(self) -> int:
        return len(self.samples[0][0][1])

    def draws(self, samples: int, steps: int, purpose: str, *indices: int) -> NDArray[np.int32]:
        rng = stream(self.config.seed, purpose, *indices)
        return rng.integers(samples, size=(steps, self.config.learning.batch_size), dtype=np.int32)

    def start(self) -> State:
        devices = len(self.samples)
        return State(
            round=0,
            weights=self.initial_weights,
            teachers=[[None] * self.num_labels] * devices,
            seeds_due=[self.protocol in (*MAKE_SEEDS, *STATISTICS)] * devices,
            stocks=[frozenset()] * devices,
            memories=[
                Memory(as_row(w), 0 * as_row(w), FEEDBACK.get(self.protocol, False))
                for w in self.initial_weights
            ],
            untrained=frozenset(range(devices) if self.protocol in FROM_STATISTICS else ()),
            stages=[0 if self.protocol in PRIVATE else 2] * devices,
            means=[None] * devices,
        )

    def run_round(self, before: State) -> tuple[State, Record]:
        """Algorithm 1 from line 3 to line 13; the other protocols leave lines out."""
        p, devices = before.round + 1, range(len(self.samples))
        channel = self.config.channel
        asked = self.participants(p)

        phases = {d: self.local_phase(d, p, before) for d in asked}
        weights = list(before.weights)
        for d in asked:
            weights[d] = phases[d][0]
        updates = {d: self.coded_update(d, p, before, phases[d][0]) for d in asked}
        bits_up = [self.upload_bits(before, d, updates[d]) if d in asked else 0 for d in devices]
        uploads = self.transmit("uplink", p, bits_up)
        delivered = [d for d in devices if bits_up[d] and uploads[d] is not None]
        resent = list(before.seeds_due)
        for d in asked:
            if d in delivered or self.config.seeding.lost_seeds == "drop":
                resent[d] = False
        after = replace(
            self.server_step(before, p, {d: phases[d] for d in delivered}, updates),
            round=p,
            seeds_due=resent,
            untrained=before.untrained - set(asked),
        )
        stages, means = list(before.stages), list(before.means)
        for d in delivered:
            stages[d] = min(stages[d] + 1, 2)
        memories = list(before.memories)
        for d in delivered:
            if update := updates[d]:
                memories[d] = memories[d].delivered(as_row(weights[d]), update.update)

        updated = after.updates > before.updates
        again = channel.no_uploads == "rebroadcast" and after.updates > 0
        audience = {*asked, *self.participants(p + 1)}
        replay = self.config.seeding.replay not in ("auto", 0)
        due = self.seeds_that_fit(before, after, audience) if replay else set()
        multicast = self.download_bits(len(due)) if updated or again else 0
        bits_down = [multicast if d in audience else 0 for d in devices]
        downloads = self.transmit("downlink", p, bits_down)
        teachers, stocks = list(before.teachers), list(before.stocks)
        for d in devices:
            if bits_down[d] and downloads[d] is not None:
                stocks[d] = stocks[d] | due
                if after.global_weights is not None:
                    downloaded = as_row(after.global_weights)
                    memories[d] = memories[d].replaced(as_row(weights[d]), downloaded)
                    weights[d] = after.global_weights
                    if stages[d] == 0 or means[d] is None:  # a scatter keeps its means
                        means[d] = after.global_means
                elif after.global_outputs is not None:  # FD
                    teachers[d] = after.global_outputs

        slots = self.slowest(uploads), self.slowest(downloads)
        after = replace(
            after,
            weights=weights,
            teachers=teachers,
            stocks=stocks,
            memories=memories,
            stages=stages,
            means=means,
            untrained=after.untrained - {d for d in devices if bits_down[d] and downloads[d]},
            communication=before.communication + sum(slots) * channel.slot_ms / 1000,
            computing=before.computing + self.computing_seconds(asked, updated),
        )
        return after, Record(
            asked=asked,
            phases=phases,
            uploads=[d in delivered for d in devices],
            downloads=[bits_down[d] > 0 and downloads[d] is not None for d in devices],
            senders=sum(bits > 0 for bits in bits_up),
            listening=len(audience),
            bits=(sum(bits_up), max(bits_down)),
            slots=slots,
            slowest=max(asked, key=lambda d: (self.step_us(d), -d)),
            change=relative_change(before, after),
        )

    def participants(self, p: int) -> list[int]:
        """The devices that take part: all, or so many of them, drawn anew in each round."""
        devices, wanted = len(self.samples), self.config.participants
        if wanted in ("all", devices):
            return list(range(devices))
        assert isinstance(wanted, int)
        assert wanted < devices
        chosen = stream(self.config.seed, "participants", p).choice(
            devices, size=wanted, replace=False
        )
        return [d for d in range(devices) if d in chosen]

    def local_phase(self, device: int, p: int, state: State) -> tuple[Weights, Outputs]:
        """Line 5: K iterations of Eq. 1, in FD of Eq. 3, with the averages of Eq. 2."""
        samples, replay = self.samples[device], self.config.seeding.replay
        draws = self.draws(len(samples), self.config.learning.local_steps, "draws", p, device)
        shares = label_shares(samples)
        stock = {d: state.seeds[d] for d in state.stocks[device]}
        replayed = self.seed_set(stock) if stock else []
        if replayed and replay != "auto":
            rng = stream(self.config.seed, "replay", p, device)
            from_seeds = rng.random(draws.shape) < replay
            others = len(samples) + rng.integers(len(replayed), size=draws.shape)
            draws = np.where(from_seeds, others, draws)
            shares = (1 - replay) * shares + replay * label_shares(replayed)
            samples = samples + replayed
        teacher = state.teachers[device] if self.protocol == "fd" else None
        weights, learning = self.begun(state, device), self.config.learning
        rate = learning_rate(learning, p, self.config.rounds)
        learning = learning.model_copy(update={"learning_rate": rate})
        offset = logit_offset(shares, learning)
        return learn(self.network, weights, samples, draws, teacher, learning, offset)

    def begun(self, state: State, device: int) -> Weights:
        """What a device's local phase begins with."""
        if device not in state.untrained:
            return state.weights[device]
        if self.protocol in PRIVATE and PRIVATE[self.protocol][0]:
            return state.weights[device]
        return closed_form(self.samples[device], self.config.statistics.feature_side)

    def coded_update(self, d: int, p: int, state: State, trained: Weights) -> Coded | None:
        """What a device that uploads updates sends."""
        if self.protocol not in FEEDBACK:
            return None
        rng = stream(self.config.seed, "update", p, d)
        if self.protocol == "feedsign":
            rng = stream(self.config.seed, "update", p)
        wanted = state.memories[d].wanted(as_row(trained))
        codec = CODEC.get(self.protocol, self.protocol)
        if not self.protocol.startswith("dp-"):
            return coded(codec, wanted, rng, self.config.updates)
        noisy = with_noise(wanted, self.config, d, p)
        sent = coded(codec, noisy, rng, self.config.updates)
        return replace(sent, norm=min(sent.norm, self.config.privacy.update_clip))

    def server_step(  # noqa: PLR0911 - one way out for each family
        self,
        state: State,
        p: int,
        inbox: Arrived,
        updates: dict[int, Coded | None],
    ) -> State:
        """Lines 8 to 10, for what was delivered."""
        if self.protocol in ALONE or not inbox:
            return state
        if self.protocol in PRIVATE:
            return self.private_step(state, p, list(inbox))
        if self.protocol in STATISTICS:
            return self.statistics_step(state, p, inbox, updates)
        if self.protocol in MAKE_SEEDS:
            new = {d: self.make_seeds(d) for d in inbox if state.seeds_due[d]}
            state = replace(state, seeds=state.seeds | new)
        if self.protocol in FEEDBACK:
            return self.with_updates(state, p, inbox, updates)
        if self.protocol == "cfd":
            samples = self.labelled(state, p, inbox)
            weights = self.convert(state, p, samples)
            return replace(state, global_weights=weights, updates=state.updates + 1)
        if self.protocol in WEIGHT_BITS:
            uploads = [self.as_uploaded(weights) for weights, _ in inbox.values()]
            mean = mean_weights(uploads, [len(self.samples[d]) for d in inbox])
            return replace(state, global_weights=mean, updates=state.updates + 1)
        outputs = mean_outputs(
            [outputs for _, outputs in inbox.values()],
            state.global_outputs,
            self.config.learning.unseen_labels,
        )
        state = replace(state, global_outputs=outputs)
        if self.protocol == "fd":
            return replace(state, updates=state.updates + 1)
        samples = self.seed_set(state.seeds)
        if not samples:
            return state
        weights = self.convert(state, p, samples)
        return replace(state, global_weights=weights, updates=state.updates + 1)

    def with_updates(
        self, state: State, p: int, inbox: Arrived, updates: dict[int, Coded | None]
    ) -> State:
        """The mean of the updates that arrived is added to the model."""
        last = state.global_weights or self.student(p)
        sizes = [len(self.samples[d]) for d in inbox]
        arrived = [updates[d] for d in inbox]
        step = mean_update(arrived, sizes, self.config.updates.step_limit)
        if self.protocol == "vote":
            step = 0.008 * np.sign(step)
        if self.protocol == "feedsign":
            direction = the_direction(stream(self.config.seed, "update", p), len(step))
            step = 0.002 * np.sign(np.round(direction @ step, 9)) * direction
        moved = like_weights(as_row(last) + step, last)
        return replace(state, global_weights=moved, updates=state.updates + 1)

    def statistics_step(
        self, state: State, p: int, inbox: Arrived, updates: dict[int, Coded | None]
    ) -> State:
        """The network that follows from all samples whose statistics arrived, so far.

        With updates beside them, it moves by what new statistics change in it; updates that come
        with the very first are relative to another network, and are left out.
        """
        held = state.held | {d for d in inbox if state.seeds_due[d]}
        side = self.config.statistics.feature_side

        def known(devices: frozenset[int]) -> Weights:
            return closed_form([one for d in sorted(devices) for one in self.samples[d]], side)

        moved = state
        if self.protocol == "murmur-stat" and (state.held or held == state.held):
            moved = self.with_updates(state, p, inbox, updates)
        if held == state.held:
            return moved
        after = known(held)
        if moved.global_weights is not None and self.protocol == "murmur-stat":
            now, before = moved.global_weights, known(state.held)
            after = {name: now[name] + after[name] - before[name] for name in after}
        return replace(state, held=held, global_weights=after, updates=state.updates + 1)

    def private(self) -> Private:
        pixels, summed = PRIVATE[self.protocol]
        return Private(self.config, self.samples[0][0][0], self.num_labels, pixels, summed)

    def private_step(self, state: State, p: int, devices: list[int]) -> State:
        """The parts that arrived are added up; a model follows from all so far."""
        private, sums, counted = self.private(), dict(state.sums), dict(state.counted)
        for stage in (0, 1):
            those = [d for d in devices if state.stages[d] == stage]
            if those:
                parts = [private.part(d, stage, self.samples[d], state.means[d]) for d in those]
                before, (samples, draws) = sums.get(stage, 0), counted.get(stage, (0, 0))
                sums[stage] = before + private.total(p, stage, parts)
                samples += sum(len(self.samples[d]) for d in those)
                counted[stage] = samples, draws + (1 if private.summed else len(those))
        means = private.means(sums[0], *counted[0])
        covariance = private.covariance(sums.get(1), *counted.get(1, (0, 0)))
        if private.pixels:
            weights = self.on_generated(private, means, covariance, p)
        else:
            weights = private.head(means, covariance)
        after = replace(state, sums=sums, counted=counted, global_means=means)
        return replace(after, global_weights=weights, updates=state.updates + 1)

    def on_generated(self, private: Private, means: Floats, covariance: Floats, p: int) -> Weights:
        """K_s steps on samples that are drawn."""
        rng = stream(self.config.seed, "generated", p)
        samples = private.drawn(means, covariance, rng)
        learning = self.config.learning
        size = learning.server_steps, learning.batch_size
        draws = rng.integers(len(samples), size=size, dtype=np.int32)
        edges = "conv1.kernel" in self.initial_weights[0]
        begun = empty_network(private.image, self.num_labels) if edges else self.student(p)
        return learn(self.network, begun, samples, draws, None, learning)[0]

    def labelled(self, state: State, p: int, inbox: Arrived) -> list[Sample]:
        """All mixed-up seeds, each with the mean of the labels that devices give to it.

        A device that has it names the likeliest; one that nobody has keeps what it came with.
        """
        found = []
        for owner in sorted(state.seeds):
            came_with = self.seed_set({owner: state.seeds[owner]})
            for image, label in came_with:
                says = [
                    np.eye(self.num_labels)[np.argmax(softmax(self.network(weights, image)[0]))]
                    for d, (weights, _) in inbox.items()
                    if owner in state.stocks[d]
                ]
                found.append((image, np.mean(says, axis=0) if says else label))
        return found

    def convert(self, state: State, p: int, samples: list[Sample]) -> Weights:
        """Line 10: K_s iterations of Eq. 5."""
        weights, learning = state.global_weights, self.config.learning
        if weights is None or learning.student_start == "fresh":
            weights = self.student(p)
        draws = self.draws(len(samples), learning.server_steps, "conversion", p)
        teacher = state.global_outputs  # None: labels alone teach
        return learn(self.network, weights, samples, draws, teacher, learning)[0]

    def make_seeds(self, device: int) -> list[Seed]:
        """Line 4."""
        rng = stream(self.config.seed, "seeds", device)
        make = MAKE_SEEDS[self.protocol]
        return make(rng, device, self.samples[device], self.config.seeding)

    def seed_set(self, seeds: dict[int, list[Seed]]) -> list[Sample]:
        """The samples of Eq. 5: in Mix2FLD those of line 8, else the seeds as they came."""
        config, labels = self.config.seeding, self.num_labels
        pool = [seed for device in sorted(seeds) for seed in seeds[device]]
        if not pool:
            return []
        if self.protocol == "fld":
            hard = [np.eye(labels)[seed.labels[0]] for seed in pool]
            return [(self.large(seed.image), label) for seed, label in zip(pool, hard, strict=True)]
        if self.protocol != "mix2fld":
            soft = [soft_label(seed.labels, config.ratios, labels) for seed in pool]
            if config.mixed_labels == "hard":
                soft = [np.eye(labels)[np.argmax(label)] for label in soft]
            return [(self.large(seed.image), label) for seed, label in zip(pool, soft, strict=True)]
        per = len(self.samples) if config.inverse_count == "per-device" else 1
        total = per * config.inverse_samples
        groups = self.choose_groups(pool, ceil(total / len(config.ratios)))
        unmixed = [
            unmix([pool[i] for i in group], label, config.ratios, labels)
            for group in groups
            for label in pool[group[0]].labels
        ]
        unmixed = [(self.large(image), label) for image, label in unmixed]
        if config.inverse_clip:
            unmixed = [(np.clip(image, 0, 1), label) for image, label in unmixed]
        return unmixed[:total]

    def large(self, image: Floats) -> Floats:
        """A seed at the size of a sample."""
        pooling = self.config.seeding.seed_pooling
        return image if pooling == 1 else enlarged(image, pooling)

    def choose_groups(self, pool: list[Seed], wanted: int) -> list[tuple[int, ...]]:
        """Distinct valid groups, as many as there are or as are wanted, then the same again."""
        valid = all_groups(pool)
        groups = self.order_groups(pool, wanted)
        assert {frozenset(group) for group in groups} <= valid
        assert len({frozenset(group) for group in groups}) == min(wanted, len(valid)) == len(groups)
        return [groups[i % len(groups)] for i in range(wanted)] if groups else []

    def as_uploaded(self, weights: Weights) -> Weights:
        """FL with fewer bits: each tensor on levels between its ends."""
        bits = WEIGHT_BITS[self.protocol]
        if bits == 32:
            return weights
        return {name: quantise(w, w.min(), w.max(), bits) for name, w in weights.items()}

    def upload_bits(  # noqa: PLR0911
        self, state: State, device: int, update: Coded | None
    ) -> int:
        """B_up; a seed's labels are charged with its pixels."""
        with_seeds = state.seeds_due[device]
        if self.protocol in ALONE:
            return 0
        if self.protocol in PRIVATE:
            stage, means = state.stages[device], state.means[device]
            due = stage == 0 or (stage == 1 and means is not None)
            return self.private().bits(stage) if due else 0
        if self.protocol in STATISTICS:
            side = self.config.statistics.feature_side
            d, labels = len(edge_kind(self.samples[0][0][0], side).directions), self.num_labels
            values = labels + labels * d + d * (d + 1) // 2
            return (update.bits if update else 0) + with_seeds * 32 * values
        if self.protocol == "cfd":
            labels = self.config.seeding.seed_samples * ceil(log2(self.num_labels))
            named = len(self.samples) + len(state.stocks[device]) * labels
            return named + with_seeds * self.seed_bits()
        if update is not None:
            return update.bits + with_seeds * self.seed_bits()
        if self.protocol in WEIGHT_BITS:
            tensors, bits = self.initial_weights[0].values(), WEIGHT_BITS[self.protocol]
            ends = 0 if bits == 32 else 2 * 32 * len(tensors)
            return bits * sum(w.size for w in tensors) + ends
        return 32 * self.num_labels**2 + with_seeds * self.seed_bits()

    def seed_bits(self) -> int:
        """Of the seeds of one device: pixels and labels."""
        if self.protocol not in MAKE_SEEDS:
            return 0
        config = self.config.seeding
        pixels = self.samples[0][0][0].size // config.seed_pooling**2
        mixed = 1 if self.protocol == "fld" else len(config.ratios)
        each = config.seed_bits * pixels + mixed * ceil(log2(self.num_labels))
        return config.seed_samples * each

    def download_bits(self, seeds: int) -> int:
        """B_dn: outputs in FD, weights elsewhere; for replay, which devices' seeds, and these."""
        if self.protocol == "fd":
            return 32 * self.num_labels**2
        weights = 32 * sum(w.size for w in self.initial_weights[0].values())
        if self.protocol in PRIVATE:
            weights += 32 * self.num_labels * len(self.private().kind.directions)
        if self.config.seeding.replay in ("auto", 0):
            return weights
        return weights + 8 * ceil((len(self.samples) + seeds * self.seed_bits()) / 8)

    def seeds_that_fit(self, before: State, after: State, audience: set[int]) -> set[int]:
        """Whose seeds go down: those that most listeners lack, as many as are likely to arrive."""
        lacking = {s: sum(s not in before.stocks[d] for d in audience) for s in after.seeds}
        wanted = sorted((s for s in lacking if lacking[s]), key=lambda s: (-lacking[s], s))
        count = min(1, len(wanted))
        while count < len(wanted) and self.likely_down(self.download_bits(count + 1)):
            count += 1
        return set(wanted[:count])

    def likely_down(self, bits: int) -> bool:
        """Whether enough of T_max independent slots are decoded with the probability asked for."""
        c = self.config.channel
        if c.link == "ideal":
            return True
        P = 10 ** ((c.downlink_power_dbm - 30) / 10)
        N0 = 10 ** ((c.noise_dbm_per_hz - 30) / 10)
        mean_snr = P * c.distance_m**-c.path_loss_exponent / (c.bandwidth_hz * N0)
        p, theta = np.exp(-c.downlink_snr_threshold / mean_snr), c.downlink_snr_threshold
        needed = ceil(bits / (c.slot_ms / 1000 * c.bandwidth_hz * log2(1 + theta)))
        arrives = sum(
            comb(c.max_slots, n) * p**n * (1 - p) ** (c.max_slots - n)
            for n in range(needed, c.max_slots + 1)
        )
        return bool(arrives >= self.config.updates.delivery_target)

    def transmit(self, direction: str, p: int, bits: list[int]) -> list[int | None]:
        """Sec. II-C and Eq. 4: slots that each device's payload takes, None for an outage."""
        c = self.config.channel
        up = direction == "uplink"
        senders = [d for d in range(len(bits)) if bits[d] > 0]
        W = c.bandwidth_hz * c.uplink_channels / max(1, len(senders)) if up else c.bandwidth_hz
        P = 10 ** (((c.uplink_power_dbm if up else c.downlink_power_dbm) - 30) / 10)
        theta = c.uplink_snr_threshold if up else c.downlink_snr_threshold
        N_0 = 10 ** ((c.noise_dbm_per_hz - 30) / 10)
        drawn = stream(self.config.seed, direction, p).exponential(size=(c.max_slots, len(senders)))
        h = {d: drawn[:, place] for place, d in enumerate(senders)}
        slots: list[int | None] = []
        for d in range(len(bits)):
            t, received = 0, 0.0
            while received < bits[d] and t < c.max_slots:
                snr = P * h[d][t] * c.distance_m**-c.path_loss_exponent / (W * N_0)
                received += c.slot_ms / 1000 * (snr >= theta) * W * log2(1 + theta)
                t += 1
            slots.append(t if received >= bits[d] else None)
        return slots

    def step_us(self, device: int) -> float:
        """What a step takes on a device: as stated, times exp(sigma z) with z drawn for each."""
        clock, devices = self.config.clock, len(self.samples)
        stated = clock.device_step_us
        one = stated if isinstance(stated, float) else stated[device]
        z = stream(self.config.seed, "device speeds").standard_normal(devices)[device]
        return one * exp(clock.device_step_spread * z)

    def computing_seconds(self, asked: list[int], updated: bool) -> float:
        """Decision 13: a stated cost for each step of a device, and of the server's student."""
        learning, clock = self.config.learning, self.config.clock
        trains = (*MAKE_SEEDS, "dp-seeds", "dp-seeds-sum")
        converted = updated and self.protocol in trains and self.protocol not in FEEDBACK
        device_us = learning.local_steps * max(self.step_us(d) for d in asked)
        server_us = learning.server_steps * clock.server_step_us if converted else 0.0
        return (device_us + server_us) * 1e-6

    def slowest(self, slots: list[int | None]) -> int:
        """Decision 13: a round waits for the slowest device, T_max for one in outage."""
        return max(self.config.channel.max_slots if s is None else s for s in slots)
