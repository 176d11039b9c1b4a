"""The server's step of each protocol: delivered uploads in, new global state out."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from mix2fld.learning.task import Task
from mix2fld.server.aggregate import combine_labels, combine_outputs, combine_weights
from mix2fld.server.conversion import convert
from mix2fld.server.label_judge import judge_labels, labels_of_seeds
from mix2fld.types import SeedSet, ServerState, Tensors, Upload

Inbox = Mapping[int, Upload]


def keep_state(
    state: ServerState, inbox: Inbox, seeds: SeedSet | None, task: Task, round_number: int
) -> ServerState:
    """Isolated devices: there is nothing to do."""
    del inbox, seeds, task, round_number
    return state


def take_mean_weights(
    state: ServerState, inbox: Inbox, seeds: SeedSet | None, task: Task, round_number: int
) -> ServerState:
    """FL: the global model is the mean of the delivered ones, or what the defence makes of them."""
    del seeds, round_number
    if not inbox:
        return state
    weights = combine_weights(inbox, last_model(state, task), task.config.defence)
    return replace(state, weights=weights, updates=state.updates + 1)


def last_model(state: ServerState, task: Task) -> Tensors | None:
    """The model that devices started from, if it is one and the same."""
    common = task.config.learning.initial_weights != "independent"
    return task.common_weights if state.weights is None and common else state.weights


def take_mean_outputs(
    state: ServerState, inbox: Inbox, seeds: SeedSet | None, task: Task, round_number: int
) -> ServerState:
    """FD: the global outputs are the mean of the delivered ones, label by label."""
    del seeds, round_number
    if not inbox:
        return state
    last = np.zeros((task.dims.num_labels,) * 2, np.float32)
    outputs = combine_outputs(
        inbox,
        last if state.outputs is None else state.outputs,
        task.config.learning.unseen_labels,
        task.config.defence,
    )
    return replace(state, outputs=outputs, updates=state.updates + 1)


def convert_mean_outputs(
    state: ServerState, inbox: Inbox, seeds: SeedSet | None, task: Task, round_number: int
) -> ServerState:
    """FLD and its kin: mean outputs as in FD, then converted to a global model on the seeds."""
    if not inbox:
        return state
    averaged = take_mean_outputs(state, inbox, seeds, task, round_number)
    if seeds is None or averaged.outputs is None:
        return replace(averaged, updates=state.updates)
    weights = convert(averaged.weights, averaged.outputs, seeds, task, round_number)
    return replace(averaged, weights=weights)


def convert_seed_labels(
    state: ServerState, inbox: Inbox, seeds: SeedSet | None, task: Task, round_number: int
) -> ServerState:
    """CFD: a global model learns the mean of the labels that devices give to the seeds.

    A seed that nobody has labelled, as in the first round, keeps the label that it came with.
    Where seeds are checked, so are labels: those of devices that contradict the seeds do not count.
    """
    if not inbox or seeds is None:
        return state
    came_with, defence = labels_of_seeds(state, seeds), task.config.defence
    trusted = dict(inbox)
    if defence.seed_check == "agreement":
        left_out = judge_labels(inbox, came_with).left_out
        trusted = {d: upload for d, upload in inbox.items() if d not in left_out}
    labels = []
    for device, own in came_with.items():
        given = [trusted[d].value[device] for d in sorted(trusted) if device in trusted[d].value]
        labels.append(combine_labels(given, defence) if given else own)
    labelled = replace(seeds, targets=np.concatenate(labels).astype(np.float32))
    no_teacher = np.zeros((task.dims.num_labels,) * 2, np.float32)
    weights = convert(state.weights, no_teacher, labelled, task, round_number)
    return replace(state, weights=weights, updates=state.updates + 1)
