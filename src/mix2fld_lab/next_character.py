"""The next character by role, measured: ``python -m mix2fld_lab.next_character``.

Each device is a role of Shakespeare's plays; the model is a small recurrent network, and all is
over the paper's link.
"""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import tyro

import mix2fld
from mix2fld.base.files import write_atomic
from mix2fld.base.streams import integer, stream
from mix2fld.dataset import Dataset
from mix2fld.models import weight_shapes
from mix2fld.models.text import text_gru
from mix2fld.types import Model
from mix2fld_lab.made_with import said_of
from mix2fld_lab.markdown import markdown_table
from mix2fld_lab.numbers import interval
from mix2fld_lab.pages import render
from mix2fld_lab.paired import difference
from mix2fld_lab.plays import archive, others, roles
from mix2fld_lab.records import Record, append_record, read_records

DEVICES, WINDOW, CHARACTERS, TEST_SAMPLES = 16, 16, 37, 3000
ROUNDS, STEPS = 4, 100
PROTOCOLS = (
    "isolated", "fl", "fl8", "murmur:bits=20000", "murmur:bits=1400", "murmur:bits=200", "fd",
)  # fmt: skip
BEFOREHAND = ("isolated", "fl8", "murmur:bits=1400")
"""Protocols that also start from what was trained on other texts."""
SEARCHED = {"fl8": "fl8", "fl": "fl8", "murmur": "murmur:bits=1400"}
"""Whose learning rate a protocol takes, from random weights; all others that of isolated."""
STARTS = {
    "scratch": "random weights",
    "embedding": "an embedding that was trained on Milton, fixed",
    "whole": "the whole network that was trained on Milton",
    "adjusted": "random weights, with the logit adjustment that Murmur takes by itself",
}
RATES = (0.3, 1.0)
ADJUSTMENT = 2.0
"""Of logits, which Murmur takes by itself: right where tests have labels equally often."""
SEARCH_SEED = 100
"""Learning rates are chosen there, on a validation split."""
PRETRAINING_STEPS, PRETRAINING_BATCH, PRETRAINING_RATE = 6000, 32, 0.5
RECORDS, PAGE = Path("results/text/roles.jsonl"), Path("results/TEXT.md")
TEMPLATE = Path(__file__).parent / "templates" / "text.md.j2"
HEADINGS = (
    "protocol", "seeds", "rate", "accuracy of devices", "beside isolated", "perplexity of devices",
    "accuracy of the server's model", "its perplexity", "kbit up, device", "uploads", "s on air",
)  # fmt: skip
Row = tuple[str, str]
"""A start and a protocol."""
ROWS: tuple[Row, ...] = (
    *(("scratch", name) for name in PROTOCOLS),
    *((start, name) for start in ("embedding", "whole") for name in BEFOREHAND),
    *(("adjusted", name) for name in ("isolated", "murmur:bits=1400")),
)


@lru_cache(1)
def plays() -> Dataset:
    """The windows of all roles with ten speeches or more."""
    return mix2fld.next_characters(
        roles(archive()), window=WINDOW, characters=CHARACTERS, name="plays"
    )


@lru_cache(1)
def pretrained() -> Any:
    """The weights of the network, trained on what Milton wrote."""
    import jax
    import jax.numpy as jnp

    dataset, text = plays(), others(archive())
    token = {character: number for number, character in enumerate(dataset.label_names[:-1])}
    ids = np.array([token.get(each, len(token)) for each in text], np.int32)
    rows = np.lib.stride_tricks.sliding_window_view(ids, WINDOW + 1)
    model = text_gru((WINDOW,), dataset.num_labels)
    drawn = stream(0, "pretraining").integers(
        len(rows), size=(PRETRAINING_STEPS, PRETRAINING_BATCH)
    )

    def loss(weights: Any, windows: Any) -> Any:
        logs = jax.nn.log_softmax(model.apply(weights, windows[:, :WINDOW]))
        return -jnp.take_along_axis(logs, windows[:, WINDOW:], axis=1).mean()

    def step(weights: Any, windows: Any) -> Any:
        gradient = jax.grad(loss)(weights, windows)
        moved = jax.tree.map(lambda w, g: w - PRETRAINING_RATE * g, weights, gradient)
        return moved, None

    start = model.init(jax.random.PRNGKey(integer(0, "weights", 0)))
    return jax.jit(lambda w, all_rows: jax.lax.scan(step, w, all_rows)[0])(start, rows[drawn])


