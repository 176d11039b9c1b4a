"""The devices of deployed runs, as the page shows them."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from mix2fld.runs.fleet_status import run_status
from mix2fld.runs.layout import RunFiles
from mix2fld.runs.reader import LoadedRun


def fleets(runs: Sequence[LoadedRun]) -> list[dict[str, Any]]:
    """Of each deployed run, how its devices are; nothing of a simulated one."""
    deployed = [run.folder for run in runs if RunFiles(run.folder).identity.is_file()]
    found = [status for folder in deployed if (status := run_status(folder)) is not None]
    return [
        {
            "name": status.name,
            "rounds": status.rounds_done,
            "of": status.rounds,
            "without_upload": status.without_upload,
            "devices": [asdict(device) for device in status.devices],
        }
        for status in found
    ]
