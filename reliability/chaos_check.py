"""Whether the record of a run says exactly what happened, and what it says."""

import json
import re
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mix2fld.data import load_dataset
from mix2fld.runs.folder import RunFolder
from mix2fld.runs.simulation import run
from reliability.replay import Told, assert_same_as_engine, compared, diary, replayed, rounds_of

TOLD = "told.json"
"""What struck the fleet, and which parts ended by themselves."""
DID = r"^device-\d+: round (\d+): {}"
"""A line of a device's log."""
CAUGHT_UP = re.compile(r"round (\d+): device (\d+) was away and catches up")


class Past:
    """A fleet whose run is over, from the files that it left."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        (self.run_folder,) = (self.folder / "disk" / "runs").glob("*-s*")
        result = RunFolder(self.run_folder).finished()
        assert result is not None, folder
        self.config, self.told = result.config, json.loads((folder / TOLD).read_text())
        devices = self.config.data.devices
        self.liar, self.flooder = devices - 2, devices - 1
        self.honest = range(devices - 2)
        self.parts = ["broker", "front", "server", *(f"device-{n}" for n in range(devices - 1))]

    def log(self, part: str) -> str:
        """All that a part has said, over all its starts."""
        return (self.folder / "logs" / f"{part}.log").read_text(encoding="utf-8", errors="replace")


def check(fleet: Past) -> None:
    """Raise ``AssertionError`` where the record does not say what happened."""
    rounds = rounds_of(fleet.run_folder)
    assert [info["round"] for info in rounds] == list(range(1, fleet.config.rounds + 1))
    assert all(info["uploads"]["delivered"] for info in rounds)
    told = told_by(fleet)
    answers = last_answers(fleet.run_folder)
    for info in rounds:
        number, took = info["round"], set(info["uploads"]["devices"])
        assert all(number in told.trained[device] for device in took), number
        said = answers[number]
        assert set(info["asked"]) == said["asked"], number
        assert took == said["upload"] - said["refused"], number
        assert said["asked"] - took == said["refused"] | said["unanswered"], number
    for part in set(fleet.parts) - {f"device-{fleet.liar}"}:
        log = fleet.log(part)
        assert log.count("Traceback") == log.count("\nKeyboardInterrupt"), part  # told to end
    if not any(told.heard.values()):
        return  # a log from before devices told of downloads: report says how far it was followed
    with TemporaryDirectory() as scratch:
        assert_same_as_engine(fleet.run_folder, fleet.folder, Path(scratch), [fleet.liar], told)


def rounds_like_the_simulator(fleet: Past) -> int:
    """Rounds before the first in which a number differs but that of bits sent up."""
    with TemporaryDirectory() as scratch:
        pairs = replayed(fleet.run_folder, Path(scratch), [fleet.liar], told_by(fleet))
    equal = 0
    for mine, theirs in compared(*pairs):
        if {**mine, "bits": 0} != {**theirs, "bits": 0}:
            break
        equal += 1
    return equal


def told_by(fleet: Past) -> Told:
    """What the devices' own logs and the diary say."""

    def rounds_in(words: str) -> dict[int, set[int]]:
        line = re.compile(DID.format(words), re.MULTILINE)
        logs = {device: fleet.log(f"device-{device}") for device in (*fleet.honest, fleet.liar)}
        return {device: {int(found) for found in line.findall(log)} for device, log in logs.items()}

    caught_up: dict[int, set[int]] = {}
    for number, device in CAUGHT_UP.findall(diary(fleet.run_folder)):
        caught_up.setdefault(int(number), set()).add(int(device))
    return Told(rounds_in("trained"), rounds_in("has the download"), caught_up)


def events_of(path: Path) -> list[dict[str, Any]]:
    """Lines of ``events.jsonl`` that are whole."""
    found = []
    for line in (path / "events.jsonl").read_text(encoding="utf-8").splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:  # the disk was full
            continue
    return found


def last_answers(path: Path) -> dict[int, dict[str, set[int]]]:
    """By round: who was asked and who answered how, when it was asked for the last time."""
    rounds: dict[int, dict[str, set[int]]] = {}
    for event in events_of(path):
        kind, number = event["event"], event.get("round")
        if kind == "asked":
            kinds = ("upload", "refused", "unanswered")
            rounds[number] = {"asked": set(event["devices"]), **{one: set() for one in kinds}}
        elif kind in ("upload", "refused"):
            rounds[number][kind].add(event["device"])
        elif kind == "unanswered":
            rounds[number][kind] |= set(event["devices"])
    return rounds


def report(fleet: Past) -> dict[str, Any]:
    """What the record says."""
    rounds, events = rounds_of(fleet.run_folder), events_of(fleet.run_folder)
    told = Counter(event["event"] for event in events)
    refused = Counter(event["device"] for event in events if event["event"] == "refused")
    suspects = Counter(one["device"] for info in rounds for one in info.get("suspects", ()))
    asked = sum(len(info["asked"]) for info in rounds)
    stated, data = fleet.config.replace(computing_time="stated"), load_dataset(fleet.config.data)
    (calm,) = run(stated, dataset=data)
    ends = Counter(
        f"{part.partition('-')[0]}: {_words(said)}" for part, _, said in fleet.told["ends"]
    )
    struck = fleet.told["struck"]
    return {
        "minutes": fleet.told["minutes"],
        "seed": fleet.told["seed"],
        "rounds": len(rounds),
        "starts": {part: f"\n{fleet.log(part)}".count("\n$ ") for part in fleet.parts},
        "ended_by_themselves": dict(ends),
        "like_the_simulator": rounds_like_the_simulator(fleet),
        "struck": len(struck),
        "events": dict(Counter(one["kind"] for one in struck)),
        "rounds_that_waited": len({e["round"] for e in events if e["event"] == "lost"}),
        "rounds_asked_again": told["asked"] - len(rounds),
        "uploads": {
            "asked": asked,
            "taken": sum(info["uploads"]["delivered"] for info in rounds),
            "fewest": min(info["uploads"]["delivered"] for info in rounds),
            "refused_of_liar": refused[fleet.liar],
            "refused_of_others": sum(refused[device] for device in fleet.honest),
        },
        "floods": sum(one["kind"] == "flood" for one in struck),
        "floods_named": told["flood"],
        "suspect_rounds": {
            "liar": suspects[fleet.liar],
            "most_of_an_honest_device": max(suspects[device] for device in fleet.honest),
        },
        "accuracy": {
            "here": rounds[-1]["scores"]["global"],
            "without_faults": calm.rounds[-1]["scores"]["global"],
        },
    }


def _words(said: str) -> str:
    """Without the numbers and paths that are of one occasion."""
    return re.sub(r"\d+|/\S+", "…", said)[:120]
