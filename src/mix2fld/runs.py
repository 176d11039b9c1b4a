"""A run on disk: ``config.toml``, ``rounds.jsonl``, ``checkpoint.safetensors``, ``summary.json``.

Every round is appended and synced before the checkpoint that includes it replaces the last one, so
at any instant the folder holds a state to go on from.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from mix2fld.clock import Clock
from mix2fld.config import Config, dump_config, field_names, load_config, mixing_condition
from mix2fld.errors import InputError
from mix2fld.files import write_atomically
from mix2fld.rounds import RoundInfo, RunState
from mix2fld.types import Seeds, ServerState, Weights

FORMAT = 1


@dataclass(frozen=True)
class RunResult:
    """One finished run: its config, its rounds as recorded, its summary."""

    config: Config
    rounds: list[dict[str, Any]]
    summary: dict[str, Any]


class RunFolder:
    """The files of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._config = path / "config.toml"
        self._rounds = path / "rounds.jsonl"
        self._checkpoint = path / "checkpoint.safetensors"
        self._summary = path / "summary.json"

    def check(self, config: Config) -> None:
        """Refuse a folder that cannot be written or holds anything but this run."""
        parent = next(folder for folder in (self.path, *self.path.parents) if folder.exists())
        if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
            raise InputError(f"out = {self.path}: {parent} is not a folder that can be written to")
        if self._config.exists():
            _refuse_other_config(self.path, load_config(self._config), config)
        elif self.path.exists() and any(self.path.iterdir()):
            raise InputError(f"out = {self.path}: holds other files; name another folder")

    def prepare(self, config: Config) -> None:
        """Make the folder for this config, if it is not there yet."""
        self.check(config)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if not self._config.exists():
                write_atomically(self._config, dump_config(config).encode())
        except OSError as error:
            raise InputError(f"out = {self.path}: cannot be written ({error.strerror})") from None

    def clear(self) -> None:
        """Remove a run, and only the files of a run."""
        for file in (self._summary, self._checkpoint, self._rounds, self._config):
            file.unlink(missing_ok=True)

    def append(self, info: RoundInfo, state: RunState) -> None:
        """Keep a finished round and the state after it."""
        line = json.dumps(asdict(info)) + "\n"
        with self._rounds.open("ab") as file:
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())
        write_atomically(self._checkpoint, _dump_state(state))

    def resume(self, like: RunState) -> tuple[RunState, list[dict[str, Any]]]:
        """The state to go on from, and the rounds before it; ``like`` is the state at the start."""
        state = like
        if self._checkpoint.exists():
            try:
                state = _load_state(self._checkpoint, like)
            except (SafetensorError, KeyError, ValueError, OSError) as error:
                raise InputError(f"{self._checkpoint}: damaged checkpoint ({error})") from None
        lines = self._rounds.read_bytes().splitlines(keepends=True) if self._rounds.exists() else []
        kept = lines[: state.round_number]
        if len(kept) < state.round_number:
            raise InputError(
                f"{self._rounds}: holds {len(kept)} rounds, the checkpoint is of round "
                f"{state.round_number}"
            )
        if len(lines) > len(kept):
            write_atomically(self._rounds, b"".join(kept))
        return state, [json.loads(line) for line in kept]

    def finished(self) -> RunResult | None:
        """The run that the folder holds, if it was played to its end."""
        if not self._summary.exists():
            return None
        lines = self._rounds.read_text(encoding="utf-8").splitlines()
        summary = json.loads(self._summary.read_text(encoding="utf-8"))
        return RunResult(load_config(self._config), [json.loads(line) for line in lines], summary)

    def finish(self, summary: dict[str, Any]) -> None:
        """Write the summary; a folder that has one is a finished run."""
        write_atomically(self._summary, (json.dumps(summary, indent=2) + "\n").encode())


