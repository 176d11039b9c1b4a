"""Figures for papers: every chart, in three formats, one column wide, fonts inside."""

import re
from pathlib import Path

import pytest
from PIL import Image

from mix2fld.loading import require_runs
from mix2fld.report.paper import COLUMN, draw_all
from stored_runs import play


@pytest.fixture(scope="module")
def figures(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("figures")
    draw_all(require_runs([runs]), folder)
    return folder


def test_every_chart_comes_in_every_format(figures: Path) -> None:
    names = {path.stem for path in figures.iterdir()}
    curves = {
        f"curves-{measure}-{axis}"
        for measure in ("devices", "reference", "server")
        for axis in ("seconds", "air", "rounds", "bits")
    }
    assert names == curves | {"time", "payload", "deliveries", "devices", "labels", "samples"}
    for name in names:
        assert (figures / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert b"<svg" in (figures / f"{name}.svg").read_bytes()
        assert (figures / f"{name}.pdf").read_bytes().startswith(b"%PDF")


def test_a_figure_is_one_column_wide(figures: Path) -> None:
    for path in figures.glob("*.pdf"):
        box = re.search(rb"/MediaBox \[ ?0 0 ([\d.]+) ", path.read_bytes())
        assert box is not None
        assert float(box[1]) == pytest.approx(72 * COLUMN, abs=0.5)
    with Image.open(figures / "time.png") as picture:
        assert picture.width == pytest.approx(300 * COLUMN, abs=1)


def test_fonts_are_inside(figures: Path) -> None:
    for path in figures.glob("*.pdf"):
        data = path.read_bytes()
        assert b"/FontFile2" in data
        assert b"/Subtype /Type3" not in data
    for path in figures.glob("*.svg"):
        assert b"font-family" not in path.read_bytes()


def test_two_settings_have_figures_of_their_own(tmp_path: Path) -> None:
    play(tmp_path / "a", protocols="fl")
    play(tmp_path / "b", protocols="fl", devices=3, dataset=str(tmp_path / "a" / "toy.npz"))
    drawn = {path.stem for path in draw_all(require_runs([tmp_path]), tmp_path / "figures")}
    assert {"deliveries-setting1", "deliveries-setting2", "labels-setting1"} <= drawn
    assert "samples-setting1" not in drawn
