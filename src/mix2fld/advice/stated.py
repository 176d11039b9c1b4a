"""What was measured, with the settings that the user states in place of those it was measured with.

A setting that is stated wins over what a search of the frontier chose. Left out, too, is what
would keep a protocol from following its own rule.
"""

import math
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from mix2fld.advice.measured import MeasuredPoint, MeasuredSetting
from mix2fld.config.settings import Config, field_names, setting
from mix2fld.protocols.base import parameters_of
from mix2fld.protocols.table import get_protocol, split_name

OF_UPLOADS = ("seeding", "updates", "statistics")
"""Sections that say what is uploaded: with other values there, a contender was not measured."""


def as_stated(
    measured: MeasuredSetting, config: Config, stated: Collection[str]
) -> MeasuredSetting:
    """The measured setting, whose contenders leave the ``stated`` fields as ``config`` has them."""
    points = tuple(_as_stated(point, config, stated) for point in measured.points)
    return replace(measured, points=points)


def _as_stated(point: MeasuredPoint, config: Config, stated: Collection[str]) -> MeasuredPoint:
    protocol, spelled = _apart(point.protocol)
    changes = {**point.changes, **spelled}
    left = {name: value for name, value in changes.items() if name not in stated}
    if "learning_rate" in stated:  # of every round, unless a last one is stated, too
        left.pop("final_learning_rate", None)
    if get_protocol(protocol).training.scarce_adjustment is not None:  # decision 35
        left.pop("logit_adjustment", None)
    if "upload_every" in left:
        left["upload_every"] = min(left["upload_every"], config.rounds)
    sections = field_names()
    other = any(
        sections[name] in OF_UPLOADS and setting(config, name) != value
        for name, value in changes.items()
        if name in stated
    )
    point = replace(point, protocol=protocol, changes=left)
    return replace(point, bits=math.nan, devices=[], server=None) if other else point


def _apart(spelled: str) -> tuple[str, dict[str, Any]]:
    """``murmur:bits=200`` as a name and settings, if all of its parameters are settings."""
    name, given = split_name(spelled)
    known = parameters_of(get_protocol(name))
    if not given or any(known[key] is None for key in given):
        return spelled, {}
    fields = {str(known[key]): value for key, value in given.items()}
    config = Config.of(**fields)
    return name, {field: setting(config, field) for field in fields}
