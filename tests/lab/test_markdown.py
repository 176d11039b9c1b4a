"""Tables in Markdown."""

import pytest

from mix2fld_lab.markdown import markdown_table


def test_a_table_has_a_header_and_a_line_for_each_row() -> None:
    made = markdown_table(["protocol", "bits"], [("FL", "8"), ("FD", "2")])
    assert made == "| protocol | bits |\n|---|---|\n| FL | 8 |\n| FD | 2 |"


def test_a_row_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="1 cells; must be 2"):
        markdown_table(["protocol", "bits"], [("FL",)])
