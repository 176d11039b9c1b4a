"""The README: its tables and sentences with figures are those that the records yield."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from mix2fld.base.errors import InputError
from mix2fld_lab.reproduction.experiments import EXPERIMENTS
from mix2fld_lab.reproduction.frontier.headline import LINK_SETTING
from mix2fld_lab.reproduction.readme import with_sections
from mix2fld_lab.reproduction.results_folder import ResultsFolder
from places import ROOT

RESULTS = ResultsFolder(ROOT / "results")
README = (ROOT / "README.md").read_text(encoding="utf-8")
SECTIONS = ("verdicts", "finding", "headline", "relay", "claims")


def section(name: str) -> str:
    return README.split(f"<!-- {name} -->\n", 1)[1].split(f"\n<!-- end of {name} -->", 1)[0]


def all_sections(folder: ResultsFolder) -> dict[str, str]:
    return {**folder.headline_sections(), **folder.claims_sections()}


def records(name: str) -> dict[str, dict[str, list[dict[str, dict[str, dict[str, float]]]]]]:
    found = json.loads(RESULTS.records(name).read_text(encoding="utf-8"))["cells"]
    return {key.rsplit("/", 1)[1]: cell for key, cell in found.items()}


def test_the_readme_is_what_the_command_writes() -> None:
    sections = all_sections(RESULTS)
    assert set(sections) == set(SECTIONS)
    assert with_sections(README, sections) == README


BEHIND_THE_TABLE = ("frontier-mnist-non-iid-paper-link", "frontier-mnist-non-iid", "fig2c", "why")


def copied(path: Path, *names: str) -> ResultsFolder:
    """A folder with some of the records, and a README whose sections hold nothing yet."""
    folder = ResultsFolder(path / "results")
    folder.records("x").parent.mkdir(parents=True)
    for name in names:
        shutil.copy(RESULTS.records(name), folder.records(name))
    nothing = dict.fromkeys(SECTIONS, "nothing")
    folder.readme.write_text(with_sections(README, nothing), encoding="utf-8")
    folder.downlink.parent.mkdir()
    shutil.copy(RESULTS.downlink, folder.downlink)
    return folder


def written(folder: ResultsFolder) -> str:
    return folder.readme.read_text(encoding="utf-8")


def test_the_frontier_writes_its_sections(tmp_path: Path) -> None:
    folder = copied(tmp_path, *BEHIND_THE_TABLE)
    folder.write_frontier()
    assert section("headline") in written(folder)
    assert section("finding") in written(folder)
    assert section("claims") not in written(folder)


def test_a_frontier_without_the_records_leaves_the_readme_alone(tmp_path: Path) -> None:
    folder = copied(tmp_path, BEHIND_THE_TABLE[0])
    before = written(folder)
    folder.write_frontier()
    assert written(folder) == before


def test_the_ledger_writes_its_sections(tmp_path: Path) -> None:
    folder = copied(tmp_path, *EXPERIMENTS, "privacy", "host")
    shutil.copytree(RESULTS.path / "privacy", folder.path / "privacy")
    folder.write_ledger()
    assert section("verdicts") in written(folder)
    assert section("claims") in written(folder)
    assert section("headline") not in written(folder)


def test_other_records_make_another_table(tmp_path: Path) -> None:
    """Accuracies in one record are changed: the table and the sentence follow."""
    folder = copied(tmp_path, *BEHIND_THE_TABLE)
    path = folder.records(BEHIND_THE_TABLE[0])
    found = json.loads(path.read_text(encoding="utf-8"))
    for run in found["cells"][f"frontier/{LINK_SETTING}/murmur-200-edges"]["runs"]:
        run["summary"]["accuracy"]["mean"] -= 0.1
    path.write_text(json.dumps(found), encoding="utf-8")
    sections = folder.headline_sections()
    assert "came within 11.3 points of 8-bit FL" in sections["finding"]
    assert "| – | 93.7 | 85.3 |" in sections["headline"]


@pytest.mark.parametrize("name", SECTIONS)
def test_a_changed_figure_is_noticed(name: str) -> None:
    digit = re.search(r"\d", section(name))
    assert digit is not None
    place = README.index(section(name)) + digit.start()
    changed = f"{README[:place]}{(int(digit[0]) + 1) % 10}{README[place + 1 :]}"
    assert with_sections(changed, all_sections(RESULTS)) == README != changed


def test_a_section_without_an_end_is_refused() -> None:
    with pytest.raises(InputError, match="end of finding"):
        with_sections("<!-- finding -->\n", {"finding": "text"})
    assert with_sections("text", {"finding": "else"}) == "text"


def test_a_relay_by_an_independent_reading() -> None:
    """Its bits, and its accuracy: that with weights, but for the processor that ran it."""
    lines = (ROOT / "results" / "downlink" / "runs.jsonl").read_text().splitlines()
    runs = [run for run in map(json.loads, lines) if run["key"] == "murmur-200-edges"]
    weights = records("frontier-mnist-non-iid-paper-link")["murmur-200-edges"]["runs"]
    assert {f"{run['down']:,}" for run in runs} <= set(section("relay").split())
    assert f"reaches {100 * np.mean([run['mean'] for run in runs]):.1f} %" in section("relay")
    for run in runs:
        expected = weights[run["seed"]]["summary"]["accuracy"]["mean"]
        assert run["mean"] == pytest.approx(expected, abs=2e-3)


def test_the_first_table_by_an_independent_reading() -> None:
    """Accuracies, bits, seconds and joules of every row, from the file itself, over one link."""
    cells = records("frontier-mnist-non-iid-paper-link")
    rows = {line.split(" | ")[0].strip("| "): line for line in section("headline").splitlines()}
    names = {
        "FL 8-bit": ("fl8", "fl8-edges"),
        "EDEN, 0.1 bit": ("eden-0.1", "eden-0.1-edges"),
        "Murmur, 200 bits a round": ("murmur-200", "murmur-200-edges"),
        "FL": ("fl", None),
        "FD": ("fd", None),
        "Mix2FLD": ("mix2fld", None),
    }
    for title, (plain, edges) in names.items():
        summaries = [run["summary"] for run in cells[plain]["runs"]]

        def mean(*path: str, of: list[dict[str, dict[str, float]]] = summaries) -> float:
            return float(np.mean([one[path[0]][path[1]] for one in of]))

        values = [value.strip(" |‡") for value in rows[title].split(" | ")]
        assert values[2] == f"{mean('bits', 'up') / 10:,.0f}"
        assert values[3] == f"{mean('bits', 'down'):,.0f}"
        assert (
            values[4].split(" (")[0]
            == f"{100 * mean('uploads', 'delivered') / mean('uploads', 'attempted'):.1f} %"
        )
        assert values[5] == f"{mean('seconds', 'communication'):.2f}"
        assert values[6] == f"{(mean('joules', 'transmit') + mean('joules', 'receive')) / 10:.2f}"
        assert values[8] == f"{100 * mean('accuracy', 'mean'):.1f}"
        if edges:
            started = [run["summary"] for run in cells[edges]["runs"]]
            assert values[9] == f"{100 * mean('accuracy', 'mean', of=started):.1f}"


def test_mixfld_over_the_link_is_what_it_is_over_an_ideal_one() -> None:
    """Its row has no run over the link: with the paper's training both links give the same."""
    over_link, ideal = records("fig2c"), records("frontier-mnist-non-iid")
    for mixed, plain in (("mixfld-50", "mixfld-plain"), ("mix2fld-50-100", "mix2fld-plain")):
        after_five = [run["rounds"]["mean"][4] for run in over_link[mixed]["runs"]]  # type: ignore[index]
        reached = [run["summary"]["accuracy"]["mean"] for run in ideal[plain]["runs"]]
        assert after_five == pytest.approx(reached, abs=5e-6)
    for part in ("bits", "seconds", "uploads", "downloads"):
        spent = [
            [run["summary"][part] for run in over_link[name]["runs"]]
            for name in ("mixfld-50", "mix2fld-50-100")
        ]
        if part == "seconds":
            spent = [[one["communication"] for one in each] for each in spent]
        assert spent[0] == spent[1]


