"""The command line with unusual streams and folders around it."""

import os
import subprocess
import sys
from pathlib import Path


def test_what_the_encoding_lacks_is_a_question_mark() -> None:
    code = "from mix2fld.cli import main; main(['--version']); print('0.9 \u00b1 0.1')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert done.stdout.endswith("0.9 ? 0.1\n"), done.stderr
