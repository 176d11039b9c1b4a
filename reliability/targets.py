"""What reads things from outside, each as a function of bytes: accepted, or refused as documented.

Any other exception, and any accepted value that is not sound, is a finding.
"""

import gzip
import io
import json
import shutil
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save as save_tensors

from mix2fld.base.errors import DamagedError, Mix2fldError
from mix2fld.base.trees import difference, flatten
from mix2fld.codecs import Outputs, PayloadError, SeedSamples, Weights
from mix2fld.config.grid import Grid
from mix2fld.config.settings import Config
from mix2fld.data.archives import ARCHIVE_ERRORS, read_tar, read_zip
from mix2fld.data.own_file import read_own_file
from mix2fld.data.place_errors import PlaceError
from mix2fld.data.readers import LAYOUTS, decode
from mix2fld.engine.clock import Clock
from mix2fld.engine.info import RoundInfo
from mix2fld.engine.state import Roster, RunState
from mix2fld.links.channels.trace_files import read_traces
from mix2fld.runs.checkpoint import FORMAT, digest, dump_checkpoint, load_checkpoint
from mix2fld.runs.config_file import dump_config, parse_config
from mix2fld.runs.folder import RunFolder
from mix2fld.runs.old_formats import ONE_ARRAY_FOR_ALL, SCALARS_OF_FORMAT_1
from mix2fld.runs.reader import read_run
from mix2fld.tasks.metric import ACCURACY
from mix2fld.types import Dimensions, SampleFormat, Seeds, ServerState
from reliability.synthetic_trace import write_synthetic_trace

sys.path.append(str(Path(__file__).parent.parent / "tests"))
from dataset_files import FORMATS, make_info, tar_of


@dataclass(frozen=True)
class Target:
    """One reader."""

    title: str
    seeds: Callable[[], list[bytes]]
    """Inputs that it accepts."""
    accepts: Callable[[bytes], bool]
    """False if it refused as documented."""


# --- config -----------------------------------------------------------------------------------


def _config_seeds() -> list[bytes]:
    configs = (Grid(), Grid.of(mixing_ratio=(0.1, 0.2), data_folder="/data"))
    return [f"format = 1\n{dump_config(config)}".encode() for config in configs]


def _accepts_config(data: bytes) -> bool:
    try:
        config = parse_config(data)
    except Mix2fldError as error:
        assert "\n" not in str(error).strip(), "more than one line"
        assert len(str(error)) < 2000, "too long to read"
        return False
    assert Grid(**tomllib.loads(dump_config(config))) == config
    return True


# --- payload ----------------------------------------------------------------------------------

_SHAPE = (2, 2, 1)
_DIMS = Dimensions(((3, 2), (4,)), 3, SampleFormat(_SHAPE), 2, 8, _SHAPE)
_FLOAT_DIMS = replace(_DIMS, seed_bits=32)
_SIGNAL_DIMS = replace(_DIMS, samples=SampleFormat(_SHAPE, "float32", -2.0, 3.0), seed_bits=11)
_PAYLOADS = (
    (Weights(), _DIMS),
    (Weights(8), _DIMS),
    (Weights(4), _DIMS),
    (Outputs(), _DIMS),
    (Outputs(partial_rows=True), _DIMS),
    (SeedSamples(1), _DIMS),
    (SeedSamples(2), _FLOAT_DIMS),
    (SeedSamples(2), _SIGNAL_DIMS),
)


def _payload_seeds() -> list[bytes]:
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=shape).astype(np.float32) for shape in _DIMS.weight_shapes]
    outputs = np.full((3, 3), 1 / 3, np.float32)
    bytes_seeds = Seeds(rng.integers(0, 256, (2, 2, 2, 1), np.uint8), np.zeros((2, 1), np.int32))
    float_seeds = Seeds(np.ones((2, 2, 2, 1), np.float32), np.ones((2, 2), np.int32))
    codes = rng.integers(0, 2**11, (2, 2, 2, 1), np.uint16)
    signal_seeds = Seeds(codes, np.ones((2, 2), np.int32))
    values = (weights, weights, weights, outputs, outputs, bytes_seeds, float_seeds, signal_seeds)
    return [
        bytes([number]) + payload.encode(value, dims).data  # type: ignore[arg-type]
        for number, ((payload, dims), value) in enumerate(zip(_PAYLOADS, values, strict=True))
    ]


