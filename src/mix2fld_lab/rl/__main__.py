"""``python -m mix2fld_lab.rl``: experiments that are missing, then the page."""

import json
from pathlib import Path
from typing import Annotated

import tyro

from mix2fld.base.files import write_atomic
from mix2fld_lab.rl.exchange import EXCHANGES
from mix2fld_lab.rl.experiment import SETTINGS, run_experiment
from mix2fld_lab.rl.page import page, read_records

RECORDS, PAGE = Path("results/rl/records.jsonl"), Path("results/RL.md")


def main(
    seeds: int = 20,
    protocols: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = (),
    settings: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = (),
    records: Path = RECORDS,
    out: Path = PAGE,
) -> None:
    """Run federated reinforcement learning for these seeds; finished experiments are kept."""
    records.parent.mkdir(parents=True, exist_ok=True)
    done = {(r["setting"], r["protocol"], r["seed"]) for r in read_records(records)}
    for setting in settings or tuple(SETTINGS):
        for seed in range(seeds):
            for name in protocols or tuple(EXCHANGES):
                if (setting, name, seed) in done:
                    continue
                record = run_experiment(name, SETTINGS[setting], seed)
                with records.open("a") as file:
                    file.write(json.dumps(record) + "\n")
                print(f"{setting} {name} {seed}", flush=True)
    write_atomic(out, page(read_records(records)).encode())


if __name__ == "__main__":
    tyro.cli(main)
