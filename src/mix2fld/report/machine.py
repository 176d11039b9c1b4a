"""When, with what and on what machine a report was made."""

import os
import platform
from datetime import UTC, datetime
from pathlib import Path

from mix2fld import __version__


def made() -> dict[str, str]:
    """Date, version and machine; no name of a host or a user."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "version": __version__,
        "machine": f"{_processor()}, {os.cpu_count()} cores, {platform.system()}, "
        f"Python {platform.python_version()}",
    }


def _processor() -> str:
    """The model of the processor where the system names it, else its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()
