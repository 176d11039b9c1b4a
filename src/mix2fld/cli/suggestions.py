"""Flags and subcommands that are mistyped or have no effect, with what was probably meant."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from mix2fld.base.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from mix2fld.config.settings import CommonSettings

LISTS = ("--protocols", "--seed", "--preset", "--mixing-ratio")
"""Flags whose values may also be separated by commas."""
OTHER_NAMES = {
    "--lr": "--learning-rate",
    "--epochs": "--local-steps",
    "--local-epochs": "--local-steps",
    "--steps": "--local-steps",
    "--clients": "--devices",
    "--num-clients": "--devices",
    "--nodes": "--devices",
    "--num-rounds": "--rounds",
    "--fraction": "--participants",
    "--alpha": "--dirichlet-alpha",
    "--batch": "--batch-size",
    "--output": "--out",
    "--power": "--uplink-power-dbm",
    "--momentum": "--optimizer",
    "--data": "--dataset",
}
"""What others call our flags."""
SYMBOLS = {
    "--lambda": "--mixing-ratio",
    "--n-s": "--seed-samples",
    "--n-i": "--inverse-samples",
    "--k": "--local-steps",
    "--k-s": "--server-steps",
    "--eta": "--learning-rate",
    "--beta": "--distillation-weight",
    "--epsilon": "--tolerance",
    "--t-max": "--max-slots",
    "--tau": "--slot-ms",
    "--w": "--bandwidth-hz",
    "--n-ch": "--uplink-channels",
    "--p-up": "--uplink-power-dbm",
    "--p-dn": "--downlink-power-dbm",
    "--theta-up": "--uplink-snr-threshold",
    "--theta-dn": "--downlink-snr-threshold",
}
"""What the paper calls our flags; understood wherever the flag is."""
ACCELERATOR = "an accelerator that JAX or PyTorch finds is used; mix2fld doctor shows it"
NO_FLAG = {
    "--gpu": ACCELERATOR,
    "--gpus": ACCELERATOR,
    "--cuda": ACCELERATOR,
    "--device": f"the number of devices is --devices; {ACCELERATOR}",
    "--workers": "a run uses all cores; mix2fld sweep --workers sets how many runs go at a time",
    "--jobs": "a run uses all cores; mix2fld sweep --workers sets how many runs go at a time",
}
"""Flags of other programs that need no counterpart here, and what to know instead."""


BETWEEN_VALUES = re.compile(r",(?![^,:=]+=)")
"""A comma, but not one between parameters: ``fl,murmur:bits=60,step_limit=1`` are two."""


def values_of(word: str) -> list[str]:
    """The values in a word, which commas separate."""
    return [part for part in BETWEEN_VALUES.split(word) if part]


def named_flags(given: Iterable[str]) -> list[str]:
    """The words with the paper's symbols as flags: ``--n-s 50`` is ``--seed-samples 50``."""
    found = []
    for word in given:
        flag, equals, value = word.partition("=")
        spelled = flag.lower().replace("_", "-")
        found.append(SYMBOLS.get(spelled, flag) + equals + value)
    return found


def split_commas(given: Sequence[str]) -> list[str]:
    """The words with the values of lists apart: ``--protocols fl,fd`` is ``--protocols fl fd``.

    Seeds may be a range, ``--seed 0..4``.
    """
    found: list[str] = []
    flag = ""
    for word in given:
        flag = word if word.startswith("--") else flag
        apart = values_of(word) if flag in LISTS and not word.startswith("--") else [word]
        if flag == "--seed" and ".." in word:
            from mix2fld.sweep.plan import expand  # brings JAX, which other commands do without

            apart = [str(seed) for seed in expand(apart)]
        found += apart
    return found


def seeds_by_number(given: Sequence[str]) -> list[str]:
    """The words of ``reproduce``: ``--seeds 0..1`` names seeds, ``--seeds 2`` says how many."""
    words = list(given)
    for place, (word, value) in enumerate(pairwise([*words, ""])):
        if word == "--seeds" and ".." in value:
            words[place] = "--seed"
    return words


def check_subcommand(name: str, given: Sequence[str], known: Iterable[str]) -> None:
    """Refuse a subcommand that does not exist."""
    if given and not given[0].startswith("-") and given[0] not in known:
        raise InputError(f"{name} {given[0]}: no such subcommand; {did_you_mean(given[0], known)}")


def check_flags(given: Sequence[str], kind: Any) -> None:
    """Refuse a flag that a command does not have."""
    known = {"--help", *flags_of(kind)}
    for word in given:
        flag = word.split("=")[0].replace("_", "-")
        if not flag.startswith("--") or flag in known:
            continue
        meant = OTHER_NAMES.get(flag)
        hint = f"did you mean {meant!r}?" if meant in known else NO_FLAG.get(flag)
        hint = hint or _hint(flag, known)
        raise InputError(f"{word}: no such option; {hint}")


def check_effects(given: Sequence[str], settings: "CommonSettings") -> None:
    """Refuse a flag of a link or an attack that has no effect with the other settings."""
    from mix2fld.config.radio import NEEDS_LINK, NEEDS_PIECE
    from mix2fld.config.trust import NEEDS_ATTACK

    has = {
        name: value
        for section in (settings.channel, settings.radio, settings.availability)
        for name, value in section
    }
    words = (word.split("=")[0] for word in given if word.startswith("--"))
    for name in (word[2:].replace("-", "_") for word in words):
        if name in NEEDS_ATTACK and settings.attack.attack == "none":
            raise InputError(
                f"{name}: has no effect with attack = none; must go with an attack, such as "
                "--attack sign-flip"
            )
        for needs in (NEEDS_LINK, NEEDS_PIECE):
            other, value = needs.get(name, ("", ""))
            if other and has[other] != value:
                raise InputError(
                    f"{name}: has no effect with {other} = {has[other]}; must go with "
                    f"--{other.replace('_', '-')} {value}"
                )


def flags_of(kind: Any) -> Iterator[str]:
    """Every long flag of a command, of its output options and of its settings."""
    for name, annotation in _members(kind):
        inner = _section(annotation)
        if inner is not None:
            yield from flags_of(inner)
            continue
        flag = name.replace("_", "-")
        yield f"--{flag}"
        yield f"--no-{flag}"


def _members(kind: Any) -> list[tuple[str, Any]]:
    if is_dataclass(kind):
        return [(field.name, field.type) for field in fields(kind)]
    return [(name, field.annotation) for name, field in kind.model_fields.items()]


def _section(annotation: Any) -> Any:
    """The class of options that an annotation names, if it does."""
    inner = getattr(annotation, "__origin__", annotation)
    return inner if is_dataclass(inner) or hasattr(inner, "model_fields") else None


def _hint(flag: str, known: Iterable[str]) -> str:
    """The flag that was probably meant; ``--no-...`` only if that was typed."""
    choices = [each for each in known if each.startswith("--no-") == flag.startswith("--no-")]
    symbols = [symbol for symbol, meant in SYMBOLS.items() if meant in choices]
    hint = did_you_mean(flag, [*choices, *symbols])
    for symbol in symbols:
        if hint == f"did you mean {symbol!r}?":
            name = symbol.removeprefix("--")
            return f"did you mean {SYMBOLS[symbol]} (the paper's {name})?"
    return hint if hint.startswith("did you mean") else "--help lists all of them"
