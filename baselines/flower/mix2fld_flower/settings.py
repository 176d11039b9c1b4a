"""The run config of the baseline as settings of mix2fld."""

from collections.abc import Mapping
from typing import Any

from mix2fld.config.settings import Config
from mix2fld.deploy.settings import Settings, read_settings

NAMES = {
    "num-clients": "devices",
    "num-server-rounds": "rounds",
    "local-steps": "local_steps",
    "server-steps": "server_steps",
    "learning-rate": "learning_rate",
    "seed-samples": "seed_samples",
    "inverse-samples": "inverse_samples",
    "mixing-ratio": "mixing_ratio",
    "uplink-power-dbm": "uplink_power_dbm",
}
"""Keys of the run config, and the fields of mix2fld that they set."""


def settings_of(run_config: Mapping[str, Any]) -> Settings:
    """Everything that server and clients of a run must know."""
    stated = " ".join(f"{field}={run_config[key]}" for key, field in NAMES.items())
    return read_settings(
        {
            "protocol": run_config["protocol"],
            "seed": run_config["seed"],
            "settings": f"{_paper()} {stated} {run_config['settings']} {_split(run_config)}",
            "out": run_config["out"],
            "timeout-s": run_config["timeout-s"],
            "wait-s": run_config["timeout-s"],
        }
    )


def _split(run_config: Mapping[str, Any]) -> str:
    """A partition of flwr-datasets is a source, and each source a client."""
    return "partition=by-source" if run_config["partitioner"] else ""


def _paper() -> str:
    """What mix2fld's defaults for deployments change, set back: here all clients are trusted."""
    from mix2fld.config.settings import PRESETS, setting

    return " ".join(f"{name}={setting(Config(), name)}" for name in PRESETS["robust"])