def summarise(
    config: Config, rounds: Sequence[dict[str, Any]], reference: int, kernel: str
) -> dict[str, Any]:
    """What ``summary.json`` says of a finished run: its records, added up."""
    last = rounds[-1]["accuracy"]
    accuracies = np.array(last["devices"])
    converged = next((info for info in rounds if info["converged"]), None)
    done = len(rounds) if converged is None else converged["round"]

    def total(group: str, name: str, upto: int = len(rounds)) -> Any:
        return sum(info[group][name] for info in rounds[:upto])

    return {
        "format": FORMAT,
        "protocol": config.protocols[0],
        "seed": config.seed[0],
        "rounds": len(rounds),
        "converged_round": None if converged is None else done,
        "accuracy": {
            "mean": float(accuracies.mean()),
            "std": float(accuracies.std()),
            "min": float(accuracies.min()),
            "max": float(accuracies.max()),
            "reference": last["reference"],
            "global": last["global"],
        },
        "reference_device": reference,
        "kernel": kernel,
        "uploads": {name: total("uploads", name) for name in ("attempted", "delivered")},
        "downloads": {name: total("downloads", name) for name in ("attempted", "delivered")},
        "bits": {name: total("bits", name) for name in ("up", "down")},
        "seconds": {name: total("seconds", name) for name in ("communication", "computing")},
        "seeds": {**rounds[-1]["seeds"], "condition": mixing_condition(config.seeding.ratios)},
        "seconds_to_converge": None
        if converged is None
        else {name: total("seconds", name, done) for name in ("communication", "computing")},
    }


def _refuse_other_config(path: Path, found: Config, wanted: Config) -> None:
    for name, section in field_names().items():
        old, new = (
            getattr(getattr(config, section) if section else config, name)
            for config in (found, wanted)
        )
        if old != new:
            raise InputError(
                f"out = {path}: holds a run with {name} = {old}, not {new}; "
                "name another folder, or give --overwrite to replace the run"
            )


def _dump_state(state: RunState) -> bytes:
    server = state.server
    tensors = {"teachers": state.teachers, "seeds_due": state.seeds_due}
    tensors |= _numbered("weights", state.weights)
    tensors |= _numbered("server_weights", server.weights)
    if server.outputs is not None:
        tensors["server_outputs"] = server.outputs
    for device, seeds in server.seeds.items():
        tensors[f"seed_images.{device}"] = seeds.images
        tensors[f"seed_labels.{device}"] = seeds.labels
    scalars = {
        "format": FORMAT,
        "round": state.round_number,
        "updates": server.updates,
        "clock": [state.clock.communication, state.clock.computing],
    }
    contiguous = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    return bytes(save(contiguous, metadata={"state": json.dumps(scalars)}))


def _load_state(path: Path, like: RunState) -> RunState:
    with safe_open(path, framework="numpy") as file:
        scalars = json.loads(file.metadata()["state"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    devices = (int(name.split(".")[1]) for name in tensors if name.startswith("seed_images."))
    server = ServerState(
        weights=_rebuilt("server_weights", tensors, like.weights),
        outputs=tensors.get("server_outputs"),
        seeds={
            device: Seeds(tensors[f"seed_images.{device}"], tensors[f"seed_labels.{device}"])
            for device in sorted(devices)
        },
        updates=scalars["updates"],
    )
    return RunState(
        round_number=scalars["round"],
        weights=_rebuilt("weights", tensors, like.weights),
        teachers=tensors["teachers"],
        seeds_due=tensors["seeds_due"],
        server=server,
        clock=Clock(*scalars["clock"]),
    )


def _numbered(name: str, weights: Weights | None) -> dict[str, Any]:
    leaves = jax.tree.leaves(weights)
    return {f"{name}.{number}": np.asarray(leaf) for number, leaf in enumerate(leaves)}


def _rebuilt(name: str, tensors: dict[str, Any], like: Weights) -> Weights | None:
    if f"{name}.0" not in tensors:
        return None
    leaves, structure = jax.tree.flatten(like)
    numbered = [tensors[f"{name}.{number}"] for number in range(len(leaves))]
    return jax.tree.unflatten(structure, numbered)
