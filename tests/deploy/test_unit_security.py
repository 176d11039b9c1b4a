"""What systemd says of the units that ``mix2fld deploy keys`` writes, without starting them."""

import shutil
import subprocess
from pathlib import Path

import pytest

from mix2fld.deploy.units import unit

PARTS = ("superlink", "proxy", "node@", "broker", "front", "server", "device@")
MOST_EXPOSED = 20
"""In tenths; systemd calls 2.0 to 4.9 OK or medium, and a service without any limits 9.6 unsafe."""


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
@pytest.mark.parametrize("part", PARTS)
def test_a_unit_is_shut_off_from_the_machine(part: str, tmp_path: Path) -> None:
    file = tmp_path / f"mix2fld-{part.replace('@', '@1')}.service"
    file.write_text(unit(part, "example.org", 10, 1 << 20))
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager"]
    said = subprocess.run(
        [*command, f"--threshold={MOST_EXPOSED}", str(file)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert said.returncode == 0, said.stdout.strip().splitlines()[-1:]
    open_unit = tmp_path / "open.service"
    open_unit.write_text("[Service]\nExecStart=/bin/true\n")
    assert subprocess.run([*command, "--threshold=20", str(open_unit)], check=False).returncode
