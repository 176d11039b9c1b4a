"""The next token: metrics by hand, and a run of every kind of protocol."""

import numpy as np
import pytest
from tests.toys import toy_config

import mix2fld
from mix2fld.base.errors import InputError
from mix2fld.tasks.table import as_record, from_record

TEXTS = {
    "a": "the cat sat on the mat, and the rat sat on the cat. " * 6,
    "b": "a dog dug a den; the den had a dog. a dog! " * 7,
}


def dataset() -> mix2fld.Dataset:
    return mix2fld.next_characters(TEXTS, window=6, characters=12)


def test_accuracy_and_perplexity_follow_their_definitions() -> None:
    task = mix2fld.NextToken(3)
    chances = np.array([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]])
    sums = task.score(np.log(chances).astype(np.float32) + 7, task.targets(np.array([0, 1])))
    accuracy, perplexity = task.scores(np.asarray(sums), 2)
    assert accuracy == 0.5
    assert perplexity == pytest.approx((0.5 * 0.1) ** -0.5)
    alike = task.score(np.zeros((4, 3), np.float32), task.targets(np.array([0, 1, 2, 2])))
    assert task.scores(np.asarray(alike), 4)[1] == pytest.approx(3)
    certain = task.score(np.float32([[0, -2000, 2000]]), task.targets(np.array([1])))
    assert np.isfinite(certain).all()


def test_a_device_far_away_makes_the_same_task() -> None:
    assert from_record(as_record(mix2fld.NextToken(5))) == mix2fld.NextToken(5)


@pytest.mark.parametrize(
    "protocol", ["fd", *(pytest.param(one, marks=pytest.mark.long) for one in ("fl8", "murmur"))]
)
def test_protocols_show_perplexity(protocol: str) -> None:
    config = toy_config(
        protocol=protocol, partition="by-source", devices=2, model="text-gru", rounds=1,
        local_steps=3, server_steps=3, batch_size=2, kernel="xla", seed_samples=4,
    )  # fmt: skip
    data = dataset()
    (result,) = mix2fld.run(config, dataset=data, task=mix2fld.NextToken(data.num_labels))
    (further,) = result.summary["scores"]["further"]
    assert further["metric"]["name"] == "perplexity"
    assert 1 < further["mean"] < 3 * data.num_labels


@pytest.mark.parametrize("protocol", ["fld", "mixfld", "mix2fld", "cfd"])
def test_token_ids_are_no_seed_samples(protocol: str) -> None:
    config = toy_config(protocol=protocol, partition="by-source", devices=2, model="text-gru")
    data = dataset()
    with pytest.raises(InputError, match="token ids"):
        mix2fld.run(config, dataset=data, task=mix2fld.NextToken(data.num_labels))
