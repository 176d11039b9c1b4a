"""The global model in few bits: relays and coded steps, who missed some, and what is refused."""

from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reliability.faults import Quiet

import mix2fld
from mix2fld.base.errors import InputError
from mix2fld.codecs import Encoded, GlobalSteps, PayloadError, RotatedUpdate, Weights
from mix2fld.codecs.global_steps import GlobalState, RelayedUpload, Step
from mix2fld.engine.plan import plan_transfers
from mix2fld.protocols import downlink
from mix2fld.protocols.downlink import KNOWN, STEPS, checksum
from mix2fld.protocols.table import PROTOCOLS
from mix2fld.protocols.updates import Murmur
from mix2fld.runs.simulation import run
from mix2fld.types import Dimensions, SampleFormat, ServerState
from stored_runs import check_resumed
from toys import CoinLink, RoomyDownlink, simulation_of, toy_config, toy_dataset

LARGE = ("fl", "fl8", "projected")
"""Four uploads of theirs have more bits than all weights."""
RELAYING = [n for n, row in PROTOCOLS.items() if "relay" in row.downlinks and n not in LARGE]
CODING = [name for name, row in PROTOCOLS.items() if "coded" in row.downlinks]
WEIGHTS_BITS = 282_752
FEW = {"eden": {"bits_per_weight": 0.1}, "dp-fl": {"bits_per_weight": 0.1}}


def rows(tensors: Any) -> np.ndarray:
    return np.concatenate([np.ravel(part) for part in tensors])


def simulate(name: str, over: Any = None, rounds: int = 3, **fields: Any) -> list[tuple[Any, Any]]:
    """The state after each round, and its record."""
    name, _, bits = name.partition(":bits=")
    fields |= {"update_bits": int(bits)} if bits else {}
    fields = {"link": "ideal", **FEW.get(name.partition(":")[0], {}), **fields}
    simulation = simulation_of(name, over, **fields, rounds=rounds)
    state, found = simulation.start(), []
    for _ in range(rounds):
        state, info = simulation.run_round(state)
        found.append((state, info))
    return found


@pytest.mark.parametrize("name", RELAYING)
def test_a_relay_is_the_same_training_bit_for_bit(name: str) -> None:
    """Every round, on the server and on every device, in the bits of the uploads."""
    plain = simulate(name, downlink="weights")
    for (state, info), (relayed, few) in zip(plain, simulate(name, downlink="relay"), strict=True):
        np.testing.assert_array_equal(rows(state.server.weights), rows(relayed.server.weights))
        for device, own in zip(state.devices, relayed.devices, strict=True):
            np.testing.assert_array_equal(rows(device["weights"]), rows(own["weights"]))
            assert checksum(own[KNOWN]["weights"]) == checksum(relayed.server.weights)
        assert info.scores == few.scores
        assert info.bits["up"] == few.bits["up"]
        if few.bits["down"] == WEIGHTS_BITS + 64 and PROTOCOLS[name].statistics:
            continue
        smaller = few.bits["up"] < WEIGHTS_BITS
        head = 64 + (0 if not smaller else 1 + 24 + 4 + 25 + 1 + 25 * 4)
        assert few.bits["down"] <= min(WEIGHTS_BITS, few.bits["up"]) + head


def test_only_steps_without_statistics_are_relayed() -> None:
    """The network that follows from statistics comes down as weights, as it is planned."""
    fields = {"link": "ideal", "feature_side": 2, "update_bits": 400, "downlink": "relay"}
    simulation = simulation_of("murmur-stat", **fields, rounds=4)
    plans = plan_transfers(["murmur-stat"], simulation.scenario.learning, simulation.scenario.link)
    planned = {p.transfer: p.size.bits for p in plans if p.budget.direction == "downlink"}
    state, bits = simulation.start(), []
    for _ in range(4):
        state, info = simulation.run_round(state)
        bits.append(info.bits["down"])
    assert bits == [WEIGHTS_BITS + 64, *[64 + 1 + 24 + 4 + 25 + 1 + 4 * 400] * 3]
    assert planned == {"first download": bits[0], "later downloads": bits[1]}


