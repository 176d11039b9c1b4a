"""The Ray fleet and sweeps on a cluster: the same bytes as in this process, also after kills."""

import gc
import os
import signal
import socket
import threading
import time
import warnings
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mix2fld
from mix2fld.base.custom_code import searched_folders
from mix2fld.base.errors import InputError
from mix2fld.cli import main
from mix2fld.engine.device_turn import DUE
from mix2fld.engine.divergence import DivergedError
from mix2fld.engine.fleets import cluster
from mix2fld.engine.fleets.hosts import Hosts
from mix2fld.engine.fleets.ray_fleet import RayFleet
from mix2fld.engine.fleets.shard_messages import dump_states, load_states
from mix2fld.protocols.table import PROTOCOLS
from mix2fld.runs.loop import Watcher
from mix2fld.sweep.places import ThisProcess
from mix2fld.sweep.plan import make_plan
from mix2fld.sweep.ray_place import Cluster, FolderSender, whole, write_pieces
from mix2fld.sweep.schedule import Board, SweepProgress, run_jobs
from stored_runs import contents
from toys import CoinLink, representatives, save_dataset, toy_config, toy_dataset, toy_grid

STORE_BYTES = 80 << 20


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    """One small cluster for all tests of this module."""
    found = cluster.import_ray("test")
    cluster.start_here(found, "test", cores=4, store_bytes=STORE_BYTES)
    yield found
    found.shutdown()
    with warnings.catch_warnings():  # Ray lets go of its processes without waiting for them
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(scope="module")
def hosts(ray: Any) -> Iterator[Hosts]:
    """They hold two cores of the cluster; two are left for the jobs of sweeps."""
    found = Hosts(ray, 2)
    yield found
    found.stop()


def compare(tmp_path: Path, hosts: Hosts, watcher: Watcher | None = None, **fields: Any) -> None:
    """Some rounds over a bad link, here and on the cluster."""
    config = toy_config(**{"rounds": 2, "participants": 3, **fields})
    data = toy_dataset()
    mix2fld.run(config, tmp_path / "here", dataset=data, link=CoinLink())
    there = {"fleet": partial(RayFleet, hosts), "watcher": watcher}
    mix2fld.run(config, tmp_path / "there", dataset=data, link=CoinLink(), **there)
    assert contents(tmp_path / "there") == contents(tmp_path / "here")


def test_personal_weights_are_the_same_bytes(tmp_path: Path, hosts: Hosts) -> None:
    compare(tmp_path, hosts, protocol="murmur", model="mlp", personal="head", update_bits=200)


def test_processes_of_ray_do_not_search_the_working_folder_first(ray: Any) -> None:
    found = ray.get(ray.remote(searched_folders).options(num_cpus=1).remote(), timeout=60)
    assert Path(found[0]) != Path.cwd()


# --- sweeps


def test_a_sweep_on_the_cluster_comes_home_with_the_same_bytes(tmp_path: Path, ray: Any) -> None:
    save_dataset(tmp_path / "toy.npz", toy_dataset())
    fields = {"dataset": str(tmp_path / "toy.npz"), "link": "ideal", "rounds": 3}
    grid = toy_grid(**fields, protocols="mix2fld")
    plan = make_plan(grid, {"devices": [2, 3]})
    run_jobs(plan.jobs(tmp_path / "here"), ThisProcess())
    board = Killing()
    progress = run_jobs(plan.jobs(tmp_path / "there"), Cluster(ray), board=board, retries=3)
    assert len(progress.of("finished")) == 2, board.notes
    assert board.killed
    assert any("lost on the cluster" in note for note in board.notes)
    assert contents(tmp_path / "there") == contents(tmp_path / "here")


class Killing(Board):
    """Kills a worker process of Ray as soon as a run has a round at home."""

    def __init__(self) -> None:
        self.killed: list[int] = []
        self.notes: list[str] = []

    def show(self, progress: SweepProgress) -> None:
        if not self.killed and any(track.rounds for track in progress.of("running")):
            self.killed = [pid for pid in children() if is_busy(pid)][:1]
            for pid in self.killed:
                os.kill(pid, signal.SIGKILL)

    def note(self, line: str) -> None:
        self.notes.append(line)


