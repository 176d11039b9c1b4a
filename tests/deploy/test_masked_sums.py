"""Masked sums over MQTT: the simulator's numbers, whoever leaves."""

from pathlib import Path

import numpy as np
import pytest

from deploy.lab import assert_same_as_engine, deployed_config, diary, rounds_of
from deploy.memory_line import MemoryBroker, run_in_memory
from mix2fld.base.errors import InputError
from mix2fld.deploy.edge.learning import small_learning
from mix2fld.deploy.edge.messages import SumAnswer, SumOrder, Trained, pack, unpack
from mix2fld.deploy.edge.store import Store
from mix2fld.deploy.settings import check_deployable, check_flower
from mix2fld.masking.party import Overhead
from toys import toy_config

MASKED = {"sums": "masked", "sample_weights": "ignored", "aggregation": "mean"}


def masked_config(folder: Path, **fields):
    return deployed_config(folder, **{**MASKED, **fields})


@pytest.mark.parametrize("name", ["fl", "projected:share=0.2"])
def test_a_masked_run_has_the_numbers_of_the_engine(tmp_path: Path, name: str) -> None:
    path = run_in_memory(tmp_path, masked_config(tmp_path, protocol=name, rounds=2))
    assert [info["uploads"]["delivered"] for info in rounds_of(path)] == [4, 4]
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")


def test_small_devices_have_the_numbers_of_the_engine(tmp_path: Path) -> None:
    """They know less of a run's settings."""
    config = masked_config(tmp_path, protocol="fl", rounds=1, kernel="native")
    path = run_in_memory(tmp_path, config, make_learning=small_learning)
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")


def test_what_devices_send_is_what_is_charged_and_never_a_number_without_mask(
    tmp_path: Path,
) -> None:
    broker = MemoryBroker()
    path = run_in_memory(tmp_path, masked_config(tmp_path, protocol="fl", rounds=1), broker)
    sent = [unpack(data) for topic, data, _ in broker.sent if topic.startswith("u/")]
    assert {len(one.upload) for one in sent if isinstance(one, Trained)} == {1}
    answers = [one for one in sent if isinstance(one, SumAnswer)]
    assert sorted(one.step for one in answers) == sorted([0, 1, 2, 3] * 4)
    (info,) = rounds_of(path)
    keys = sum(len(one.data) for one in answers if one.step != 2)
    numbers = [np.frombuffer(one.data, np.uint8) for one in answers if one.step == 2]
    assert 8 * keys == 4 * Overhead.of(4).up
    bits = (info["bits"]["up"] - 8 * keys) // 4 - 8  # beside the kind
    for own in numbers:
        assert len(own) == -(-bits // 8)
        counts = np.bincount(own, minlength=256)  # as good as uniform
        assert np.sum((counts - len(own) / 256) ** 2) / (len(own) / 256) < 255 + 6 * 22.6


class Vanishing(MemoryBroker):
    """A device does not answer a step of a sum, nor any later one."""

    def __init__(self, device: int, step: int) -> None:
        super().__init__()
        self.name, self.step = str(device), step

    def deliveries(self, line, topic, payload):
        message = unpack(payload) if topic == f"o/{self.name}" else None
        if isinstance(message, SumOrder) and message.step >= self.step:
            return [(self.clients["server"], f"p/{self.name}", b"")]  # the last will
        return super().deliveries(line, topic, payload)


@pytest.mark.parametrize("step", [0, 1, 2, 3])
def test_who_leaves_is_left_out_of_the_sum_or_is_in_it(tmp_path: Path, step: int) -> None:
    """Before its numbers were sent, its masks are removed; after, enough others reveal them."""
    config = masked_config(tmp_path, protocol="fl", rounds=1)
    path = run_in_memory(tmp_path, config, Vanishing(2, step))
    expected = [0, 1, 2, 3] if step == 3 else [0, 1, 3]
    assert rounds_of(path)[0]["uploads"]["devices"] == expected


def test_too_few_devices_make_no_sum_and_their_uploads_are_lost(tmp_path: Path) -> None:
    config = masked_config(tmp_path, protocol="fl", rounds=1, sum_threshold=4)
    with pytest.raises(InputError, match="no upload arrived from round 1"):
        run_in_memory(tmp_path, config, Vanishing(1, 2))
    said = diary(tmp_path / "runs" / config.run_name)
    assert "round 1: no sum: 3 of at least 4 devices sent their numbers" in said


class Twice(MemoryBroker):
    """Delivers every message twice."""

    def deliveries(self, line, topic, payload):
        return [(line, topic, payload)] * 2


def test_messages_that_come_twice_change_nothing(tmp_path: Path) -> None:
    config = masked_config(tmp_path, protocol="fl", rounds=2)
    path = run_in_memory(tmp_path, config, Twice())
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")


class Forging(MemoryBroker):
    """The server asks for a sum of other devices once more, as only a dishonest one does."""

    def __init__(self) -> None:
        super().__init__()
        self.forged = False

    def deliveries(self, line, topic, payload):
        message = unpack(payload) if topic == "o/0" else None
        found = super().deliveries(line, topic, payload)
        if isinstance(message, SumOrder) and message.step == 3 and not self.forged:
            self.forged = True
            found += [(line, topic, pack(message._replace(data=message.data[:12])))]
        return found


def test_a_device_reveals_for_one_sum_of_its_numbers_alone(tmp_path: Path) -> None:
    broker = Forging()
    run_in_memory(tmp_path, masked_config(tmp_path, protocol="fl", rounds=1), broker)
    sent = [unpack(data) for topic, data, _ in broker.sent if topic == "u/0"]
    reasons = [one.reason for one in sent if hasattr(one, "reason")]
    assert any("one sum alone" in reason for reason in reasons)


def test_numbers_that_were_in_a_sum_are_in_no_other_after_a_restart(tmp_path: Path) -> None:
    store = Store(tmp_path, "0" * 16, 0)
    assert store.keep_revealed(3, b"abcd")
    assert store.keep_revealed(3, b"abcd")
    assert not store.keep_revealed(3, b"abce")
    assert store.keep_revealed(4, b"abce")


@pytest.mark.parametrize("name", ["dp-sum", "dp-seeds-sum"])
def test_private_sums_are_deployed_under_masks(tmp_path: Path, name: str) -> None:
    """Noise is secret, so that the numbers are not the simulator's: what is sent of them is."""
    config = masked_config(tmp_path, protocol=name, rounds=3, feature_side=2)
    path = run_in_memory(tmp_path, config)
    infos = rounds_of(path)
    assert [info["uploads"]["delivered"] for info in infos] == [4, 4, 0]
    assert infos[1]["scores"]["global"] is not None
    assert "refused" not in diary(path)


def test_masks_are_refused_where_they_cannot_be_deployed() -> None:
    check_deployable(toy_config(protocol="dp-sum", sums="masked"))
    with pytest.raises(InputError, match="dp-sum: its trusted sum is only simulated"):
        check_deployable(toy_config(protocol="dp-sum"))
    with pytest.raises(InputError, match="sums = masked: a device of Flower lives for one message"):
        check_flower(toy_config(**MASKED))
