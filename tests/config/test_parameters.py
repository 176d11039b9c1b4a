"""A protocol is spelled with its parameters: ``murmur:bits=200`` beside ``murmur:bits=1400``."""

from pathlib import Path

import pytest

from mix2fld import run
from mix2fld.base.errors import InputError
from mix2fld.cli.run import guarantees
from mix2fld.config.settings import field_names
from mix2fld.protocols.base import TRAINING, parameters_of
from mix2fld.protocols.table import PROTOCOLS, find_protocol, get_protocol, single_runs
from mix2fld.report.page_data import page_data
from mix2fld.report.protocol_view import in_table_order
from mix2fld.report.style import style_of
from mix2fld.runs.reader import require_runs
from toys import toy_config, toy_dataset, toy_grid


def test_a_comparison_of_one_protocol_with_other_parameters(tmp_path: Path) -> None:
    names = ("murmur:bits=60", "murmur:bits=240,step_limit=1", "fl:bits=8", "fl8")
    results = run(toy_grid(protocols=names), tmp_path, dataset=toy_dataset())
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "fl-bits-8-s0",
        "fl8-s0",
        "murmur-bits-240-step_limit-1-s0",
        "murmur-bits-60-s0",
    ]
    few, more, eight, alias = results
    uploads = few.summary["uploads"]["attempted"]
    assert few.summary["bits"]["up"] == 60 * uploads
    assert more.summary["bits"]["up"] == 240 * uploads
    assert more.config.updates.step_limit == 1
    assert eight.rounds == alias.rounds
    shown = page_data(require_runs([tmp_path]))["views"]["finished"]["series"]
    assert {one["title"] for one in shown} == {
        "FL (bits 8)",
        "FL 8-bit",
        "Murmur (bits 60)",
        "Murmur (bits 240, step_limit 1)",
    }


def test_parameters_are_settings_of_the_runs_that_they_are_spelled_with() -> None:
    config = toy_grid(protocols=("mix2fld:seed_samples=5", "mix2fld"), seed=(0, 1))
    singles = single_runs(config)
    assert [one.seeding.seed_samples for one in singles] == [
        5,
        config.seeding.seed_samples,
    ] * 2
    assert single_runs(singles[0]) == [singles[0]]


def test_every_parameter_is_a_setting_or_changes_the_protocol() -> None:
    known = field_names()
    for row in PROTOCOLS.values():
        assert parameters_of(row).items() >= TRAINING.items()
        for parameter, setting in parameters_of(row).items():
            assert setting in known or (setting is None and hasattr(row, parameter))


def test_a_guarantee_is_that_of_the_parameters() -> None:
    few, plain = guarantees(toy_grid(protocols=("dp-statistics:epsilon=2", "dp-statistics")))
    assert "ε = 2, " in few
    assert "ε = 8, " in plain


@pytest.mark.parametrize(
    ("spelled", "words"),
    [
        ("murmur:bit=3", "murmur has no parameter 'bit'; did you mean 'bits'"),
        ("fl:bits=40", r"protocols = fl:bits=40: must be 32, or from 2 to 16"),
        ("murmur:bits=x", "update_bits = 'x': must be auto, or 20 bits or more"),
        ("murmur:bits", "must be name=value"),
        ("murmur:bits=30,bits=40", "each name once"),
        (
            "murmr:bits=30",
            "neither a known protocol nor package.module:NAME; did you mean 'murmur'",
        ),
    ],
)
def test_what_is_misspelled_is_named(spelled: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        single_runs(toy_config(protocol=spelled))


def test_looks_tell_protocols_apart() -> None:
    looks = {(str(style_of(n)["color"]), str(style_of(n)["linestyle"])) for n in PROTOCOLS}
    assert len(looks) == len(PROTOCOLS)
    assert style_of("murmur:bits=60")["color"] == get_protocol("murmur").colour
    assert style_of("murmur:bits=60") != style_of("murmur:bits=240")
    order = in_table_order(["mix2fld", "murmur:bits=60", "custom", "fl", "isolated"])
    assert order == ["fl", "murmur:bits=60", "mix2fld", "custom", "isolated"]
    assert find_protocol("custom") is None
