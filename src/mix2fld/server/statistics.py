"""The server's steps of protocols that upload statistics."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mix2fld.learning.class_statistics import closed_form_network
from mix2fld.learning.features import fixed_features
from mix2fld.learning.task import Task
from mix2fld.server.statistics_filter import trusted_statistics
from mix2fld.server.steps import Inbox
from mix2fld.server.updates import add_mean_update
from mix2fld.types import SeedSet, ServerState, Statistics, Tensors


def take_closed_form(
    state: ServerState, inbox: Inbox, seeds: SeedSet | None, task: Task, round_number: int
) -> ServerState:
    """A head from all statistics so far, on fixed features, whenever new ones are delivered."""
    del seeds, round_number
    weights = _closed_form(state.seeds, task) if _brings_statistics(inbox) else None
    return state if weights is None else replace(state, weights=weights, updates=state.updates + 1)


def add_updates_to_closed_form(
    state: ServerState, inbox: Inbox, seeds: SeedSet | None, task: Task, round_number: int
) -> ServerState:
    """The closed form of all statistics so far, and every update since the first of them.

    Updates that are delivered with the first statistics are not used: they are counted from a
    network without that head. Statistics that come later move the model by what they change in the
    closed form.
    """
    new = _brings_statistics(inbox)
    after = _closed_form(state.seeds, task) if new else None
    if after is None:
        return add_mean_update(state, inbox, seeds, task, round_number)
    before = _closed_form({d: own for d, own in state.seeds.items() if d not in new}, task)
    if before is None:
        return replace(state, weights=after, updates=state.updates + 1)
    moved = add_mean_update(state, inbox, seeds, task, round_number)
    assert moved.weights is not None
    parts = zip(moved.weights, after, before, strict=True)
    return replace(moved, weights=tuple(now + (later - old) for now, later, old in parts))


def _brings_statistics(inbox: Inbox) -> set[int]:
    """The devices whose statistics were delivered in this round."""
    return {d for d, upload in inbox.items() if isinstance(upload.seeds, Statistics)}


def _closed_form(seeds: Mapping[int, Any], task: Task) -> Tensors | None:
    """The network that follows from these statistics; None if there are none to trust."""
    held = {d: own for d, own in seeds.items() if isinstance(own, Statistics)}
    trusted = trusted_statistics(held, task.config.defence) if held else {}
    if not any(own.counts.any() for own in trusted.values()):
        return None
    return closed_form_network(fixed_features(task), [trusted[d] for d in sorted(trusted)])
