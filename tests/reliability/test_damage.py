"""A run whose files are damaged, old, new or foreign: found out, said, and played again."""

import json
from pathlib import Path

import numpy as np
import pytest
from reliability.faults import Quiet
from safetensors import safe_open
from safetensors.numpy import save_file

from dataset_files import COLOUR, make_info
from mix2fld.base.errors import DamagedError, InputError
from mix2fld.cli import main
from mix2fld.config.grid import Grid
from mix2fld.config.settings import Config
from mix2fld.data.cache import cache_file, read_cache, write_cache
from mix2fld.runs.config_file import dump_config
from mix2fld.runs.folder import RunFolder
from mix2fld.runs.simulation import make_simulation, resume_run, run
from places import TESTS
from stored_runs import SHORT_RUN, as_kept, contents, intact, run_short
from toys import DeadLink, toy_dataset


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("whole")
    run_short(out)
    return intact(out / "fl-s0")


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def flip(data: bytes) -> bytes:
    changed = bytearray(data)
    changed[len(data) // 2] ^= 4
    return bytes(changed)


@pytest.mark.parametrize("harm", [cut, flip])
@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("checkpoint.safetensors", "resumes after round 2"),
        ("rounds.jsonl", "restarts from the beginning"),
    ],
)
def test_damage_is_told_and_played_again(tmp_path, whole, harm, file, words) -> None:
    assert run_short(tmp_path, stop_after=3) == []
    path = tmp_path / "fl-s0" / file
    path.write_bytes(harm(path.read_bytes()))
    harmed = path.read_bytes()
    (note,) = run_short(tmp_path)
    assert file in note
    assert words in note
    assert intact(tmp_path / "fl-s0") == whole
    assert path.with_name(f"{file}.damaged").read_bytes() == harmed


def test_both_checkpoints_damaged(tmp_path, whole) -> None:
    run_short(tmp_path, stop_after=3)
    for path in (tmp_path / "fl-s0").glob("checkpoint*"):
        path.write_bytes(flip(path.read_bytes()))
    (note,) = run_short(tmp_path)
    assert "from the beginning" in note
    assert intact(tmp_path / "fl-s0") == whole


@pytest.mark.parametrize("file", ["rounds.jsonl", "summary.json"])
def test_a_damaged_finished_run_is_no_result(tmp_path, whole, file) -> None:
    run_short(tmp_path)
    path = tmp_path / "fl-s0" / file
    path.write_bytes(path.read_bytes().replace(b"0.", b"0.1", 1))
    with pytest.raises(DamagedError, match=rf"{file}.*mix2fld resume .*fl-s0"):
        RunFolder(path.parent).finished()
    resume_run(path.parent, toy_dataset(), Quiet())
    assert intact(path.parent) == whole


def test_every_bit_of_a_record_counts(tmp_path) -> None:
    run_short(tmp_path)
    path = tmp_path / "fl-s0" / "rounds.jsonl"
    sound, rng = path.read_bytes(), np.random.default_rng(0)
    for _ in range(200):
        at, bit = int(rng.integers(len(sound))), int(rng.integers(8))
        changed = bytearray(sound)
        changed[at] ^= 1 << bit
        path.write_bytes(changed)
        with pytest.raises(DamagedError, match=r"rounds\.jsonl"):
            RunFolder(path.parent).finished()


def test_a_changed_config_is_refused(tmp_path) -> None:
    run_short(tmp_path, stop_after=1)
    path = tmp_path / "fl-s0" / "config.toml"
    path.write_text(path.read_text().replace("learning_rate = 0.1", "learning_rate = 0.2"))
    with pytest.raises(InputError, match=r"config\.toml: was changed"):
        run_short(tmp_path)
    run(SHORT_RUN, tmp_path, dataset=toy_dataset(), overwrite=True)
    assert RunFolder(path.parent).finished() is not None


