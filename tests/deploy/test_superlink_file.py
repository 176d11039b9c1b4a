"""What nodes push cannot fill the disk: the file of the SuperLink has a limit."""

import re
import subprocess
import sys
from pathlib import Path

from mix2fld.cli import main

LIMIT = 1 << 20
PUSHES = f"""
import resource, sqlite3, sys
resource.setrlimit(resource.RLIMIT_FSIZE, ({LIMIT}, {LIMIT}))
database = sqlite3.connect(sys.argv[1])
database.execute("create table pushed (content blob)")
try:
    while True:
        with database:
            database.execute("insert into pushed values (?)", (bytes(50_000),))
except sqlite3.OperationalError as error:
    print(error)
with database:
    database.execute("delete from pushed where rowid < 5")
with database:
    database.execute("insert into pushed values (?)", (bytes(50_000),))
print(database.execute("pragma integrity_check").fetchone()[0])
"""


def test_a_database_at_its_limit_refuses_and_is_intact(tmp_path: Path) -> None:
    """In Python, as the SuperLink is: the signal that would end other programs is ignored."""
    file = tmp_path / "superlink.db"
    command = [sys.executable, "-c", PUSHES, str(file)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert said in (["disk I/O error", "ok"], ["database or disk is full", "ok"])
    assert file.stat().st_size <= LIMIT


def test_the_unit_leaves_room_for_the_messages_of_its_fleet(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    main(
        ["deploy", "keys", "127.0.0.1", "--devices", "4", "--protocols", "fl", "--out", str(folder)]
    )
    unit = (folder / "mix2fld-superlink.service").read_text()
    (largest,) = re.findall(r"client_max_body_size (\d+)k", (folder / "nginx.conf").read_text())
    (limit,) = re.findall(r"^LimitFSIZE=(\d+)$", unit, re.MULTILINE)
    assert int(limit) >= (1 << 30) + 8 * 4 * int(largest) * 1024
