"""The table of protocols: all of them, on one screen. Each is written in the file of its family.

To add one, write a class of ``protocols.base.Protocol`` in the file of its family and list it here,
or put it into ``PROTOCOLS`` from your own code before a run. No module here needs JAX: what is
trained, and how, is data to it.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mix2fld.base.accounting import Guarantee
from mix2fld.base.errors import InputError, did_you_mean
from mix2fld.protocols.base import Isolated, Protocol, parameters_of
from mix2fld.protocols.distillation import FD, FLD, Mix2FLD, MixFLD
from mix2fld.protocols.labels import CFD
from mix2fld.protocols.private import DP_SEEDS_SUM, DP_SUM, DPSeeds, DPStatistics
from mix2fld.protocols.statistics import MurmurStat, OneShotStatistics, OwnStatistics
from mix2fld.protocols.updates import DPFL, EDEN, STC, DPMurmur, Murmur, MurmurMix, Sign, TopK
from mix2fld.protocols.weights import FL

if TYPE_CHECKING:
    from mix2fld.config.grid import Grid
    from mix2fld.config.settings import Config

PROTOCOLS: dict[str, Protocol] = {
    #                                      # up                          down            server
    "isolated": Isolated(),                # nothing                     nothing         does nothing
    "own-statistics": OwnStatistics(),     # nothing                     nothing         does nothing
    "statistics": OneShotStatistics(),     # statistics, once            weights         solves for a model
    "dp-statistics": DPStatistics(),       # statistics with noise       weights         solves for a model
    "dp-sum": DP_SUM,                      # statistics, noise on sums   weights         solves for a model
    "dp-seeds": DPSeeds(),                 # statistics with noise       weights         trains on samples drawn
    "dp-seeds-sum": DP_SEEDS_SUM,          # statistics, noise on sums   weights         trains on samples drawn
    "fl": FL(),                            # weights                     weights         averages
    "fl8": FL(bits=8, title="FL 8-bit", colour="#56b4e9", line="--"),
                                           # weights in 8 bits           weights         averages
    "fl4": FL(bits=4, title="FL 4-bit", colour="#56b4e9", line=":"),
                                           # weights in 4 bits           weights         averages
    "topk": TopK(),                        # largest entries             weights         adds the mean update
    "stc": STC(),                          # signs of largest entries    weights         adds the mean update
    "sign": Sign(),                        # rotated signs               weights         adds the mean update
    "eden": EDEN(),                        # rotated levels              weights         adds the mean update
    "murmur": Murmur(),                    # update in any few bits      weights         adds the mean update
    "murmur-mix": MurmurMix(),             # the same; mixes, once       weights, mixes  adds the mean update
    "murmur-stat": MurmurStat(),           # the same; statistics, once  weights         solves, adds updates
    "dp-fl": DPFL(),                       # update with noise           weights         adds the mean update
    "dp-murmur": DPMurmur(),               # the same in few bits        weights         adds the mean update
    "fd": FD(),                            # mean outputs                mean outputs    averages
    "cfd": CFD(),                          # labels of shared mixes      weights, mixes  trains on the labels
    "fld": FLD(),                          # outputs; samples, once      weights         trains on the samples
    "mixfld": MixFLD(),                    # outputs; mixes, once        weights         trains on the mixes
    "mix2fld": Mix2FLD(),                  # outputs; mixes, once        weights         unmixes, and trains
}  # fmt: skip
"""All protocols, by the name that selects them."""


def get_protocol(spelled: str) -> Protocol:
    """The protocol of that name, with the parameters that are spelled with it."""
    name, given = split_name(spelled)
    if name not in PROTOCOLS:
        raise InputError(
            field="protocols",
            value=f"{name!r}",
            hint=f"no such protocol; {did_you_mean(name, PROTOCOLS)}",
        )
    row = PROTOCOLS[name]
    if not given:
        return row
    own = {key: value for key, value in given.items() if _setting_of(name, row, key) is None}
    shown = ", ".join(f"{key} {value}" for key, value in given.items())
    return replace(row, title=f"{row.title} ({shown})", **_converted(name, row, own))


def _converted(name: str, row: Protocol, given: Mapping[str, str]) -> dict[str, Any]:
    """Parameters that are no settings, in the type of their defaults."""
    found = {}
    for key, value in given.items():
        default = getattr(row, key)
        try:
            found[key] = type(default)(value)
        except ValueError:
            raise InputError(
                f"protocols = {name}:{key}={value}: must be a number, such as {default}"
            ) from None
    return found


def find_protocol(spelled: str) -> Protocol | None:
    """The same; None if there is none, as of a run whose protocol is a custom one."""
    return get_protocol(spelled) if split_name(spelled)[0] in PROTOCOLS else None


def split_name(spelled: str) -> tuple[str, dict[str, str]]:
    """A name and the parameters behind it: ``murmur:bits=200,step_limit=1``."""
    name, _, rest = spelled.partition(":")
    given: dict[str, str] = {}
    for part in rest.split(",") if rest else ():
        key, equals, value = part.partition("=")
        if not (equals and key and value) or key in given:
            raise InputError(
                field="protocols",
                value=f"{spelled!r}",
                hint=f"{part!r} must be name=value, each name once, as in murmur:bits=200",
            )
        given[key] = value
    return name, given


def single_runs(settings: "Config | Grid") -> list["Config"]:
    """One config for each protocol and seed, in the order in which they run."""
    return [as_spelled(one) for one in settings.runs()]


def as_spelled(config: "Config") -> "Config":
    """The config of a single run, with the parameters spelled with its protocol as settings."""
    return config.replace(**_settings(config.protocol))


def guarantee_of(config: "Config") -> Guarantee | None:
    """What the uploads of a single run guarantee; None: nothing, or a row that is not known."""
    row = find_protocol(config.protocol)
    return None if row is None or row.promise is None else row.promise(config)


def _settings(spelled: str) -> dict[str, str]:
    name, given = split_name(spelled)
    row = get_protocol(spelled)
    fields = {_setting_of(name, row, key): value for key, value in given.items()}
    return {field: value for field, value in fields.items() if field is not None}


def _setting_of(name: str, row: Protocol, key: str) -> str | None:
    """The setting that a parameter is; None if it is none."""
    known = parameters_of(row)
    if key not in known:
        raise InputError(
            f"protocols = '{name}:{key}=...': {name} has no parameter {key!r}; "
            f"{did_you_mean(key, known)}"
        )
    return known[key]