@pytest.mark.parametrize("name", LARGE)
def test_a_relay_of_more_bits_than_all_weights_is_refused(name: str) -> None:
    """By name; ``auto`` sends the weights, without a version beside them."""
    with pytest.raises(InputError, match="more bits than all weights; must be weights, auto or c"):
        simulate(name, downlink="relay")
    for _, info in simulate(name, downlink="auto", rounds=1):
        assert info.bits["down"] == WEIGHTS_BITS


@pytest.mark.parametrize("name", CODING)
@pytest.mark.parametrize("bits", [20, 2000, "auto"])
def test_a_coded_step_leaves_server_and_devices_equal(name: str, bits: Any) -> None:
    for state, info in simulate(name, downlink="coded", downlink_step_bits=bits):
        if not state.server.updates:
            continue
        for device in state.devices:
            assert checksum(device[KNOWN]["weights"]) == checksum(state.server.weights)
        if not info.bits["down"]:
            continue
        carried = {"auto": 8836 + 16}.get(bits, bits)
        with_seeds = info.bits["down"] - (64 + 1 + 24 + carried)
        replays = PROTOCOLS[name].training.replay
        assert with_seeds > 0 if replays else with_seeds == 0


def test_what_codes_leave_out_is_due_with_the_next_step() -> None:
    """All that was sent and what is due is all that the server moved by."""
    sent = [state.server for state, _ in simulate("fl", downlink="coded", downlink_step_bits=500)]
    due = [rows(server.memory[STEPS]["residual"]) for server in sent]
    assert all(np.linalg.norm(each) > 0 for each in due)
    plain = simulate("fl", downlink="coded", downlink_step_bits=500, rounds=1)[0][0].server
    assert checksum(plain.weights) == checksum(sent[0].weights)


def bits_down(**fields: Any) -> list[int]:
    """Of each round of Murmur, 3 of 12 devices taking part."""
    fields = {
        "devices": 12,
        "participants": 3,
        "samples_per_device": 10,
        "local_steps": 1,
        **fields,
    }
    return [info.bits["down"] for _, info in simulate("murmur:bits=200", **fields)]


STEP = 1 + 24 + 12 + 25 + 1 + 3 * 200
"""Bits of a step of three uploads."""


def test_nobody_misses_a_step_where_all_idle_devices_listen() -> None:
    """So that every multicast is one step, however long a device is not asked."""
    assert bits_down(rounds=12) == [64 + STEP] * 12
    of_some = bits_down(rounds=12, listeners="participants")
    assert of_some[0] == 64 + STEP
    assert max(of_some) >= 64 + 5 * STEP


def test_who_listens_changes_no_training() -> None:
    """A device takes the steps one by one, or those that it missed together."""
    of_all, of_some = (
        simulate(
            "murmur:bits=200", rounds=8, devices=12, participants=3, samples_per_device=10,
            listeners=listeners,
        )
        for listeners in ("all", "participants")
    )  # fmt: skip
    for (state, info), (other, found) in zip(of_all, of_some, strict=True):
        np.testing.assert_array_equal(rows(state.server.weights), rows(other.server.weights))
        assert info.scores["devices"] == found.scores["devices"]


def test_weights_are_for_those_who_take_part_unless_all_shall_listen() -> None:
    def listening(**fields: Any) -> list[int]:
        found = simulate("fl", devices=12, participants=3, samples_per_device=10, **fields)
        return [info.downloads["attempted"] for _, info in found]

    assert max(listening()) <= 6
    assert listening(listeners="all") == [12] * 3


