"""What happened in a deployed run: in words in ``diary.log``, for programs in ``events.jsonl``.

Some words come from devices, so that a line holds printable characters only, and not many. An event
is a JSON object in a line of its own, and no device causes more than a few in a round.
"""

import json
import logging
import time
from pathlib import Path
from typing import Any, Protocol

from mix2fld.base.files import writing
from mix2fld.runs.layout import RunFiles

LONGEST_LINE = 300
NOTE = "note"
"""An event that is only told in words."""


class Say(Protocol):
    """Writes down what happened; without words it is for programs only."""

    def __call__(self, line: str, event: str = NOTE, /, **fields: Any) -> None:
        """In words, what kind of event it is, and what a program may want to know of it."""


def diary(files: RunFiles) -> Say:
    """Writes into the folder of a run, and the words to Flower's log."""
    logger = logging.getLogger("flwr")

    def say(line: str, event: str = NOTE, /, **fields: Any) -> None:
        words, now = one_line(line), time.time()
        told = {"time": round(now, 3), "event": event, **fields}
        if words:
            logger.info("mix2fld: %s", words)
            stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(now))
            _append(files.diary, f"{stamp} {words}")
            told["words"] = words
        _append(files.events, json.dumps(told))

    return say


def _append(path: Path, line: str) -> None:
    with writing("out", path), path.open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


def one_line(text: object) -> str:
    """The printable characters of a text, up to the longest line."""
    words = " ".join(str(text)[: 10 * LONGEST_LINE].split())
    return "".join(letter for letter in words if letter.isprintable())[:LONGEST_LINE]
