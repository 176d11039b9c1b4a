"""The one reader of a run's files: settings, records and summary, with what is wrong with them."""

from pathlib import Path
from typing import Any, NamedTuple

from mix2fld.config.settings import Config
from mix2fld.runs.config_file import load_sealed_config
from mix2fld.runs.layout import RunFiles
from mix2fld.runs.records import DamagedError, Records, read_records, read_summary


class Stored(NamedTuple):
    """A run as far as its files are intact."""

    config: Config
    records: Records
    summary: dict[str, Any] | None  # of a finished run
    fault: str | None  # what is damaged


def read_stored(files: RunFiles) -> Stored:
    """Read a run; raises ``InputError`` if not even its settings are intact."""
    config, records = load_sealed_config(files.config), read_records(files.rounds)
    if not files.summary.is_file():
        return Stored(config, records, None, records.fault)
    try:
        return Stored(config, records, read_summary(files.summary, records), None)
    except DamagedError as error:
        return Stored(config, records, None, str(error))


def remedy(folder: Path) -> str:
    """What to do about a damaged run."""
    return f"mix2fld resume {folder} repairs it"
