"""The table of protocols: all of them, on one screen. Each is written in the file of its family.

To add one, write the parts that differ and list it here, or put it into ``PROTOCOLS`` from your
own code before a run. No module here needs JAX: what is trained, and how, is data to it.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from mix2fld.base.accounting import Guarantee
from mix2fld.base.errors import InputError, did_you_mean
from mix2fld.protocols.base import ISOLATED, TRAINING, Parameter, Protocol
from mix2fld.protocols.distillation import FD, FLD, MIX_2_FLD, MIX_FLD
from mix2fld.protocols.labels import CFD
from mix2fld.protocols.private import DP_SEEDS, DP_SEEDS_SUM, DP_STATISTICS, DP_SUM
from mix2fld.protocols.statistics import MURMUR_STAT, OWN_STATISTICS, STATISTICS
from mix2fld.protocols.updates import (
    DP_FL,
    DP_MURMUR,
    EDEN,
    MURMUR,
    MURMUR_MIX,
    SIGN,
    STC,
    TOP_K,
)
from mix2fld.protocols.weights import FL, FL_4_BIT, FL_8_BIT

if TYPE_CHECKING:
    from mix2fld.config.grid import Grid
    from mix2fld.config.settings import Config

PROTOCOLS: dict[str, Protocol] = {
    #                                 up                         down          server
    "isolated": ISOLATED,           # nothing                    nothing       does nothing
    "own-statistics": OWN_STATISTICS,  # nothing                 nothing       does nothing
    "statistics": STATISTICS,       # statistics, once           weights       solves for a model
    "dp-statistics": DP_STATISTICS,  # statistics with noise     weights       solves for a model
    "dp-sum": DP_SUM,               # statistics, noise on sums  weights       solves for a model
    "dp-seeds": DP_SEEDS,           # statistics with noise      weights       trains on samples drawn
    "dp-seeds-sum": DP_SEEDS_SUM,   # statistics, noise on sums  weights       trains on samples drawn
    "fl": FL,                       # weights                    weights       averages
    "fl8": FL_8_BIT,                # weights in 8 bits          weights       averages
    "fl4": FL_4_BIT,                # weights in 4 bits          weights       averages
    "topk": TOP_K,                  # largest entries            weights       adds the mean update
    "stc": STC,                     # signs of largest entries   weights       adds the mean update
    "sign": SIGN,                   # rotated signs              weights       adds the mean update
    "eden": EDEN,                   # rotated levels             weights       adds the mean update
    "murmur": MURMUR,               # update in any few bits     weights       adds the mean update
    "murmur-mix": MURMUR_MIX,       # the same; mixes, once      weights, mixes  adds the mean update
    "murmur-stat": MURMUR_STAT,     # the same; statistics, once  weights      solves, adds updates
    "dp-fl": DP_FL,                 # update with noise          weights       adds the mean update
    "dp-murmur": DP_MURMUR,         # the same in few bits       weights       adds the mean update
    "fd": FD,                       # mean outputs               mean outputs  averages
    "cfd": CFD,                     # labels of shared mixes     weights, mixes  trains on the labels
    "fld": FLD,                     # outputs; samples, once     weights       trains on the samples
    "mixfld": MIX_FLD,              # outputs; mixes, once       weights       trains on the mixes
    "mix2fld": MIX_2_FLD,           # outputs; mixes, once       weights       unmixes, and trains
}  # fmt: skip


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
    for key, value in given.items():
        found = _parameter(name, row, key)
        if not isinstance(found, str):
            row = found(row, value)
    return replace(row, title=f"{row.title} ({', '.join(f'{k} {v}' for k, v in given.items())})")


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
    """One config for each protocol and seed, in the order in which they run.

    Parameters that are spelled with a protocol are its settings.
    """
    return [one.replace(**_settings(one.protocol)) for one in settings.runs()]


def guarantee_of(config: "Config") -> Guarantee | None:
    """What the uploads of a single run guarantee; None: nothing, or a row that is not known."""
    row = find_protocol(config.protocol)
    return None if row is None or row.promise is None else row.promise(config)


def _settings(spelled: str) -> dict[str, str]:
    name, given = split_name(spelled)
    row = get_protocol(spelled)
    fields = {_parameter(name, row, key): value for key, value in given.items()}
    return {field: value for field, value in fields.items() if isinstance(field, str)}


def _parameter(name: str, row: Protocol, key: str) -> Parameter:
    known: Mapping[str, Parameter] = {**TRAINING, **row.parameters}
    if key not in known:
        raise InputError(
            f"protocols = '{name}:{key}=...': {name} has no parameter {key!r}; "
            f"{did_you_mean(key, known)}"
        )
    return known[key]
