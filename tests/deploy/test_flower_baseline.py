"""The Flower baseline: the same numbers as the simulator, over Flower's messages."""

import io
import json
import os
import subprocess
import sys
import time
import tomllib
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from baselines.expected_results import PAGE, table
from flwr.app import Context, Message, RecordDict

from deploy.grid import InProcessGrid
from mix2fld import InputError, dataset_with_partitions
from mix2fld.runs.simulation import run
from places import ROOT
from toys import save_dataset, toy_config, toy_dataset

APP = ROOT / "baselines" / "flower"
TOML = tomllib.loads((APP / "pyproject.toml").read_text())
CONFIG = TOML["tool"]["flwr"]["app"]["config"]
PORT, CONTROL = "39291", "39293"


@pytest.fixture
def apps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(APP))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    from mix2fld_flower import client_app, server_app

    yield client_app, server_app
    for name in [name for name in sys.modules if name.startswith("mix2fld_flower")]:
        del sys.modules[name]


class Partitioned(InProcessGrid):
    """Nodes without names, as simulated ones are."""

    def get_node_ids(self) -> Iterable[int]:
        return [node.node_id for node in self.get_nodes()]

    def send_and_receive(self, messages: Iterable[Message], timeout: float) -> list[Message]:
        return self.pull_messages(self.push_messages(messages))


@pytest.mark.parametrize("protocol", ["fd", "mix2fld"])
def test_the_baseline_has_the_numbers_of_the_simulator_also_where_uploads_are_lost(
    protocol: str, apps: Any, tmp_path: Path
) -> None:
    client_app, server_app = apps
    file = tmp_path / "toy.npz"
    save_dataset(file, toy_dataset())
    weak = {"link": "rayleigh", "max_slots": 2, "uplink_power_dbm": 17.0}
    config = toy_config(dataset=str(file), protocol=protocol, **weak)
    run_config = {**CONFIG, "protocol": protocol, "out": str(tmp_path / "flower")}
    run_config |= _as_run_config(config)
    nodes = {device: {"partition-id": device} for device in range(config.data.devices)}
    grid = Partitioned(nodes, run_config, client_app.app)
    context = Context(1, 1, {}, RecordDict(), run_config)
    server_app.app(grid, context)
    simulated = run(config, tmp_path / "simulated")[0]
    lines = (tmp_path / "flower" / config.run_name / "rounds.jsonl").read_text().splitlines()
    deployed = [json.loads(line) for line in lines]
    for mine, theirs in zip(deployed, simulated.rounds, strict=True):
        for part in ("scores", "uploads", "downloads", "bits"):
            assert mine[part] == theirs[part], part
    lost = [r["uploads"]["attempted"] - r["uploads"]["delivered"] for r in simulated.rounds]
    assert 0 < sum(lost) < sum(r["uploads"]["attempted"] for r in simulated.rounds)


def test_a_partitioner_of_flwr_datasets_has_the_numbers_of_the_simulator(
    apps: Any, tmp_path: Path
) -> None:
    partitioners = pytest.importorskip("flwr_datasets.partitioner")
    client_app, server_app = apps
    file = tmp_path / "toy.npz"
    save_dataset(file, toy_dataset())
    config = toy_config(dataset=str(file), protocol="fd", rounds=2)
    words = "DirichletPartitioner partition_by=label alpha=0.5 min_partition_size=4 seed=1"
    run_config = {**CONFIG, "protocol": "fd", "out": str(tmp_path / "flower")}
    run_config |= _as_run_config(config) | {"partitioner": words}
    grid = Partitioned(
        {device: {"partition-id": device} for device in range(config.data.devices)},
        run_config,
        client_app.app,
    )
    server_app.app(grid, Context(1, 1, {}, RecordDict(), run_config))
    partitioner = partitioners.DirichletPartitioner(
        config.data.devices, partition_by="label", alpha=0.5, min_partition_size=4, seed=1
    )
    split = dataset_with_partitions(toy_dataset(), partitioner)
    config = toy_config(dataset=str(file), protocol="fd", rounds=2, partition="by-source")
    simulated = run(config, tmp_path / "simulated", dataset=split)[0]
    summary = json.loads((tmp_path / "flower" / config.run_name / "summary.json").read_text())
    assert summary["scores"] == simulated.summary["scores"]


@pytest.mark.parametrize("words", ["NoPartitioner", "IidPartitioner alpha=1", "Partitioner"])
def test_a_partitioner_that_does_not_exist_is_refused(words: str, apps: Any) -> None:
    pytest.importorskip("flwr_datasets")
    from mix2fld_flower.dataset import partitioner_of

    with pytest.raises(InputError, match="partitioner = "):
        partitioner_of(words, 3)


def _as_run_config(config: Any) -> dict[str, Any]:
    from mix2fld.config.settings import Config, field_names, setting
    from mix2fld_flower.settings import NAMES

    named = {key: setting(config, field) for key, field in NAMES.items()}
    named["mixing-ratio"] = ",".join(map(str, named["mixing-ratio"]))
    skipped = {*NAMES.values(), "computing_time"}
    rest = {
        name: value
        for name in field_names()
        if name not in skipped and (value := setting(config, name)) != setting(Config(), name)
    }
    text = " ".join(f"{name}={value}" for name, value in rest.items())
    return {**named, "seed": config.seed, "settings": text}


def test_the_expected_results_are_those_of_the_records() -> None:
    assert table() in PAGE.read_text(encoding="utf-8")


@pytest.mark.long
def test_flwr_run_runs_the_baseline(tmp_path: Path) -> None:
    """With a SuperLink and Flower's simulation engine, which starts Ray of its own."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = "127.0.0.1:{PORT}"\n'
        "insecure = true\n"
    )
    ours = {
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "FLWR_HOME": str(home),
        "RAY_ADDRESS": "local",
        "RAY_TMPDIR": "/tmp/m2f-ray",  # a path of a socket must be short
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    env = {**os.environ, **ours}
    Path(ours["RAY_TMPDIR"]).mkdir(exist_ok=True)
    serve = ["flower-superlink", "--insecure", "--simulation", "--isolation", "subprocess"]
    serve += ["--host", "127.0.0.1", "--port", PORT]
    serve += ["--control-api-address", f"127.0.0.1:{CONTROL}"]
    start = ["flwr", "run", str(APP), "here", "--federation-config", "num-supernodes=2"]
    settings = "num-clients=2 num-server-rounds=2 local-steps=50 server-steps=20 "
    settings += f'settings="test_samples=200 curve_points=1" out="{tmp_path / "runs"}"'
    with subprocess.Popen(serve, env=env, cwd=tmp_path) as superlink:
        try:
            time.sleep(20)
            subprocess.run([*start, "--run-config", settings], env=env, check=True, timeout=300)
            summary = tmp_path / "runs" / "mix2fld-s0" / "summary.json"
            deadline = time.monotonic() + 600
            while not summary.exists() and time.monotonic() < deadline:
                time.sleep(1)
            assert json.loads(summary.read_text())["rounds"] == 2
        finally:
            superlink.terminate()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_app_can_be_published_on_flower_hub() -> None:
    """Format 1 of an app bundle: a licence file, and which versions of Flower it is for."""
    from flwr.cli.build import build_fab_from_disk

    bundle = zipfile.ZipFile(io.BytesIO(build_fab_from_disk(APP)))
    assert {"LICENSE", "pyproject.toml", "mix2fld_flower/client_app.py"} <= {*bundle.namelist()}
    assert TOML["tool"]["flwr"]["app"]["fab-format-version"] == 1
