"""Files of the working folder are data: only a module that the user names is run from there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mix2fld.base.custom_code import import_custom, modules_in, names_custom_module
from mix2fld.base.errors import InputError
from toys import save_dataset, toy_dataset

PLANTED = ("zstandard", "cloudpickle", "etils", "jax_plugins", "pandas", "pickle", "mix2fld_plugin")
MODEL = """
from mix2fld.models import mlp
def build(shape, labels):
    return mlp(shape, labels)
"""
SMALL = (
    *("--protocols", "fl", "--devices", "2", "--samples-per-device", "20", "--partition", "iid"),
    *("--rounds", "1", "--local-steps", "2", "--test-samples", "10", "--curve-points", "1"),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_dataset(tmp_path / "toy.npz", toy_dataset())
    for name in PLANTED:
        text = "from pathlib import Path\nPath(__file__).with_suffix('.ran').touch()\n"
        (tmp_path / f"{name}.py").write_text(text)
    return tmp_path


SCRIPT = (str(Path(sys.executable).parent / "mix2fld"),)
MODULE = (sys.executable, "-m", "mix2fld")


def command(
    folder: Path, *arguments: str, program: tuple[str, ...] = SCRIPT
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*program, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )


def test_no_command_runs_what_lies_in_the_working_folder(folder: Path) -> None:
    run = ("run", "--dataset", "toy.npz", "--model", "mlp", *SMALL, "--out", "runs")
    for arguments in (("doctor",), run, ("export", "runs", "--to", "csv")):
        done = command(folder, *arguments, program=MODULE if "doctor" in arguments else SCRIPT)
        assert done.returncode in (0, 2), done.stderr
        assert "Traceback" not in done.stderr
    assert (folder / "runs").is_dir()
    assert not list(folder.glob("*.ran"))


def test_stored_settings_run_no_module_of_the_working_folder_unasked(tmp_path: Path) -> None:
    folder = tmp_path
    save_dataset(folder / "toy.npz", toy_dataset())
    (folder / "own_model.py").write_text(MODEL)
    run = ("run", "--dataset", "toy.npz", "--model", "own_model:build", *SMALL, "--out", "runs")
    done = command(folder, *run)
    assert done.returncode == 0, done.stderr
    (folder / "runs" / "fl-s0" / "summary.json").unlink()
    refused = command(folder, "resume", "runs")
    assert refused.returncode == 2
    assert "own_model.py" in refused.stderr
    assert "--trust-code" in refused.stderr
    assert "Traceback" not in refused.stderr
    plan = folder / "plan.toml"
    plan.write_text(
        'protocols = ["fl"]\n[settings]\nmodel = "own_model:build"\ndataset = "toy.npz"\n'
    )
    refused = command(folder, "sweep", "--plan", "plan.toml", *SMALL[2:], "--out", "grid")
    assert refused.returncode != 0
    assert "--trust-code" in refused.stderr + refused.stdout
    assert command(folder, "resume", "runs", "--trust-code").returncode == 0


def test_only_a_named_module_or_the_flag_trusts_the_working_folder() -> None:
    assert names_custom_module(["run", "--model", "x:y"])
    assert names_custom_module(["run", "--model=x:y"])
    assert names_custom_module(["sweep", "--model", "mlp", "x:y", "--seed", "0"])
    assert names_custom_module(["resume", "runs", "--trust-code"])
    assert not names_custom_module(["run", "--model", "mlp", "--out", "a:b"])
    assert not names_custom_module(["run", "--model", "mlp", "--out=a:b", "c:d"])
    assert not names_custom_module(["run", "--model"])


def test_a_module_that_exists_nowhere_is_an_import_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModuleNotFoundError):
        import_custom("no_such_module_at_all", "model = x")
    (tmp_path / "lying_here.py").write_text("raise SystemExit")
    with pytest.raises(InputError, match="lying_here"):
        import_custom("lying_here", "model = lying_here:f")


@pytest.mark.long
def test_ray_runs_nothing_of_the_working_folder(folder: Path) -> None:
    for name in ("pydantic", "pyarrow", "numpy"):  # what its processes import themselves
        (folder / f"{name}.py").write_text((folder / "pandas.py").read_text())
    run = ("run", "--dataset", "toy.npz", "--model", "mlp", *SMALL, "--out", "runs")
    done = command(folder, *run, "--fleet", "ray")
    assert done.returncode == 0, done.stderr
    assert not list(folder.glob("*.ran"))


def test_a_custom_module_is_searched_after_all_others_in_processes_of_a_trial(
    folder: Path,
) -> None:
    (folder / "own_model.py").write_text(MODEL)
    for name in ("pydantic", "numpy", "json"):
        (folder / f"{name}.py").write_text((folder / "pickle.py").read_text())
    imports = "import pickle, json, numpy, pydantic"
    ours = "from mix2fld.base.custom_code import import_custom"
    code = f"{ours}; {imports}; import_custom('own_model', 'x')"
    environment = {**os.environ, **modules_in(folder)}
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd="/", env=environment, check=False)
    assert done.returncode == 0
    assert not {"pickle", "json", "numpy", "pydantic"} & {f.stem for f in folder.glob("*.ran")}