@lru_cache(len(STARTS))
def model_of(start: str) -> Model:
    """The network, and what it starts from."""
    shape, labels = (WINDOW,), plays().num_labels
    if start in ("scratch", "adjusted"):
        return text_gru(shape, labels)
    known = pretrained()
    if start == "embedding":
        return text_gru(shape, labels, embedding=known["embedding"]["kernel"])
    plain = text_gru(shape, labels)
    return Model("text-gru from Milton", lambda _: known, plain.apply)


def config_of(protocol: str, seed: int, rate: float, **changes: Any) -> mix2fld.Config:
    """One run."""
    (config,) = mix2fld.Grid.of(
        protocols=(protocol,), seed=(seed,), partition="by-source", devices=DEVICES,
        model="text-gru", rounds=ROUNDS, local_steps=STEPS, batch_size=16, learning_rate=rate,
        test_samples=TEST_SAMPLES, evaluated_rounds="last", curve_points=1,
        **changes,
    ).runs()  # fmt: skip
    return config


def run_row(row: Row, seed: int, rate: float, **changes: Any) -> Record:
    """The record of one run."""
    start, protocol = row
    changes["logit_adjustment"] = ADJUSTMENT if start == "adjusted" else 0.0
    dataset = plays()
    task = mix2fld.NextToken(dataset.num_labels)
    (result,) = mix2fld.run(
        config_of(protocol, seed, rate, **changes),
        dataset=dataset,
        model=model_of(start),
        task=task,
    )
    kept = {key: result.summary[key] for key in ("scores", "bits", "uploads", "seconds")}
    return {"start": start, "protocol": protocol, "seed": seed, "rate": rate, **kept}


def measure(seeds: int, records: Path) -> list[Record]:
    """One record for each run; those that are there stay. A row's rate is searched first."""
    done = read_records(records)
    known = {(one["start"], one["protocol"], one["seed"], one["rate"]) for one in done}

    def add(row: Row, seed: int, rate: float, **changes: Any) -> None:
        if (*row, seed, rate) in known:
            return
        record = run_row(row, seed, rate, **changes)
        if not done:
            record["facts"] = facts()
        done.append(record)
        append_record(records, record)
        print(*row, seed, rate, record["scores"]["mean"], flush=True)

    for row in dict.fromkeys(map(searched, ROWS)):
        for rate in RATES:
            add(row, SEARCH_SEED, rate, measured_on="validation")
    for seed in range(seeds):
        for row in ROWS:
            add(row, seed, chosen(done, row))
    return done


def searched(row: Row) -> Row:
    """The row in whose search a row's rate was chosen."""
    return ("scratch", SEARCHED.get(row[1].partition(":")[0], "isolated"))


def chosen(records: Sequence[Record], row: Row) -> float:
    """The rate with which the devices of that search are most accurate on a validation split."""
    tried = [one for one in of_row(records, searched(row)) if one["seed"] == SEARCH_SEED]
    return max(tried, key=lambda one: one["scores"]["mean"])["rate"]


def of_row(records: Sequence[Record], row: Row) -> list[Record]:
    """All records of a row."""
    return [one for one in records if (one["start"], one["protocol"]) == row]


def by_seed(records: Sequence[Record], row: Row) -> dict[int, float]:
    """The accuracy of a row's devices by seed, in per cent; the search does not count."""
    return {one["seed"]: 100 * one["scores"]["mean"] for one in measured(records, row)}


def measured(records: Sequence[Record], row: Row) -> list[Record]:
    """The records of a row with its chosen rate on test samples."""
    rate = chosen(records, row)
    own = of_row(records, row)
    return [one for one in own if one["seed"] != SEARCH_SEED and one["rate"] == rate]


def cells(records: Sequence[Record], row: Row) -> list[str]:
    """A line of the table."""
    own, title = measured(records, row), row[1]
    scores = [one["scores"] for one in own]
    server = [one for one in scores if one["global"] is not None]
    perplexity = [one["further"][0] for one in scores]
    asked = sum(one["uploads"]["attempted"] for one in own)
    arrived = sum(one["uploads"]["delivered"] for one in own)
    return [
        title,
        str(len(own)),
        f"{chosen(records, row):g}",
        interval([100 * one["mean"] for one in scores], 1) + " %",
        beside(records, row, (row[0], "isolated")),
        interval([one["mean"] for one in perplexity], 2),
        interval([100 * one["global"] for one in server], 1) + " %" if server else "-",
        interval([one["further"][0]["global"] for one in server], 2) if server else "-",
        f"{np.mean([one['bits']['up'] for one in own]) / DEVICES / 1e3:.1f}",
        f"{100 * arrived / asked:.1f} %" if asked else "-",
        interval([one["seconds"]["communication"] for one in own], 2),
    ]