def test_the_terminal_output_is_that_of_the_first_seed() -> None:
    """Accuracies, uploads and bits; times and joules are those of the machine that ran it."""
    cells = records("fig2c")
    for title, key in (
        ("FL", "fl"), ("FD", "fd"), ("MixFLD", "mixfld-50"), ("Mix2FLD", "mix2fld-50-100"),
    ):  # fmt: skip
        one = cells[key]["runs"][0]["summary"]
        (line,) = re.findall(rf"^{title} +(\d.*)$", README, re.MULTILINE)
        accuracy = one["accuracy"]
        server = "" if accuracy["global"] is None else f"{100 * accuracy['global']:.1f}"
        expected = (
            f"{100 * accuracy['mean']:.1f} ± {100 * accuracy['std']:.1f} "
            f"{100 * accuracy['reference']:.1f} {server or '-'} "
            f"{one['uploads']['delivered']}/{one['uploads']['attempted']} "
            f"{one['bits']['up'] / 1e6:.2f} {one['bits']['down'] / 1e6:.2f}"
        )
        assert " ".join(line.split()).startswith(expected)


def test_no_page_claims_what_was_not_measured() -> None:
    pages = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("results/*.md")]
    for page in pages:
        text = " ".join(page.read_text(encoding="utf-8").split()).lower()
        for phrase in (
            "bits are enough", "bits per round are enough", "reproduces it in full",
            "the same search", "nothing was tuned", "more than the seeds differ",
        ):  # fmt: skip
            assert phrase not in text, f"{page.name}: {phrase}"
