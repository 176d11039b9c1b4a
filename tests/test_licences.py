"""The page of licences says what the bill of materials says, of the pinned packages."""

from pathlib import Path

from reliability.licences import licence_of, pinned, render

BILL = {
    "specVersion": "1.6",
    "components": [
        {"name": "An_Own.Name", "version": "1.0", "licenses": [{"license": {"id": "MIT"}}]},
        {"name": "other", "version": "2.1", "licenses": [{"expression": "MIT OR Apache-2.0"}]},
        {"name": "unpinned", "version": "3"},
    ],
}


def test_pinned_packages_are_listed(tmp_path: Path) -> None:
    (tmp_path / "pins.txt").write_text("# why\nan-own-name==1.0\nother==2.0\nabsent==4\n")
    page = render(BILL, pinned(tmp_path / "pins.txt"))
    assert "| An_Own.Name | 1.0 | MIT |" in page
    assert "| other | 2.1 (pinned: 2.0) | MIT OR Apache-2.0 |" in page
    assert "unpinned" not in page
    assert "not installed where the bill was made: absent." in page
    assert "2 of 3 pinned packages" in page


def test_a_licence_is_named_once_and_in_one_line() -> None:
    text = {"license": {"name": "Custom licence\nand all of its text"}}
    approved = {"license": {"name": "License :: OSI Approved :: BSD License"}}
    assert licence_of({"licenses": [text, text, approved]}) == "Custom licence, BSD License"
    assert licence_of({"licenses": []}) == licence_of({}) == "not stated"