def beside(records: Sequence[Record], row: Row, other: Row) -> str:
    """The difference in accuracy from another row with the same seeds, and what it says."""
    own, others = by_seed(records, row), by_seed(records, other)
    common = sorted(own.keys() & others.keys())
    if row == other or not common:
        return "-"
    found = difference(own, others)
    if found is None:
        return f"{own[common[0]] - others[common[0]]:+.1f}, of one seed"
    return f"{found.mean:+.1f} ± {found.half:.1f}: {found.word('better', 'worse')}"


def verdicts(records: Sequence[Record]) -> dict[str, str]:
    """What the records say of few bits, and of what was trained beforehand."""
    few = [("scratch", name) for name in PROTOCOLS if name.startswith("murmur")]
    ends = [f"{name}: {beside(records, (start, name), ('scratch', 'fl8'))}" for start, name in few]
    ahead = {
        start: "; ".join(
            f"{name}: {beside(records, (start, name), ('scratch', name))}" for name in BEFOREHAND
        )
        for start in ("embedding", "whole")
    }
    adjusted = beside(records, ("adjusted", few[1][1]), ("scratch", few[1][1]))
    return {"few": "; ".join(ends), "adjusted": adjusted, **ahead}


def counted() -> dict[str, tuple[float, float]]:
    """Accuracy and perplexity of counting in the training texts of all roles, at one place."""
    dataset = plays()
    labels, before = dataset.train_labels, dataset.train_inputs[:, -1]
    size = dataset.num_labels
    pairs = np.bincount(before * size + labels, minlength=size**2).reshape(size, size) + 1.0
    singles = np.tile(np.bincount(labels, minlength=size) + 1.0, (size, 1))
    found = {}
    for name, counts in (("most frequent character", singles), ("pairs of characters", pairs)):
        chances = counts / counts.sum(axis=1, keepdims=True)
        rows = chances[dataset.test_inputs[:, -1]]
        right = float((rows.argmax(axis=1) == dataset.test_labels).mean())
        logs = np.log(rows[np.arange(len(rows)), dataset.test_labels])
        found[name] = (right, float(np.exp(-logs.mean())))
    return found


def page(records: Sequence[Record]) -> str:
    """The whole page."""
    tables = {}
    for start in STARTS:
        own = [row for row in ROWS if row[0] == start and measured(records, row)]
        if own:
            tables[start] = markdown_table(HEADINGS, [cells(records, row) for row in own])
    facts = records[0]["facts"]
    counts = (
        f"{name} {100 * right:.1f} % (perplexity {hard:.2f})"
        for name, (right, hard) in facts["counted"].items()
    )
    return render(
        TEMPLATE, tables=tables, starts=STARTS, verdicts=verdicts(records),
        roles=facts["roles"], characters=f"{facts['characters']:,}", devices=DEVICES,
        window=WINDOW, tokens=CHARACTERS, weights=f"{facts['weights']:,}",
        counted=", ".join(counts), made_with=said_of(*records), steps=PRETRAINING_STEPS,
        rounds=ROUNDS, local_steps=STEPS,
        rates=" or ".join(f"{rate:g}" for rate in RATES), search=SEARCH_SEED,
    )  # fmt: skip


def facts() -> dict[str, Any]:
    """What the page says of the data and the network."""
    dataset = plays()
    sizes = [np.prod(shape) for shape in weight_shapes(model_of("scratch"))]
    return {
        "roles": len(dataset.source_names),
        "characters": len(dataset.train_labels) + len(dataset.test_labels),
        "weights": int(np.sum(sizes)),
        "counted": counted(),
    }


def main(seeds: int = 3, records: Path = RECORDS, out: Path = PAGE) -> None:
    """Run what is missing, and write the page."""
    measure(seeds, records)
    write_atomic(out, page(read_records(records)).encode())


if __name__ == "__main__":
    tyro.cli(main)
