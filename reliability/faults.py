"""Makes every file operation of a run fail in turn; the next start must reach the same bytes."""

import argparse
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mix2fld.base.errors import Mix2fldError
from mix2fld.config.settings import Config
from mix2fld.data import load_dataset
from mix2fld.engine.info import RoundInfo
from mix2fld.protocols.table import PROTOCOLS
from mix2fld.runs.simulation import Watcher
from mix2fld.runs.simulation import run as simulate
from mix2fld.types import Dataset
from reliability.faulty_disk import FAULTS, INSTANTS, Crash, Fault, FaultyDisk, Instant, on
from reliability.records import write_record
from reliability.toy import small_config, write_dataset

NEVER = 1 << 30


class Quiet(Watcher):
    """Prints nothing; stops after so many rounds, if asked to."""

    def __init__(self, stop_after: int = NEVER) -> None:
        self.stop_after = stop_after
        self.notes: list[str] = []

    def note(self, line: str) -> None:
        self.notes.append(line)

    def round_done(self, config: Config, info: RoundInfo) -> None:
        if info.round == self.stop_after:
            raise KeyboardInterrupt


class Bench:
    """One protocol with its uninterrupted run, to compare with."""

    def __init__(self, protocol: str, scratch: Path, dataset: Dataset, file: Path) -> None:
        self.config = small_config(str(file), protocol=protocol)
        self.dataset, self.scratch = dataset, scratch
        self.out = scratch / "run"
        self.run(scratch / "whole")
        self.whole = contents(scratch / "whole" / self.config.run_name)

    def run(self, out: Path, **options: Any) -> None:
        simulate(self.config, out, dataset=self.dataset, **{"watcher": Quiet(), **options})

    @property
    def folder(self) -> Path:
        return self.out / self.config.run_name

    def begin(self, start: str) -> dict[str, Any]:
        """Make the folder that a trial starts from; returns the options of its run."""
        shutil.rmtree(self.out, ignore_errors=True)
        if start == "a damaged checkpoint":
            self._run_two_rounds()
            newest = self.folder / "checkpoint.safetensors"
            newest.write_bytes(newest.read_bytes()[:-9])
        elif start == "a damaged record":
            self._run_two_rounds()
            rounds = self.folder / "rounds.jsonl"
            rounds.write_bytes(rounds.read_bytes().replace(b"accuracy", b"accurazy", 1))
        elif start == "a run to overwrite":
            self._run_two_rounds()
            return {"overwrite": True}
        return {}

    def _run_two_rounds(self) -> None:
        try:
            self.run(self.out, watcher=Quiet(stop_after=2))
        except KeyboardInterrupt:
            return

    def trial(self, start: str, fault_at: int, instant: Instant, fault: Fault) -> bool:
        """Whether the fault happened; fails unless the run then resumes to the same bytes."""
        options = self.begin(start)
        with on(FaultyDisk(fault_at, instant, fault)) as disk:
            try:
                self.run(self.out, **options)
            except Crash:
                pass
            except Mix2fldError as error:
                assert fault == "disk is full", error
                assert "No space left" in str(error)
        if len(disk.operations) <= fault_at:
            return False
        self.run(self.out, **options)
        found = contents(self.folder)
        damaged = {name for name in found if name.endswith(".damaged")}
        assert {name: found[name] for name in found if name not in damaged} == self.whole, (
            f"{self.config.run_name}, {start}: {fault} {instant} operation {fault_at} "
            f"({disk.operations[fault_at]})"
        )
        return True

    def operations(self, start: str) -> list[str]:
        """The file operations of a run without a fault."""
        options = self.begin(start)
        with on(FaultyDisk(NEVER, "before", "process dies")) as disk:
            self.run(self.out, **options)
        return disk.operations


STARTS = ("an empty folder", "a damaged checkpoint", "a damaged record", "a run to overwrite")


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def plan(protocols: Iterable[str]) -> list[tuple[str, str, Fault, Instant]]:
    """All faults from all starts with one protocol, whose state has every part; then, with each of
    the others, the death of the process in every operation of a whole run.
    """
    first, *others = protocols
    return [
        *((first, s, f, i) for s in STARTS for f in FAULTS for i in INSTANTS),
        *((other, STARTS[0], FAULTS[0], "during") for other in others),
    ]


def inject(
    trials: Iterable[tuple[str, str, Fault, Instant]], every: int = 1, keep: bool = False
) -> dict[str, Any]:
    """Each fault at every operation (or every so many) of its run; the counts of what happened."""
    counts = {
        name: Counter[str]() for name in ("fault", "instant", "operation", "start", "protocol")
    }
    with tempfile.TemporaryDirectory(dir=in_memory()) as scratch:
        file = write_dataset(Path(scratch) / "toy.npz")
        dataset = load_dataset(small_config(str(file)).data)
        benches: dict[str, Bench] = {}
        for protocol, start, fault, instant in trials:
            if protocol not in benches:
                benches[protocol] = Bench(protocol, Path(scratch) / protocol, dataset, file)
            bench = benches[protocol]
            for at, name in list(enumerate(bench.operations(start)))[::every]:
                if bench.trial(start, at, instant, fault):
                    counts["fault"][fault] += 1
                    counts["instant"][instant] += 1
                    counts["operation"][name] += 1
                    counts["start"][start] += 1
                    counts["protocol"][protocol] += 1
            if keep:
                write_record("faults", report(counts))
    return report(counts)


def report(counts: dict[str, Counter[str]]) -> dict[str, Any]:
    """A fault that is not survived stops everything, so those counted were."""
    return {"survived": sum(counts["fault"].values()), **{k: dict(v) for k, v in counts.items()}}


def in_memory() -> str | None:
    """A folder in memory, if there is one: the faults are simulated, so no disk is needed."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    others = [name for name in PROTOCOLS if name != "mix2fld"]
    parser.add_argument("--protocols", nargs="+", default=["mix2fld", *others])
    found = inject(plan(parser.parse_args().protocols), keep=True)
    print(found)


if __name__ == "__main__":
    main()
