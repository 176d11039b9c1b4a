"""The command line as users see it."""

import json
import re
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mix2fld.cli import main
from mix2fld.cli.commands import _kinds, overview
from mix2fld.cli.help_text import one_line, tidy, tidy_text
from mix2fld.cli.suggestions import flags_of, split_commas
from toys import toy_dataset

SMALL = [
    *("--devices", "4", "--samples-per-device", "40", "--partition", "iid", "--model", "mlp"),
    *("--local-steps", "20", "--server-steps", "10", "--seed-samples", "10"),
    *("--inverse-samples", "16", "--rounds", "2", "--curve-points", "2"),
]


def failure(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said
    return said


def test_run_writes_runs_a_table_and_a_figure(
    tmp_path: Path, own_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "runs"
    main(["run", "--dataset", own_file, *SMALL, "--protocols", "fl", "mix2fld", "--out", str(out)])
    printed = capsys.readouterr().out
    assert "Mix2FLD: round 2/2" in printed
    assert "all devices" in printed
    assert (out / "curves.png").read_bytes().startswith(b"\x89PNG")
    for name in ("fl-s0", "mix2fld-s0"):
        assert json.loads((out / name / "summary.json").read_text())["rounds"] == 2


def test_brackets_in_a_path_are_not_markup(
    tmp_path: Path, own_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "m[red]x[/]y"
    flags = ["--dataset", own_file, *SMALL, "--protocols", "fl", "--rounds", "1"]
    main(["run", *flags, "--out", str(out), "--report"])
    printed = capsys.readouterr().out
    assert f"runs in {out}, learning curves in {out / 'curves.png'}" in printed
    assert f"report in {out / 'report.html'}" in printed
    main(["resume", str(out)])
    assert f"runs in {out}" in capsys.readouterr().out
    page, figures, table = out / "page.html", out / "figures", out / "rounds.csv"
    main(["report", str(out), "-o", str(page), "--figures", str(figures)])
    printed = capsys.readouterr().out
    assert f"in {page}," in printed
    assert f"figures in {figures}" in printed
    main(["export", str(out), "-o", str(table)])
    assert f"columns in {table}" in capsys.readouterr().out


def test_brackets_in_a_problem_are_not_markup(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("mix2fld.engine.plan.PlannedTransfer.problem", "[/]")
    main(["link", "--protocols", "fd"])
    assert capsys.readouterr().out.endswith("[/]\n")


def test_a_config_file_and_flags_give_the_same_run(tmp_path: Path, own_file: str) -> None:
    flags = ["--dataset", own_file, *SMALL, "--protocols", "fd"]
    main(["run", *flags, "--out", str(tmp_path / "a")])
    file = tmp_path / "a" / "fd-s0" / "config.toml"
    main(["run", "--config", str(file), "--out", str(tmp_path / "b")])
    for name in ("config.toml", "rounds.jsonl", "summary.json"):
        assert (tmp_path / "b" / "fd-s0" / name).read_bytes() == (
            tmp_path / "a" / "fd-s0" / name
        ).read_bytes()
    main(["run", "--config", str(file), "--seed", "1", "--out", str(tmp_path / "b")])
    assert (tmp_path / "b" / "fd-s1" / "summary.json").exists()


def test_link_prints_the_papers_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    main(["link", "--json", "--protocols", "fl", "fd", "mix2fld"])
    rows = {(row["protocol"], row["transfer"]): row for row in json.loads(capsys.readouterr().out)}
    assert rows["fl", "upload"]["bits"] == 401_408
    assert rows["fl", "upload"]["slots_needed"] == 101
    assert rows["fl", "upload"]["delivery_probability"] == pytest.approx(0.006, abs=5e-4)
    assert rows["fd", "upload"]["bits"] == 3_200
    assert rows["mix2fld", "later uploads"]["bits"] == 3_200
    assert rows["mix2fld", "first upload"]["slots_needed"] == 80
    assert rows["mix2fld", "download"]["bits"] == 401_408


SPELLED = ["fl", "fd", "0", "1", "fl:bits=8", "murmur:bits=60,step_limit=1"]


@given(st.lists(st.sampled_from(SPELLED), min_size=1, max_size=5))
def test_commas_separate_as_spaces_do(values: list[str]) -> None:
    for flag in ("--protocols", "--seed"):
        apart = [flag, *values, "--out", "a,b"]
        assert split_commas([flag, ",".join(values), "--out", "a,b"]) == apart
        assert split_commas(apart) == apart


@pytest.mark.parametrize("name", ["run", "link", "report"])
def test_every_command_knows_its_flags(capsys: pytest.CaptureFixture[str], name: str) -> None:
    with pytest.raises(SystemExit):
        main([name, "--help"])
    told = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", capsys.readouterr().out))
    (kind,) = _kinds(name).values()
    assert "--out" in told or name == "link"
    assert told - set(flags_of(kind)) == {"--help"}


def test_show_prints_counts_for_programs(capsys: pytest.CaptureFixture[str], own_file: str) -> None:
    main(["data", "show", "--json", "--dataset", own_file, "--devices", "3", "--partition", "iid",
          "--samples-per-device", "8"])  # fmt: skip
    shown = json.loads(capsys.readouterr().out)
    assert [sum(row) for row in shown["devices"]] == [8, 8, 8]
    assert len(shown["labels"]) == len(shown["devices"][0])


def test_link_names_transfers_that_never_fit(capsys: pytest.CaptureFixture[str]) -> None:
    main(["link", "--preset", "literal"])
    printed = " ".join(capsys.readouterr().out.split())
    assert "FL: upload of 401,408 bits needs 101 slots, max_slots is 100" in printed
    assert "FL 8-bit: upload" not in printed


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "--mixing-ratio", "0.5"], ["mixing_ratio = 0.5", "0.5 the two labels"]),
        (["run", "--uplink-power-dbm", "-3"], ["uplink_power_dbm = -3"]),
        (["run", "--dataset", "mnits"], ["mnits", "did you mean 'mnist'"]),
        (["run", "--protocols", "mix22fld"], ["mix22fld", "did you mean 'mix2fld'"]),
        (["run", "--preset", "symetric"], ["symetric", "did you mean 'symmetric'"]),
        (["run", "--config", "no-such.toml"], ["no-such.toml", "cannot be read"]),
        (["run", "--devises", "3"], ["--devises", "--devices"]),
        (["run", "--devices", "many"], ["--devices"]),
        (["run", "--lr", "0.1"], ["--lr: no such option; did you mean '--learning-rate'?"]),
        (["run", "--epochs=3"], ["--epochs=3: no such option; did you mean '--local-steps'?"]),
        (["run", "--gpu"], ["--gpu: no such option; an accelerator that JAX"]),
        (["link", "--xyz"], ["--xyz: no such option; --help lists all of them"]),
        (["data", "shwo"], ["data shwo: no such subcommand; did you mean 'show'?"]),
        (["data", "show", "--jsn"], ["did you mean '--json'?"]),
        (["run", "--protocols", "fl,mix22fld"], ["'mix22fld'", "did you mean 'mix2fld'"]),
        (["run", "--rounds", "0"], ["rounds = 0"]),
        (["run", "--participants", "1.5"], ["participants = 1.5", "a fraction above 0"]),
        (["data", "show", "--partition", "shard"], ["did you mean 'shards'?"]),
        (["link", "--model", "no-such-model"], ["no-such-model", "paper-cnn"]),
    ],
)
def test_bad_flags_are_named(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: list[str]
) -> None:
    said = failure(capsys, *arguments)
    for word in words:
        assert word in said


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--samples-per-device", "4000"], ["samples_per_device = 4000"]),
        (
            ["--partition", "typo"],
            ["partition = 'typo': no such partition; known: by-source, dirichlet, iid"],
        ),
        (["--partition", "non-id"], ["partition = 'non-id'", "did you mean 'non-iid'?"]),
        (["--participants", "5"], ["participants = 5: must be at most devices = 4"]),
        (["--seed-samples", "41", "--protocols", "fld"], ["seed_samples = 41", "40 samples"]),
        (["--model", "toy_models:wrong_outputs"], ["7 outputs", "4 labels"]),
        (["--out", "/proc/runs"], ["out = /proc/runs"]),
        (["--mixing-ratio", "0.2", "0.15", "0.1", "0.05"], ["mixes 5 samples"]),
    ],
)
def test_bad_input_leaves_nothing_behind(
    tmp_path: Path,
    own_file: str,
    capsys: pytest.CaptureFixture[str],
    flags: list[str],
    words: list[str],
) -> None:
    out = tmp_path / "runs"
    where = [] if "--out" in flags else ["--out", str(out)]
    said = failure(capsys, "run", "--dataset", own_file, *SMALL, *where, *flags)
    for word in words:
        assert word in said
    assert len(said.splitlines()) == 1
    assert not out.exists()


