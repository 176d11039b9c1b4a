"""Settings of other tasks than classification of images: numbers, text and control, by uplink bits.

They have records of their own, with the link, the training and the seeds that their pages state.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mix2fld.tasks.metric import Metric, metric_of
from mix2fld_lab.markdown import markdown_table
from mix2fld_lab.paired import difference
from mix2fld_lab.records import read_records

Record = Mapping[str, Any]
HEADINGS = ("bits of a device", "protocol", "seeds", "mean of devices", "beside alone")


@dataclass(frozen=True)
class OtherSetting:
    """A panel whose records are not those of images."""

    title: str
    records: str
    """Below the folder of results."""
    page: str
    alone: str
    """The protocol that sends nothing."""
    metric: Callable[[Record], Metric]
    value: Callable[[Record], float]
    """Of the devices of a run."""
    bits: Callable[[Record], float]
    """Uplink bits of a device in all rounds."""
    belongs: Callable[[Record], bool]


def _return_of(record: Record) -> Metric:
    del record
    return Metric("return", digits=1)


OTHER_SETTINGS = (
    OtherSetting(
        "Numbers: the load of 17 buildings a day ahead",
        "numbers/buildings.jsonl", "NUMBERS.md", "isolated",
        lambda one: metric_of(one["scores"]),
        lambda one: one["scores"]["mean"],
        lambda one: one["bits"]["up"] / 17,
        lambda _: True,
    ),
    OtherSetting(
        "Text: the next character, a role is a device",
        "text/roles.jsonl", "TEXT.md", "isolated",
        lambda one: metric_of(one["scores"]),
        lambda one: one["scores"]["mean"],
        lambda one: one["bits"]["up"] / 16,
        lambda one: one["start"] == "scratch" and one["seed"] != 100,
    ),
    OtherSetting(
        "Control: insulin pumps of ten people",
        "rl/records.jsonl", "RL.md", "alone", _return_of,
        lambda one: float(np.mean(one["last"])),
        lambda one: sum(each["bits_up"] for each in one["rounds"]) / 10,
        lambda one: one["setting"] == "glucose",
    ),
)  # fmt: skip


def other_tasks(results: Path) -> str:
    """A table of each setting that has records: fewest bits first, best of so many in bold."""
    parts = []
    for setting in OTHER_SETTINGS:
        path = results / setting.records
        records = [one for one in read_records(path) if setting.belongs(one)]
        if records:
            more = f"[{setting.page}]({setting.page}) has more."
            parts += [f"### {setting.title}", _table(setting, records), more]
    return "\n\n".join(parts)


def _table(setting: OtherSetting, records: Sequence[Record]) -> str:
    own: dict[str, dict[int, float]] = defaultdict(dict)
    bits: dict[str, list[float]] = defaultdict(list)
    metric = setting.metric(records[0])
    for one in records:
        own[one["protocol"]][one["seed"]] = setting.value(one)
        bits[one["protocol"]].append(setting.bits(one))
    order = sorted(own, key=lambda name: (float(np.mean(bits[name])), name))
    leading = set(_leading(metric, [(name, own[name]) for name in order]))
    rows = []
    for name in order:
        found = difference(own[name], own[setting.alone])
        sign = 1 if metric.better == "higher" else -1
        word = found.word(*("better", "worse")[::sign]) if found else ""
        shown = metric.text(float(np.mean(list(own[name].values()))))
        rows.append(
            [
                f"{np.mean(bits[name]):,.0f}",
                name,
                str(len(own[name])),
                f"**{shown}**" if name in leading else shown,
                word if name != setting.alone else "-",
            ]
        )
    return markdown_table(HEADINGS, rows)


def _leading(metric: Metric, rows: Iterable[tuple[str, Mapping[int, float]]]) -> Iterable[str]:
    """Those that are better than all who send no more."""
    best = -np.inf
    for name, values in rows:
        gain = metric.gain(float(np.mean(list(values.values()))))
        if gain > best:
            best = gain
            yield name
