"""The files in ``containers`` for a cluster: their syntax, their commands, and what they start."""

import os
import re
import shlex
import subprocess
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

from mix2fld.cli.sweep_flags import take_axes
from mix2fld.config.grid import Grid
from mix2fld.config.settings import field_names
from mix2fld.engine.fleets import cluster
from places import ROOT

FOLDER = ROOT / "containers"
STUB = """#!/bin/bash
echo "$(basename "$0") $*" >> "$CALLS"
case "$(basename "$0") $*" in
    "scontrol show hostnames"*) printf 'node1\\nnode2\\nnode3\\n' ;;
    *hostname*) echo "10.0.0.1 fd00::1" ;;
esac
"""


def manifests() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FOLDER / "kuberay.yaml").read_text()))


def test_ray_accepts_the_file_of_ray_up() -> None:
    cluster.import_ray("test")
    from ray.autoscaler._private.util import prepare_config, validate_config

    config = prepare_config(yaml.safe_load((FOLDER / "ray-up.yaml").read_text()))
    validate_config(config)
    assert config["provider"]["type"] == "local"
    starts = config["head_start_ray_commands"] + config["worker_start_ray_commands"]
    for command in (c for c in starts if "ray start" in c):
        check_start(shlex.split(command)[2:])
    with pytest.raises(Exception, match="max_wrkers"):
        validate_config({**config, "max_wrkers": 2})


def check_start(words: list[str]) -> None:
    """Whether ``ray start`` has all these flags."""
    from ray.scripts.scripts import start

    known = {name for option in start.params for name in (*option.opts, *option.secondary_opts)}
    for word in words:
        if word.startswith("--"):
            assert word.partition("=")[0] in known, word


@pytest.mark.parametrize("name", ["kuberay.yaml", "ray.slurm"])
def test_the_sweeps_have_flags_that_exist(name: str) -> None:
    text = re.sub(r"\s+", " ", (FOLDER / name).read_text().replace("\\\n", " "))
    (command,) = re.findall(r"mix2fld sweep [^#]*?--cluster \S+", text)
    rest, axes = take_axes(shlex.split(command)[2:])
    flags = {word.removeprefix("--").replace("-", "_") for word in rest if word.startswith("--")}
    assert flags <= {*field_names(Grid), "plan", "out", "cluster"}
    assert set(axes["varied"]) <= set(field_names(Grid))


def test_the_manifest_has_what_it_names() -> None:
    claim, job = manifests()
    spec = job["spec"]["rayClusterSpec"]
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    assert spec["rayVersion"] == version("ray")
    assert spec["authOptions"] == {"mode": "token"}
    head = spec["headGroupSpec"]["template"]["spec"]
    (volume,) = head["volumes"]
    assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    (mount,) = head["containers"][0]["volumeMounts"]
    assert mount["name"] == volume["name"]
    assert f"--out {mount['mountPath']}/" in job["spec"]["entrypoint"]
    groups = [head, *(g["template"]["spec"] for g in spec["workerGroupSpecs"])]
    images = {container["image"] for group in groups for container in group["containers"]}
    (image,) = images
    assert f"-t {image} " in (FOLDER / "Dockerfile.cluster").read_text().splitlines()[0] + " "


@pytest.mark.parametrize("name", ["Dockerfile", "Dockerfile.cluster"])
def test_an_image_copies_what_the_package_is_built_from(name: str) -> None:
    project = tomllib.loads((FOLDER.parent / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {"pyproject.toml", "src", project["project"]["readme"], *wheel["force-include"]}
    needed |= {"hatch_build.py"} if "custom" in wheel["hooks"] else set()
    lines = (FOLDER / name).read_text().splitlines()
    copied = {word for line in lines if line.startswith("COPY ") for word in line.split()[1:-1]}
    assert needed <= copied


def test_the_slurm_job_starts_a_head_workers_and_the_sweep(tmp_path: Path) -> None:
    """With stand-ins for the commands of Slurm, which write down how they are called."""
    tools, calls = tmp_path / "bin", tmp_path / "calls"
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "activate").touch()
    tools.mkdir()
    for name in ("scontrol", "srun", "sleep"):
        (tools / name).write_text(STUB)
        (tools / name).chmod(0o755)
    slurm = {"SLURM_JOB_NODELIST": "node[1-3]", "SLURM_JOB_NUM_NODES": "3"}
    env = {**os.environ, **slurm, "SLURM_CPUS_PER_TASK": "16", "CALLS": str(calls)}
    env["PATH"] = f"{tools}:{env['PATH']}"
    subprocess.run(["bash", FOLDER / "ray.slurm"], cwd=tmp_path, env=env, check=True)
    lines = calls.read_text().splitlines()
    (head,) = (line for line in lines if "ray start --head" in line)
    assert "-w node1" in head
    assert "--num-cpus=16" in head
    (workers,) = (line for line in lines if "ray start --address" in line)
    assert "--address=10.0.0.1:6379" in workers
    assert "--nodes=2 --ntasks=2 --exclude=node1" in workers
    assert lines[-1].endswith("--out runs/sweep --cluster 10.0.0.1:6379")
    for line in (head, workers):
        check_start(line.partition("ray start")[2].split())
