"""Makes the run folders beside it, with a version that writes format 2.

In a checkout of commit b67bba7, with today's ``tests/toy_models.py`` in place of its own:

    PYTHONPATH=src:tests python make.py FOLDER
"""

import sys
from pathlib import Path

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
            protocols=protocol,
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


if __name__ == "__main__":
    main(Path(sys.argv[1]))
