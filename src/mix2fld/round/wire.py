"""What crosses the link in a round, for any row of the protocol table.

The simulator and the deployment both call these: bytes out on one side, values in on the other.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mix2fld.learning.task import Task
from mix2fld.link.payload import PayloadError
from mix2fld.protocol import Protocol
from mix2fld.streams import stream
from mix2fld.types import Knowledge, Seeds, ServerState, Upload


def upload_bits(protocol: Protocol, task: Task, with_seeds: bool) -> int:
    """Bits of one device's upload, B_up; seeds are charged whenever they are sent."""
    bits = protocol.uplink.bits(task.dims)
    if with_seeds:
        bits += protocol.seed_payload(task.config.seeding).bits(task.dims)
    return bits


def download_bits(protocol: Protocol, task: Task) -> int:
    """Bits of the multicast download, B_dn."""
    return protocol.downlink.bits(task.dims)


def make_seeds(
    protocol: Protocol,
    task: Task,
    device: int,
    images: NDArray[np.uint8],
    labels: NDArray[np.int32],
) -> Seeds | None:
    """The seeds of one device: the same whenever it makes them."""
    if protocol.collect_seeds is None:
        return None
    rng = stream(task.seed, "seeds", device)
    return protocol.collect_seeds(rng, images, labels, task.config.seeding)


def encode_upload(protocol: Protocol, task: Task, result: Knowledge, seeds: Seeds | None) -> bytes:
    """A device's upload: its weights or outputs, then its seeds where they are due."""
    data = protocol.uplink.encode(protocol.uplink.pick(result), task.dims)
    if seeds is not None:
        data += protocol.seed_payload(task.config.seeding).encode(seeds, task.dims)
    return data


def decode_upload(
    protocol: Protocol, task: Task, data: bytes, samples: int, with_seeds: bool
) -> Upload:
    """What the server reads from an upload; raises ``PayloadError`` for bytes that are not one."""
    cut = -(-protocol.uplink.bits(task.dims) // 8)
    if not with_seeds and len(data) > cut:
        raise PayloadError(f"{len(data)} bytes, expected {cut}")
    seeds = None
    if with_seeds:
        seeds = protocol.seed_payload(task.config.seeding).decode(data[cut:], task.dims)
    return Upload(protocol.uplink.decode(data[:cut], task.dims), samples, seeds)


def global_update(
    protocol: Protocol,
    task: Task,
    state: ServerState,
    inbox: Mapping[int, Upload],
    round_number: int,
) -> ServerState:
    """The server's part of a round: take in new seeds, then the protocol's own step."""
    new = {d: upload.seeds for d, upload in inbox.items() if upload.seeds is not None}
    if new:
        state = replace(state, seeds={**state.seeds, **new}, seed_set=None)
    if protocol.prepare_seeds is not None and state.seed_set is None:
        state = replace(state, seed_set=protocol.prepare_seeds(state.seeds, task))
    return protocol.server_step(state, inbox, state.seed_set, task, round_number)


def encode_download(protocol: Protocol, task: Task, state: ServerState) -> bytes:
    """The server's multicast: its global weights or outputs."""
    weights = None if state.weights is None else task.flatten(state.weights)
    value = protocol.downlink.pick(Knowledge(weights, state.outputs))
    return protocol.downlink.encode(value, task.dims)


def decode_download(protocol: Protocol, task: Task, data: bytes) -> Knowledge:
    """What a device reads from the multicast: the part that it replaces of its own."""
    return protocol.downlink.place(protocol.downlink.decode(data, task.dims))