def _accepts_payload(data: bytes) -> bool:
    if not data:
        return False
    payload, dims = _PAYLOADS[data[0] % len(_PAYLOADS)]
    try:
        value = payload.decode(data[1:], dims)
    except PayloadError as error:
        assert "\n" not in str(error)
        return False
    for array in value if isinstance(value, (list, tuple)) else [value]:
        assert array is None or np.isfinite(array).all()
    payload.encode(value, dims)  # type: ignore[arg-type]
    return True


# --- dataset files ----------------------------------------------------------------------------

_CASES = sorted(FORMATS)


def _reader_seeds() -> list[bytes]:
    return [
        bytes([case, number]) + content
        for case, name in enumerate(_CASES)
        for number, content in enumerate(FORMATS[name][2].values())
    ]


def _accepts_dataset(data: bytes) -> bool:
    """The first two bytes choose the layout and which of its files the rest stands for."""
    if len(data) < 2:
        return False
    layout, arrays, files = FORMATS[_CASES[data[0] % len(_CASES)]]
    balanced = len(set(np.bincount(arrays.train_labels))) == 1
    info = make_info(arrays, known=not balanced)  # without checksums, labels must be balanced
    name = list(files)[data[1] % len(files)]
    if len(data) - 2 > LAYOUTS[layout].files(info)[name]:
        return False  # no source delivers more than this
    try:
        read = decode(layout, {**files, name: data[2:]}, info)
    except PlaceError as error:
        assert "\n" not in str(error)
        return False
    for array, whole in zip(read, arrays, strict=True):
        assert (array.shape, array.dtype) == (whole.shape, whole.dtype)
    return True


@cache
def _scratch() -> Path:
    memory = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="mix2fld-fuzz-", dir=memory if memory.is_dir() else None))


def _npz_seeds() -> list[bytes]:
    rng = np.random.default_rng(0)
    arrays = {
        "train_inputs": rng.integers(0, 256, (4, 3, 2), dtype=np.uint8),
        "train_labels": np.array([0, 1, 0, 1]),
        "test_inputs": rng.integers(0, 256, (2, 3, 2), dtype=np.uint8),
        "test_labels": np.array([1, 0], np.uint8),
    }
    files = []
    for save in (np.savez, np.savez_compressed):
        stream = io.BytesIO()
        save(stream, **arrays)  # type: ignore[arg-type]
        files.append(stream.getvalue())
    return files


def _accepts_npz(data: bytes) -> bool:
    path = _scratch() / "own.npz"
    path.write_bytes(data)
    try:
        own = read_own_file(path)
    except Mix2fldError:
        return False
    assert len(own.train_inputs) == len(own.train_labels) > 0
    assert own.train_labels.max() < own.num_labels
    return True


# --- traces -----------------------------------------------------------------------------------


def _trace_seeds() -> list[bytes]:
    path = _scratch() / "rates.csv"
    write_synthetic_trace(path, 2, 8, np.random.default_rng(0))
    raca = "Timestamp,State,DL_bitrate,UL_bitrate\n"
    raca += "".join(f"2019.11.28_07.12.{second:02},D,{900 + second},40\n" for second in range(9))
    lumos = "run_num,seq_num,Throughput\n"
    lumos += "".join(f"1,{second},{100 + second}\n" for second in range(9))
    return [path.read_bytes(), raca.encode(), lumos.encode()]


def _accepts_trace(data: bytes) -> bool:
    path = _scratch() / "rates.csv"
    path.write_bytes(data)
    try:
        traces = read_traces(path, "auto", 0.1)
    except Mix2fldError as error:
        assert "\n" not in str(error), "more than one line"
        return False
    for trace in traces:
        for way in (trace.uplink, trace.downlink):
            assert np.isfinite(way.bits).all() and (np.diff(way.times) > 0).all()
            assert (way.rates >= 0).all()
            assert way.until(1000.0, 0.5) > 0
    return True


def _archive_seeds() -> list[bytes]:
    files = {"a.bin": b"a" * 300, "b.bin": b"b" * 20}
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in files.items():
            member = zipfile.ZipInfo(f"in/{name}")  # of 1980: the same bytes every time
            archive.writestr(member, content, zipfile.ZIP_DEFLATED)
    plain = tar_of(files, "in/", compression="")
    return [stream.getvalue(), plain, gzip.compress(plain, mtime=0)]


