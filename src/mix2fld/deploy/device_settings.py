"""What devices of a broker must know of a run, and of their initial weights."""

from typing import Any

from mix2fld.base.streams import integer
from mix2fld.config.settings import Config
from mix2fld.deploy.edge.initial import pack_start
from mix2fld.deploy.edge.run_settings import DeviceRun, pack_run
from mix2fld.engine.scenario import Scenario

DEVICE_SECTIONS = (
    *(
        "protocol",
        "seed",
        "rounds",
        "curve_points",
        "participants",
        "learning",
        "seeding",
        "updates",
        "privacy",
    ),
    *("statistics", "defence", "availability"),
)
"""Of a config: what devices read."""


def device_config(config: Config) -> dict[str, Any]:
    """The part of a config that decides what devices do."""
    whole = config.model_dump(mode="json")
    parts = {name: whole[name] for name in DEVICE_SECTIONS}
    return {**parts, "data": {"devices": config.data.devices}}


def run_settings(scenario: Scenario, run: str) -> bytes:
    """What devices must know of a run."""
    learning = scenario.learning
    config = device_config(scenario.config)
    return pack_run(DeviceRun(run, config, learning.dims.samples, learning.task))


def initial_weights(scenario: Scenario, device: int) -> bytes:
    """What tells a device its initial weights, if it cannot draw them."""
    learning = scenario.learning
    common = learning.config.learning.initial_weights != "independent"
    seed = integer(learning.seed, "weights", 0 if common else 1 + device)
    return pack_start(learning.initial_weights(device), seed)
