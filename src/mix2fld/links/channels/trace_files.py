"""Traces of rates over time: the layout of this package, and those of two public data sets.

``rates``: a CSV or Parquet file with ``time_s``, ``device``, a column ``uplink_*`` and a column
``downlink_*`` whose names end in their unit (``_bps``, ``_kbps``, ``_mbps``, ``_bytes_per_s``), and
``available`` (0 or 1) if there is one.

``raca``: a log of G-NetTrack Pro for each device, of the 4G data set of Raca et al. (MMSys 2018)
or its 5G successor (MMSys 2020): ``Timestamp``, ``DL_bitrate`` and ``UL_bitrate`` in kbit/s,
``State``.

``lumos5g``: the table of Narayanan et al. (IMC 2020), one run for each device: ``run_num``,
``seq_num`` in seconds, ``Throughput`` in Mbit/s, downlink only.
"""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.data.tables import Columns, read_columns
from mix2fld.links.budget import Direction
from mix2fld.links.channels.path_loss import Floats

UNITS = {"bps": 1.0, "kbps": 1e3, "mbps": 1e6, "bytes_per_s": 8.0}
"""Bits per second of the units in which rates may be given."""
PLAUSIBLE_BPS = (100.0, 10e9)
"""Where the median of a column of rates must lie."""
LARGEST = 1e12
"""Of any number in a trace."""
LONGEST_GAP = 10.0
"""Time between two rows of a device, over the usual one, from which it is a gap."""
RACA_TIME = "%Y.%m.%d_%H.%M.%S"
EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True, eq=False)
class CumulativeBits:
    """How much one direction has carried by each time of a trace."""

    times: Floats  # [n + 1], from 0 to the length of the trace
    rates: Floats  # [n], bits per second from each time to the next

    @cached_property
    def bits(self) -> Floats:
        """[n + 1], carried since the beginning."""
        return np.concatenate([[0.0], np.cumsum(self.rates * np.diff(self.times))])

    def until(self, bits: float, begins: float) -> float:
        """Seconds that so many bits take from a time on; infinite if the trace carries none."""
        length, whole = self.times[-1], self.bits[-1]
        if whole <= 0:
            return float("inf")
        begin = begins % length
        goal = float(np.interp(begin, self.times, self.bits)) + bits
        repeats, rest = divmod(goal, whole)
        if rest == 0:
            repeats, rest = repeats - 1, whole
        place = int(np.searchsorted(self.bits, rest, side="left"))  # the first time it is reached
        left = (self.bits[place] - rest) / self.rates[place - 1]
        return float(repeats * length + self.times[place] - left - begin)


@dataclass(frozen=True, eq=False)
class DeviceTrace:
    """One device: its rates over time, and when it is available."""

    uplink: CumulativeBits
    downlink: CumulativeBits
    available: NDArray[np.bool_]  # [n]

    @property
    def length(self) -> float:
        """Seconds after which it begins anew."""
        return float(self.uplink.times[-1])

    def carried(self, direction: Direction) -> CumulativeBits:
        """What the trace carries in one direction."""
        return self.uplink if direction == "uplink" else self.downlink

    def available_at(self, seconds: float) -> bool:
        """Whether the device is available at a time."""
        times = self.uplink.times
        place = np.searchsorted(times, seconds % times[-1], side="right") - 1
        return bool(self.available[place])


def make_trace(
    times: Floats, up: Floats, down: Floats, available: NDArray[np.bool_]
) -> DeviceTrace:
    """A trace from rows in order of time; the last row lasts as long as rows usually do."""
    step = float(np.median(np.diff(times))) if len(times) > 1 else 1.0
    edges = np.append(times - times[0], times[-1] - times[0] + step)
    if not (np.diff(edges) > 0).all():
        raise InputError(f"times from {times[0]:g} to {times[-1]:g} are indistinguishable")
    return DeviceTrace(
        CumulativeBits(edges, np.where(available, up, 0.0)),
        CumulativeBits(edges, np.where(available, down, 0.0)),
        available,
    )


def read_traces(path: Path, layout: str, uplink_share: float) -> list[DeviceTrace]:
    """The traces in a file, or in the files of a folder in the order of their names."""
    try:
        if not path.is_dir():
            return _traces_of(path, layout, uplink_share)
        files = sorted(each for each in path.iterdir() if each.suffix in {".csv", ".parquet"})
        if not files:
            raise InputError("holds no .csv and no .parquet file")
    except InputError as error:
        raise InputError(field="trace", value=path, hint=f"{error}") from None
    return [trace for each in files for trace in read_traces(each, layout, uplink_share)]


def _traces_of(path: Path, layout: str, uplink_share: float) -> list[DeviceTrace]:
    if not path.is_file():
        raise InputError("there is no such file")
    columns = read_columns(path)
    match _layout_of(columns) if layout == "auto" else layout:
        case "raca":
            return [_raca(columns)]
        case "lumos5g":
            return _lumos5g(columns, uplink_share)
    return _rates(columns)


def _layout_of(columns: Columns) -> str:
    for layout, needed in LAYOUTS.items():
        if columns.keys() >= set(needed):
            return layout
    shown = ", ".join(list(columns)[:6])
    raise InputError(
        f"columns {shown}; must have time_s, device, uplink_* and downlink_*, or be those of a "
        "public data set (raca, lumos5g)"
    )


