"""``python -m mix2fld``."""

import os
import sys
from contextlib import suppress

with suppress(FileNotFoundError):  # the working folder was removed
    if sys.path[0] in ("", os.getcwd()):  # noqa: PTH109 (imports nothing): put there by -m
        del sys.path[0]

from mix2fld.cli import main

main()
