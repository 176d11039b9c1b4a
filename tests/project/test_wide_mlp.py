"""The figures of a wide model with few bits are those of their records."""

from benchmarks.wide_mlp import table

from places import ROOT


def test_the_page_has_the_figures_of_its_records() -> None:
    page = (ROOT / "docs" / "howto" / "features.md").read_text()
    assert table(ROOT / "results" / "wide_mlp" / "runs.jsonl") in page
