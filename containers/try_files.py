"""The files of a trial of the images: samples of two devices, and the config of a run."""

import sys
from pathlib import Path

import numpy as np
from reliability.toy import toy_config, toy_dataset

from mix2fld.data import load_dataset
from mix2fld.runs.config_file import dump_config
from mix2fld_lab.trials.trial import write_device_files


def main(folder: Path) -> None:
    """Write them; in the server's image, the dataset lies in /data."""
    data, toy = folder / "data", toy_dataset()
    data.mkdir()
    names = ("train_inputs", "train_labels", "test_inputs", "test_labels")
    np.savez(data / "toy.npz", **{name: getattr(toy, name) for name in names})
    fields = {"protocol": "fl", "devices": 2, "rounds": 3, "kernel": "native"}
    here = toy_config(dataset=str(data / "toy.npz"), **fields)
    write_device_files(folder, here, load_dataset(here.data))
    there = here.replace(dataset="/data/toy.npz", computing_time="measured")
    (data / "run.toml").write_text(dump_config(there), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
