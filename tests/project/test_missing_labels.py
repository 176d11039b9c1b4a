"""The figures of decision 35 are those of its records."""

from benchmarks.missing_labels import machines_table, over_fl8, partitions_table, rows

from places import ROOT


def test_the_page_has_the_figures_of_its_records() -> None:
    runs = rows(ROOT / "results" / "missing_labels" / "runs.jsonl")
    page = (ROOT / "docs" / "decisions" / "35-labels-held.md").read_text()
    tables = [machines_table(runs), partitions_table(runs)]
    for line in [*"\n".join(tables).splitlines(), *over_fl8(runs)]:
        assert line in page
