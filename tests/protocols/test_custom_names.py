"""A custom protocol by name, ``package.module:NAME``: wherever a protocol can be named."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.lab import deployed_config
from deploy.memory_line import run_in_memory
from mix2fld import load_runs, run
from mix2fld.base.custom_code import names_custom_module
from mix2fld.base.errors import InputError
from mix2fld.cli import main
from mix2fld.protocols.table import custom_protocol, find_protocol, get_protocol, split_name
from mix2fld.runs.folder import RunFolder
from mix2fld_lab.reproduction.frontier import contenders as frontier
from mix2fld_lab.reproduction.frontier.search import measured_experiment, search_experiment
from mix2fld_lab.reproduction.frontier.settings import SETTINGS
from toys import save_dataset, toy_config, toy_dataset

SOURCE = """
from dataclasses import dataclass, replace
from mix2fld.extend import FL, parameter

@dataclass(frozen=True, kw_only=True)
class Slow(FL):
    pace: float = parameter(0.5)
    server_words = "The server moves part of the way."

    def step(self, server, inbox, round_number):
        mean, info = super().step(server, inbox, round_number)
        if server.weights is None or not inbox:
            return mean, info
        both = zip(server.weights, mean.weights, strict=True)
        return replace(mean, weights=tuple(a + self.pace * (b - a) for a, b in both)), info

number = 3
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    name = f"slow_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield name
    custom_protocol.cache_clear()


def test_it_runs_with_its_parameters_and_is_read_by_who_does_not_know_it(
    module: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = save_dataset(tmp_path / "toy.npz", toy_dataset())
    names = [f"{module}:Slow", f"{module}:Slow:pace=1.0", "fl"]
    flags = ["--devices", "3", "--samples-per-device", "30", "--local-steps", "20", "--rounds", "2"]
    more = ["--partition", "iid", "--link", "ideal", "--model", "mlp", "--dataset", str(data)]
    main(["run", "--protocols", *names, *flags, *more, "--out", "runs"])
    assert "Slow (pace 1.0)" in capsys.readouterr().out
    frame = load_runs("runs", rows="runs").set_index("protocol")
    assert frame.loc[names[1], "accuracy/mean"] == frame.loc["fl", "accuracy/mean"]
    assert frame.loc[names[0], "bits/up"] == frame.loc["fl", "bits/up"]
    main(["resume", "runs", "--trust-code"])
    assert find_protocol(names[0]) is not None


def test_a_deployment_has_the_numbers_of_the_engine(module: str, tmp_path: Path) -> None:
    config = deployed_config(tmp_path, protocol=f"{module}:Slow")
    path = run_in_memory(tmp_path, config)
    deployed = RunFolder(path).finished()
    (simulated,) = run(config)
    assert deployed is not None
    for mine, theirs in zip(deployed.rounds, simulated.rounds, strict=True):
        assert mine["scores"] == theirs["scores"]
        assert mine["bits"] == theirs["bits"]


def test_reading_a_run_imports_nothing(module: str) -> None:
    assert find_protocol(f"{module}:Slow") is None
    assert get_protocol(f"{module}:Slow").title == "Slow"
    assert find_protocol(f"{module}:Slow") is not None


@pytest.mark.parametrize(
    ("attribute", "words"),
    [("Slwo", "did you mean 'Slow'"), ("number", "'number' of module .* is no Protocol")],
)
def test_what_is_no_protocol_is_said(module: str, attribute: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        get_protocol(f"{module}:{attribute}")


def test_stored_names_of_the_working_folder_need_trust(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow_untrusted.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="repeat the command with --trust-code"):
        run(toy_config(protocol="slow_untrusted:Slow"), dataset=toy_dataset())
    with pytest.raises(InputError, match="module 'nowhere' cannot be imported"):
        run(toy_config(protocol="nowhere:Slow"), dataset=toy_dataset())


@pytest.mark.parametrize(
    ("words", "trusted"),
    [
        (["--protocols", "fl", "slow:Slow"], True),
        (["--protocols", "slow:Slow:pace=2"], True),
        (["--contender", "slow:Slow"], True),
        (["--protocols", "murmur:bits=200"], False),
        (["--out", "a:b"], False),
    ],
)
def test_the_command_line_trusts_what_it_names(words: list[str], trusted: bool) -> None:
    assert names_custom_module(words) is trusted


def test_names_and_parameters_are_told_apart() -> None:
    assert split_name("a.b:C:bits=3,x=1") == ("a.b:C", {"bits": "3", "x": "1"})
    assert split_name("murmur:bits=3") == ("murmur", {"bits": "3"})
    with pytest.raises(InputError, match="'bits' must be name=value"):
        split_name("murmur:bits")


def test_it_competes_with_the_same_search(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frontier, "CUSTOM", [])
    frontier.add_contender(f"{module}:Slow")
    frontier.add_contender(f"{module}:Slow")
    (one,) = frontier.CUSTOM
    cells = [cell for cell in search_experiment("smartwatch").cells if one.key in cell.key]
    assert len(cells) == frontier.CANDIDATES_EACH
    assert {cell.changes["protocols"] for cell in cells} == {f"{module}:Slow"}
    choices = {one.family or "": {"logit_adjustment": 1.0}}
    measured = measured_experiment(SETTINGS["smartwatch"], choices)
    assert f"frontier/smartwatch/{one.key}" in [cell.key for cell in measured.cells]
    with pytest.raises(InputError, match="contender = murmur: competes already"):
        frontier.add_contender("murmur")
