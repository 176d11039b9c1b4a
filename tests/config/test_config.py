"""The config: round trips, one message for bad input, and consistent documentation."""

import inspect
import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mix2fld.base.bounds import mixing_condition
from mix2fld.base.errors import InputError
from mix2fld.config.grid import Grid
from mix2fld.config.settings import Config, DataConfig, Section, field_names
from mix2fld.data import DATASETS, PARTITIONS
from mix2fld.runs.config_file import dump_config, load_config
from places import ROOT

DECISIONS = ROOT / "docs" / "decisions"

changes = st.fixed_dictionaries(
    {},
    optional={
        "protocols": st.lists(st.sampled_from(["fl", "fd", "mix2fld"]), min_size=1, unique=True),
        "seed": st.lists(st.integers(0, 2**31), min_size=1, max_size=3, unique=True),
        "devices": st.integers(1, 10**6),
        "learning_rate": st.floats(1e-9, 1e3),
        "mixing_ratio": st.floats(1e-3, 0.4999),
        "partition": st.sampled_from(sorted(PARTITIONS)),
        "participants": st.just("all") | st.just(1) | st.floats(1e-6, 1),
        "uplink_power_dbm": st.floats(0, 100),
        "reuse_samples": st.booleans(),
        "data_folder": st.none() | st.just(Path("some/folder")),
        "dataset": st.text(min_size=1, max_size=20).filter(str.isprintable),
    },
)


@given(changes)
def test_a_grid_survives_its_file(fields: dict[str, object]) -> None:
    grid = Grid.of(**fields)
    assert Grid(**tomllib.loads(dump_config(grid))) == grid
    assert grid.replace() == grid


@given(
    st.sampled_from(sorted(field_names(Grid))),
    st.none() | st.integers(-5, 5) | st.text() | st.floats(),
)
def test_any_value_is_taken_or_refused_by_name(name: str, value: object) -> None:
    refusal = refusal_of(name, value)
    assert refusal is None or (name in refusal and "\n" not in refusal)


def refusal_of(name: str, value: object) -> str | None:
    try:
        Grid.of(**{name: value})
    except InputError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"mixing_ratio": 0.5}, ["mixing_ratio = 0.5", "above 0 and below 0.5", "divides by zero"]),
        ({"mixing_ratio": 0.0}, ["mixing_ratio = 0", "above 0"]),
        ({"mixing_ratio": (0.3, 0.8)}, ["mixing_ratio = 0.3, 0.8", "less than 1"]),
        ({"mixing_ratio": (1 / 3, 1 / 3)}, ["condition number", "max_condition"]),
        ({"uplink_power_dbm": -1}, ["uplink_power_dbm = -1", "must be greater than or equal to 0"]),
        ({"devices": 0}, ["devices = 0", "must be greater than or equal to 1"]),
        ({"protocols": ()}, ["protocols = []", "at least one"]),
        ({"seed": (3, 3)}, ["seed = [3, 3]", "only once"]),
        ({"seed": -1}, ["seed = -1: must be greater than or equal to 0"]),
        ({"participants": 11}, ["participants = 11", "at most devices = 10"]),
        ({"learning_rate": float("nan")}, ["learning_rate = nan", "above 0"]),
        ({"rond": 3}, ["rond", "did you mean 'rounds'"]),
    ],
)
def test_bad_values_are_named(fields: dict[str, object], words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        Grid.of(**fields)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"protocols": ("fl", "mix2fld")}, r"protocols = \('fl', 'mix2fld'\)"),
        ({"protocols": "fl"}, "protocols = fl"),
        ({"seed": (0, 1)}, r"seed = \(0, 1\)"),
        ({"seeds": 3}, "seeds = 3"),
    ],
)
def test_a_config_with_several_runs_is_told_of_grids(fields: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=rf"^{words}: Config is one run; .*mix2fld\.Grid\.of\("):
        Config.of(**fields)
    with pytest.raises(InputError, match=r"mix2fld\.Grid\.of\("):
        Config().replace(**fields)


