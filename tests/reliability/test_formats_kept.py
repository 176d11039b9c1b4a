"""What is promised of formats, and the pages that promise it."""

import hashlib
import json
from pathlib import Path

from reliability.page import FORMATS_PAGE, render_formats
from reliability.targets import TARGETS
from test_damage import play

from mix2fld.link.payload import FORMAT

PAYLOADS_OF_FORMAT_1 = "1e8dcc0ef9bc0354"


def test_the_bytes_of_payloads_are_those_of_their_format() -> None:
    payloads = b"".join(TARGETS["payload"].seeds())
    assert FORMAT == 1
    assert hashlib.sha256(payloads).hexdigest()[:16] == PAYLOADS_OF_FORMAT_1


def test_the_checksum_of_a_line_is_as_documented(tmp_path: Path) -> None:
    play(tmp_path, stop_after=2)
    before = ""
    for line in (tmp_path / "fl-s0" / "rounds.jsonl").read_text().splitlines():
        fields = json.loads(line)
        checksum = fields.pop("checksum")
        digest = hashlib.sha256((before + json.dumps(fields)).encode()).hexdigest()
        assert checksum == digest[:16]
        before = checksum


def test_the_page_of_formats_is_up_to_date() -> None:
    assert FORMATS_PAGE.read_text() == render_formats()
