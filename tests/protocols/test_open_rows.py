"""Rows, payloads and links that someone else writes: nothing of them is lost on the way."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mix2fld.codecs import Encoded, PayloadError, Size
from mix2fld.engine.divergence import DivergedError
from mix2fld.engine.fleet_interface import LocalPhaseOutcome, Order
from mix2fld.engine.messages import Message
from mix2fld.engine.one_round import run_round, start_run
from mix2fld.engine.plan import plan_transfers
from mix2fld.engine.wire import Wire
from mix2fld.protocols.distillation import FD, Mix2FLD
from mix2fld.protocols.parts import Device, Turn
from mix2fld.protocols.seed_samples import unmixed
from mix2fld.protocols.table import PROTOCOLS
from mix2fld.runs.simulation import Simulation, check, make_simulation, run
from mix2fld.tasks.losses import Loss
from mix2fld.types import Dimensions, Local, Upload
from toys import DeadLink, toy_config, toy_dataset, toy_grid


@dataclass(frozen=True)
class NonZero:
    """Outputs without their zeros: a bit for each entry, then the float32 of those that count."""

    name: str = "non-zero outputs"

    def size(self, dims: Dimensions) -> Size:
        """All entries, at most."""
        return Size(33 * dims.num_labels**2, exact=False)

    def encode(self, value: Any, dims: Dimensions) -> Encoded:
        kept = np.ravel(value) > 0
        floats = np.ravel(value)[kept].astype("<f4")
        bits = kept.size + 32 * floats.size
        return Encoded(np.packbits(kept).tobytes() + floats.tobytes(), bits)

    def decode(self, data: bytes, dims: Dimensions) -> Any:
        entries = dims.num_labels**2
        head = -(-entries // 8)
        kept = np.unpackbits(np.frombuffer(data[:head], np.uint8), count=entries).astype(bool)
        if len(data) != head + 4 * int(kept.sum()):
            raise PayloadError(f"{self.name}: {len(data)} bytes do not fit the entries kept")
        value = np.zeros(entries, np.float32)
        value[kept] = np.frombuffer(data[head:], "<f4")
        return value.reshape(dims.num_labels, dims.num_labels)


@dataclass(frozen=True, kw_only=True)
class FewOutputs(FD):
    """FD in other bits: a label that a device never drew costs a bit for each entry."""

    title: str = "few"

    @property
    def upload_codec(self) -> NonZero:  # type: ignore[override]
        return NonZero()


FEW = FewOutputs()


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(PROTOCOLS, "few", FEW)
    return "few"


def a_wire() -> Wire:
    """On four labels: 16 entries."""
    simulation = make_simulation(toy_config(protocol="fd"), toy_dataset())
    return Wire(FEW, simulation.scenario.learning)


def a_device(state: Any) -> Device:
    """In the first round."""
    return Device(state, Turn(0, 1, 0), lambda: pytest.fail("no samples"), lambda: None)


def a_message(body: Encoded, once: Encoded | None = None, samples: int = 10) -> Message:
    return Message(0, 1, body, once, samples)


def test_a_size_that_depends_on_the_value_is_an_upper_bound():
    wire = a_wire()
    assert wire.upload_size(with_seeds=False) == Size(33 * 16, exact=False)
    identity = Local((), np.eye(4, dtype=np.float32))
    sent = wire.encode_body(a_device({}), identity)
    assert sent.bits == 16 + 32 * 4
    upload = wire.decode_upload(a_message(sent), Turn(0, 1, 0))
    np.testing.assert_array_equal(upload.value, np.eye(4))
    assert upload.samples == 10


@pytest.mark.parametrize("claimed", [-(2**40), -8, -1, 0, 8, 136, 152, 16 + 128 + 400, 2**70])
def test_a_count_of_bits_that_does_not_fit_the_bytes_is_refused(claimed):
    wire, identity = a_wire(), Local((), np.eye(4, dtype=np.float32))
    sent = wire.encode_body(a_device({}), identity)
    with pytest.raises(PayloadError, match=r"bits in 18 bytes; must be at most 528 bits"):
        wire.decode_upload(a_message(Encoded(sent.data, claimed)), Turn(0, 1, 0))


@pytest.mark.parametrize("claimed", [-8, -1])
def test_less_than_nothing_is_refused(claimed):
    with pytest.raises(PayloadError, match=f"{claimed} bits in 0 bytes"):
        a_wire().decode_upload(a_message(Encoded(b"", claimed)), Turn(0, 1, 0))


def test_more_than_the_bound_is_refused_even_if_it_fits_its_bytes():
    data = bytes(67)  # 536 bits, the bound is 528
    with pytest.raises(PayloadError, match="529 bits in 67 bytes; must be at most 528 bits"):
        a_wire().decode_upload(a_message(Encoded(data, 529)), Turn(0, 1, 0))


def test_of_an_exact_size_no_bit_can_be_saved():
    """Labels of three end within a byte: a count that is too small would fit the bytes."""
    config = toy_config(protocol="fld", seed_samples=3)
    simulation = make_simulation(config, toy_dataset())
    wire, learning = simulation.scenario.wire, simulation.scenario.learning
    state = simulation.start().devices[0]
    local = Local(state["weights"], np.eye(4, dtype=np.float32))
    body, turn = wire.encode_body(a_device(state), local), Turn(0, 1, 0)
    made = wire.make_once(0, *simulation.fleet.own(0))
    assert made is not None
    seeds = wire.encode_once(made)
    assert seeds.bits % 8
    assert a_message(body, seeds).bits == wire.upload_size(with_seeds=True).bits
    assert wire.decode_upload(a_message(body, seeds), turn).seeds is not None
    for wrong in (seeds.bits - 1, seeds.bits + 1):
        with pytest.raises(PayloadError, match="seeds: "):
            wire.decode_upload(a_message(body, Encoded(seeds.data, wrong)), turn)
    for cut in (seeds.data[:-1], seeds.data + b"\0"):
        with pytest.raises(PayloadError, match="seeds: "):
            wire.decode_upload(a_message(body, Encoded(cut, seeds.bits)), turn)
    other = Wire(PROTOCOLS["fd"], learning)
    with pytest.raises(PayloadError, match="seeds: this protocol has none"):
        other.decode_upload(a_message(body, seeds), turn)


def test_a_run_charges_what_was_encoded(few):
    """Devices that hold two of four labels send half of the rows."""
    (result,) = run(toy_config(protocol=few, partition="shards"), dataset=toy_dataset())
    for line in result.rounds:
        up = line["bits"]["up"]
        assert 4 * 16 < up < 4 * 33 * 16
        assert (up - 4 * 16) % 32 == 0


class LyingFleet:
    """Device 1 says that its upload has another number of bits; all else is as it should be."""

    def __init__(self, simulation: Simulation, claimed: int) -> None:
        self._fleet, self._claimed = simulation.fleet, claimed
        self.refused: list[tuple[int, str]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fleet, name)

    def train(self, states: Any, order: Order) -> tuple[Any, LocalPhaseOutcome]:
        after, trained = self._fleet.train(states, order)
        message = trained.messages[1]
        lie = message._replace(body=Encoded(message.body.data, self._claimed))
        return after, trained._replace(messages={**trained.messages, 1: lie})

    def refuse(self, device: int, round_number: int, reason: str) -> None:
        self.refused.append((device, reason))


@pytest.mark.parametrize("claimed", [1, 2**63 - 1, 2**80])
def test_a_device_that_lies_about_its_bits_ends_no_run(few, claimed):
    simulation = make_simulation(toy_config(protocol=few), toy_dataset())
    fleet = LyingFleet(simulation, claimed)
    _, info = run_round(simulation.scenario, fleet, start_run(simulation.scenario, fleet))
    assert [device for device, _ in fleet.refused] == [1]
    assert info.uploads["devices"] == [0, 2, 3]
    assert info.bits["up"] <= 4 * 33 * 16


def wrapped(function: Callable[..., Any], calls: list[str], name: str) -> Callable[..., Any]:
    """Another object that does the same."""

    def call(*given: Any) -> Any:
        calls.append(name)
        return function(*given)

    return call


def test_wrapped_functions_of_a_row_still_unmix(monkeypatch):
    """The server trains on unmixed samples, and whoever asks is told so."""
    calls: list[str] = []
    seeds = replace(
        unmixed,
        collect=wrapped(unmixed.collect, calls, "collect"),
        prepare=wrapped(unmixed.prepare, calls, "prepare"),
    )

    class Own(Mix2FLD):
        def step(self, *given: Any) -> Any:
            return wrapped(super().step, calls, "step")(*given)

    monkeypatch.setitem(PROTOCOLS, "own", Own(seeds=seeds))
    config = toy_grid(protocols=("mix2fld", "own"))
    first, second = run(config, dataset=toy_dataset())
    assert set(calls) == {"collect", "prepare", "step"}
    assert second.rounds[-1]["seeds"]["distinct_groups"] > 0
    for one, other in zip(first.rounds, second.rounds, strict=True):
        assert one == other


def test_a_wrapped_row_that_unmixes_has_its_condition_named(monkeypatch):
    """Likely cause of a divergence: near equal ratios, whatever function unmixes."""
    calls: list[str] = []
    seeds = replace(unmixed, prepare=wrapped(unmixed.prepare, calls, "prepare"))

    class Diverging(Mix2FLD):
        def step(self, *given: Any) -> Any:
            state, info = super().step(*given)
            return replace(state, weights=(np.full(3, 1e9, np.float32),)), info

    monkeypatch.setitem(PROTOCOLS, "own", Diverging(seeds=seeds))
    with pytest.raises(DivergedError, match=r"mixing_ratio = 0\.49.*condition number"):
        run(toy_config(protocol="own", mixing_ratio=0.49), dataset=toy_dataset())


def test_a_custom_loss_of_a_row_is_used_where_the_model_has_machine_code(monkeypatch):
    """The same run with and without machine code, and another than with the loss it replaces."""

    def squared(logits: Any, labels: Any, teacher: Any) -> Any:
        del teacher
        return jnp.mean(jnp.sum((jax.nn.softmax(logits) - labels) ** 2, axis=-1))

    row = replace(PROTOCOLS["fl"], local_loss=Loss("label", custom=squared))
    monkeypatch.setitem(PROTOCOLS, "own", row)
    config = toy_config(protocol="own", model="paper-cnn", local_steps=10, rounds=1)
    ends = {}
    for kernel in ("auto", "xla"):
        simulation = make_simulation(config.replace(kernel=kernel), toy_dataset())
        ends[kernel], _ = simulation.run_round(simulation.start())
    simulation = make_simulation(config.replace(protocol="fl"), toy_dataset())
    plain, _ = simulation.run_round(simulation.start())
    for auto, xla in zip(ends["auto"].server.weights, ends["xla"].server.weights, strict=True):
        np.testing.assert_array_equal(auto, xla)
    assert np.abs(ends["auto"].server.weights[-1] - plain.server.weights[-1]).max() > 1e-3


def test_a_plan_over_a_link_without_a_closed_form_is_a_sentence(few):
    learning = make_simulation(toy_config(protocol="fd"), toy_dataset()).scenario.learning
    for name in ("fd", few, "mix2fld"):
        for plan in plan_transfers([name], learning, DeadLink()):
            bound = "at most " if name == few and plan.transfer == "upload" else ""
            assert plan.problem == (
                f"{PROTOCOLS[name].title}: {plan.transfer} of {bound}{plan.size.bits:,} bits did "
                "not arrive in any of 100 simulated transmissions"
            )
            assert plan.as_dict()["slots_needed"] is None


def test_a_plan_in_closed_form_says_how_many_slots_are_missing(few):
    config = toy_grid(protocols=("fd", few), link="rayleigh", max_slots=2, slot_ms=0.001)
    found = check(config, toy_dataset())
    assert [line for line in found if line.startswith("FD: upload")] == [
        "FD: upload of 512 bits needs 52 slots, max_slots is 2: it never arrives"
    ]
    assert [line for line in found if line.startswith("few: upload")] == [
        "few: upload of at most 528 bits needs 53 slots, max_slots is 2: the largest never arrives"
    ]


def test_a_plan_that_works_out_names_no_problem():
    assert check(toy_grid(protocols=tuple(PROTOCOLS)), toy_dataset()) == []


def test_of_several_uploads_those_that_are_refused_leave_the_others() -> None:
    """Also where the protocol itself refuses one while it reads them all."""
    wire, identity = a_wire(), Local((), np.eye(4, dtype=np.float32))
    sent = wire.encode_body(a_device({}), identity)
    messages = [a_message(sent), a_message(Encoded(sent.data, -8)), a_message(sent, samples=3)]
    turns = [Turn(0, 1, device) for device in range(3)]
    first, refused, last = wire.decode_uploads(messages, turns)
    assert isinstance(refused, PayloadError)
    assert isinstance(first, Upload)
    assert isinstance(last, Upload)
    assert (first.samples, last.samples) == (10, 3)

    class Picky(type(wire.protocol)):  # type: ignore[misc]
        def read(self, value: Any, turn: Turn) -> Any:
            if turn.device == 0:
                raise PayloadError("not from this one")
            return value

    wire.protocol = Picky()
    found = wire.decode_uploads(messages, turns)
    assert [isinstance(own, Upload) for own in found] == [False, False, True]