def test_a_grid_has_a_run_of_each_protocol_for_each_seed() -> None:
    grid = Grid.of(protocols=("fl", "mix2fld"), seeds=(3, 1), devices=4)
    assert [(one.protocol, one.seed) for one in grid.runs()] == [
        ("fl", 3), ("mix2fld", 3), ("fl", 1), ("mix2fld", 1),
    ]  # fmt: skip
    assert grid.only_run() is None
    assert all(one == Config.of(protocol=one.protocol, seed=one.seed, devices=4)
               for one in grid.runs())  # fmt: skip
    assert Grid.of(protocols="fl", seed=7).only_run() == Config.of(protocol="fl", seed=7)
    assert Grid.of(seed=7) == Grid.of(seeds=(7,))


@pytest.mark.parametrize("value", [0, -1, 0.0, 1.5, -0.1, True, "some", "", None, float("nan")])
def test_bad_participants_are_named(value: object) -> None:
    with pytest.raises(InputError) as caught:
        Config.of(participants=value)
    assert str(caught.value) == (
        f"participants = {value!r}: must be all, a number of devices from 1, "
        "or a fraction above 0 and up to 1"
    )


@pytest.mark.parametrize(
    ("value", "devices", "sampled"),
    [
        ("all", 10, 10),
        (1, 10, 1),
        (10, 10, 10),
        ("3", 10, 3),
        (0.1, 100, 10),
        ("0.25", 10, 2),
        (0.01, 10, 1),
        (1.0, 10, 10),
    ],
)
def test_participants_of_a_round(value: object, devices: int, sampled: int) -> None:
    config = Config.of(participants=value, devices=devices)
    assert config.participants_per_round == sampled
    assert Grid(**tomllib.loads(dump_config(config))).only_run() == config


def help_of(section: type[Section], field: str) -> str:
    """The docstring below a field, as the help shows it."""
    (text,) = re.findall(rf'\n    {field}: .*\n    """(.*)"""', inspect.getsource(section))
    return text


def test_help_names_every_partition() -> None:
    text = re.sub(r"\(.*?\)", "", help_of(DataConfig, "partition"))
    named = {name for name in re.split(r"[\s,.]+", text) if name and name != "or"}
    assert named == set(PARTITIONS)


def test_help_names_every_dataset() -> None:
    text = help_of(DataConfig, "dataset")
    assert text.startswith(f"{', '.join(DATASETS)}, or ")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("devices = 3", ["devices", "belongs in [data]"]),
        ("[data]\ndevises = 3", ["devises", "did you mean 'devices'"]),
        ("[data]\ndevices = 'many'", ["devices = 'many'"]),
        ("rounds = ", ["not a TOML file"]),
    ],
)
def test_bad_files_are_named(tmp_path: Path, text: str, words: list[str]) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        load_config(file)
    for word in words:
        assert word in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no-such-file"):
        load_config(tmp_path / "no-such-file.toml")


def test_field_names_are_unique_across_sections() -> None:
    plain = [name for name, section in field_names(Grid).items() if not section]
    sections = [name for name, section in field_names(Grid).items() if section]
    fields_in_sections = sum(
        len(getattr(Grid(), section).model_dump())
        for section in {home for home in field_names(Grid).values() if home}
    )
    assert len(set(plain) | set(sections)) == len(plain) + fields_in_sections


def test_condition_of_a_pair_is_known() -> None:
    for ratio in (0.01, 0.1, 0.3, 0.49):
        assert mixing_condition((ratio, 1 - ratio)) == pytest.approx(1 / (1 - 2 * ratio))


def test_every_decision_names_a_field_and_its_default() -> None:
    rows = re.findall(
        r"^\| (\d+) \| \[.*\]\((.*)\) \| `(\w+)` \| (.*?) \|",
        (DECISIONS / "README.md").read_text(),
        re.MULTILINE,
    )
    assert len(rows) >= 15
    known = field_names(Grid)
    for _, page, name, default in rows:
        assert (DECISIONS / page).exists()
        section = known[name]
        grid = Grid()
        value = getattr(getattr(grid, section) if section else grid, name)
        if name in {"protocols", "model", "mixing_ratio"}:
            continue
        shown = str(value).lower() if isinstance(value, bool) else str(value)
        assert shown == default, name
