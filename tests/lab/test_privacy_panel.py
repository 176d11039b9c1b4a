"""The privacy panel: the run's own mixes taken apart, and members found beside accuracy."""

import re
from pathlib import Path

import numpy as np
import pytest

from mix2fld.cli import main
from mix2fld.report.html import live_page, write_report
from mix2fld.runs.reader import FoundRuns, read_run, require_runs
from mix2fld_lab.audit.privacy_panel import LeakPoint, privacy_panel
from mix2fld_lab.audit.seed_attack import attack_seeds, flatten
from mix2fld_lab.gallery import received_samples

POINTS = (
    LeakPoint("mnist", "A & B", "mixed seeds 17.8 %", 0.178, False, 0.853, 330_000.0),
    LeakPoint("mnist", "DP", "guaranteed: ε = 8", 0.2, True, 0.943, 205_000.0),
    LeakPoint("mnist", "isolated", "nothing is sent", 0.0, False, 0.77, 0.0),
    LeakPoint("mnist", "unmeasured", "outputs 0.3 %", 0.003, False, None, None),
)


def test_the_parts_of_a_mix_add_up_to_what_was_uploaded(runs: Path) -> None:
    run = read_run(runs / "mix2fld-s0")
    assert run is not None
    received = received_samples(run)
    assert received is not None
    assert received.sources is not None
    parts = flatten(received)
    weight, rest = run.config.seeding.ratios
    seen = received.uploaded(parts.rows).reshape(len(parts.rows), -1) / 255
    inside = (parts.minor > 0) & (parts.minor < 1)
    again = weight * parts.minor + rest * parts.dominant
    np.testing.assert_allclose(again[inside], seen[inside], atol=1e-5)
    shown = attack_seeds(run)
    assert shown is not None
    assert shown["mixes"] == len(parts.rows)
    assert shown["identified"]["dominant"] > 0.9
    assert set(shown["cards"][0]["pictures"]) == {
        "upload", "minor", "dominant", "true minor", "true dominant",
    }  # fmt: skip


def test_the_panel_shows_both_and_escapes_what_it_is_given(runs: Path) -> None:
    panel = privacy_panel(require_runs([runs]), POINTS)
    assert panel.count("<img") == 5 * panel.count('<th scope="row">device ') > 0
    assert "separating the mixes" in panel
    assert "A &amp; B" in panel
    assert panel.count('class="bound"') == 2  # one in each chart
    assert panel.count('class="found"') == 3  # what uploads nothing has no bits to show
    assert "–" in panel
    assert "<script" not in panel


def test_without_an_audit_the_panel_says_how_to_make_one(runs: Path) -> None:
    assert "mix2fld privacy audit --of-run" in privacy_panel(require_runs([runs]))
    assert privacy_panel(require_runs([runs / "fl-s0"])) == ""
    assert 'id="privacy"' not in live_page()


def test_a_report_has_the_panel(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "report.html"
    main(["report", str(runs / "mix2fld-s0"), "-o", str(out)])
    assert '<section id="privacy"' in out.read_text()
    write_report(require_runs([runs / "fl-s0"]), out)
    assert '<section id="privacy"' not in out.read_text()
    with pytest.raises(SystemExit):
        main(["report", str(runs), "-o", str(out), "--audits", str(tmp_path / "none.json")])
    assert "cannot be read" in capsys.readouterr().err


def test_dots_that_overlap_do_not_hide_their_numbers() -> None:
    def point(share: float, accuracy: float) -> LeakPoint:
        return LeakPoint("toy", "Row", "words", share, False, accuracy, None)

    page = privacy_panel(FoundRuns(), [point(0.1, 0.9), point(0.1, 0.901), point(0.0, 0.5)])
    assert page.count("<circle") == 3
    assert ">1, 2</text>" in page
    assert re.findall(r'class="on found"[^>]*>(\d+)<', page) == ["3"]
    ticks = [float(t) for t in re.findall(r'text-anchor="end">([\d.]+)<', page)]
    assert ticks == [50, 60, 70, 80, 90, 100]
