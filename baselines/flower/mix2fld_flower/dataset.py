"""The samples of a client: its part of the paper's split, as a file of its own."""

import os
from pathlib import Path

from platformdirs import user_state_path

from mix2fld.config.settings import Config
from mix2fld.data import load_dataset
from mix2fld.deploy.settings import config_digest
from mix2fld_lab.trials.trial import write_device_file


def client_folder(config: Config, partition: int) -> Path:
    """Where a client keeps samples and state; another setting has another folder."""
    root = user_state_path("mix2fld") / "flower-baseline" / config_digest(config)
    return root / f"client-{partition}"


def samples_of(config: Config, partition: int) -> Path:
    """The file with the samples of a client, written when it is first asked for."""
    file = client_folder(config, partition) / "samples.npz"
    if not file.exists():
        unfinished = file.with_name(f"unfinished-{os.getpid()}.npz")
        write_device_file(unfinished, config, load_dataset(config.data), partition)
        unfinished.replace(file)
    return file
