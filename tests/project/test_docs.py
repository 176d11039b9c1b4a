"""Documentation stays consistent with the code."""

import importlib
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from mix2fld import __version__
from mix2fld.cli.commands import COMMANDS
from mix2fld.data import PARTITIONS
from mix2fld.protocols.table import PROTOCOLS
from places import ROOT

PAGES = [
    ROOT / "README.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent.name != "site"),
]
MAP = (ROOT / "docs" / "reference" / "paper_map.md").read_text()
ROWS = re.findall(r"^\| ([^|]+) \| [^|]+ \| `(mix2fld[\w.]+)` \|$", MAP, re.MULTILINE)


def resolve(path: str) -> object:
    """Return a module, a name within one, or a method of a class within one."""
    parts = path.split(".")
    for split in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:split]))
        except ModuleNotFoundError:
            continue
        for name in parts[split:]:
            found = getattr(found, name)
        return found
    raise AssertionError(f"{path} does not exist")


@pytest.mark.parametrize(("place", "path"), ROWS)
def test_every_row_of_the_paper_map_is_true(place: str, path: str) -> None:
    found = resolve(path)
    assert found.__doc__
    if place.startswith("Eq."):
        number = place.removeprefix("Eq. ")
        assert re.search(rf"Eqs?\..*\b{number}\b", found.__doc__), f"{path} does not cite {place}"


def test_every_equation_is_on_the_map() -> None:
    assert {place for place, _ in ROWS} >= {f"Eq. {number}" for number in range(1, 9)}


@pytest.mark.parametrize("page", PAGES)
def test_links_between_pages_are_valid(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_first_page_stays_within_four_screens() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


def test_the_index_of_decisions_has_the_titles_of_its_pages() -> None:
    folder = ROOT / "docs" / "decisions"
    index = re.findall(
        r"^\| (\d+) \| \[(.*)\]\((.*?)\) \|", (folder / "README.md").read_text(), re.MULTILINE
    )
    assert [page for _, _, page in index] == sorted(
        path.name for path in folder.glob("*.md") if path.name != "README.md"
    )
    for number, title, page in index:
        assert (folder / page).read_text().splitlines()[0] == f"# {number}. {title}"


def test_the_reference_lists_every_command_and_the_data_page_every_partition() -> None:
    commands = (ROOT / "docs" / "reference" / "commands.md").read_text()
    for name, command in COMMANDS.items():
        for subcommand in command.homes:
            assert f"| `mix2fld {name} {subcommand}".rstrip() in commands
    data = (ROOT / "docs" / "howto" / "data.md").read_text()
    table = data.split("| partition |")[1].split("\n\n")[0]
    assert set(re.findall(r"^\| `([\w-]+)`", table, re.MULTILINE)) == set(PARTITIONS)


@pytest.mark.parametrize(
    ("record", "page", "maker"),
    [
        ("results/bench/bench.json", "docs/benchmarks.md", "benchmarks.report"),
        ("results/bench/growth.json", "docs/scaling.md", "benchmarks.growth_page"),
        ("results/bench/many.json", "docs/many_devices.md", "benchmarks.many_page"),
        ("results/bench/sensors.json", "docs/sensors.md", "benchmarks.sensors_page"),
        ("results/testbed/testbed.json", "docs/asymmetric_link.md", "mix2fld_lab.testbed_page"),
        ("results/records/waiting.json", "results/WAITING.md", "mix2fld_lab.reproduction.waiting"),
        ("results/records/air.json", "results/AIR.md", "mix2fld_lab.reproduction.air"),
        ("results/thin_wire/thin_wire.json", "docs/thin_wire.md", "benchmarks.thin_wire_page"),
    ],
)
def test_pages_made_from_records_are_up_to_date(record: str, page: str, maker: str) -> None:
    render = importlib.import_module(maker).render
    assert (ROOT / page).read_text() == render(json.loads((ROOT / record).read_text()))


@pytest.mark.parametrize(
    ("page", "maker", "records"),
    [
        ("docs/cluster_scaling.md", "benchmarks.cluster_page:render", "results/bench/cluster.json"),
        ("docs/frozen_features.md", "mix2fld_lab.frozen_features:page", None),
        ("docs/lorawan.md", "benchmarks.lorawan:page", None),
        ("docs/robustness.md", "benchmarks.robustness:page", None),
        ("results/NUMBERS.md", "mix2fld_lab.numbers:page", "results/numbers/buildings.jsonl"),
        ("results/RL.md", "mix2fld_lab.rl.page:page", "results/rl/records.jsonl"),
        ("results/TEXT.md", "mix2fld_lab.next_character:page", "results/text/roles.jsonl"),
    ],
)
def test_pages_are_what_their_makers_make_of_their_records(
    page: str, maker: str, records: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    module, _, name = maker.partition(":")
    given = [] if records is None else [loaded(ROOT / records)]
    assert (ROOT / page).read_text() == getattr(importlib.import_module(module), name)(*given)


def loaded(records: Path) -> Any:
    """A record; or one in each line."""
    if records.suffix == ".json":
        return json.loads(records.read_text())
    return [json.loads(line) for line in records.read_text().splitlines()]


def test_the_python_of_the_readme_runs() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "mix2fld" in done.stdout


def test_the_table_of_protocols_has_every_protocol() -> None:
    table = (ROOT / "docs" / "reference" / "protocols.md").read_text()
    rows = re.findall(r"^\| (`[^|]+`) \|", table, re.MULTILINE)
    assert set(re.findall(r"`([\w-]+)`", " ".join(rows))) == set(PROTOCOLS)


def test_every_page_is_in_the_site() -> None:
    index = (ROOT / "docs" / "site" / "index.md").read_text()
    for page in sorted((ROOT / "docs").rglob("*.md")):
        if page.parent.name not in ("decisions", "site"):
            name = re.escape(str(page.relative_to(ROOT).with_suffix("")))
            assert re.search(rf"^(.* <)?{name}>?$", index, re.MULTILINE), page.name


def test_contributing_shows_the_picture_that_imports_are_checked_with() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (layers,) = (one["layers"] for one in contracts["contracts"] if one["type"] == "layers")
    text = (ROOT / "CONTRIBUTING.md").read_text()
    picture = text.split("## Imports point one way")[1].split("\n\n")[1]
    drawn = [re.split(r" {2,}", line.strip())[0] for line in picture.splitlines()]
    assert drawn == layers


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/howto/extending.md"])
def test_files_that_pages_name_exist(page: str) -> None:
    for name in re.findall(r"`((?:\w+/)+\w+\.py)`", (ROOT / page).read_text()):
        homes = (ROOT / "src" / "mix2fld", ROOT / "src", ROOT)
        assert any((home / name).exists() for home in homes), name


def test_every_place_names_the_same_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == __version__
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text()
    major, minor = (int(part) for part in __version__.split(".")[:2])
    baseline = (ROOT / "baselines" / "flower" / "pyproject.toml").read_text()
    assert f"mix2fld[flower]>={major}.{minor},<{major}.{minor + 1}" in baseline
    releases = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert [name for name in releases if "unreleased" in name] == [f"{__version__}, unreleased"]


def test_no_page_has_the_marks_of_a_conflict() -> None:
    for page in [*PAGES, *ROOT.glob("*.md"), *(ROOT / "results").glob("*.md")]:
        assert not re.search(r"^(<{7}|>{7}|={7}$)", page.read_text(), re.MULTILINE), page.name
