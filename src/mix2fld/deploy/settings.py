"""A deployed run's settings, as Flower's run config carries them.

``settings`` names any field of ``Config``: ``"devices=4 local_steps=400 mixing_ratio=0.2,0.3"``.
"""

import hashlib
import json
import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_origin

from mix2fld.base.errors import InputError
from mix2fld.config.fields import Section
from mix2fld.config.settings import PRESETS, SECTIONS, Config, field_names, setting
from mix2fld.engine.policies import policy_of
from mix2fld.protocols.table import get_protocol, single_runs
from mix2fld.runs.config_file import dump_config

DEFAULTS = Config.of(**PRESETS["robust"])
"""The settings of a deployment, unless they are given: devices are not trusted."""


@dataclass(frozen=True)
class Settings:
    """Everything that the server and the devices of one run must know."""

    config: Config
    out: Path
    """Folder on the server's machine for the run."""
    timeout_s: float
    """Seconds after which a round continues without the missing answers."""
    wait_s: float
    """Seconds to wait for all devices to be connected before the first round."""

    def as_run_config(self) -> dict[str, str | int | float]:
        """For ``flwr run --run-config``; ``read_settings`` returns the same settings."""
        return {
            "protocol": self.config.protocol,
            "seed": self.config.seed,
            "settings": _changes(self.config),
            "out": str(self.out),
            "timeout-s": self.timeout_s,
            "wait-s": self.wait_s,
        }


def read_settings(run_config: Mapping[str, Any]) -> Settings:
    """The settings of a run; computing time is measured, whatever they say."""
    try:
        fields = dict(_parsed(part) for part in shlex.split(str(run_config["settings"])))
    except ValueError as error:
        raise InputError(
            field="settings", value=f"{run_config['settings']!r}", hint=f"{error}"
        ) from None
    for name in ("protocol", "protocols", "seed"):
        if name in fields:
            raise InputError(
                field="settings", hint=f"{name} must be set by its own key of the run config"
            )
    config = DEFAULTS.replace(
        **fields,
        protocol=run_config["protocol"],
        seed=run_config["seed"],
        computing_time="measured",
    )
    (config,) = single_runs(config)
    check_deployable(config)
    check_flower(config)
    for name in ("timeout-s", "wait-s"):
        seconds = run_config[name]
        if not isinstance(seconds, (int, float)) or not math.isfinite(seconds) or seconds <= 0:
            raise InputError(f"{name} = {seconds!r}: must be a number above 0")
    return Settings(
        config,
        Path(str(run_config["out"])),
        float(run_config["timeout-s"]),
        float(run_config["wait-s"]),
    )


def check_deployable(config: Config) -> None:
    """Refuse what only a simulation has."""
    if config.attack.attack != "none":
        raise InputError(
            field="attack",
            value=config.attack.attack,
            hint="is for simulations; devices of a deployment are real",
        )
    if config.learning.personal != "none":
        raise InputError(
            field="personal",
            value=config.learning.personal,
            hint="personal weights are only simulated yet; must be none in a deployment",
        )
    for name in ("own_tests", "finetune_steps"):
        value = setting(config, name)
        if value:
            raise InputError(
                field=name,
                value=value,
                hint="is only simulated; in a deployment, devices keep their samples and their "
                "models, and mix2fld-device predict uses these",
            )
    row = get_protocol(config.protocol)
    if row.trusted_sum and config.privacy.sums == "open":
        raise InputError(
            field="protocol",
            value=config.protocol,
            hint="its trusted sum is only simulated; in a deployment "
            "the server would see uploads without noise: choose dp-statistics, or sums = masked",
        )


def check_flower(config: Config) -> None:
    """Refuse what is not done over Flower."""
    if policy_of(config.availability.wait).uses_late:
        raise InputError(
            field="wait",
            value=config.availability.wait,
            hint="over Flower, whose answers are collected round by round, late uploads are not "
            "used; must be all, quorum:0.8 or deadline:30, or the transport mqtt",
        )
    if config.privacy.sums != "open":
        raise InputError(
            field="sums",
            value=config.privacy.sums,
            hint="a device of Flower lives for one message, and the keys of a masked sum, which no "
            "disk should hold, for four; must be open, or the transport mqtt",
        )


def app_folder() -> Path:
    """The folder that ``flwr run`` takes: that of the ``pyproject.toml`` with the Flower app."""
    packed = Path(__file__).parent / "app"
    return packed if packed.exists() else Path(__file__).parents[3]


def config_digest(config: Config) -> str:
    """The same on two machines only if all settings are, with the defaults of each."""
    return hashlib.sha256(dump_config(config).encode()).hexdigest()[:16]


def _parsed(part: str) -> tuple[str, Any]:
    name, equals, value = part.partition("=")
    if not equals:
        raise InputError(field="settings", hint=f"{part!r} must be a name=value")
    kind = _annotations().get(name)
    if value.startswith("[") and _holds_several(kind):
        return name, tuple(json.loads(value))
    if get_origin(kind) is tuple or ("," in value and _holds_several(kind)):
        return name, tuple(value.split(",") if value else ())
    return name, value


def _written(value: Any) -> str:
    """A value as text; several with commas between them, as a list of JSON if a comma is in one."""
    if not isinstance(value, tuple):
        return str(value)
    words = [str(one) for one in value]
    plain = not any("," in word or word.startswith("[") for word in words)
    return ",".join(words) if plain else json.dumps(words)


def _annotations() -> dict[str, Any]:
    """The type of every field."""
    homes: dict[str, type[Section]] = {"": Config, **SECTIONS}
    return {name: homes[home].model_fields[name].annotation for name, home in field_names().items()}


def _holds_several(kind: Any) -> bool:
    """Whether a field of this type takes a tuple."""
    return get_origin(kind) is tuple or any(_holds_several(one) for one in get_args(kind))


def _changes(config: Config) -> str:
    """The fields in which a config differs from the defaults of a deployment."""
    changed = []
    for name in field_names():
        mine, default = setting(config, name), setting(DEFAULTS, name)
        if mine != default and name != "computing_time":
            changed.append(shlex.quote(f"{name}={_written(mine)}"))
    return " ".join(changed)