def children() -> list[int]:
    """Processes below this one."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    found, layer = list[int](), {os.getpid()}
    while layer:
        layer = {pid for pid, parent in parents.items() if parent in layer}
        found += layer
    return found


def is_busy(pid: int) -> bool:
    """Whether a process is a task of Ray that runs a job."""
    try:
        return b"ray::run_remote" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


@pytest.mark.parametrize("where", ["memory", "disk"])
def test_a_folder_comes_home_in_pieces(tmp_path: Path, where: str) -> None:
    config = toy_config(protocol="fd", rounds=4, participants=1, device_states=where)
    data = toy_dataset()
    away, home = tmp_path / "away" / "fd-s0", tmp_path / "home" / "fd-s0"
    sender = FolderSender(away)

    class Sending(Watcher):
        def round_done(self, config: Any, info: Any) -> None:
            pieces = sender.changes()
            assert sum(len(p.data) for p in pieces.changed if p.name == "rounds.jsonl") < 10_000
            write_pieces(home, pieces)

    mix2fld.run(config, tmp_path / "away", dataset=data, watcher=Sending())
    write_pieces(home, sender.changes())
    assert contents(home) == contents(away)
    write_pieces(tmp_path / "copy", whole(home))
    assert contents(tmp_path / "copy") == contents(away)


# --- the fleet


@pytest.mark.parametrize(
    ("protocol", "wait"),
    [("mix2fld", "quorum:2"), ("topk", "buffered:2"), ("murmur-mix", "asynchronous")],
)
def test_a_server_that_need_not_wait_has_the_same_bytes(
    tmp_path: Path, hosts: Hosts, protocol: str, wait: str
) -> None:
    speeds = {"device_step_spread": 1.0, "device_step_us": 1e4, "local_steps": 3}
    compare(tmp_path, hosts, protocol=protocol, wait=wait, rounds=4, **speeds)


@pytest.mark.parametrize("name", representatives(PROTOCOLS))
def test_every_protocol_has_the_bytes_of_this_process(
    tmp_path: Path, hosts: Hosts, name: str
) -> None:
    compare(tmp_path / "memory", hosts, protocol=name)
    compare(tmp_path / "disk", hosts, protocol=name, rounds=4, device_states="disk")


def test_own_weights_states_on_disk_and_attackers_have_the_same_bytes(
    tmp_path: Path, hosts: Hosts
) -> None:
    compare(tmp_path / "disk", hosts, protocol="fd", device_states="disk", participants="all")
    compare(tmp_path / "own", hosts, protocol="fd", initial_weights="independent")
    attacked = {"attack": "label-shift", "attackers": 1}
    compare(tmp_path / "attacked", hosts, protocol="fl", **attacked)


class Killer(Watcher):
    """Kills a host with a signal, some time after a round."""

    def __init__(self, hosts: Hosts, after: int, seconds: float) -> None:
        self._hosts, self._after, self._seconds = hosts, after, seconds
        self.killed: list[int] = []

    def round_done(self, config: Any, info: Any) -> None:
        if info.round == self._after:
            pid = self._hosts.ray.get(self._hosts.ready()[0].pid.remote())
            self.killed.append(pid)
            threading.Timer(self._seconds, os.kill, (pid, signal.SIGKILL)).start()


def test_a_host_that_is_killed_changes_no_byte(tmp_path: Path, hosts: Hosts) -> None:
    killer = Killer(hosts, after=1, seconds=0.1)
    compare(tmp_path, hosts, killer, protocol="fd", rounds=4, local_steps=2000)
    assert killer.killed


@pytest.mark.parametrize("told", [True, False])
def test_states_that_a_host_let_go_are_sent_again(tmp_path: Path, hosts: Hosts, told: bool) -> None:
    """Either as a host does when it has no room, or without telling the driver."""

    def forget(host: Any) -> None:
        if told:
            host._sizes = dict.fromkeys(host._sizes, 1 << 40)
        else:
            host._kept.clear()

    class Forgetting(Watcher):
        def round_done(self, config: Any, info: Any) -> None:
            asked = [host.__ray_call__.remote(forget) for host in hosts.ready()]
            hosts.ray.get(asked)

    compare(tmp_path, hosts, Forgetting(), protocol="fd", rounds=4, device_states="disk")


def test_a_device_that_diverges_is_named_as_in_this_process(tmp_path: Path, hosts: Hosts) -> None:
    config, data = toy_config(protocol="fl", learning_rate=1e6), toy_dataset()
    words = []
    for more in ({}, {"fleet": partial(RayFleet, hosts)}):
        with pytest.raises(DivergedError, match="the weights of device") as raised:
            mix2fld.run(config, dataset=data, **more)
        words.append(str(raised.value))
    assert words[0] == words[1]


def test_a_dataset_that_does_not_fit_is_one_message(ray: Any, monkeypatch: Any) -> None:
    def full(value: Any) -> None:
        raise ray.exceptions.ObjectStoreFullError("Failed to put object. Much more is said.")

    monkeypatch.setattr(ray, "put", full)
    with pytest.raises(InputError, match="the dataset does not fit into the object store"):
        cluster.put(ray, toy_dataset(), "fleet = ray", "the dataset")


def test_what_both_sides_have_is_named_not_sent() -> None:
    weights = (np.zeros(1000, np.float32), np.ones(3, np.float32))
    theirs = (weights[0].copy(), weights[1].copy())
    mine = {7: {"weights": weights, "due": DUE}, 8: {"weights": weights}}
    other = {7: {"weights": theirs, "due": DUE}, 8: {"weights": (theirs[0], np.ones(3))}}
    download, here = {"teacher": np.arange(2000)}, {"teacher": np.arange(2000)}
    new = np.arange(3)
    after = {7: {**mine[7], "new": new}, 8: {**mine[8], **download, "new": new}}
    data = dump_states(after, mine, download)
    assert len(data) < 600
    found = load_states(data, other, here)
    assert found[7]["weights"] is theirs
    assert found[8]["weights"] is other[8]["weights"]  # its own, not that of the other device
    assert found[7]["due"] is DUE
    assert found[8]["teacher"] is here["teacher"]
    assert found[7]["new"] is found[8]["new"]
    np.testing.assert_array_equal(found[7]["new"], new)


# --- connecting


def no_cluster(address: str) -> str:
    raise ConnectionError(address)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("127.0.0.1:1", "cluster = 127.0.0.1:1: does not answer"),
        ("nonsense", "cluster = nonsense: must be auto, or HOST:PORT"),
        ("ray://127.0.0.1:1", "must be auto, or HOST:PORT"),
    ],
)
def test_an_address_that_does_not_answer_is_one_message(
    monkeypatch: pytest.MonkeyPatch, address: str, words: str
) -> None:
    monkeypatch.setattr(cluster.import_ray("test"), "is_initialized", lambda: False)
    started = time.monotonic()
    with pytest.raises(InputError) as raised, cluster.connected(address, "cluster"):
        pass
    assert words in str(raised.value)
    assert time.monotonic() - started < 2 * cluster.ANSWER_S


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (lambda _: "127.0.0.1:1", "cluster = 127.0.0.1:1: does not answer (Connection refused)"),
        (no_cluster, "cluster = auto: this machine belongs to no Ray cluster; start one"),
    ],
)
def test_a_cluster_of_this_machine_that_is_gone_is_one_message(
    monkeypatch: pytest.MonkeyPatch, found: Any, words: str
) -> None:
    monkeypatch.setattr(cluster.import_ray("test"), "is_initialized", lambda: False)
    monkeypatch.setattr("ray._private.services.canonicalize_bootstrap_address", found)
    with pytest.raises(InputError) as raised, cluster.connected("auto", "cluster"):
        pass
    assert words in str(raised.value)


def test_a_node_that_does_not_answer_is_one_message(
    ray: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mix2fld.sweep.ray_place.NODE_S", 0.1)
    monkeypatch.setattr("mix2fld.sweep.ray_place.node_versions", lambda: time.sleep(5))
    with pytest.raises(InputError, match="did not answer in 0 s; look at: ray status"):
        Cluster(ray)


def test_a_token_that_is_there_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.setenv(name, "")  # so that it is restored
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    cluster.use_token()
    assert "RAY_AUTH_MODE" not in os.environ
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("secret")
    (tmp_path / ".ray" / "auth_token").chmod(0o644)  # as Ray leaves it
    cluster.use_token()
    assert os.environ["RAY_AUTH_MODE"] == "token"
    assert (tmp_path / ".ray" / "auth_token").stat().st_mode & 0o777 == 0o600


def test_the_head_of_a_cluster_is_told_from_something_else(ray: Any) -> None:
    cluster._check_answers(ray.get_runtime_context().gcs_address, "cluster")


def test_an_address_at_which_something_else_answers_is_one_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster.import_ray("test"), "is_initialized", lambda: False)
    monkeypatch.setattr(cluster, "ANSWER_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with (
            pytest.raises(InputError, match="does not answer"),
            cluster.connected(address, "cluster"),
        ):
            pass
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as website:
        monkeypatch.setattr(BaseHTTPRequestHandler, "log_message", lambda *_: None)
        threading.Thread(target=website.serve_forever, daemon=True).start()
        monkeypatch.setattr(cluster, "ANSWER_S", 30.0)
        address = f"127.0.0.1:{website.server_address[1]}"
        with (
            pytest.raises(InputError, match="something other than Ray listens there"),
            cluster.connected(address, "cluster"),
        ):
            pass
        website.shutdown()


def test_versions_that_differ_are_one_message(
    ray: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = cluster.versions()
    for place in ("mix2fld.engine.fleets.hosts", "mix2fld.sweep.ray_place"):
        monkeypatch.setattr(f"{place}.versions", lambda: {**own, "mix2fld": "9.9.9"})
    with pytest.raises(InputError, match=r"node .* has mix2fld .*, but this machine has 9\.9\.9"):
        Cluster(ray)
    assert "another processor" in cluster.other_processor({**own, "processor": "m68k"}, own)
    assert cluster.other_processor(own, own) == ""


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("run --fleet moon", "fleet = moon: no such fleet"),
        ("run --hosts 2", "hosts = 2: must be 1 or more, with --fleet ray"),
        ("sweep --devices 2 3 --cluster auto --workers 2", "workers = 2: applies to this machine"),
    ],
)
def test_bad_flags_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: str, words: str
) -> None:
    save_dataset(tmp_path / "toy.npz", toy_dataset())
    with pytest.raises(SystemExit) as stopped:
        main([*flags.split(), "--dataset", str(tmp_path / "toy.npz"), "--samples-per-device", "20",
              "--model", "mlp", "--out", str(tmp_path / "out")])  # fmt: skip
    assert stopped.value.code == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