def _rates(columns: Columns) -> list[DeviceTrace]:
    """The layout of this package, which must be complete."""
    times, devices = _columns(columns, "rates")
    up, down = (_rate_column(columns, way) for way in ("uplink", "downlink"))
    here = _numbers(columns, "available") if "available" in columns else np.ones(len(times))
    traces = []
    for device in np.unique(devices):
        places = np.flatnonzero(devices == device)
        _check_times(f"{device:g}", times[places], places)
        traces.append(make_trace(times[places], up[places], down[places], here[places] > 0))
    return traces


def _check_times(device: str, times: Floats, places: NDArray[np.int64]) -> None:
    """Refuse rows out of order, twice, or missing."""
    steps = np.diff(times)
    for kind, wrong in (("the same time as", steps == 0), ("an earlier time than", steps < 0)):
        if wrong.any():
            at = int(np.argmax(wrong)) + 1
            raise InputError(
                f"row {places[at] + 2} (device {device}, time_s = {times[at]:g}) has {kind} the "
                "row before; each device must have one row for each time, in order"
            )
    usual = float(np.median(steps)) if len(steps) else 1.0
    if len(steps) and steps.max() > LONGEST_GAP * usual:
        at = int(np.argmax(steps))
        raise InputError(
            f"device {device} has no rows from time_s = {times[at]:g} to {times[at + 1]:g}, but "
            f"one every {usual:g} s elsewhere; fill the gap, with available = 0 if the device was "
            "away"
        )


def _rate_column(columns: Columns, way: str) -> Floats:
    """The column of one direction, in bits per second."""
    names = [name for name in columns if name.startswith(f"{way}_")]
    if len(names) != 1:
        raise InputError(f"{len(names)} columns {way}_*; must be one, e.g. {way}_mbps")
    (name,) = names
    values, unit = _nonnegative(columns, name), name.removeprefix(f"{way}_")
    sent = values[values > 0]
    median = float(np.median(sent)) if sent.size else 0.0
    if unit not in UNITS:
        raise InputError(
            f"column {name} has no known unit, and its median is {median:g}: bits or bytes? must "
            f"end in {', '.join(f'_{known}' for known in UNITS)}"
        )
    low, high = PLAUSIBLE_BPS
    bps = median * UNITS[unit]
    if sent.size and not low <= bps <= high:
        fits = [known for known, scale in UNITS.items() if low <= median * scale <= high]
        hint = f"; is it {way}_{fits[0]}?" if fits else ""
        raise InputError(
            f"column {name} has the median {median:g}, which would be {bps:g} bit/s; must be "
            f"between {low:g} and {high:g}{hint}"
        )
    return values * UNITS[unit]


def _raca(columns: Columns) -> DeviceTrace:
    """One log of G-NetTrack Pro; seconds without a download in progress measure no rate."""
    if "State" in columns and (columns["State"] != "I").any():
        busy = columns["State"] != "I"
        columns = {name: column[busy] for name, column in columns.items()}
    stamps, up, down = _columns(columns, "raca")
    times, up, down = _by_second(stamps - stamps.min(), up * 1e3, down * 1e3)
    return make_trace(times, up, down, np.ones(len(times), np.bool_))


def _lumos5g(columns: Columns, uplink_share: float) -> list[DeviceTrace]:
    """The runs of the loop, each as one device."""
    runs, seconds, down = _columns(columns, "lumos5g")
    traces = []
    for run in np.unique(runs):
        mine = runs == run
        times, rate = _by_second(seconds[mine], 1e6 * down[mine])
        everywhere = np.ones(len(times), np.bool_)
        traces.append(make_trace(times, uplink_share * rate, rate, everywhere))
    return traces


def _by_second(seconds: Floats, *columns: Floats) -> list[Floats]:
    """Rows in order of time, the mean where a second was logged twice; a gap holds the last row."""
    times, places = np.unique(seconds, return_inverse=True)
    counts = np.bincount(places)
    return [times, *(np.bincount(places, weights=column) / counts for column in columns)]


def _columns(columns: Columns, layout: str) -> list[Floats]:
    """The columns that a layout must have."""
    missing = [name for name in LAYOUTS[layout] if name not in columns]
    if missing:
        raise InputError(f"has no column {missing[0]}")
    return [read(columns, name) for name, read in LAYOUTS[layout].items()]


def _stamps(columns: Columns, name: str) -> Floats:
    return np.array([_seconds(name, str(text)) for text in columns[name]])


def _seconds(name: str, text: str) -> float:
    try:
        return (datetime.strptime(text, RACA_TIME) - EPOCH).total_seconds()
    except ValueError:
        raise InputError(f"{name} = {text[:30]!r}; must be like 2019.11.28_07.12.03") from None


def _nonnegative(columns: Columns, name: str) -> Floats:
    values = _numbers(columns, name)
    if (values < 0).any():
        raise InputError(f"column {name} has {values.min():g}; must be 0 or more")
    return values


def _numbers(columns: Columns, name: str) -> Floats:
    """A column as finite numbers; the dash of a public data set is 0."""
    values = np.empty(len(columns[name]))
    for place, text in enumerate(columns[name].tolist()):
        try:
            values[place] = 0.0 if text == "-" else float(text)
        except (TypeError, ValueError):
            values[place] = np.nan
        if not abs(values[place]) <= LARGEST:
            raise InputError(
                f"row {place + 2}, column {name} = {str(text)[:20]!r}; must be a number, at most "
                f"{LARGEST:g}"
            )
    return values


LAYOUTS = {
    "raca": {"Timestamp": _stamps, "UL_bitrate": _nonnegative, "DL_bitrate": _nonnegative},
    "lumos5g": {"run_num": _numbers, "seq_num": _numbers, "Throughput": _nonnegative},
    "rates": {"time_s": _numbers, "device": _numbers},
}
"""The columns that a layout must have, and how each is read."""