def test_a_label_that_no_device_holds_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = toy_dataset()
    path = tmp_path / "three.npz"
    kept = data.train_labels != 2
    np.savez(
        path,
        train_inputs=data.train_inputs[kept],
        train_labels=data.train_labels[kept],
        test_inputs=data.test_inputs,
        test_labels=data.test_labels,
    )
    said = failure(capsys, "run", "--dataset", str(path), *SMALL, "--partition", "dirichlet")
    assert "label" in said
    assert "2" in said


def test_a_process_exits_with_2_and_no_traceback() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mix2fld", "run", "--learning-rate", "-1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "learning_rate = -1" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_overview_fits_80_columns() -> None:
    assert max(map(len, overview().splitlines())) <= 80


def test_help_needs_no_jax() -> None:
    code = (
        "import sys; from mix2fld.cli import main\n"
        "try: main(['run', '--help'])\n"
        "except SystemExit: pass\n"
        "assert 'jax' not in sys.modules and 'matplotlib' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "--local-steps" in done.stdout


@pytest.mark.parametrize(
    ("line", "tidied"),
    [
        ("│ --config {None}|PATH  A file. │", "│ --config PATH         A file. │"),
        ("│ -o {None}|PATH, --out {None}|PATH │", "│ -o PATH, --out PATH               │"),
        ("│ --range {None}|{FLOAT FLOAT} x │", "│ --range FLOAT FLOAT x          │"),
        ("│ --track {None,a,b}  A tracker. │", "│ --track {a,b}       A tracker. │"),
        ("│ --seed [INT [INT ...]]  Seeds. │", "│ --seed INT ...          Seeds. │"),
        ("│ prints the table of ``mix2fld run``. │", "│ prints the table of mix2fld run.     │"),
        ("│ Named. (default: ) │", "│ Named.             │"),
        ("│ --seed INT (default: 0) │", "│ --seed INT (default: 0) │"),
    ],
)
def test_help_has_no_empty_words_and_the_same_frame(line: str, tidied: str) -> None:
    assert tidy(line) == tidied
    assert len(line) == len(tidied)


def test_a_missing_default_leaves_no_line_behind_however_it_was_wrapped() -> None:
    wrapped = "│       Flags override it. (default: │\n│       None)                        │\n╰─╯"
    assert tidy_text(wrapped, 80) == "│       Flags override it.           │\n╰─╯"
    nothing = "│       Host names. (default: │\n│       )                     │\n╰─╯"
    assert tidy_text(nothing, 80) == "│       Host names.           │\n╰─╯"
    long = "Which protocol suits a link, a fleet and its data."
    assert tidy_text(long, 30) == "Which protocol suits a link, a\nfleet and its data."


class Terminal(StringIO):
    """Output on a terminal."""

    def isatty(self) -> bool:
        """As a terminal says."""
        return True


def test_help_on_a_terminal_is_as_tidy_as_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    screen, pipe = Terminal(), StringIO()
    for stream in (screen, pipe):
        with redirect_stdout(stream), pytest.raises(SystemExit):
            main(["link", "--help"])
    shown = screen.getvalue()
    assert "\x1b[1m--preset" in shown
    assert re.sub(r"\x1b\[[0-9;]*m", "", shown) == pipe.getvalue()
    assert "(default: None)" not in " ".join(shown.split())
    assert "╭─ settings [cell] ─" in shown


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("--lr", "'--learning-rate'"),
        ("--epochs", "'--local-steps'"),
        ("--gpu", "JAX or PyTorch"),
        ("--cuda", "JAX or PyTorch"),
        ("--device", "--devices"),
        ("--workers", "mix2fld sweep --workers"),
        ("--no-reprot", "'--no-report'"),
    ],
)
def test_flags_of_other_programs_get_a_hint_that_helps(
    given: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["run", given, "1"])
    shown = capsys.readouterr().err
    assert hint in shown
    assert len(shown.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "command", ["run", "report", "advise", "link", "deploy", "sweep", "completion"]
)
def test_help_of_a_command_shows_no_alternatives_of_nothing(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main([command, "--help"])
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    assert "--" in shown
    assert "{None" not in shown
    assert "(default: )" not in shown
    assert "None)" not in shown
    assert "``" not in shown


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ("run --devices many", "--devices many: must be a whole number"),
        ("run --learning-rate fast", "--learning-rate fast: must be auto or a number"),
        ("run --kernel fast", "--kernel fast: must be one of auto, xla, native"),
        ("run --devices", "--devices: needs a value"),
        ("run --out", "--out: needs a value"),
        ("run --value-range 1", "--value-range 1: must be two numbers"),
        ("run fl fd", "fl, fd: belongs to no option; see mix2fld run --help"),
        ("data", "data: needs a subcommand: list, get, show"),
        ("completion", "completion: needs bash,zsh,fish; see mix2fld completion --help"),
        ("completion csh", "shell csh: must be one of bash, zsh, fish"),
        ("advise --deadline-s x", "--deadline-s x: must be a number"),
        ("sweep --seed 0..x", "--seed 0..x: is not a valid value; see mix2fld sweep --help"),
        ("deploy check", "deploy check: needs HOST:PORT; see mix2fld deploy check --help"),
    ],
)
def test_a_command_line_that_cannot_be_parsed_is_told_in_one_line(
    given: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert failure(capsys, *given.split()) == f"mix2fld: {line}\n"


def test_a_box_of_the_parser_is_read_with_its_frame() -> None:
    box = (
        "╭─ Invalid choice ─────────────╮\n"
        "│ invalid choice 'fast' for    │\n"
        "│ argument '--kernel'. Expected│\n"
        "│ one of ('auto', 'xla').      │\n"
        "│ ──────────────────────────── │\n"
        "│ For full helptext, run x     │\n"
        "╰──────────────────────────────╯\n"
    )
    assert one_line(box, "mix2fld run") == "--kernel fast: must be one of auto, xla"
    assert one_line("something else", "mix2fld run") is None
