"""What the link of a run does with its payloads, worked out from its settings alone.

The sliders of the page get the link in numbers and payload sizes as formulas: ``fixed + per_seed
N_S`` bits; for weights ``b N_mod``, and ``ends`` if b is below 32. A size that follows no such
formula stays as it is in the run.
"""

from functools import lru_cache
from typing import Any

from mix2fld.base.errors import DamagedError, Mix2fldError
from mix2fld.codecs import keeps_weights
from mix2fld.config.grid import Grid
from mix2fld.config.settings import CommonSettings, Config
from mix2fld.engine.plan import PlannedTransfer, plan_transfers
from mix2fld.engine.wire import Wire
from mix2fld.links import make_link
from mix2fld.links.channels.rayleigh import watts
from mix2fld.report.protocol_view import in_table_order, row_of, title_of
from mix2fld.report.series import Series
from mix2fld.runs.checkpoint import made_with
from mix2fld.runs.folder import AS_IN_CONFIG, GIVEN
from mix2fld.runs.layout import RunFiles
from mix2fld.runs.reader import LoadedRun
from mix2fld.tasks.base import Task
from mix2fld.tasks.known_shapes import known_shapes
from mix2fld.tasks.learning import Sizes
from mix2fld.tasks.of_settings import samples_and_task, sizes_for

MOST_DEVICES = 1000
"""With more devices a link without closed form is not simulated for a page."""


def plans_of(run: LoadedRun) -> list[PlannedTransfer]:
    """Every transfer of a run; none where its link, model, data or protocol is not known."""
    if not has_named_parts(run):
        return []
    config = run.config.replace(seed=0)
    return _plans(config) if config.data.devices <= MOST_DEVICES else []


def has_named_parts(run: LoadedRun) -> bool:
    """Whether link, model and task are those that the settings name."""
    checkpoint = RunFiles(run.folder).checkpoint
    try:
        used = made_with(checkpoint) if checkpoint.is_file() else {}
    except (DamagedError, OSError):
        return False
    return all(used.get(part, AS_IN_CONFIG) == AS_IN_CONFIG for part in GIVEN)


def payload_sizes(config: Config) -> Sizes | None:
    """The sizes of payloads; None for a model or data that is not known."""
    try:
        samples, task = samples_and_task(config)
    except Mix2fldError:
        return None
    shapes = known_shapes(config.learning, samples, task.outputs)
    if shapes is None:
        return None
    return sizes_for(task, config, samples, shapes)


def task_of(config: Config) -> Task | None:
    """The task of the data that the settings name; None where these are not available."""
    try:
        return samples_and_task(config)[1]
    except Mix2fldError:
        return None


@lru_cache(maxsize=512)
def _plans(config: Config) -> list[PlannedTransfer]:
    sizes = payload_sizes(config)
    if sizes is None:
        return []
    try:
        return plan_transfers([config.protocol], sizes, make_link(config, config.data.devices))
    except Mix2fldError:
        return []


Formula = dict[str, float]


def what_if(grid: Grid, series: list[Series]) -> dict[str, Any] | None:
    """The link and the payloads of one setting; None without a closed form."""
    if grid.channel.link != "rayleigh" or not all(
        has_named_parts(run) for one in series for run in one.runs
    ):
        return None
    protocols = [
        {"protocol": name, "title": title_of(name), "transfers": found}
        for name in in_table_order({one.protocol for one in series})
        if (found := _transfers(name, grid.at(name)))
    ]
    return {"link": link_numbers(grid), "protocols": protocols} if protocols else None


def link_numbers(config: CommonSettings) -> dict[str, float]:
    """The link of Sec. II-C as the closed form needs it."""
    channel = config.channel
    return {
        "bandwidth_hz": channel.bandwidth_hz,
        "uplink_channels": channel.uplink_channels,
        "uplink_power_dbm": channel.uplink_power_dbm,
        "downlink_power_dbm": channel.downlink_power_dbm,
        "uplink_threshold": channel.uplink_snr_threshold,
        "downlink_threshold": channel.downlink_snr_threshold,
        "distance_m": channel.distance_m,
        "path_loss_exponent": channel.path_loss_exponent,
        "noise_w_per_hz": watts(channel.noise_dbm_per_hz),
        "slot_seconds": channel.slot_ms / 1000,
        "max_slots": channel.max_slots,
        "devices": config.data.devices,
        "transmitting": config.participants_per_round,
        "seed_samples": config.seeding.seed_samples,
    }


def _transfers(protocol: str, config: Config) -> list[dict[str, Any]]:
    """First upload, later uploads and download of a protocol, each with its formula."""
    wanted: dict[str, tuple[str, str, bool]] = {
        "first": ("first upload", "uplink", True),
        "later": ("upload", "uplink", False),
        "down": ("download", "downlink", False),
    }
    found = []
    for kind, (name, direction, seeds) in wanted.items():
        formula = _formula(protocol, config, direction, seeds)
        if formula is None:
            return []
        found.append({"kind": kind, "transfer": name, "direction": direction, **formula})
    first, later, _ = found
    if first["bits"] == later["bits"]:
        found.remove(first)
    elif later["bits"]:
        later["transfer"] = "later uploads"
    return [one for one in found if one["bits"]]


def _formula(protocol: str, config: Config, direction: str, seeds: bool) -> dict[str, Any] | None:
    """The size in this setting, and how it changes with N_S and bits per weight."""
    row = row_of(protocol)
    bits = _bits(config, direction, seeds)
    if row is None or bits is None:
        return None
    if direction == "uplink" and keeps_weights(row.upload_codec):
        sizes = payload_sizes(config)
        assert sizes is not None
        arrays = len(sizes.dims.weight_shapes)
        return {"bits": bits, "weights": sizes.dims.num_weights, "ends": 64 * arrays}
    return {"bits": bits, **(_affine(config, direction, seeds, bits) or {"fixed": bits})}


def _affine(config: Config, direction: str, seeds: bool, bits: int) -> Formula | None:
    """Fitted to two sizes; None unless it gives a third too, with any number of devices."""
    samples, devices = config.seeding.seed_samples, config.data.devices

    def at(times: int, of_devices: int = 1) -> int | None:
        fields = {"seed_samples": times * samples, "devices": of_devices * devices}
        try:
            return _bits(config.replace(**fields), direction, seeds)
        except Mix2fldError:
            return None

    double = at(2)
    if double is None or at(3) != 2 * double - bits or at(1, of_devices=2) != bits:
        return None
    return {"fixed": 2 * bits - double, "per_seed": (double - bits) / samples}


def _bits(config: Config, direction: str, seeds: bool) -> int | None:
    row, sizes = row_of(config.protocol), payload_sizes(config)
    if row is None or sizes is None:
        return None
    try:
        wire = Wire(row, sizes)
    except Mix2fldError:
        return None
    size = wire.upload_size(with_seeds=seeds) if direction == "uplink" else wire.download_size()
    return size.bits
