"""The hosts of a cluster: as many as it has cores; those that are lost are replaced."""

import sys
import time
from typing import Any

from mix2fld.base.custom_code import searched_folders
from mix2fld.base.errors import ResourceError
from mix2fld.engine.fleets.cluster import check_versions, other_processor, versions
from mix2fld.engine.fleets.ray_host import Host

START_S = 300.0
"""How long the first host may take to start."""
GATHER_S = 60.0
"""How long those that start with it are waited for."""
Handle = Any
"""A host as the driver sees it: an actor of Ray."""


class Hosts:
    """Actors, one to a core of the cluster, or so many."""

    def __init__(self, ray: Any, count: int | None = None, cores: int = 1) -> None:
        self.ray = ray
        self._wanted, self._cores = count, cores
        self._actor = ray.remote(Host)
        self._starting: dict[Any, Handle] = {}  # by what resolves when it has started
        self._ready: list[Handle] = []
        self._noted: set[str] = set()
        self._turn = 0

    def ready(self) -> list[Handle]:
        """All hosts that are there; more are started if the cluster has grown or lost some."""
        self._start_missing()
        if not self._ready:
            self._take_started(START_S, until_first=True)
            self._take_started(GATHER_S)
        self._take_started(0.0)
        if not self._ready:
            raise ResourceError(
                f"fleet = ray: no host started in {START_S:.0f} s; the cluster has no free core "
                "or not enough memory"
            )
        return list(self._ready)

    def lose(self, host: Handle) -> None:
        """The connection to a host is lost."""
        if host in self._ready:
            self._ready.remove(host)

    def another(self, than: Handle) -> Handle:
        """Another running host, or a new one."""
        others = [host for host in self._ready if host is not than]
        if others:
            self._turn += 1
            return others[self._turn % len(others)]
        return self.ready()[0]

    def stop(self) -> None:
        """Stop all hosts."""
        for host in (*self._ready, *self._starting.values()):
            self.ray.kill(host)
        self._ready, self._starting = [], {}

    def _start_missing(self) -> None:
        total = int(self.ray.cluster_resources().get("CPU", 0)) // self._cores
        wanted = max(1, self._wanted or total)
        for _ in range(wanted - len(self._ready) - len(self._starting)):
            actor = self._actor.options(num_cpus=self._cores, max_restarts=0)
            host = actor.remote(self._cores, searched_folders())
            self._starting[host.ready.remote()] = host

    def _take_started(self, seconds: float, *, until_first: bool = False) -> None:
        """Move hosts that are there within so long from starting to ready."""
        deadline = time.monotonic() + seconds
        while self._starting and not (until_first and self._ready):
            left = max(0.0, deadline - time.monotonic())
            done, _ = self.ray.wait(list(self._starting), num_returns=1, timeout=left)
            if not done:
                return
            self._greet(self._starting.pop(done[0]), done[0])

    def _greet(self, host: Handle, answer: Any) -> None:
        try:
            found = self.ray.get(answer)
        except self.ray.exceptions.RayActorError:
            return  # its node is lost; a new one is started in the next round
        own = versions()
        check_versions(own, found)
        note = other_processor(own, found)
        if note and note not in self._noted:
            self._noted.add(note)
            print(f"mix2fld: {note}", file=sys.stderr)
        self._ready.append(host)
