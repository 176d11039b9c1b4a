"""Samples that are no images: drawn as lines, their privacy in their own units."""

from pathlib import Path

import numpy as np
import pytest

from mix2fld.data.samples import standardised
from mix2fld.report.html import write_report
from mix2fld.runs.reader import read_run, require_runs
from mix2fld.types import SampleFormat
from mix2fld_lab.figures import draw_gallery
from mix2fld_lab.gallery import drawn, gallery, is_image, lines, shown_range, units
from stored_runs import play
from toys import toy_dataset, toy_signals


@pytest.fixture(scope="module")
def signal_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("signals")
    fields = {"seed_bits": 12, "learning_rate": 1e-4, "seed_samples": 20}
    play(folder, toy_signals(), protocols=("fl", "mix2fld"), **fields)
    return folder / "runs"


def test_mixes_are_drawn_as_lines_and_measured_in_the_units_of_the_data(
    signal_runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mix2fld_lab.gallery.shown_range", lambda _: (-5.0, 65.0))
    shown = gallery(read_run(signal_runs / "mix2fld-s0"))
    assert shown["units"] == "in the units of the data"
    assert shown["samples"].startswith("float32 [12, 2] from ")
    assert shown["kind"] == "inverse"
    for card in shown["cards"]:
        for mix in card["mixes"]:
            one, two, mixed = (np.array(tile["lines"]) for tile in (*mix["raw"], mix["mixed"]))
            assert one.shape == (2, 12)
            np.testing.assert_allclose(mixed, 0.1 * one + 0.9 * two, atol=2)
            apart = min(np.linalg.norm((mixed - raw) * 70 / 1000) for raw in (one, two))
            assert mix["mixed"]["privacy"] == pytest.approx(np.log(apart), abs=0.1)
        for tile in card["made"]:
            assert np.array(tile["lines"]).shape == (2, 12)
    assert shown["privacy"]["mixed"]["count"] == 20 * shown["devices"]


def test_the_figure_of_samples_has_their_lines(signal_runs: Path) -> None:
    figure = draw_gallery(gallery(read_run(signal_runs / "mix2fld-s0")))
    drawn_lines = [len(axes.lines) for axes in figure.axes if axes.get_title()]
    assert drawn_lines
    assert set(drawn_lines) == {2}


def test_the_report_is_written(signal_runs: Path, tmp_path: Path) -> None:
    write_report(require_runs([signal_runs]), tmp_path / "report.html")
    assert '"lines":' in (tmp_path / "report.html").read_text()


def test_what_is_an_image_and_what_is_not() -> None:
    assert [is_image(SampleFormat(shape)) for shape in ((8, 8, 1), (8, 8, 3))] == [True, True]
    others = ((8, 8, 2), (8, 8), (5,), (2, 2, 2, 3))
    assert not any(is_image(SampleFormat(shape)) for shape in others)
    floats = SampleFormat((2, 2, 1), "float32", -1.0, 1.0)
    assert drawn(np.zeros((2, 2, 1)), floats, (-1, 1))["image"].startswith("data:image/png")
    assert units(SampleFormat((8, 8, 1))) == "pixels from 0 to 255"
    assert units(SampleFormat((9,))) == "values from 0 to 255"
    assert units(standardised(toy_signals()).samples) == "in standard deviations of each channel"
    assert shown_range(toy_dataset()) == (0, 255)


def test_lines_by_hand() -> None:
    window = np.array([[0.0, 5.0], [10.0, -3.0], [2.5, 99.0]])
    assert lines(window, (0.0, 10.0)) == [[0, 1000, 250], [500, 0, 1000]]
    assert lines(np.array([1.0, 2.0]), (0.0, 4.0)) == [[250, 500]]
    many = lines(np.zeros((1001, 20)), (-1.0, 1.0))
    assert len(many) == 8
    assert len(many[0]) == 167
    assert np.array(lines(np.zeros((3, 2, 4, 5)), (0.0, 1.0))).shape == (1, 120)
