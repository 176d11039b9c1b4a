"""Figures for papers: every chart, in three formats, one column wide, fonts inside."""

import re
from pathlib import Path

import pytest
from PIL import Image

from mix2fld.protocols.table import PROTOCOLS
from mix2fld.report.page_data import page_data
from mix2fld.report.style import as_text
from mix2fld.runs.reader import require_runs
from mix2fld_lab.figures import COLUMN, charts, draw_all
from stored_runs import play

CURVES = {
    f"curves-{measure}-{axis}"
    for measure in ("devices", "reference", "server")
    for axis in ("seconds", "air", "rounds", "bits")
}
OTHERS = {"time", "payload", "deliveries", "devices", "labels", "samples"}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_text_in_the_colour_of_a_protocol_stands_out_from_white(protocol: str) -> None:
    colour = as_text(PROTOCOLS[protocol].colour)
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    assert 1.05 / (luminance + 0.05) >= 4.5


def test_dark_colours_are_kept_for_text() -> None:
    assert as_text("#882255") == "#882255"


def test_every_chart_comes_in_every_format_one_column_wide_with_its_fonts(
    runs: Path, tmp_path: Path
) -> None:
    draw_all(require_runs([runs / "fl-s0", runs / "mix2fld-s0"]), tmp_path)
    assert {path.stem for path in tmp_path.iterdir()} == CURVES | OTHERS
    for name in CURVES | OTHERS:
        check_pdf((tmp_path / f"{name}.pdf").read_bytes())
        drawing = (tmp_path / f"{name}.svg").read_bytes()
        assert b"<svg" in drawing
        assert b"font-family" not in drawing
        with Image.open(tmp_path / f"{name}.png") as picture:
            assert picture.width == pytest.approx(300 * COLUMN, abs=1)


def check_pdf(data: bytes) -> None:
    box = re.search(rb"/MediaBox \[ ?0 0 ([\d.]+) ", data)
    assert box is not None
    assert float(box[1]) == pytest.approx(72 * COLUMN, abs=0.5)
    assert b"/FontFile2" in data
    assert b"/Subtype /Type3" not in data


def test_the_same_runs_give_the_same_bytes(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = require_runs([runs / "fl-s0"])
    monkeypatch.setattr("mix2fld_lab.figures.charts", lambda data: list(charts(data))[:1])
    first, second = (draw_all(found, tmp_path / name) for name in "ab")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_two_settings_have_figures_of_their_own(tmp_path: Path) -> None:
    play(tmp_path / "a", protocols="fl")
    play(tmp_path / "b", protocols="fl", devices=3, dataset=str(tmp_path / "a" / "toy.npz"))
    named = dict(charts(page_data(require_runs([tmp_path]))))
    assert set(named) == CURVES | {"time", "payload"} | {
        f"{name}-setting{number}"
        for name in ("deliveries", "devices", "labels", "samples")
        for number in (1, 2)
    }
    figure = named["curves-devices-rounds"]()
    assert [axes.get_title() for axes in figure.axes] == ["devices 3", "devices 4"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["FL"]
    assert named["deliveries-setting2"]() is not None
    assert named["samples-setting1"]() is None
