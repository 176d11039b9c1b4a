"""What is promised of formats, and the pages that promise it."""

import hashlib
import json
from pathlib import Path

from reliability.page import FORMATS_PAGE, PAGE, render, render_formats
from reliability.records import read_records
from reliability.targets import TARGETS

from mix2fld.codecs import FORMAT
from mix2fld.deploy import forms
from mix2fld.runs import checkpoint, records
from stored_runs import run_short

PAYLOADS_OF_FORMAT_1 = "1e8dcc0ef9bc0354"


def test_the_bytes_of_payloads_are_those_of_their_format() -> None:
    payloads = b"".join(TARGETS["payload"].seeds()[:7])  # those that the first version had
    assert FORMAT == 1
    assert hashlib.sha256(payloads).hexdigest()[:16] == PAYLOADS_OF_FORMAT_1


def test_the_numbers_of_formats() -> None:
    assert (records.FORMAT, checkpoint.FORMAT, forms.FORMAT) == (4, 4, 9)


def test_the_checksum_of_a_line_is_as_documented(tmp_path: Path) -> None:
    run_short(tmp_path, stop_after=2)
    before = ""
    for line in (tmp_path / "fl-s0" / "rounds.jsonl").read_text().splitlines():
        fields = json.loads(line)
        checksum = fields.pop("checksum")
        digest = hashlib.sha256((before + json.dumps(fields)).encode()).hexdigest()
        assert checksum == digest[:16]
        before = checksum


def test_pages_are_up_to_date() -> None:
    assert PAGE.read_text() == render(read_records())
    assert FORMATS_PAGE.read_text() == render_formats()


def test_the_records_are_of_the_full_forms() -> None:
    found = read_records()
    assert found["crash"]["kills"] >= 100
    assert found["crash"]["identical"] >= len(found["crash"]["group"])
    assert all(of["inputs"] >= 100_000 for of in found["fuzz"]["mutation"].values())
    assert set(found["fuzz"]["mutation"]) == set(TARGETS)
    assert found["faults"]["survived"] >= 1000
    assert found["soak"]["minutes"] >= 60
    assert found["soak"]["open_files"]["end"] <= found["soak"]["open_files"]["first"]