def _accepts_archive(data: bytes) -> bool:
    members = {"in/a.bin": 300, "in/b.bin": 20}
    path = _scratch() / "archive"
    path.write_bytes(data)
    try:
        found = read_zip(path, members) if data.startswith(b"PK") else _read_tar(data, members)
    except (PlaceError, *ARCHIVE_ERRORS):
        return False
    assert all(len(content) <= members[name] for name, content in found.items())
    return len(found) == len(members)


def _read_tar(data: bytes, members: dict[str, int]) -> dict[str, bytes]:
    stream = io.BytesIO(data)
    if data.startswith(b"\x1f\x8b"):
        with gzip.GzipFile(fileobj=stream) as unzipped:
            return read_tar(unzipped, members)
    return read_tar(stream, members)


# --- a run on disk ----------------------------------------------------------------------------

ROUNDS = 3


def _state(number: int) -> RunState:
    rng = np.random.default_rng(number)
    model = (rng.normal(size=(3, 2)).astype(np.float32),)
    seeds = {1: Seeds(np.full((2, 2, 2, 1), number, np.uint8), np.zeros((2, 1), np.int32))}
    return RunState(
        round_number=number,
        devices=[
            {
                "weights": (rng.normal(size=(3, 2)).astype(np.float32),),
                "teacher": rng.random((2, 2)).astype(np.float32),
                "seeds_due": np.array(due),
            }
            for due in (True, False)
        ],
        server=ServerState(model, np.eye(2, dtype=np.float32), seeds, number),
        clock=Clock(number / 7, number / 3),
        roster=Roster(rng.random(2), *rng.integers(0, number + 1, (3, 2))),
    )


def _info(number: int) -> RoundInfo:
    counts = {"attempted": 2, "delivered": 1, "devices": [0]}
    return RoundInfo(
        timing={"computing": [0.1, None], "up": [0.2, None], "down": [0.3, 0.3]},
        round=number,
        scores={
            "metric": asdict(ACCURACY),
            "devices": [number / 9, 0.5],
            "measured": [0, 1],
            "reference": 0.5,
            "global": None,
        },
        curve=[],
        asked=[0, 1],
        uploads=counts,
        downloads=counts,
        bits={"up": 8, "down": 9},
        slots={"up": 1, "down": 2},
        slowest={"device": 1, "seconds": 1 / 3},
        seconds={"communication": 1 / 7, "computing": 1 / 3},
        change=None,
        converged=False,
        seeds={"devices": 1, "samples": 2, "distinct_groups": 0},
        suspects=[{"device": 1, "upload": "weights", "times": 4.5}],
        left_out=[1],
        quorum={"needed": 0, "arrived": 1, "repeats": 0, "met": True},
        joules={
            **dict.fromkeys(("transmit", "receive", "computing", "idle"), 0.5),
            "devices": [1.0, 1.0],
        },
    )


_CONFIG = Config.of(protocol="fld", rounds=ROUNDS)


@cache
def run_files(finished: bool) -> dict[str, bytes]:
    """The files of a run of three rounds, before or after its end."""
    path = _scratch() / "made"
    shutil.rmtree(path, ignore_errors=True)
    with RunFolder(path) as folder:
        folder.prepare(_CONFIG)
        folder.resume(_state(0))
        for number in range(1, ROUNDS + 1):
            folder.append(_info(number), _state(number))
        if finished:
            folder.finish({"format": 3, "rounds": ROUNDS})
    return {file.name: file.read_bytes() for file in sorted(path.iterdir())}


def _run_seeds() -> list[bytes]:
    return [
        bytes([finished, number]) + content
        for finished in (False, True)
        for number, content in enumerate(run_files(finished).values())
    ]


@cache
def _true_rounds() -> tuple[list[object], list[bytes]]:
    with RunFolder(_scratch() / "true") as folder:
        folder.prepare(_CONFIG)
        folder.resume(_state(0))
        for number in range(1, ROUNDS + 1):
            folder.append(_info(number), _state(number))
        _, rounds = folder.resume(_state(0))
    return list(rounds), [dump_checkpoint(_state(number), "", {}) for number in range(ROUNDS + 1)]


