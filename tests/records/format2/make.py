"""Makes the run folders beside it, with a version that writes format 2.

In a checkout of commit b67bba7, with today's ``tests/toy_models.py`` in place of its own:

    PYTHONPATH=src:tests python make.py FOLDER
"""

import os
import shutil
import sys
from pathlib import Path

import numpy as np
from flwr.app import Context, Message
from mix2fld.playing import Watcher
from mix2fld.runner import run

from toys import toy_config, toy_dataset


class StopAfter(Watcher):
    def __init__(self, rounds: int) -> None:
        self.rounds = rounds

    def round_played(self, config: object, info: object) -> None:
        if info.round == self.rounds:
            raise KeyboardInterrupt


def main(folder: Path) -> None:
    for protocol in ("fl", "mix2fld"):
        config = toy_config(
            protocol=protocol,
            rounds=4,
            model="toy_models:regression",
            link="rayleigh",
            max_slots=1,
            downlink_power_dbm=30,
            local_steps=20,
            server_steps=10,
            seed_samples=4,
            inverse_samples=8,
            curve_points=2,
        )
        run(config, folder / "finished", dataset=toy_dataset(), watcher=Watcher())
        for name, rounds in (("early", 2), ("late", 3)):
            try:
                run(config, folder / name, dataset=toy_dataset(), watcher=StopAfter(rounds))
            except KeyboardInterrupt:
                print(f"{protocol} stopped after round {rounds}")


def deploy(folder: Path) -> None:
    """A deployed run, stopped in round 3; device 3 has not been connected so far."""
    sys.path.append(str(Path("tests").resolve()))
    os.chdir(folder)
    from deploy.grid import InProcessGrid
    from deploy.lab import play_in_process
    from mix2fld.deploy.client_app import app

    data = toy_dataset()
    arrays = ("train_inputs", "train_labels", "test_inputs", "test_labels")
    np.savez("toy.npz", **{name: getattr(data, name) for name in arrays})
    config = toy_config(
        protocol="mix2fld",
        rounds=4,
        model="toy_models:regression",
        dataset="toy.npz",
        computing_time="measured",
        seed_samples=4,
        inverse_samples=8,
    )

    def client(message: Message, context: Context) -> Message:
        if message.metadata.group_id == "3":
            raise KeyboardInterrupt
        return app(message, context)

    def prepare(grid: InProcessGrid) -> None:
        grid.is_away = lambda device: device == 3

    try:
        play_in_process(folder / "devices", config, client, prepare=prepare)
    except KeyboardInterrupt:
        (folder / "deployed").mkdir(exist_ok=True)
        shutil.move(folder / "devices" / "runs" / config.run_name, folder / "deployed")
        shutil.rmtree(folder / "devices")
        Path("toy.npz").unlink()
        print("deployed run stopped in round 3")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    deploy(Path(sys.argv[1]).resolve())
