"""``python -m mix2fld_lab.rl``: experiments that are missing, then the page."""

import sys
from collections.abc import Collection
from pathlib import Path
from typing import Annotated

import tyro

from mix2fld.base.errors import InputError
from mix2fld.base.files import write_atomic
from mix2fld_lab.records import append_record, read_records
from mix2fld_lab.rl.experiment import SETTINGS, run_experiments
from mix2fld_lab.rl.page import page
from mix2fld_lab.rl.table import EXCHANGES

RECORDS, PAGE = Path("results/rl/records.jsonl"), Path("results/RL.md")
AT_ONCE = 10
"""Seeds whose local phases are one compiled loop."""


def main(
    seeds: int = 20,
    protocols: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = (),
    settings: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = (),
    records: Path = RECORDS,
    out: Path = PAGE,
) -> None:
    """Run federated reinforcement learning for these seeds; finished experiments are kept."""
    _check("protocols", protocols, EXCHANGES)
    _check("settings", settings, SETTINGS)
    records.parent.mkdir(parents=True, exist_ok=True)
    done = {(r["setting"], r["protocol"], r["seed"]) for r in read_records(records)}
    for setting in settings or tuple(SETTINGS):
        for name in protocols or tuple(EXCHANGES):
            missing = [seed for seed in range(seeds) if (setting, name, seed) not in done]
            for first in range(0, len(missing), AT_ONCE):
                some = missing[first : first + AT_ONCE]
                for record in run_experiments(name, SETTINGS[setting], some):
                    append_record(records, record)
                print(f"{setting} {name}: seeds {', '.join(map(str, some))}", flush=True)
    write_atomic(out, page(read_records(records)).encode())


def _check(field: str, given: Collection[str], known: Collection[str]) -> None:
    for name in given:
        if name not in known:
            hint = f"must be one of {', '.join(known)}"
            raise InputError(field=field, value=name, hint=hint)


if __name__ == "__main__":
    try:
        tyro.cli(main)
    except InputError as error:
        sys.exit(f"mix2fld: {error}")
