"""The page of licences says what the bill of materials says, of the pinned packages."""

import re
from pathlib import Path

from reliability.licences import licence_of, pinned, render

from places import ROOT
from reliability import lock

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


def test_the_lock_has_a_hash_for_each_package_and_the_pinned_versions() -> None:
    pins = pinned(ROOT / "constraints.txt")
    lines = (ROOT / "containers" / "requirements.txt").read_text().splitlines()
    locked = [line for line in lines if not line.startswith("#")]
    assert len(locked) > 20
    for line in locked:
        found = re.fullmatch(r"(\S+)==(\S+) --hash=sha256:[0-9a-f]{64}", line)
        assert found, line
        name, version = found.groups()
        assert pins[re.sub(r"[-_.]+", "-", name).lower()] == version


def test_a_report_of_pip_becomes_a_lock() -> None:
    def package(name: str, digest: str) -> dict[str, object]:
        archive = {"archive_info": {"hashes": {"sha256": digest}}, "url": "https://registry"}
        return {"metadata": {"name": name, "version": "1.2"}, "download_info": archive}

    where = {"python_version": "3.11", "sys_platform": "linux", "platform_machine": "x86_64"}
    own = {"metadata": {"name": "mix2fld", "version": "0.2"}, "download_info": {}}
    report = {"environment": where, "install": [own, package("b", "0b"), package("A", "0a")]}
    text = lock.render(report)
    assert text.splitlines()[2:] == ["A==1.2 --hash=sha256:0a", "b==1.2 --hash=sha256:0b"]
    assert "registry" not in text
