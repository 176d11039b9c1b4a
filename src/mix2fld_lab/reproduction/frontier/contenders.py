"""Who is compared, and what each may tune.

Every contender with a family gets the same budget: ``CANDIDATES_EACH`` settings of its training,
judged by the mean accuracy of devices on a validation split; which ones differs between families
(``SEARCHED``). Those without a family run as published.
"""

import re
from dataclasses import dataclass, replace
from typing import Any, Literal

from mix2fld.base.errors import InputError
from mix2fld.protocols.table import PROTOCOLS, get_protocol
from mix2fld_lab.reproduction.frontier.settings import FrontierSetting

WITHOUT_REPLAY: list[dict[str, float]] = [
    {"logit_adjustment": tau, "learning_rate": first, "final_learning_rate": last}
    for tau in (0.0, 1.0, 2.0)
    for first, last in ((0.01, 0.01), (0.02, 0.005))
]
WITH_REPLAY: list[dict[str, float]] = [
    {"logit_adjustment": tau, "learning_rate": 0.02, "final_learning_rate": 0.005, "replay": share}
    for tau in (0.0, 1.0)
    for share in (0.3, 0.5, 0.8)
]
FROM_STATISTICS: list[dict[str, float]] = [
    {"logit_adjustment": tau, "learning_rate": 0.01, "final_learning_rate": last}
    for tau in (0.0, 1.0, 2.0)
    for last in (0.01, 0.001)
]
FROM_CLOSED_FORM: list[dict[str, float]] = [
    {"logit_adjustment": tau, "learning_rate": first, "final_learning_rate": last}
    for tau in (0.0, 1.0, 2.0)
    for first, last in ((0.01, 0.001), (0.003, 0.0003))
]
SEARCHED = {
    "murmur-stat": FROM_CLOSED_FORM,
    "murmur-mix": WITH_REPLAY,
    "own-statistics": FROM_STATISTICS,
    "statistics": FROM_STATISTICS,
}
"""Families that search something else than ``WITHOUT_REPLAY``; all have as many candidates."""
CANDIDATES_EACH = 6
FROM_EDGES = "-edges"
"""At the end of the names of families and contenders that start from fixed edges."""
EDGES: dict[str, Any] = {"initial_weights": "edges"}
OURS = ("murmur", "murmur-mix", "murmur-stat")
"""The protocols of this package."""
PAPERS = ("fld", "mixfld", "mix2fld")
"""Mix2FLD and its relatives."""

TUNED_AT: dict[str, dict[str, Any]] = {
    "cfd": {"seed_samples": 50, "seed_pooling": 2, "seed_bits": 4},
    "statistics": {"feature_side": 4},
    "murmur": {"update_bits": 500},
    "murmur-stat": {"update_bits": 1_400, "feature_side": 4},
    "murmur-mix": {"update_bits": 3_100, "seed_samples": 20, "seed_pooling": 2, "seed_bits": 4},
    "stc": {"kept_share": 0.01},
    "topk": {"kept_share": 0.01},
    "eden": {"bits_per_weight": 0.1},
}
"""Families with several contenders are tuned at one of them."""


@dataclass(frozen=True)
class Contender:
    """A protocol with its settings; ``family`` names those that share one search."""

    key: str
    title: str
    protocol: str
    changes: dict[str, Any]
    family: str | None
    core: bool = True
    """Whether it also runs on other images and where one factor is varied."""
    network: Literal["any", "paper's", "larger"] = "any"
    """With which networks it runs."""

    def runs_in(self, setting: FrontierSetting) -> bool:
        """Whether it is compared in a setting."""
        fits = {"any": True, "paper's": setting.papers_network, "larger": setting.larger_network}
        return fits[self.network] and (self.core or not setting.core)


def _plain(key: str, title: str, protocol: str, core: bool = False) -> Contender:
    changes = {"logit_adjustment": 0.0, "final_learning_rate": 0.01, "device_model": "trained"}
    return Contender(key, f"{title}, as published", protocol, changes, None, core)


def _tuned(key: str, title: str, protocol: str, core: bool = False, **changes: Any) -> Contender:
    family = "fl" if protocol in ("fl8", "fl4") else protocol
    return Contender(key, title, protocol, changes, family, core)


def _ours(bits: int, core: bool = False) -> Contender:
    title = f"Murmur, {bits:,} bits a round"
    return _tuned(f"murmur-{bits}", title, "murmur", core, update_bits=bits)


def _every_other(bits: int) -> Contender:
    title = f"Murmur, {bits:,} bits every other round"
    return _tuned(f"murmur-{bits}", title, "murmur", update_bits=bits, upload_every=2)


def _with_seeds(count: int, update_bits: int, core: bool = False) -> Contender:
    title = f"Murmur-Mix, {count} small seeds and {update_bits:,} bits a round"
    seeds = {"seed_samples": count, "seed_pooling": 2, "seed_bits": 4}
    key = f"murmur-mix-{count}"
    return _tuned(key, title, "murmur-mix", core, update_bits=update_bits, **seeds)


def _with_statistics(side: int, features: int, update_bits: int) -> Contender:
    title = f"Murmur-Stat, {features} features and {update_bits:,} bits a round"
    settings = {"feature_side": side, "update_bits": update_bits}
    return _tuned(f"murmur-stat-{side}", title, "murmur-stat", True, **settings)


