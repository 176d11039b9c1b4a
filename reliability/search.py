"""One target under atheris: ``python -m reliability.search config -runs=1000 corpus/``."""

import sys

import atheris

with atheris.instrument_imports(include=["mix2fld", "tomllib", "zipfile", "tarfile"]):
    from reliability.fuzz import try_one
    from reliability.targets import TARGETS


def main() -> None:
    name, *options = sys.argv[1:]
    target = TARGETS[name]
    atheris.Setup(
        [sys.argv[0], "-max_len=20000", *options], lambda data: try_one(target, data) and None
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main()