@pytest.mark.parametrize("mode", ["relay", "coded"])
@pytest.mark.parametrize("participants", ["all", 2])
def test_who_missed_steps_is_sent_them(mode: str, participants: Any) -> None:
    """Over a link that loses any transfer: what a device has is a version that the server made."""
    known = {0: None}
    several = fewer = 0
    for state, info in simulate(
        "murmur:bits=200", CoinLink(), 12, downlink=mode, participants=participants,
        downlink_step_bits=200,
    ):  # fmt: skip
        server = state.server
        if server.updates:
            memory = server.memory[STEPS]
            known[memory["version"]] = checksum(server.weights)
            for device, has in zip(state.devices, memory.get("has", [0] * 4), strict=True):
                version = int(device[KNOWN]["version"])
                assert version == has
                if version:
                    assert checksum(device[KNOWN]["weights"]) == known[version]
                    assert checksum(device["base"]) == known[version]
            behind = memory["version"] - min(memory.get("has", [0]))
            several += info.bits["down"] > 1.5 * {"relay": 4 * 200, "coded": 200}[mode]
            fewer += behind > 1
        assert info.bits["down"] < WEIGHTS_BITS / 10
    assert several
    assert fewer


def test_a_history_shorter_than_an_absence_ends_in_weights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(downlink, "MOST_STEPS", 2)
    found = simulate("murmur:bits=200", CoinLink(), 14, participants=1)
    bits = [info.bits["down"] for _, info in found]
    assert WEIGHTS_BITS + 64 in bits
    assert min(each for each in bits if each) < 1000
    for state, _ in found:
        assert len(state.server.memory.get(STEPS, {"kept": ()})["kept"]) <= 2
    for (before, _), (_, info) in pairwise(found):
        had = before.server.memory.get(STEPS, {}).get("has", np.zeros(4, np.int64))
        first = before.server.updates + info.uploads["delivered"] - 2
        lacking = np.flatnonzero(had < first).tolist() if info.bits["down"] else []
        assert info.downloads.get("beyond_history", []) == lacking


def test_a_snapshot_for_who_was_away_too_long_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of a run that was stopped and resumed after it was said."""
    monkeypatch.setattr(downlink, "MOST_STEPS", 2)
    config = toy_config(protocol="murmur", update_bits=200, participants=1, rounds=14)
    whole = Quiet()
    (result,) = run(config, dataset=toy_dataset(), link=CoinLink(), watcher=whole)
    rounds = [i["round"] for i in result.rounds if "beyond_history" in i["downloads"]]
    assert len(rounds) > 1
    assert len(whole.notes) == 1
    assert (
        f"round {rounds[0]}: devices that lack more steps than the server keeps" in whole.notes[0]
    )
    first, second = Quiet(rounds[0]), Quiet()
    with pytest.raises(KeyboardInterrupt):
        run(config, tmp_path, dataset=toy_dataset(), link=CoinLink(), watcher=first)
    run(config, tmp_path, dataset=toy_dataset(), link=CoinLink(), watcher=second)
    assert (first.notes, second.notes) == (whole.notes, [])


def test_weights_that_nobody_was_away_for_are_not_said() -> None:
    """To devices that begin differently, and of statistics, of which no steps are kept."""
    for fields in (
        {"initial_weights": "independent", "protocol": "murmur"},
        {"feature_side": 2, "protocol": "murmur-stat"},
    ):
        told = Quiet()
        config = toy_config(**fields, update_bits=400, rounds=3)
        run(config, dataset=toy_dataset(), link=CoinLink(), watcher=told)
        assert not [note for note in told.notes if "lack more steps" in note]


def test_steps_that_have_more_bits_than_all_weights_are_not_kept() -> None:
    """They would never be sent."""
    found = simulate("murmur:bits=20000", RoomyDownlink(room=1000), 9, participants=2)
    server = found[-1][0].server
    assert server.updates == 9
    assert len(server.memory[STEPS]["kept"]) == WEIGHTS_BITS // 40_000


def test_weights_that_cannot_arrive_hold_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices that need weights wait for them; all others are sent steps."""
    monkeypatch.setattr(downlink, "MOST_STEPS", 2)
    room = RoomyDownlink(room=20_000)
    simulation = simulation_of("murmur", room, rounds=6, update_bits=200)
    state = simulation.start()
    state, _ = simulation.run_round(state)
    has = state.server.memory[STEPS]["has"].copy()
    has[0] = -1
    memory = {**state.server.memory[STEPS], "has": has}
    gone = {**state.devices[0][KNOWN], "version": np.array(-1)}
    state = replace(
        state,
        server=state.server.keeping(**{STEPS: memory}),
        devices=[{**state.devices[0], KNOWN: gone}, *state.devices[1:]],
    )
    state, info = simulation.run_round(state)
    assert info.bits["down"] < 2000
    assert state.server.memory[STEPS]["has"].tolist() == [-1, 2, 2, 2]
    assert [int(device[KNOWN]["version"]) for device in state.devices] == [-1, 2, 2, 2]


