"""Runs grouped for display: a series is one protocol in one setting, over all its seeds."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mix2fld.base.errors import InputError
from mix2fld.config.grid import Grid
from mix2fld.config.settings import CommonSettings, Config, field_names, setting
from mix2fld.report.protocol_view import in_table_order, title_of
from mix2fld.report.units import in_a_row
from mix2fld.runs.config_file import dump_config
from mix2fld.runs.reader import LoadedRun
from mix2fld.runs.summary import device_scores
from mix2fld.tasks.metric import ACCURACY, Metric


@dataclass(frozen=True)
class Series:
    """The runs of one protocol that differ in their seed only."""

    protocol: str
    settings: tuple[int, ...]
    """Where it was run: several settings if none of them changes any of its numbers."""
    label: str
    runs: tuple[LoadedRun, ...]
    """Those that count: the finished ones, or all of them."""
    ranked: bool = True
    """Whether it is compared with others: a series without a finished run is only shown."""

    @property
    def setting(self) -> int:
        """The first setting of the series."""
        return self.settings[0]

    @property
    def uploads(self) -> tuple[int, int]:
        """Uploads attempted and delivered."""
        rounds = [info["uploads"] for run in self.runs for info in run.rounds]
        return sum(i["attempted"] for i in rounds), sum(i["delivered"] for i in rounds)

    @property
    def never_delivered(self) -> bool:
        """Whether it uploads, and not one upload was delivered."""
        attempted, arrived = self.uploads
        return attempted > 0 and arrived == 0


@dataclass(frozen=True)
class Setting:
    """All that a run's config says beside protocol and seed."""

    config: Grid
    differs: dict[str, Any]
    """The fields in which the settings of one report differ."""

    @property
    def label(self) -> str:
        """The differing fields as text, e.g. ``uplink power 40 dBm, devices 20``."""
        return ", ".join(in_words(name, value) for name, value in self.differs.items())


def group(
    runs: Sequence[LoadedRun], *, unfinished: bool = True
) -> tuple[list[Setting], list[Series]]:
    """Settings and series of ``runs``; of equal runs in several folders only one is kept.

    Without ``unfinished``, runs that are not finished count in no series that has a finished one.
    """
    by_setting: dict[str, list[LoadedRun]] = {}
    for run in distinct(runs):
        by_setting.setdefault(_setting_key(run.config), []).append(run)
    configs = [_joined(members) for members in by_setting.values()]
    names = _differing(configs)
    settings = [Setting(c, {name: setting(c, name) for name in names}) for c in configs]
    order = sorted(range(len(settings)), key=lambda n: _sortable(settings[n]))
    places = list(by_setting.values())
    found: list[Series] = []
    for number, place in enumerate(order):
        for protocol in in_table_order({run.protocol for run in places[place]}):
            own = [run for run in places[place] if run.protocol == protocol]
            chosen, ranked = _that_count(own, unfinished)
            found.append(Series(protocol, (number,), "", chosen, ranked))
    settings = [settings[place] for place in order]
    series = _merged(found) if len(settings) > 1 else found
    rows = in_table_order({one.protocol for one in series})
    series.sort(key=lambda one: rows.index(one.protocol))
    return settings, [replace(one, label=_label(one, settings)) for one in series]


def common_metric(runs: Sequence[LoadedRun]) -> Metric:
    """The metric of runs that are shown together; raises ``InputError`` unless they have one."""
    found = list(dict.fromkeys(run.metric for run in runs if run.rounds))
    if len(found) > 1:
        names = in_a_row([metric.name for metric in found])
        raise InputError(
            field="runs", value=names, hint="show runs of each metric in a report of their own"
        )
    return found[0] if found else ACCURACY


def _merged(found: Sequence[Series]) -> list[Series]:
    """Series of one protocol that have the same numbers wherever both have a seed, as one."""
    kept: list[Series] = []
    numbers: list[dict[int, Any]] = []
    for one in found:
        own = _numbers(one.runs)
        for place, other in enumerate(kept):
            common = own.keys() & numbers[place].keys()
            alike = common and all(own[seed] == numbers[place][seed] for seed in common)
            if other.protocol == one.protocol and other.ranked == one.ranked and alike:
                longer = one if len(own) > len(numbers[place]) else other
                kept[place] = replace(longer, settings=other.settings + one.settings)
                numbers[place] |= own
                break
        else:
            kept.append(one)
            numbers.append(own)
    return kept


def _that_count(runs: Sequence[LoadedRun], unfinished: bool) -> tuple[tuple[LoadedRun, ...], bool]:
    finished = tuple(run for run in runs if run.finished)
    if unfinished:
        return tuple(runs), True
    return finished or tuple(runs), bool(finished)


def _numbers(runs: Sequence[LoadedRun]) -> dict[int, Any]:
    """What two series must share to be one, by seed: scores, bits, seconds of every round."""
    return {run.seed: [_key_numbers(info) for info in run.rounds] for run in runs}


def _key_numbers(info: dict[str, Any]) -> tuple[float, ...]:
    scores = device_scores(info["scores"])
    return (*info["bits"].values(), *info["seconds"].values(), float(scores.sum()))


def _label(one: Series, settings: Sequence[Setting]) -> str:
    title, where = title_of(one.protocol), settings[one.setting].label
    return title if len(one.settings) > 1 or not where else f"{title}, {where}"


def _sortable(one: Setting) -> list[tuple[int, Any]]:
    """Numbers before words, each in its order."""
    values = one.differs.values()
    return [(0, v) if isinstance(v, int | float) else (1, _shown(v)) for v in values]


UNITS = {"dbm": "dBm", "hz": "Hz", "m": "m", "ms": "ms", "us": "µs", "db": "dB", "s": "s", "w": "W"}


def in_words(name: str, value: Any) -> str:
    """A field and its value as a reader would write it: ``uplink power 40 dBm``."""
    words = name.split("_")
    unit = UNITS.get(words[-1], "") if len(words) > 1 else ""
    if isinstance(value, bool):
        return " ".join(words) + (" on" if value else " off")
    return " ".join([*(words[:-1] if unit else words), _shown(value), unit]).strip()


def describe_setting(config: CommonSettings) -> str:
    """Dataset, partition, devices and link in one line."""
    channel = config.channel
    link = f"{channel.link} link"
    if channel.link != "ideal":
        powers = f"{channel.uplink_power_dbm:g} dBm up, {channel.downlink_power_dbm:g} dBm down"
        link += f" ({powers}, {channel.max_slots} slots)"
    data = config.data
    return f"{data.dataset}, {data.partition}, {data.devices} devices, {link}"


def distinct(runs: Iterable[LoadedRun]) -> list[LoadedRun]:
    """The longest record of each config, so that a copied folder does not count twice."""
    kept: dict[str, LoadedRun] = {}
    for run in runs:
        key = dump_config(run.config)
        if key not in kept or len(run.rounds) > len(kept[key].rounds):
            kept[key] = run
    return list(kept.values())


def _setting_key(config: Config) -> str:
    return dump_config(config.replace(protocol="any", seed=0))


def _joined(runs: Sequence[LoadedRun]) -> Grid:
    protocols = in_table_order({run.protocol for run in runs})
    seeds = sorted({run.seed for run in runs})
    return Grid.of_run(runs[0].config).replace(protocols=protocols, seeds=seeds)


def _differing(configs: Sequence[Grid]) -> list[str]:
    return [name for name in field_names() if len({setting(c, name) for c in configs}) > 1]


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(map(_shown, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
