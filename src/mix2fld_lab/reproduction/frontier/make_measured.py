"""Make the table of measured settings from the records of the frontier experiment."""

import json
from collections.abc import Mapping
from dataclasses import asdict

import numpy as np

from mix2fld.advice.measured import FORMAT, MeasuredPoint, MeasuredSetting, label_skew
from mix2fld.config.settings import Config
from mix2fld.data import device_parts, label_counts, load_dataset
from mix2fld.data.partition import OF_SOURCES
from mix2fld.runs.link_plan import sizes_of
from mix2fld_lab.reproduction.cell_records import CellRecord
from mix2fld_lab.reproduction.frontier.points import FrontierPoint, points_of
from mix2fld_lab.reproduction.frontier.search import TUNED
from mix2fld_lab.reproduction.frontier.settings import SETTINGS


def make_measured(
    records: Mapping[str, Mapping[str, CellRecord]],
) -> dict[str, MeasuredSetting]:
    """Every setting that has records; partitions are drawn again to tell how devices differ."""
    return {key: _setting(key, points_of(cells)) for key, cells in records.items()}


def _setting(key: str, points: list[FrontierPoint]) -> MeasuredSetting:
    config = Config.of(**SETTINGS[key].changes)
    dataset = load_dataset(config.data)
    skews, held = [], 0
    for run in points[0].cell.runs:
        parts = device_parts(dataset, config.replace(seed=run["seed"]), every_label=False)
        skews.append(label_skew(label_counts(dataset.train_labels, parts, dataset.num_labels)))
        held = round(np.mean([len(part) for part in parts]))
    return MeasuredSetting(
        key=key,
        title=SETTINGS[key].title,
        dataset=config.data.dataset,
        ideal_link=SETTINGS[key].changes["link"] == "ideal",
        kind="sources" if config.data.partition in OF_SOURCES else "labels",
        skew=round(float(np.mean(skews)), 4),
        devices=config.data.devices,
        taking_part=config.participants_per_round,
        samples=int(held),
        weights=sizes_of(config).dims.num_weights,
        rounds=points[0].cell.rounds,
        points=tuple(map(_point, points)),
    )


def _point(point: FrontierPoint) -> MeasuredPoint:
    own = {name: point.cell.changes[name] for name in TUNED if name in point.cell.changes}
    server = point.cell.values("summary", "accuracy", "global")
    return MeasuredPoint(
        contender=point.contender.key,
        title=point.contender.title,
        protocol=point.contender.protocol,
        changes={**own, **point.contender.changes},
        bits=round(point.bits, 1),
        devices=[round(value, 5) for value in point.cell.values("summary", "accuracy", "mean")],
        server=None if np.isnan(server).any() else [round(value, 5) for value in server],
    )


def dump_measured(settings: Mapping[str, MeasuredSetting]) -> str:
    """The table as text; a point is a line."""
    blocks = []
    for setting in settings.values():
        tree = asdict(setting)
        points = ",\n".join(json.dumps(point, ensure_ascii=False) for point in tree.pop("points"))
        head = json.dumps(tree, ensure_ascii=False)[:-1]
        blocks.append(f'{head}, "points": [\n{points}\n]}}')
    joined = ",\n".join(blocks)
    return f'{{"format": {FORMAT}, "settings": [\n{joined}\n]}}\n'
