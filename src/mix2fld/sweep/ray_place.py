"""A Ray cluster as a place for many runs: a task each, whose folder is mirrored in pieces."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from mix2fld.base.custom_code import searched_folders
from mix2fld.base.errors import InputError, Mix2fldError
from mix2fld.base.files import LOCK, PART, append_atomic, remove, write_atomic
from mix2fld.engine.fleets.cluster import check_versions, one_line, other_processor, put, versions
from mix2fld.runs.folder import RunFolder, warn
from mix2fld.runs.layout import DAMAGED, RunFiles
from mix2fld.sweep.jobs import Job, JobResult, dataset_of, reason_of
from mix2fld.sweep.remote import node_versions, run_remote
from mix2fld.sweep.schedule import Event
from mix2fld.types import Dataset


class Piece(NamedTuple):
    """Bytes of a file from some place on."""

    name: str
    start: int
    data: bytes


class Pieces(NamedTuple):
    """What changed in a folder, in the order in which it must be written."""

    names: tuple[str, ...]
    """All files that it has now."""
    changed: tuple[Piece, ...]


def whole(folder: Path) -> Pieces:
    """All files of a folder, by name."""
    return FolderSender(folder).changes()


@dataclass
class FolderSender:
    """Finds what changed in a folder since it was last asked."""

    folder: Path
    _sent: dict[str, tuple[int, int]] = field(default_factory=dict)

    def changes(self) -> Pieces:
        """What is new; of a file that only grows, what was added."""
        files = sorted(self._files(), key=lambda file: (_order(file), file.name))
        changed = []
        for file in files:
            if file == RunFiles(self.folder).previous:
                continue  # the other side keeps it itself
            now = file.stat()
            then, size = self._sent.get(file.name, (-1, 0))
            if now.st_mtime_ns == then and now.st_size == size:
                continue
            data = file.read_bytes()
            grows = file.name == RunFiles(self.folder).rounds.name and len(data) >= size
            start = size if grows else 0
            changed.append(Piece(file.name, start, data[start:]))
            self._sent[file.name] = now.st_mtime_ns, len(data)
        return Pieces(tuple(file.name for file in files), tuple(changed))

    def _files(self) -> Iterable[Path]:
        if not self.folder.is_dir():
            return []
        return [f for f in self.folder.iterdir() if f.name != LOCK and not f.name.endswith(PART)]


def write_pieces(folder: Path, pieces: Pieces) -> None:
    """Bring a folder up to date. At every instant it is one that a run resumes from."""
    files = RunFiles(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for piece in pieces.changed:
        path = folder / piece.name
        if piece.start and path.exists() and path.stat().st_size == piece.start:
            append_atomic(path, piece.data)
        else:
            last = files.previous if path == files.checkpoint else None
            write_atomic(path, piece.data, keep_last_as=last)
    for file in (*files.existing(), *files.existing(DAMAGED)):
        if file.name not in pieces.names:
            remove(file)


def _order(file: Path) -> int:
    """Settings first, then what a checkpoint needs before the checkpoint, the summary last."""
    names = ["config.toml", "states", "rounds.jsonl", "checkpoint.safetensors"]
    name = "states" if file.name.startswith("states-") else file.name
    return names.index(name) if name in names else len(names)


NODE_S = 120.0
"""How long a node may take to say what it computes with."""
ASKED_FOR = 4
"""Tasks for each core that are handed over, so that a cluster that can grow sees the demand."""


class Cluster:
    """Runs jobs as tasks; the folders at home are locked while they are away."""

    def __init__(self, ray: Any, cores: int = 1) -> None:
        self._ray, self._cores, self._own = ray, cores, versions()
        self._check_nodes()
        self._task = ray.remote(run_remote).options(
            num_cpus=cores, max_retries=0, num_returns="streaming"
        )
        self._jobs: dict[Any, Job] = {}
        self._folders: dict[Any, RunFolder] = {}
        self._datasets: dict[int, tuple[Dataset, Any]] = {}

    def cores(self) -> int:
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def slots(self) -> int:
        """More than fit at a time; the rest wait in the cluster."""
        return ASKED_FOR * max(1, self.cores() // self._cores)

    def begin(self, job: Job) -> None:
        folder = RunFolder(job.folder)
        folder.prepare(job.as_run())
        task = self._task.remote(
            job.config, whole(job.folder), self._stored(job), self._own, self._cores,
            searched_folders(),
        )  # fmt: skip
        self._jobs[task], self._folders[task] = job, folder

    def events(self, seconds: float, tick: Callable[[], None]) -> list[Event]:
        del tick
        ready, _ = self._ray.wait(list(self._jobs), num_returns=1, timeout=seconds)
        return [event for task in ready for event in self._next(task)]

    def stop(self) -> None:
        """Cancel what is in progress; what came home stays."""
        for task in list(self._jobs):
            self._ray.cancel(task, force=True)
            self._forget(task)

    def _next(self, task: Any) -> list[Event]:
        job = self._jobs[task]
        try:
            item = self._ray.get(next(task))
            if isinstance(item, Pieces):
                write_pieces(job.folder, item)
                return []
        except StopIteration:
            item = JobResult("the task ended without a result")
        except (OSError, Mix2fldError) as error:
            self._ray.cancel(task, force=True)
            item = JobResult(reason_of(error))
        except self._ray.exceptions.RayError as error:
            item = JobResult(f"lost on the cluster: {one_line(error)}")
        if not isinstance(item, JobResult):
            return [Event(job, item)]
        self._forget(task)
        return [Event(job, done=item)]

    def _forget(self, task: Any) -> None:
        del self._jobs[task]
        self._folders.pop(task).close()

    def _stored(self, job: Job) -> Any:
        """The dataset in the object store: once, and once on each node that reads it."""
        dataset = dataset_of(job.config)
        if id(dataset) not in self._datasets:
            stored = put(self._ray, dataset, "cluster", "the dataset")
            self._datasets[id(dataset)] = dataset, stored
        return self._datasets[id(dataset)][1]

    def _check_nodes(self) -> None:
        """Refuse nodes of other versions before anything is run; say which compute otherwise."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        probe = self._ray.remote(node_versions)
        nodes = [n for n in self._ray.nodes() if n["Alive"] and n["Resources"].get("CPU")]
        if not nodes:
            raise InputError(
                field="cluster", hint="no node has a core; add one with: ray start --address=..."
            )
        answers = [
            probe.options(
                num_cpus=0,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False),
            ).remote()
            for node in nodes
        ]
        for node, answer in zip(nodes, answers, strict=True):
            try:
                found = self._ray.get(answer, timeout=NODE_S)
            except self._ray.exceptions.GetTimeoutError:
                raise InputError(
                    field="cluster",
                    hint=f"node {node['NodeManagerHostname']} did not answer in {NODE_S:.0f} "
                    "s; look at: ray status",
                ) from None
            except self._ray.exceptions.RayError as error:
                cause = getattr(error, "cause", None) or error
                raise InputError(
                    field="cluster",
                    hint=f"node {node['NodeManagerHostname']} cannot run mix2fld "
                    f"({one_line(cause)}); install the same version on it",
                ) from None
            check_versions(self._own, found)
            if note := other_processor(self._own, found):
                warn(note)
