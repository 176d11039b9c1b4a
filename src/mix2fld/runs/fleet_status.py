"""How a deployed run and its devices are, read from the files of its folder alone."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from mix2fld.base.errors import InputError
from mix2fld.base.locks import is_locked
from mix2fld.runs.layout import RunFiles
from mix2fld.runs.reader import find_run_folders, read_run

VERSION = re.compile(r"[0-9A-Za-z.+-]{1,20}")
"""Of mix2fld, as a device tells it."""
SPARE_S = 60.0
"""Beside two timeouts of a round: nothing happens for longer only if the server hangs."""


@dataclass
class DeviceStatus:
    """One device, as far as the server has heard of it."""

    device: int
    last_seen: float | None = None
    """Seconds since 1970 of its last answer."""
    version: str = ""
    round: int = 0
    """The last round that it answered in."""
    taken: int = 0
    """Rounds whose upload was delivered."""
    refused: int = 0
    suspected: int = 0
    """Rounds in which its upload lay far from the rest."""
    silent: int = 0
    """Rounds in a row that it was asked in and did not answer."""


@dataclass
class RunStatus:
    """One run: how far it is, and what is wrong."""

    name: str
    rounds_done: int
    rounds: int
    finished: bool
    serving: bool
    """Whether a server has the run."""
    last_event: float
    timeout_s: float
    transport_lost: bool
    without_upload: int
    """Rounds in a row, up to the last one, in which no upload arrived."""
    devices: list[DeviceStatus]
    fault: str = ""
    """Why the files of the run cannot be read."""

    def trouble(self, now: float) -> str:
        """What an operator should look after; empty if nothing."""
        if self.fault or self.without_upload:
            rounds = "1 round" if self.without_upload == 1 else f"{self.without_upload} rounds"
            return self.fault or f"no upload for {rounds}; diary.log says why"
        if self.finished:
            return ""
        if not self.serving:
            return "no server has this run; the same command resumes it"
        if self.transport_lost:
            return "the server has lost its transport, and waits"
        waited = now - self.last_event
        if waited > 2 * self.timeout_s + SPARE_S:
            return f"nothing has happened for {waited:.0f} s; the server hangs"
        return ""

    @property
    def silent(self) -> list[int]:
        """Devices that are asked and have not answered for two rounds or more."""
        return [one.device for one in self.devices if one.silent > 1]

    def as_json(self, now: float) -> dict[str, Any]:
        """All of it, for programs."""
        return {**asdict(self), "trouble": self.trouble(now), "silent": self.silent}


def deployed_runs(folder: Path) -> list[RunStatus]:
    """Every deployed run in a folder; raises ``InputError`` if there is none.

    One that cannot be read is in trouble, and costs no other.
    """
    folders = [path for path in find_run_folders([folder]) if RunFiles(path).identity.is_file()]
    found: list[RunStatus] = []
    for path in folders:
        if (status := _status_or_fault(path)) is not None:
            below = str(path.relative_to(folder))
            found.append(replace(status, name=status.name if below == "." else below))
    if not found:
        raise InputError(field="runs", value=folder, hint="holds no run of a deployment")
    return found


def _status_or_fault(folder: Path) -> RunStatus | None:
    try:
        return run_status(folder)
    except Exception as error:  # files of a run may hold anything, and only that run must suffer
        words = " ".join(f"cannot be read ({error})".split())[:300]
        return RunStatus(folder.name, 0, 0, False, is_locked(folder), 0.0, 0.0, False, 0, [], words)


def run_status(folder: Path) -> RunStatus | None:
    """The run in a folder; None if it is gone."""
    run, files = read_run(folder), RunFiles(folder)
    if run is None:
        return None
    events = list(_events(files.events))
    devices = {number: DeviceStatus(number) for number in range(run.config.data.devices)}
    last, timeout_s, lost = files.config.stat().st_mtime, 0.0, False
    for event in events:
        last = max(last, event["time"])
        match event["event"]:
            case "started":
                timeout_s, lost = _number(event.get("timeout_s")) or 0.0, False
            case "lost" | "back" as kind:
                lost = kind == "lost"
        _of_devices(event, devices)
    _from_record(run.rounds, devices)
    return RunStatus(
        name=run.config.run_name,
        rounds_done=len(run.rounds),
        rounds=run.config.rounds,
        finished=run.finished,
        serving=is_locked(folder),
        last_event=last,
        timeout_s=timeout_s,
        transport_lost=lost,
        without_upload=len(rounds_without_upload(run.rounds)),
        devices=list(devices.values()),
    )


def rounds_without_upload(rounds: Sequence[Mapping[str, Any]]) -> list[int]:
    """The last rounds in which uploads were due and none arrived, latest first."""
    due = [info for info in reversed(rounds) if info["uploads"]["attempted"]]
    return [info["round"] for info in takewhile(_without_upload, due)]


def _without_upload(info: Mapping[str, Any]) -> bool:
    return not info["uploads"]["delivered"]


def _of_devices(event: Mapping[str, Any], devices: Mapping[int, DeviceStatus]) -> None:
    """What an event says of devices; what it says of others is passed over."""
    match event:
        case {"event": "asked", "versions": dict(versions)}:
            for device, one in devices.items():
                version = versions.get(str(device), one.version)
                one.version = version if _is_version(version) else ""
        case {"event": "unanswered", "devices": list(silent)}:
            for device, one in devices.items():
                one.silent += device in silent
        case {"event": "upload" | "refused" as kind, "device": int(device), "round": int(number)}:
            if device in devices:
                one = devices[device]
                one.last_seen, one.round, one.silent = event["time"], number, 0
                one.refused += kind == "refused"


def _is_version(text: object) -> bool:
    return isinstance(text, str) and VERSION.fullmatch(text) is not None


def _number(value: object) -> float | None:
    """A finite number, if it is one."""
    if isinstance(value, int | float) and math.isfinite(value):
        return float(value)
    return None


def _from_record(rounds: Sequence[Mapping[str, Any]], devices: Mapping[int, DeviceStatus]) -> None:
    """What the record says: a round that was repeated is in it once."""
    taken, suspected = Counter[int](), Counter[int]()
    for info in rounds:
        taken.update(info["uploads"]["devices"])
        suspected.update({suspect["device"] for suspect in info.get("suspects", ())})
    for device, one in devices.items():
        one.taken, one.suspected = taken[device], suspected[device]


def _events(path: Path) -> Iterator[dict[str, Any]]:
    """Those with a time and a kind; a run of before 0.3 has none."""
    if not path.is_file():
        return
    for line in path.read_bytes().splitlines():
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):  # cut by a crash, or just being written
            continue
        if isinstance(event, dict) and _number(event.get("time")) is not None:
            yield {"event": "", **event}
