"""What a record was made with, and what pages say of it."""

import re

from mix2fld import __version__
from mix2fld_lab.made_with import UNKNOWN, made_with, said_of


def test_a_record_names_version_and_commit() -> None:
    made = made_with()
    assert made["version"] == __version__
    assert re.fullmatch(r"[0-9a-f]{12}( with changes)?", made.get("commit", "0" * 12))


def test_a_page_says_that_its_record_is_older_than_the_code() -> None:
    today = {"made_with": {"version": __version__, "commit": "abc"}}
    before = {"made_with": {"version": "0.1.0"}}
    older = f"; older than this version, {__version__}."
    assert said_of(today, today) == f"Recorded with mix2fld {__version__} (commit abc)."
    assert said_of(before) == f"Recorded with mix2fld 0.1.0{older}"
    assert said_of({}) == f"Recorded with mix2fld {UNKNOWN}{older}"
    assert said_of(before, {}) == f"Recorded with mix2fld 0.1.0 and {UNKNOWN}{older}"
