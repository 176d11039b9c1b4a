"""``diary.log``: what happened in a deployed run, a line for each thing.

Some words come from devices, so that a line holds printable characters only, and not many.
"""

import logging
import time
from collections.abc import Callable
from pathlib import Path

LONGEST_LINE = 300

Say = Callable[[str], None]


def diary(path: Path) -> Say:
    """Writes each line with its time into a file, and to Flower's log."""
    logger = logging.getLogger("flwr")

    def say(line: str) -> None:
        words = one_line(line)
        logger.info("mix2fld: %s", words)
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {words}\n")

    return say


def one_line(text: object) -> str:
    """The printable characters of a text, up to the longest line."""
    words = " ".join(str(text)[: 10 * LONGEST_LINE].split())
    return "".join(letter for letter in words if letter.isprintable())[:LONGEST_LINE]