def _eden(bits: float) -> Contender:
    return _tuned(f"eden-{bits:g}", f"EDEN, {bits:g} bit", "eden", True, bits_per_weight=bits)


def _statistics(key: str, title: str, protocol: str, **changes: Any) -> Contender:
    return Contender(key, title, protocol, changes, protocol, core=True, network="paper's")


def _for_larger_networks(one: Contender) -> Contender:
    return replace(one, core=True, network="larger")


def _from_edges(one: Contender) -> Contender:
    """The same, with a start that every device knows: fixed edges in place of random weights."""
    return replace(
        one,
        key=f"{one.key}{FROM_EDGES}",
        title=f"{one.title}, from edges",
        changes={**one.changes, **EDGES},
        family=f"{one.family}{FROM_EDGES}",
        network="paper's",
    )


CONTENDERS: tuple[Contender, ...] = (
    _plain("isolated-plain", "isolated", "isolated"),
    _tuned("isolated", "isolated", "isolated", core=True),
    _from_edges(_tuned("isolated", "isolated", "isolated", core=True)),
    _statistics("own-statistics", "own statistics", "own-statistics"),
    _statistics("statistics-4", "statistics, 96 features", "statistics", feature_side=4),
    _statistics("statistics-6", "statistics, 216 features", "statistics", feature_side=6),
    _every_other(50),
    _ours(100),
    _ours(200, core=True),
    _ours(500),
    _ours(1400, core=True),
    _ours(4000),
    _for_larger_networks(_ours(20_000)),
    _from_edges(_every_other(50)),
    _from_edges(_ours(100)),
    _from_edges(_ours(200, core=True)),
    _from_edges(_ours(500)),
    _from_edges(_ours(1400, core=True)),
    _with_seeds(20, update_bits=3_100, core=True),
    _from_edges(_with_seeds(20, update_bits=3_100, core=True)),
    _with_seeds(100, update_bits=4_000),
    _for_larger_networks(_with_seeds(200, update_bits=20_000)),
    _from_edges(_with_seeds(100, update_bits=4_000, core=True)),
    _from_edges(_with_statistics(2, 24, update_bits=1_000)),
    _from_edges(_with_statistics(4, 96, update_bits=1_400)),
    _plain("fd-plain", "FD", "fd"),
    _tuned("fd", "FD", "fd", core=True),
    _tuned("stc-1", "STC 1 %", "stc", kept_share=0.01),
    _tuned("stc-5", "STC 5 %", "stc", kept_share=0.05, core=True),
    _tuned("topk-1", "top-k 1 %", "topk", kept_share=0.01),
    _eden(0.1),
    _from_edges(_tuned("stc-1", "STC 1 %", "stc", kept_share=0.01)),
    _from_edges(_eden(0.1)),
    _tuned("sign", "sign, error feedback", "sign", core=True),
    _tuned("fl4", "FL 4-bit", "fl4"),
    _tuned("fl8", "FL 8-bit", "fl8", core=True),
    _from_edges(_tuned("fl8", "FL 8-bit", "fl8", core=True)),
    _tuned("fl", "FL", "fl", core=True),
    _plain("fl-plain", "FL", "fl"),
    _tuned("cfd", "CFD, 50 small seeds", "cfd", True, **TUNED_AT["cfd"]),
    _tuned("fld", "FLD", "fld", core=True),
    _plain("mixfld-plain", "MixFLD", "mixfld"),
    _tuned("mixfld", "MixFLD", "mixfld"),
    _plain("mix2fld-plain", "Mix2FLD", "mix2fld"),
    _tuned("mix2fld", "Mix2FLD", "mix2fld", core=True),
)


CUSTOM: list[Contender] = []
"""Custom protocols of this process, with the search and the place that all others have."""


def add_contender(spelled: str) -> None:
    """Let a protocol compete, such as ``package.module:NAME``; it is a family of its own."""
    row = get_protocol(spelled)
    name = re.sub(r"[^A-Za-z0-9.]+", "-", spelled)
    if spelled in PROTOCOLS:
        raise InputError(field="contender", value=spelled, hint="competes already")
    if all(one.key != name for one in CUSTOM):
        CUSTOM.append(Contender(name, row.title, spelled, {}, name))


def all_contenders() -> tuple[Contender, ...]:
    """Those of the package, and custom ones that were added."""
    return (*CONTENDERS, *CUSTOM)


def contenders(setting: FrontierSetting) -> list[Contender]:
    """Those who run in a setting."""
    return [one for one in all_contenders() if one.runs_in(setting)]


def families(setting: FrontierSetting) -> list[str]:
    """Those who tune there, in the order of the contenders."""
    return list(dict.fromkeys(one.family for one in contenders(setting) if one.family))


def candidates(family: str) -> dict[str, dict[str, Any]]:
    """The settings that a family chooses from, by name."""
    protocol = family.removesuffix(FROM_EDGES)
    start = EDGES if family.endswith(FROM_EDGES) else {}
    spelled = next((one.protocol for one in CUSTOM if one.family == family), protocol)
    return {
        "-".join(f"{name}-{value:g}" for name, value in changes.items()): {
            "protocols": spelled,
            **changes,
            "device_model": "mean",
            **TUNED_AT.get(protocol, {}),
            **start,
        }
        for changes in SEARCHED.get(protocol, WITHOUT_REPLAY)
    }
