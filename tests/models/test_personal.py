"""Personal weights: they stay on their device, and what is sent is the rest."""

import numpy as np
import pytest
from torch import nn

from mix2fld import run
from mix2fld.base.errors import InputError
from mix2fld.deploy.settings import check_deployable
from mix2fld.models import from_torch, make_model, weight_names
from mix2fld.models.trained import personal_places
from stored_runs import check_resumed
from toys import LABELS, toy_config, toy_dataset

DATA = toy_dataset()
SIZE = int(np.prod(DATA.sample_shape))
DEVICES = toy_config().data.devices
HEAD = {"linear2.kernel", "linear2.bias"}


def learned(protocol="fl", **changed):
    fields = {"model": "mlp", "link": "ideal", "personal": "head", **changed}
    return run(toy_config(protocol=protocol, **fields), dataset=DATA)[0]


def with_norms():
    return nn.Sequential(
        nn.Flatten(), nn.Linear(SIZE, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, LABELS)
    )


def test_one_round_is_the_mean_of_what_is_sent_and_each_devices_own_head():
    alone = learned("isolated", rounds=1, personal="none").devices
    own = [device.weights for device in alone]
    for device, result in enumerate(learned(rounds=1).devices):
        for name, value in result.weights.items():
            mean = np.mean([weights[name].astype(np.float64) for weights in own], axis=0)
            expected = own[device][name] if name in HEAD else mean
            np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("protocol", "changed"),
    [
        ("fl", {}),
        ("fl", {"initial_weights": "independent"}),
        ("murmur", {"update_bits": 200}),
        ("stc", {}),
        ("sign", {}),
        ("eden", {}),
        ("murmur", {"update_bits": 200, "downlink": "relay"}),
        ("murmur", {"update_bits": 200, "downlink": "coded"}),
        ("fl", {"link": "rayleigh", "max_slots": 40}),
    ],
)
def test_devices_share_all_but_their_heads(protocol, changed):
    result = learned(protocol, rounds=3, **changed)
    first, second = (result.devices[device].weights for device in (0, 1))
    for name in first:
        same = np.array_equal(first[name], second[name])
        if name in HEAD:
            assert not same
        elif changed.get("link") is None:
            assert same
    assert result.rounds[-1]["scores"]["global"] is None


def test_bits_are_those_of_what_is_sent():
    weights = learned(rounds=1).devices[0].weights
    sent = sum(value.size for name, value in weights.items() if name not in HEAD)
    assert learned(rounds=1).rounds[0]["bits"] == {"up": DEVICES * 32 * sent, "down": 32 * sent}


@pytest.mark.parametrize(
    ("personal", "names"),
    [
        ("head", ["4.weight", "4.bias"]),
        ("norms", ["2.weight", "2.bias", "2.running_mean", "2.running_var"]),
        ("1.*", ["1.weight", "1.bias"]),
    ],
)
def test_a_torch_module_keeps_what_is_named(personal, names):
    model = from_torch(with_norms, buffers="carry")
    every = weight_names(model)
    found = [every[place] for place in personal_places(model, personal)]
    assert sorted(set(found) - {"2.num_batches_tracked"}) == sorted(names)
    (result,) = run(
        toy_config(
            protocol="fl", model="auto", rounds=1, link="ideal", personal=personal, batch_size=4
        ),
        dataset=DATA,
        model=model,
    )
    first, second = (result.devices[device].weights for device in (0, 1))
    differ = {name for name in first if not np.array_equal(first[name], second[name])}
    assert differ
    assert differ <= set(found)


@pytest.mark.parametrize("personal", ["nothing.*", "norms", "*", "lora:2"])
def test_a_name_of_nothing_or_of_everything_is_refused(personal):
    with pytest.raises(InputError, match=r"personal = .*weights are .*must be none, head"):
        personal_places(make_model("mlp", DATA.sample_shape, LABELS), personal)


@pytest.mark.parametrize("protocol", ["fd", "mixfld", "mix2fld", "fld"])
def test_a_protocol_that_sends_no_part_of_a_model_is_refused(protocol):
    with pytest.raises(InputError, match=r"personal = head: .* does not send weights or updates"):
        learned(protocol)


def test_a_deployment_refuses_personal_weights():
    with pytest.raises(InputError, match="personal = head: personal weights are only simulated"):
        check_deployable(toy_config(protocol="fl", personal="head"))


def test_the_server_has_no_whole_model():
    result = learned(rounds=1)
    with pytest.raises(InputError, match="personal = head: these weights stay on devices"):
        _ = result.weights


@pytest.mark.parametrize("states", ["memory", "disk"])
def test_a_resumed_run_has_the_same_bytes(tmp_path, states):
    fields = {"model": "mlp", "personal": "head", "update_bits": 200, "device_states": states}
    config = toy_config(protocol="murmur", rounds=3, **fields)
    check_resumed(tmp_path, config, 1, dataset=DATA)
