"""Runs grouped for display: a series is one protocol in one setting, over all its seeds."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from mix2fld.config import Config, field_names, setting
from mix2fld.report.protocol_view import in_table_order, title_of
from mix2fld.runs.config_file import dump_config
from mix2fld.runs.reader import LoadedRun

_NOT_SETTINGS = ("protocols", "seed")


@dataclass(frozen=True)
class Series:
    """The runs of one protocol that differ in their seed only."""

    protocol: str
    setting: int
    label: str
    runs: tuple[LoadedRun, ...]


@dataclass(frozen=True)
class Setting:
    """All that a run's config says beside protocol and seed."""

    config: Config
    differs: dict[str, Any]
    """The fields in which the settings of one report differ."""

    @property
    def label(self) -> str:
        """The differing fields as text, e.g. ``partition iid, devices 20``."""
        return ", ".join(
            f"{name.replace('_', ' ')} {_shown(v)}" for name, v in self.differs.items()
        )


def group(runs: Sequence[LoadedRun]) -> tuple[list[Setting], list[Series]]:
    """Settings and series of ``runs``; of equal runs in several folders only one is kept."""
    by_setting: dict[str, list[LoadedRun]] = {}
    for run in _distinct(runs):
        by_setting.setdefault(_setting_key(run.config), []).append(run)
    configs = [_joined(members) for members in by_setting.values()]
    names = _differing(configs)
    settings = [Setting(c, {name: setting(c, name) for name in names}) for c in configs]
    series = []
    for number, members in enumerate(by_setting.values()):
        for protocol in in_table_order({run.protocol for run in members}):
            chosen = tuple(run for run in members if run.protocol == protocol)
            label = title_of(protocol)
            if settings[number].label:
                label += f", {settings[number].label}"
            series.append(Series(protocol, number, label, chosen))
    return settings, series


def describe_setting(config: Config) -> str:
    """Dataset, partition, devices and link in one line."""
    channel = config.channel
    link = f"{channel.link} link"
    if channel.link != "ideal":
        powers = f"{channel.uplink_power_dbm:g} dBm up, {channel.downlink_power_dbm:g} dBm down"
        link += f" ({powers}, {channel.max_slots} slots)"
    data = config.data
    return f"{data.dataset}, {data.partition}, {data.devices} devices, {link}"


def _distinct(runs: Iterable[LoadedRun]) -> list[LoadedRun]:
    """The longest record of each config, so that a copied folder does not count twice."""
    kept: dict[str, LoadedRun] = {}
    for run in runs:
        key = dump_config(run.config)
        if key not in kept or len(run.rounds) > len(kept[key].rounds):
            kept[key] = run
    return list(kept.values())


def _setting_key(config: Config) -> str:
    return dump_config(config.replace(protocols="any", seed=0))


def _joined(runs: Sequence[LoadedRun]) -> Config:
    protocols = in_table_order({run.protocol for run in runs})
    seeds = sorted({run.seed for run in runs})
    return runs[0].config.replace(protocols=tuple(protocols), seed=tuple(seeds))


def _differing(configs: Sequence[Config]) -> list[str]:
    return [
        name
        for name in field_names()
        if name not in _NOT_SETTINGS and len({setting(c, name) for c in configs}) > 1
    ]


def _shown(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