def test_lost_checkpoints_are_told(tmp_path, whole) -> None:
    run_short(tmp_path, stop_after=3)
    for path in (tmp_path / "fl-s0").glob("checkpoint*"):
        path.unlink()
    (note,) = run_short(tmp_path)
    assert "there is no checkpoint" in note
    assert intact(tmp_path / "fl-s0") == whole


def test_the_checkpoint_of_another_run_is_refused(tmp_path, whole) -> None:
    run_short(tmp_path, stop_after=3)
    run_short(tmp_path / "other", stop_after=3, config=SHORT_RUN.replace(seed=1))
    newest = "checkpoint.safetensors"
    (tmp_path / "fl-s0" / newest).write_bytes((tmp_path / "other/fl-s1" / newest).read_bytes())
    (note,) = run_short(tmp_path)
    assert "is not of the run" in note
    assert intact(tmp_path / "fl-s0") == whole


OLD = TESTS / "records" / "format2"


def copy_as_format_1(kept: Path, folder: Path) -> Config:
    """A run of format 2 as mix2fld wrote it before there were checksums."""
    config = RunFolder(kept).config()
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(dump_config(config))
    lines = [json.loads(line) for line in (kept / "rounds.jsonl").read_text().splitlines()]
    for line in lines:
        del line["format"], line["checksum"]
    (folder / "rounds.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with safe_open(kept / "checkpoint.safetensors", framework="numpy") as file:
        scalars = json.loads(file.metadata()["state"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    first = {"format": 1, **{name: scalars[name] for name in ("round", "updates", "clock")}}
    metadata = {"state": json.dumps(first)}
    save_file(tensors, folder / "checkpoint.safetensors", metadata=metadata)
    if (kept / "summary.json").exists():
        summary = json.loads((kept / "summary.json").read_text())
        del summary["checksum"]
        (folder / "summary.json").write_text(json.dumps({**summary, "format": 1}))
    return config


@pytest.mark.parametrize("name", ["fl-s0", "mix2fld-s0"])
def test_format_1_is_still_read(tmp_path, name) -> None:
    config = copy_as_format_1(OLD / "finished" / name, tmp_path / name)
    before = RunFolder(OLD / "finished" / name).finished()
    after = RunFolder(tmp_path / name).finished()
    assert before is not None
    assert after is not None
    assert after.rounds == before.rounds
    assert after.config == before.config == config


@pytest.mark.parametrize("name", ["fl-s0", "mix2fld-s0"])
def test_a_stopped_run_of_format_1_is_resumed(tmp_path, name) -> None:
    config = copy_as_format_1(OLD / "early" / name, tmp_path / name)
    assert run_short(tmp_path, config=config) == []
    result, whole = (RunFolder(path / name).finished() for path in (tmp_path, OLD / "finished"))
    assert result is not None
    assert whole is not None
    assert as_kept(result.rounds) == as_kept(whole.rounds)


def test_damage_cannot_pass_for_format_1(tmp_path, whole) -> None:
    run_short(tmp_path, stop_after=3)
    path = tmp_path / "fl-s0" / "checkpoint.safetensors"
    named_old = path.read_bytes().replace(rb"{\"format\": 4", rb"{\"format\": 1")
    assert named_old != path.read_bytes()
    path.write_bytes(named_old[:-1] + bytes([named_old[-1] ^ 1]))
    (note,) = run_short(tmp_path)
    assert "its checksum does not match" in note
    assert intact(tmp_path / "fl-s0") == whole
    summary = tmp_path / "fl-s0" / "summary.json"
    found = json.loads(summary.read_text())
    del found["checksum"]
    summary.write_text(json.dumps({**found, "format": 1}))
    with pytest.raises(DamagedError, match=r"summary\.json has no checksum"):
        RunFolder(summary.parent).finished()


def test_newer_formats_are_refused(tmp_path, monkeypatch) -> None:
    run_short(tmp_path, stop_after=1)
    folder = tmp_path / "fl-s0"
    before = intact(folder)
    for module, file in (("records", "rounds.jsonl"), ("checkpoint", "checkpoint.safetensors")):
        with monkeypatch.context() as newer:
            newer.setattr(f"mix2fld.runs.{module}.FORMAT", 7)
            run_short(tmp_path / module, stop_after=1)
        path = tmp_path / module / "fl-s0" / file
        (folder / file).write_bytes(path.read_bytes())
        if module == "checkpoint":
            (folder / "rounds.jsonl").write_bytes((path.parent / "rounds.jsonl").read_bytes())
        with pytest.raises(InputError, match="format 7: this version"):
            run_short(tmp_path)
        (folder / file).write_bytes(before[file])
    (folder / "config.toml").write_text("format = 7\nnew_setting = 3\n")
    with pytest.raises(InputError, match=r"was changed or damaged|format = 7"):
        run_short(tmp_path)


def test_other_samples_are_refused(tmp_path) -> None:
    run_short(tmp_path, stop_after=1)
    for stop_after in (2, 99):
        with pytest.raises(InputError, match="the data changed"):
            run(SHORT_RUN, tmp_path, dataset=toy_dataset(train=280), watcher=Quiet())
        run_short(tmp_path, stop_after)
    with pytest.raises(InputError, match="the data changed"):
        run(SHORT_RUN, tmp_path, dataset=toy_dataset(train=280), watcher=Quiet())


def test_resume_finds_every_run_of_a_comparison(tmp_path, capsys) -> None:
    data = toy_dataset()
    file = tmp_path / "toy.npz"
    names = ("train_inputs", "train_labels", "test_inputs", "test_labels")
    np.savez(file, **{name: getattr(data, name) for name in names})
    config = Grid.of_run(SHORT_RUN).replace(protocols=("fl", "fd"), dataset=str(file))
    with pytest.raises(KeyboardInterrupt):
        run(config, tmp_path / "cut", dataset=data, watcher=Quiet(stop_after=1))
    run(config, tmp_path / "whole", dataset=data)
    (tmp_path / "cut" / "config.toml").write_text('protocols = ["fl", "fd"]')  # somebody's settings
    main(["resume", str(tmp_path / "cut")])
    assert "After 4 rounds" in capsys.readouterr().out
    found = sorted(path.name for path in (tmp_path / "cut").iterdir())
    assert found == ["config.toml", "curves.png", "fd-s0", "fl-s0"]
    for name in ("fl-s0", "fd-s0"):
        assert intact(tmp_path / "cut" / name) == intact(tmp_path / "whole" / name)


def test_a_damaged_cache_is_never_used(tmp_path, monkeypatch) -> None:
    """Also where no checksum of the dataset is published: that of the file holds."""
    monkeypatch.setenv("MIX2FLD_CACHE", str(tmp_path))
    info, rng = make_info(COLOUR, known=False), np.random.default_rng(0)
    write_cache(info, COLOUR)
    path = cache_file(info.name)
    sound, refused = path.read_bytes(), 0
    for _ in range(150):
        changed = bytearray(sound)
        changed[int(rng.integers(len(sound)))] ^= 1 << int(rng.integers(8))
        path.write_bytes(
            changed[: len(sound) if rng.random() < 0.8 else int(rng.integers(len(sound)))]
        )
        arrays = read_cache(info)
        refused += arrays is None
        for read, true in zip(arrays or (), COLOUR, strict=bool(arrays)):
            np.testing.assert_array_equal(read, true)
    assert refused > 100


@pytest.mark.parametrize("length", [0, 5, 20, 400])
def test_a_config_that_was_cut_is_not_taken_for_the_defaults(tmp_path, length) -> None:
    run_short(tmp_path, stop_after=2)
    folder = tmp_path / "fl-s0"
    config = folder / "config.toml"
    config.write_bytes(config.read_bytes()[:length])
    before = intact(folder)
    with pytest.raises(InputError, match=r"config\.toml: (was changed|is not a complete config)"):
        resume_run(folder, toy_dataset())
    assert intact(folder) == before


def test_a_run_without_its_config_is_not_taken_for_another(tmp_path) -> None:
    run_short(tmp_path)
    (tmp_path / "fl-s0" / "config.toml").unlink()
    with pytest.raises(InputError, match=r"holds a run without its config\.toml"):
        run_short(tmp_path, config=SHORT_RUN.replace(learning_rate=0.2))


def test_what_takes_the_place_of_the_config_is_part_of_a_run(tmp_path) -> None:
    run(SHORT_RUN, tmp_path, dataset=toy_dataset(), link=DeadLink(), watcher=Quiet())
    with pytest.raises(InputError, match=r"a different link \(DeadLink; now as in the config\)"):
        run_short(tmp_path)
    with pytest.raises(InputError, match="a different link"):
        resume_run(tmp_path / "fl-s0", toy_dataset())
    run(SHORT_RUN, tmp_path, dataset=toy_dataset(), link=DeadLink(), watcher=Quiet())


def test_a_run_of_a_deployment_is_left_to_it(tmp_path) -> None:
    run_short(tmp_path, stop_after=2)
    (tmp_path / "fl-s0" / "identity").write_text("0123456789abcdef")
    before = intact(tmp_path / "fl-s0")
    with pytest.raises(InputError, match="holds a run of a deployment"):
        run_short(tmp_path)
    with pytest.raises(InputError, match="holds a run of a deployment"):
        resume_run(tmp_path / "fl-s0", toy_dataset())
    assert intact(tmp_path / "fl-s0") == before


def test_nothing_is_overwritten_unless_all_may_be(tmp_path) -> None:
    """A folder with other files, and a run that another process writes."""
    run_short(tmp_path)
    both = Grid.of_run(SHORT_RUN).replace(protocols=("fl", "fd"))
    before = intact(tmp_path / "fl-s0")
    (tmp_path / "fd-s0").mkdir()
    (tmp_path / "fd-s0" / "config.toml").write_text("mine = 1")
    with pytest.raises(InputError, match="fd-s0: holds other files"):
        run(both, tmp_path, dataset=toy_dataset(), overwrite=True)
    assert (tmp_path / "fd-s0" / "config.toml").read_text() == "mine = 1"
    (tmp_path / "fd-s0" / "config.toml").unlink()
    with RunFolder(tmp_path / "fd-s0") as other:
        other.prepare(SHORT_RUN.replace(protocol="fd"))
        with pytest.raises(InputError, match="another process is writing"):
            run(both, tmp_path, dataset=toy_dataset(), overwrite=True)
    assert intact(tmp_path / "fl-s0") == before
    run(both, tmp_path, dataset=toy_dataset(), overwrite=True, watcher=Quiet())
    assert intact(tmp_path / "fl-s0") == before


def test_a_lock_left_at_the_end_of_a_run_goes_with_the_next_start(tmp_path) -> None:
    run_short(tmp_path)
    folder = tmp_path / "fl-s0"
    before = intact(folder)
    (folder / ".lock").touch()
    (folder / "summary.json.part").write_text("{")
    resume_run(folder, toy_dataset(), Quiet())
    assert intact(folder) == before


def test_what_made_a_checkpoint_is_compared_before_its_state_is(tmp_path: Path) -> None:
    run_short(tmp_path, stop_after=1)
    folder = tmp_path / SHORT_RUN.run_name
    before = contents(folder)
    other = make_simulation(SHORT_RUN.replace(devices=3), toy_dataset()).start()
    opened = RunFolder(folder, made_with={"model": "custom"})
    with opened, pytest.raises(InputError, match="different model"):
        opened.resume(other)
    assert contents(folder) == before