def _accepts_run(data: bytes) -> bool:
    """One file of the folder is as given: what is read must be true, however much of it."""
    if len(data) < 2:
        return False
    files = run_files(bool(data[0] % 2))
    name = list(files)[data[1] % len(files)]
    path = _scratch() / "folder"
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    for file, content in {**files, name: data[2:]}.items():
        (path / file).write_bytes(content)
    _check_loaded(path)
    warnings: list[str] = []
    try:
        with RunFolder(path, warnings.append) as folder:
            folder.prepare(_CONFIG)
            result = _finished(folder)
            state, rounds = folder.resume(_state(0))
    except Mix2fldError:
        return False
    true_rounds, true_states = _true_rounds()
    assert result is None or result == true_rounds
    assert rounds == true_rounds[: state.round_number]
    assert dump_checkpoint(state, "", {}) == true_states[state.round_number]
    # A checkpoint that is one round behind is what an interrupted write leaves, and worth no word.
    assert state.round_number >= ROUNDS - 1 or warnings, "fell back without a warning"
    return True


def _check_loaded(path: Path) -> None:
    """What a report or a frame would show is true, as far as it goes."""
    try:
        run = read_run(path)
    except Mix2fldError:
        return
    if run is not None:
        assert run.config == _CONFIG
        assert run.rounds == _true_rounds()[0][: len(run.rounds)]
        assert not run.finished or len(run.rounds) == ROUNDS


def _finished(folder: RunFolder) -> list[dict[str, object]] | None:
    try:
        result = folder.finished()
    except Mix2fldError:
        return None
    return None if result is None else result.rounds


# --- the state in a checkpoint -----------------------------------------------------------------


def _open_state(number: int) -> RunState:
    """A state whose devices keep something of their own, and share an array."""
    shared = [np.ones(3, np.float32)]
    state = _state(number)
    return replace(state, devices=[{**device, "residual": shared} for device in state.devices])


@cache
def _kept_tensors() -> tuple[dict[str, Any], dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
    """A skeleton with its tensors, and the tensors of older formats."""
    old: dict[str, NDArray[Any]] = {
        "weights.0": np.ones((2, 3, 2), np.float32),
        "teachers": np.ones((2, 2, 2), np.float32),
        "seeds_due": np.array([True, False]),
    }
    return *flatten(_open_state(2).tree(), "state"), old


def _skeleton_seeds() -> list[bytes]:
    skeleton, _, _ = _kept_tensors()
    new = {"format": FORMAT, "state": skeleton, "records": "", "made_with": {}}
    old = {"format": 1, "round": 2, "updates": 2, "clock": [0.0, 1.0]}
    return [json.dumps(scalars).encode() for scalars in (new, {**old, "format": 2}, old)]


def _accepts_skeleton(data: bytes) -> bool:
    """Any JSON with the tensors of a checkpoint, and sealed: a state of this run, or refused."""
    _, tensors, old = _kept_tensors()
    try:
        scalars = json.loads(data)
        is_old = isinstance(scalars, dict) and scalars.get("format") in ONE_ARRAY_FOR_ALL
        held = old if is_old else tensors
        if isinstance(scalars, dict) and set(scalars) != SCALARS_OF_FORMAT_1:
            scalars = {**scalars, "sha256": digest(scalars, held)}
        content = save_tensors(held, metadata={"state": json.dumps(scalars)})
    except (ValueError, RecursionError):
        return False
    path = _scratch() / "state.safetensors"
    path.write_bytes(content)
    like = _state(0) if is_old else _open_state(0)
    try:
        found = load_checkpoint(path, like).state(like)
    except DamagedError as error:
        assert "\n" not in str(error)
        return False
    except Mix2fldError as error:
        assert "of format" in str(error)
        return False
    assert difference(found.devices, like.devices) is None
    assert difference(dict(vars(found.roster)), dict(vars(like.roster))) is None
    return True


TARGETS: dict[str, Target] = {
    "config": Target("config loader", _config_seeds, _accepts_config),
    "payload": Target("payload decoder", _payload_seeds, _accepts_payload),
    "dataset": Target("IDX, CSV, PNG, CIFAR files", _reader_seeds, _accepts_dataset),
    "npz": Target("own .npz files", _npz_seeds, _accepts_npz),
    "trace": Target("traces of links", _trace_seeds, _accepts_trace),
    "archive": Target("zip and tar archives", _archive_seeds, _accepts_archive),
    "run": Target("run folders", _run_seeds, _accepts_run),
    "state": Target("state in a checkpoint", _skeleton_seeds, _accepts_skeleton),
}
