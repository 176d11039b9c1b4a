"""``config.toml`` of a run, which a checksum in its first line holds to what it was at first."""

import hashlib
from pathlib import Path

from mix2fld.config import FORMAT, Config, dump_config, named_config, read_config_file
from mix2fld.errors import InputError

SEAL = "# checksum "


def dump_sealed_config(config: Config) -> bytes:
    """The bytes of the file."""
    text = f"format = {FORMAT}\n{dump_config(config)}"
    return f"{SEAL}{_checksum(text)}\n{text}".encode()


def load_sealed_config(path: Path) -> Config:
    """The settings of a run; one that was changed is refused, one of old has no checksum."""
    data = read_config_file(path)
    text = data.decode(errors="replace")
    first, _, rest = text.partition("\n")
    if "format = " in text.partition("[")[0] and first != f"{SEAL}{_checksum(rest)}":
        raise InputError(
            f"{path}: was changed or damaged after its run began; put it back as it was, or give "
            "--overwrite to play the run anew"
        )
    return named_config(path, data)


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