def test_devices_that_begin_differently_are_sent_weights_first() -> None:
    found = simulate("murmur:bits=200", initial_weights="independent")
    bits = [info.bits["down"] for _, info in found]
    assert bits[0] == WEIGHTS_BITS + 64
    assert max(bits[1:]) < 1000


@pytest.mark.parametrize(
    "fields",
    [
        {"protocol": "murmur"},
        {"protocol": "murmur-mix", "participants": 2},
        {
            "protocol": "murmur",
            "wait": "quorum:0.5",
            "device_step_spread": 1.0,
            "device_step_us": 900.0,
        },
        {"protocol": "mix2fld", "downlink": "coded", "downlink_step_bits": 900},
    ],
)
def test_a_run_that_was_stopped_has_the_same_bytes(tmp_path: Path, fields: Any) -> None:
    config = toy_config(**fields, rounds=5)
    check_resumed(tmp_path, config, 1, 4, link=CoinLink())


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"protocol": "mix2fld", "downlink": "relay"}, "downlink = relay: Mix2FLD cannot"),
        ({"protocol": "mix2fld", "downlink": "relay"}, "must be weights, auto or coded"),
        ({"protocol": "isolated", "downlink": "relay"}, "isolated downloads nothing; leave it out"),
        ({"protocol": "fd", "downlink": "auto"}, "downlink = auto: FD cannot"),
        ({"protocol": "dp-statistics", "downlink": "coded"}, "downlink = coded: DP statistics"),
        ({"protocol": "fl", "downlink": "relay", "downlink_bits": 8}, "downlink_bits = 32"),
        ({"protocol": "fl", "downlink": "relays"}, "downlink"),
        ({"protocol": "fl", "downlink": "coded", "downlink_step_bits": 4}, "downlink_step_bits"),
    ],
)
def test_what_cannot_come_down_so_is_refused(fields: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        run(toy_config(rounds=1, **fields), dataset=toy_dataset())


@dataclass(frozen=True, kw_only=True)
class Counting(Murmur):
    """Its step needs what it remembers."""

    downlinks = ("auto", "weights", "relay")
    title: str = "counting"

    def step(self, server: ServerState, inbox: Any, round_number: int) -> Any:
        after, info = super().step(server, inbox, round_number)
        count = after.memory.get("count", 7)
        moved = tuple(np.float32(count) * part for part in after.weights or ())
        return replace(after.keeping(count=count + 1), weights=moved), info


@dataclass(frozen=True, kw_only=True)
class Late(Counting):
    """The same, from the second step on."""

    downlinks = ("auto", "weights", "relay")

    def step(self, server: ServerState, inbox: Any, round_number: int) -> Any:
        after, info = Murmur.step(self, server, inbox, round_number)
        count = after.memory.get("count", 0)
        moved = tuple(part + np.float32(count) for part in after.weights or ())
        return replace(after.keeping(count=count + 1), weights=moved), info


@pytest.mark.parametrize("row", [Counting(bits=200), Late(bits=200)])
def test_a_step_that_needs_more_than_the_uploads_is_found(
    row: Murmur, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PROTOCOLS, "counting", row)
    config = toy_config(protocol="counting", rounds=3, link="ideal")
    with pytest.raises(InputError, match="needs more than the uploads"):
        run(config, dataset=toy_dataset())
    run(config.replace(downlink="weights"), dataset=toy_dataset())


def test_a_step_of_its_own_comes_down_as_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless its class says that devices can take it."""

    class Own(Murmur):
        def step(self, server: ServerState, inbox: Any, round_number: int) -> Any:
            after, info = super().step(server, inbox, round_number)
            return after.keeping(count=after.memory.get("count", 0) + 1), info

    assert Own.downlinks[0] == "weights"
    assert sorted(Own.downlinks) == ["auto", "coded", "weights"]
    monkeypatch.setitem(PROTOCOLS, "own", Own(bits=200))
    config = toy_config(protocol="own", rounds=2, link="ideal")
    (result,) = run(config, dataset=toy_dataset())
    assert [info["bits"]["down"] for info in result.rounds] == [WEIGHTS_BITS] * 2


# --- the payload

DIMS = Dimensions(((3, 5), (5,)), 4, SampleFormat((8, 8, 1)), 10, 8, (8, 8, 1))
CODEC = RotatedUpdate(largest_per_group=True, bits=37)
VARIABLE = RotatedUpdate(largest_per_group=True, bits=64, variable_rate=True)


def payload(upload: Any) -> GlobalSteps:
    return GlobalSteps(6, upload, CODEC, Weights())


@given(
    count=st.integers(0, 5), variable=st.booleans(), coded=st.booleans(), seed=st.integers(0, 99)
)
def test_steps_come_out_as_they_went_in(count: int, variable: bool, coded: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    codec = payload(VARIABLE if variable else CODEC)

    def body() -> Encoded:
        bits = int(rng.choice([24, 40, 64])) if variable and not coded else 37
        sent = np.packbits(rng.integers(2, size=bits, dtype=np.uint8)).tobytes()
        return Encoded(sent, bits)

    def step(number: int) -> Step:
        if coded:
            return Step(number, {}, body())
        who = rng.choice(6, size=rng.integers(1, 7), replace=False).tolist()
        return Step(
            number,
            {
                d: RelayedUpload(int(rng.integers(1, 9)), body(), int(rng.integers(0, number)))
                for d in sorted(who)
            },
        )

    value = GlobalState(9, 123456789, None, tuple(step(number) for number in range(1, 1 + count)))
    carried = codec.encode(value, DIMS)
    assert len(carried.data) == -(-carried.bits // 8)
    assert carried.bits == codec.state_bits(value, DIMS)
    assert codec.decode(carried.data, DIMS) == value


@given(damage=st.binary(max_size=400))
def test_bytes_are_a_global_state_or_an_error(damage: bytes) -> None:
    try:
        found = payload(VARIABLE).decode(damage, DIMS)
    except PayloadError:
        return
    assert payload(VARIABLE).encode(found, DIMS).data == damage or found.steps


def test_as_weights() -> None:
    weights = (np.ones((3, 5), np.float32), np.zeros(5, np.float32))
    sent = payload(CODEC).encode(GlobalState(3, checksum(weights), weights), DIMS)
    assert sent.bits == 64 + 32 * 20 == payload(CODEC).size(DIMS).bits
    found = payload(CODEC).decode(sent.data, DIMS)
    assert (found.version, found.steps) == (3, ())
    np.testing.assert_array_equal(rows(found.weights), rows(weights))


def test_a_public_protocol_whose_download_is_more_than_weights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from examples.scaffold import Scaffold

    PROTOCOLS.pop("scaffold", None)  # other tests know the table without the example

    monkeypatch.setitem(PROTOCOLS, "scaffold", Scaffold())
    for mode, words in (("relay", "cannot be downloaded so"), ("coded", "weights alone")):
        with pytest.raises(InputError, match=words):
            mix2fld.run(
                toy_config(protocol="scaffold", downlink=mode, rounds=1), dataset=toy_dataset()
            )
