"""The table of protocols: all of them, on one screen. Each is written in the file of its family.

To add one, write a class of ``protocols.base.Protocol`` in the file of its family and list it here;
a custom one is spelled ``package.module:NAME``, or put into ``PROTOCOLS`` before a run. No module
here needs JAX: what is trained, and how, is data to it.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from mix2fld.base.accounting import Guarantee
from mix2fld.base.custom_code import custom_code, import_custom
from mix2fld.base.errors import InputError, did_you_mean
from mix2fld.protocols.base import Isolated, Protocol, parameters_of
from mix2fld.protocols.distillation import FD, FLD, Mix2FLD, MixFLD
from mix2fld.protocols.labels import CFD
from mix2fld.protocols.private import DP_SEEDS_SUM, DP_SUM, DPSeeds, DPStatistics
from mix2fld.protocols.statistics import MurmurStat, OneShotStatistics, OwnStatistics
from mix2fld.protocols.sums import Projected, Vote
from mix2fld.protocols.updates import DP_FL, DP_MURMUR, EDEN, STC, Murmur, MurmurMix, Sign, TopK
from mix2fld.protocols.weights import FL
from mix2fld.protocols.zeroth_order import FeedSign

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
    "projected": Projected(),              # update in shared directions weights         adds the mean update
    "vote": Vote(),                        # signs                       weights         moves by their majority
    "feedsign": FeedSign(),                # a sign a step               signs           moves by their majority
    "murmur": Murmur(),                    # update in any few bits      uploads         adds the mean update
    "murmur-mix": MurmurMix(),             # the same; mixes, once       uploads, mixes  adds the mean update
    "murmur-stat": MurmurStat(),           # the same; statistics, once  weights         solves, adds updates
    "dp-fl": DP_FL,                        # update with noise           weights         adds the mean update
    "dp-murmur": DP_MURMUR,                # the same in few bits        uploads         adds the mean update
    "fd": FD(),                            # mean outputs                mean outputs    averages
    "cfd": CFD(),                          # labels of shared mixes      weights, mixes  trains on the labels
    "fld": FLD(),                          # outputs; samples, once      weights         trains on the samples
    "mixfld": MixFLD(),                    # outputs; mixes, once        weights         trains on the mixes
    "mix2fld": Mix2FLD(),                  # outputs; mixes, once        weights         unmixes, and trains
}  # fmt: skip
"""All protocols, by the name that selects them."""


CUSTOM = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*(:|$)")
"""How a custom protocol is spelled."""


def get_protocol(spelled: str) -> Protocol:
    """The protocol of that name, with the parameters that are spelled with it."""
    name, given = split_name(spelled)
    if name not in PROTOCOLS and ":" not in name:
        raise InputError(
            field="protocols",
            value=f"{name!r}",
            hint="neither a known protocol nor package.module:NAME; "
            f"{did_you_mean(name, PROTOCOLS)}",
        )
    row = PROTOCOLS.get(name) or custom_protocol(name)
    if not given:
        return row
    own = {key: value for key, value in given.items() if _setting_of(name, row, key) is None}
    shown = ", ".join(f"{key} {value}" for key, value in given.items())
    return replace(row, title=f"{row.title} ({shown})", **_converted(name, row, own))


@cache
def custom_protocol(name: str) -> Protocol:
    """The protocol ``package.module:NAME``: a class of ``Protocol``, or an object of one."""
    module_name, _, attribute = name.partition(":")
    with custom_code("protocols", name, f"module {module_name!r} cannot be imported"):
        module = import_custom(module_name, f"protocols = {name}")
    found = getattr(module, attribute, None)
    made = found() if isinstance(found, type) and issubclass(found, Protocol) else found
    if not isinstance(made, Protocol):
        public = [key for key, value in vars(module).items() if _is_protocol(value)]
        raise InputError(
            field="protocols",
            value=name,
            hint=f"{attribute!r} of module {module_name!r} is no Protocol; "
            f"{did_you_mean(attribute, public)}",
        )
    _imported.add(name)
    taken = {"", *(row.title for row in PROTOCOLS.values())}
    return replace(made, title=attribute) if made.title in taken else made


_imported: set[str] = set()
"""Custom protocols of this process: who only reads a run imports none for it."""


def _is_protocol(value: object) -> bool:
    return isinstance(value, Protocol) or (
        isinstance(value, type) and issubclass(value, Protocol) and value is not Protocol
    )


def _converted(name: str, row: Protocol, given: Mapping[str, str]) -> dict[str, Any]:
    """Parameters that are no settings, in the type of their defaults."""
    found = {}
    for key, value in given.items():
        default = getattr(row, key)
        try:
            found[key] = type(default)(value)
        except ValueError:
            raise InputError(
                field="protocols",
                value=f"{name}:{key}={value}",
                hint=f"must be a number, such as {default}",
            ) from None
    return found


def find_protocol(spelled: str) -> Protocol | None:
    """The same; None if there is none, as of a run whose protocol is a custom one."""
    known = split_name(spelled)[0]
    return get_protocol(spelled) if known in PROTOCOLS or known in _imported else None


def split_name(spelled: str) -> tuple[str, dict[str, str]]:
    """A name and the parameters behind it: ``murmur:bits=200``, ``package.module:NAME:bits=3``."""
    name, _, rest = spelled.partition(":")
    if name not in PROTOCOLS and CUSTOM.match(spelled):
        attribute, _, rest = rest.partition(":")
        name = f"{name}:{attribute}"
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
            field="protocols",
            value=f"'{name}:{key}=...'",
            hint=f"{name} has no parameter {key!r}; {did_you_mean(key, known)}",
        )
    return known[key]
