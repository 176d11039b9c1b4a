"""Numbers in place of labels, measured: ``python -m mix2fld_lab.numbers``.

Seventeen buildings forecast their load a day ahead, each a device with its own year, over the
paper's link. The data are those of the CityLearn challenge of 2022 in the package CityLearn 2.1.2
of the registry, under the MIT licence.
"""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from scipy.stats import t

import mix2fld
from mix2fld.base.files import write_atomic
from mix2fld.data import dataset_from_table
from mix2fld.data.packages import from_pip
from mix2fld.dataset import Dataset
from mix2fld_lab.made_with import said_of
from mix2fld_lab.markdown import markdown_table
from mix2fld_lab.pages import render
from mix2fld_lab.paired import difference
from mix2fld_lab.records import Record, append_record, read_records

PACKAGE, FOLDER = "CityLearn==2.1.2", "citylearn/data/citylearn_challenge_2022_phase_all"
BUILDINGS, LOAD = 17, "Equipment Electric Power [kWh]"
PROTOCOLS = (
    "isolated", "own-statistics", "fl", "fl8", "murmur:bits=1400", "statistics", "murmur-stat",
    "fd", "fld", "mixfld", "mix2fld",
)  # fmt: skip
MOST_BYTES = 1 << 22
ALONE = "isolated"
RECORDS, PAGE = Path("results/numbers/buildings.jsonl"), Path("results/NUMBERS.md")
TEMPLATE = Path(__file__).parent / "templates" / "numbers.md.j2"
HEADINGS = (
    "protocol", "seeds", "RMSE of devices, kWh", "beside isolated", "RMSE of the server's model",
    "R²", "kbit up, device", "uploads", "s on air",
)  # fmt: skip


def buildings() -> Dataset:
    """The load of each building in each hour of a year, as windows of two days."""
    names = [f"{FOLDER}/Building_{number}.csv" for number in range(1, BUILDINGS + 1)]
    files = from_pip(PACKAGE, dict.fromkeys(names, MOST_BYTES))
    loads = [
        [float(row[LOAD]) for row in csv.DictReader(io.StringIO(files[name].decode()))]
        for name in names
    ]
    hours = [len(own) for own in loads]
    table = {
        "load": np.concatenate(loads),
        "hour": np.concatenate([np.arange(count) for count in hours]),
        "building": np.repeat([f"{n:02}" for n in range(1, BUILDINGS + 1)], hours),
    }
    return dataset_from_table(
        table, "buildings", target_column=("load",), time_column="hour",
        source_column="building", horizon=24, window=48, season=168, split="time",
    )  # fmt: skip


def grid(seeds: int) -> mix2fld.Grid:
    """The setting of the page; chosen on a validation split of seed 100."""
    return mix2fld.Grid.of(
        protocols=PROTOCOLS, seed=tuple(range(seeds)), partition="by-source", devices=BUILDINGS,
        model="mlp", rounds=4, local_steps=400, server_steps=400, batch_size=16,
        learning_rate=0.02, statistics_bits=16, feature_side=4, seed_samples=50,
        inverse_samples=50, evaluated_rounds="last", curve_points=1,
    )  # fmt: skip


def measure(seeds: int, records: Path) -> list[dict[str, Any]]:
    """One record for each run; those that are there stay."""
    done = read_records(records)
    known, data = {(one["protocol"], one["seed"]) for one in done}, None
    for config in grid(seeds).runs():
        if (config.protocol, config.seed) in known:
            continue
        data = data or buildings()
        (result,) = mix2fld.run(config, dataset=data)
        record = {
            key: result.summary[key]
            for key in ("protocol", "seed", "scores", "bits", "uploads", "seconds")
        }
        done.append(record)
        append_record(records, record)
        print(config.run_name, flush=True)
    return done


def interval(values: Sequence[float], digits: int) -> str:
    """The mean over seeds with its 95 % interval."""
    if len(values) < 2 or np.ptp(values) == 0:
        return f"{np.mean(values):.{digits}f}"
    half = t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{np.mean(values):.{digits}f} ± {half:.{digits}f}"


def by_seed(records: Sequence[Record], name: str, score: str) -> dict[int, float]:
    """A score of a protocol, by seed: the mean of its devices, or that of its server's model."""
    return {one["seed"]: one["scores"][score] for one in records if one["protocol"] == name}


def beside(records: Sequence[Record], name: str, score: str = "mean", other: str = ALONE) -> str:
    """The difference in RMSE from another protocol with the same seeds, and what it says."""
    found = difference(by_seed(records, name, score), by_seed(records, other, score))
    if found is None or name == other:
        return "-"
    return f"{found.mean:+.3f} ± {found.half:.3f}: {found.word('worse', 'better')}"


def verdicts(records: Sequence[Record]) -> dict[str, str]:
    """What the records say of the paper's argument."""
    bits = {
        name: np.mean([one["bits"]["up"] for one in records if one["protocol"] == name])
        for name in ("fl", "fd")
    }
    servers = "; ".join(
        f"{name} {beside(records, name, 'global', 'fl')}" for name in ("fld", "mixfld", "mix2fld")
    )
    gains: dict[str, list[str]] = {"better": [], "no difference": [], "worse": []}
    for name in PROTOCOLS:
        if name != ALONE and (said := beside(records, name)) != "-":
            gains[said.rpartition(": ")[2]].append(name)
    return {
        "smaller": f"{bits['fl'] / bits['fd']:,.0f} times fewer bits up for fd than for fl",
        "server": f"RMSE of the server's model beside that of fl: {servers}",
        "unmixed": f"mix2fld beside mixfld: {beside(records, 'mix2fld', 'global', 'mixfld')}",
        "teacher": f"fd beside isolated: {beside(records, 'fd')}",
        "gains": "; ".join(f"{word}: {', '.join(own) or 'none'}" for word, own in gains.items()),
    }


def page(records: Sequence[dict[str, Any]]) -> str:
    """The whole page."""
    rows = []
    for name in PROTOCOLS:
        own = [one for one in records if one["protocol"] == name]
        if not own:
            continue
        scores = [one["scores"] for one in own]
        server = [one["global"] for one in scores if one["global"] is not None]
        explained = [one["further"][1]["mean"] for one in scores]
        asked = sum(one["uploads"]["attempted"] for one in own)
        arrived = sum(one["uploads"]["delivered"] for one in own)
        rows.append(
            [
                name,
                str(len(own)),
                interval([one["mean"] for one in scores], 3),
                beside(records, name),
                interval(server, 3) if server else "-",
                interval(explained, 3),
                f"{np.mean([one['bits']['up'] for one in own]) / BUILDINGS / 1e3:.1f}",
                f"{100 * arrived / asked:.1f} %" if asked else "-",
                interval([one["seconds"]["communication"] for one in own], 2),
            ]
        )
    simple = records[0]["scores"]["baselines"]
    return render(
        TEMPLATE,
        table=markdown_table(HEADINGS, rows),
        simple=", ".join(f"{name} {value:.3f}" for name, value in simple.items()),
        made_with=said_of(*records),
        verdicts=verdicts(records),
    )


def main(seeds: int = 5, records: Path = RECORDS, out: Path = PAGE) -> None:
    """Run what is missing, and write the page."""
    write_atomic(out, page(measure(seeds, records)).encode())


if __name__ == "__main__":
    tyro.cli(main)
