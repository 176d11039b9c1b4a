"""Nodes and drivers killed, hosts without memory, stores that spill: ``make test-cluster``."""

import gc
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mix2fld
from mix2fld.base.errors import ResourceError
from mix2fld.engine.fleets import cluster
from mix2fld.engine.fleets.hosts import Hosts
from mix2fld.engine.fleets.ray_fleet import RayFleet
from mix2fld.runs.config_file import dump_config
from mix2fld.runs.loop import Watcher
from stored_runs import contents
from toys import CoinLink, save_dataset, toy_config, toy_dataset

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")]
PATIENCE_S = 300.0


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A head and one more node on this machine, each with a core."""
    monkeypatch.setenv("RAY_worker_niceness", "0")  # else a busy machine starves them
    ray = cluster.import_ray("test")
    from ray.cluster_utils import Cluster

    found = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    found.add_node(num_cpus=1)
    ray.init(address=found.address, **cluster.QUIET)
    yield found
    ray.shutdown()
    found.shutdown()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


class Doing(Watcher):
    """Does something after a round."""

    def __init__(self, deeds: dict[int, Callable[[], Any]]) -> None:
        self.deeds, self.done = deeds, list[int]()

    def round_done(self, config: Any, info: Any) -> None:
        if info.round in self.deeds:
            self.done.append(info.round)
            self.deeds[info.round]()


class Disturbed(RayFleet):
    """In round 2, something happens once: as shards begin to train, or after they have."""

    when, deed = "train", staticmethod(lambda: None)
    done = False

    def _train_shard(self, shard: Any) -> Any:
        answer = super()._train_shard(shard)
        self._disturb("train", shard.order.round_number)
        return answer

    def deliver(self, states: Any, outcome: Any) -> Any:
        self._disturb("deliver", outcome.round_number)
        return super().deliver(states, outcome)

    def _disturb(self, now: str, round_number: int) -> None:
        if round_number == 2 and now == self.when and not self.done:
            self.done = True
            self.deed()


@pytest.mark.parametrize("when", ["train", "deliver"])
def test_a_node_killed_in_a_round_and_a_node_added_change_no_byte(
    tmp_path: Path, nodes: Any, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = cluster.import_ray("test")
    config = toy_config(protocol="fd", rounds=5, participants=3, local_steps=2000)
    data = toy_dataset()
    mix2fld.run(config, tmp_path / "here", dataset=data, link=CoinLink())
    worker = nodes.list_all_nodes()[-1]
    assert worker is not nodes.head_node
    killed: list[str] = []

    def kill() -> None:
        nodes.remove_node(worker, allow_graceful=False)
        killed.append(when)

    monkeypatch.setattr(Disturbed, "when", when)
    monkeypatch.setattr(Disturbed, "deed", staticmethod(kill))
    doing, hosts = Doing({3: lambda: nodes.add_node(num_cpus=1)}), Hosts(ray)
    deadline = time.monotonic() + PATIENCE_S
    while len(hosts.ready()) < 2:
        assert time.monotonic() < deadline, "a node has no host"
        time.sleep(1)
    there = {"fleet": partial(Disturbed, hosts), "watcher": doing, "link": CoinLink()}
    mix2fld.run(config, tmp_path / "there", dataset=data, **there)
    assert killed == [when]
    assert doing.done == [3]
    assert contents(tmp_path / "there") == contents(tmp_path / "here")
    deadline = time.monotonic() + PATIENCE_S
    while len(hosts.ready()) < 2:
        assert time.monotonic() < deadline, "the node that was added has no host"
        time.sleep(1)


def test_a_driver_that_is_killed_resumes_with_the_same_bytes(tmp_path: Path) -> None:
    save_dataset(tmp_path / "toy.npz", toy_dataset())
    fields = {"dataset": str(tmp_path / "toy.npz"), "rounds": 6, "local_steps": 20_000}
    config = toy_config(protocol="mix2fld", link="ideal", **fields)
    (tmp_path / "run.toml").write_text(dump_config(config))
    mix2fld.run(config, tmp_path / "here")
    command = [sys.executable, "-m", "mix2fld", "run", "--config", str(tmp_path / "run.toml")]
    command += ["--fleet", "ray", "--hosts", "2", "--out", str(tmp_path / "there")]
    rounds = tmp_path / "there" / "mix2fld-s0" / "rounds.jsonl"
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not rounds.exists():
            assert first.poll() is None
            assert time.monotonic() < deadline, "no round was finished"
            time.sleep(0.02)
        first.send_signal(signal.SIGKILL)
    finally:
        first.kill()
        first.wait()
    assert rounds.read_bytes().count(b"\n") < config.rounds
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=2 * PATIENCE_S)
    runs = [tmp_path / where / "mix2fld-s0" for where in ("here", "there")]
    assert contents(runs[0]) == contents(runs[1])


@pytest.fixture
def small_store() -> Iterator[Any]:
    """A cluster on this machine with the smallest object store that Ray starts with."""
    ray = cluster.import_ray("test")
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # hosts do not know the tests
    cluster.start_here(ray, "test", cores=2, store_bytes=80 << 20)
    yield ray
    ray.shutdown()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def test_a_store_that_spills_changes_no_byte(tmp_path: Path, small_store: Any) -> None:
    ray, data = small_store, toy_dataset()
    config = toy_config(protocol="fd", rounds=3, participants=3, device_states="disk")
    mix2fld.run(config, tmp_path / "here", dataset=data, link=CoinLink())
    held: list[Any] = []
    fill = Doing({n: lambda: held.append(ray.put(bytes(60 << 20))) for n in (1, 2)})
    hosts = Hosts(ray, 2)
    there = {"fleet": partial(RayFleet, hosts), "watcher": fill, "link": CoinLink()}
    mix2fld.run(config, tmp_path / "there", dataset=data, **there)
    assert len(held) == 2  # more than the store holds, so that it had to spill
    assert contents(tmp_path / "there") == contents(tmp_path / "here")
    hosts.stop()


def test_a_host_without_memory_is_one_line_and_the_run_resumes(
    tmp_path: Path, small_store: Any
) -> None:
    ray, data = small_store, toy_dataset()
    config = toy_config(protocol="fd", rounds=4, participants=3)
    mix2fld.run(config, tmp_path / "here", dataset=data, link=CoinLink())
    hosts = Hosts(ray, 2)

    def starve() -> None:
        ray.get([host.__ray_call__.remote(raise_memory_error) for host in hosts.ready()])

    there = {"fleet": partial(RayFleet, hosts), "link": CoinLink()}
    with pytest.raises(
        ResourceError, match=r"a host is out of memory .*resumes after them"
    ) as raised:
        mix2fld.run(config, tmp_path / "there", dataset=data, watcher=Doing({2: starve}), **there)
    assert "\n" not in str(raised.value)
    mix2fld.run(config, tmp_path / "there", dataset=data, **there)
    assert contents(tmp_path / "there") == contents(tmp_path / "here")
    hosts.stop()


def raise_memory_error(host: Any) -> None:
    """What an allocation does in a host without memory; the next run makes its fleet anew."""

    def train_part(*_: Any) -> None:
        np.empty(1 << 50, np.uint8)

    host._fleet.train_part = train_part


def test_a_host_that_the_system_kills_for_memory_is_one_line_and_the_run_resumes(
    tmp_path: Path, small_store: Any
) -> None:
    ray, data = small_store, toy_dataset()
    config = toy_config(protocol="fd", rounds=4, participants=3)
    mix2fld.run(config, tmp_path / "here", dataset=data, link=CoinLink())
    hosts = DyingHosts(ray, 2)
    there = {"fleet": partial(RayFleet, hosts), "link": CoinLink()}
    with pytest.raises(
        ResourceError, match=r"a host was lost 6 times in round 3 .*resumes"
    ) as raised:
        mix2fld.run(
            config, tmp_path / "there", dataset=data, watcher=Doing({2: hosts.die}), **there
        )
    assert "\n" not in str(raised.value)
    hosts.stop()
    healthy = Hosts(ray, 2)
    there = {"fleet": partial(RayFleet, healthy), "link": CoinLink()}
    mix2fld.run(config, tmp_path / "there", dataset=data, **there)
    assert contents(tmp_path / "there") == contents(tmp_path / "here")
    healthy.stop()


class DyingHosts(Hosts):
    """From some time on, every host ends as the kernel ends a process for lack of memory."""

    dying = False

    def die(self) -> None:
        """Begin."""
        self.dying = True
        for host in self._ready:
            host.__ray_call__.remote(die_when_training)

    def _greet(self, host: Any, answer: Any) -> None:
        super()._greet(host, answer)
        if self.dying:
            host.__ray_call__.remote(die_when_training)


def die_when_training(host: Any) -> None:
    """The next shard is the last."""
    host._before = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
