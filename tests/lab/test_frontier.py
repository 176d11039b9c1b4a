"""The frontier: who is compared, the search that all share, the points and the page."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from invented_records import record

from frontier_points import BY_KEY, invented, point, unwrapped
from mix2fld.base.errors import InputError
from mix2fld.config.settings import Config
from mix2fld.data import device_parts
from mix2fld.protocols.table import PROTOCOLS
from mix2fld_lab.reproduction.experiments import FULL, QUICK, Cell, Experiment
from mix2fld_lab.reproduction.frontier.contenders import (
    CANDIDATES_EACH,
    CONTENDERS,
    FROM_EDGES,
    OURS,
    candidates,
    families,
)
from mix2fld_lab.reproduction.frontier.figures import draw_frontier
from mix2fld_lab.reproduction.frontier.overview import short_title
from mix2fld_lab.reproduction.frontier.page import findings, write_page
from mix2fld_lab.reproduction.frontier.points import (
    best,
    best_server,
    cheapest_near,
    frontier,
    points_of,
)
from mix2fld_lab.reproduction.frontier.scales import runnable, scale_in
from mix2fld_lab.reproduction.frontier.search import (
    SEARCH_SEED,
    TUNED,
    choose,
    measured_experiment,
    search_experiment,
    search_scale,
)
from mix2fld_lab.reproduction.frontier.settings import SETTINGS, FrontierSetting
from mix2fld_lab.reproduction.results_folder import ResultsFolder
from places import ROOT
from stored_runs import save_toy_dataset
from toys import toy_dataset

RESULTS = ResultsFolder(ROOT / "results")
ALL_FAMILIES = families(SETTINGS["mnist-iid"])


def some_choices() -> dict[str, dict[str, Any]]:
    return {
        family: {
            name: value
            for name, value in next(iter(candidates(family).values())).items()
            if name in TUNED
        }
        for family in ALL_FAMILIES
    }


def every_cell() -> list[Cell]:
    searches = {setting.tuned_at for setting in SETTINGS.values()}
    cells = [cell for key in searches for cell in search_experiment(key).cells]
    for setting in SETTINGS.values():
        cells += measured_experiment(setting, some_choices()).cells
    return cells


def test_every_cell_is_a_valid_config_with_a_key_of_its_own() -> None:
    cells = every_cell()
    assert len({cell.key for cell in cells}) == len(cells)
    for cell in cells:
        for scale in (FULL, QUICK):
            cell.grid(scale)


def test_all_search_alike() -> None:
    for family in ALL_FAMILIES:
        assert len(candidates(family)) == CANDIDATES_EACH
        assert len({str(changes) for changes in candidates(family).values()}) == CANDIDATES_EACH
    assert all(one.protocol in PROTOCOLS for one in CONTENDERS)
    assert set(OURS) <= {one.protocol for one in CONTENDERS}


def test_who_starts_from_edges_differs_in_that_alone() -> None:
    pairs = [(one, BY_KEY.get(one.key.removesuffix(FROM_EDGES))) for one in CONTENDERS]
    from_edges = [(one, plain) for one, plain in pairs if one.key.endswith(FROM_EDGES)]
    assert len(from_edges) > 5
    for one, plain in from_edges:
        assert one.changes["initial_weights"] == "edges"
        assert one.network == "paper's"
        if plain is not None:
            assert one.changes == {**plain.changes, "initial_weights": "edges"}
            assert one.family == f"{plain.family}{FROM_EDGES}"
    for changes in candidates("murmur-edges").values():
        assert (changes["protocols"], changes["initial_weights"]) == ("murmur", "edges")


def test_the_search_sees_no_test_sample_and_no_reported_seed() -> None:
    assert SEARCH_SEED not in FULL.seeds
    for key in {setting.tuned_at for setting in SETTINGS.values()}:
        for cell in search_experiment(key).cells:
            grid = cell.grid(search_scale(FULL))
            assert grid.seeds == (SEARCH_SEED,)
            assert grid.data.measured_on == "validation"
    for setting in SETTINGS.values():
        for cell in measured_experiment(setting, some_choices()).cells:
            assert cell.grid(FULL).data.measured_on == "test"


def test_the_best_candidate_is_chosen() -> None:
    search = search_experiment("mnist-iid")
    rng = np.random.default_rng(0)
    reached = {cell.key: rng.uniform() for cell in search.cells}
    records = {
        cell.key: dataclasses.replace(
            record(reached[cell.key]), protocol=cell.protocol, changes=cell.changes
        )
        for cell in search.cells
    }
    chosen = choose(records)
    assert list(chosen) == ALL_FAMILIES
    for family, changes in chosen.items():
        own = [cell for cell in search.cells if f"/{family}/" in cell.key]
        top = max(own, key=lambda cell: reached[cell.key])
        assert changes.items() <= top.changes.items()
        assert changes["device_model"] == "mean"


def test_an_uneven_search_is_refused() -> None:
    cells = search_experiment("mnist-iid").cells[:-1]
    records = {
        cell.key: dataclasses.replace(record(0.9), protocol=cell.protocol, changes=cell.changes)
        for cell in cells
    }
    with pytest.raises(InputError, match="tried 5 settings"):
        choose(records)


PLACES = st.lists(
    st.tuples(st.floats(0, 1e7), st.floats(0.1, 0.99)), min_size=1, max_size=len(CONTENDERS)
)


@given(PLACES)
def test_nobody_is_beaten_on_the_frontier(places: list[tuple[float, float]]) -> None:
    points = [
        point(one.key, accuracy, bits)
        for one, (bits, accuracy) in zip(CONTENDERS, places, strict=False)
    ]
    line = frontier(points)
    for one in points:
        rivals = [other for other in points if other.bits <= one.bits]
        beaten = any(
            other.devices.mean > one.devices.mean
            or (other.devices.mean == one.devices.mean and other.bits < one.bits)
            for other in rivals
        )
        assert not (one in line and beaten)
        assert any(
            other.devices.mean >= one.devices.mean for other in line if other.bits <= one.bits
        )
    top = best(points)
    assert top is not None
    assert cheapest_near(points, top, margin=0).devices.mean == top.devices.mean


def test_bits_are_those_of_a_device() -> None:
    cells = {
        "frontier/x/fl": invented(0.9, 2e6),
        "frontier/x/murmur-200": invented(0.89, 1000),
    }
    assert [(one.contender.key, one.bits) for one in points_of(cells)] == [
        ("murmur-200", 1000),
        ("fl", 2e6),
    ]


def test_findings_follow_the_records() -> None:
    text = findings([point("fl", 0.95, 2e6), point("murmur-200", 0.945, 1000)])
    assert text.startswith("FL (95.0 %, 2,000,000 bits) is most accurate.")
    assert "comes within 1 point of it with 2,000 times fewer bits." in text
    assert "0.50 points below (95 % interval over seeds, uncorrected: +0.50 to +0.50)." in text
    text = findings([point("fld", 0.95, 3e5), point("murmur-mix-100", 0.945, 2.4e5)])
    assert "comes within 1 point of it with 20 % fewer bits." in text
    text = findings([point("murmur-200", 0.95, 1000), point("mix2fld", 0.85, 3e5)])
    assert (
        "nor a relative is on the frontier: Mix2FLD (85.0 %, 300,000 bits) is 10.0 points below"
        in text
    )
    text = findings([point("murmur-200", 0.9, 1000), point("mix2fld", 0.95, 3e5)])
    assert "Of Mix2FLD and its relatives, on the frontier: Mix2FLD" in text


def test_the_best_model_of_a_server_is_named_if_it_is_anothers() -> None:
    ours, theirs = point("murmur-200", 0.9, 1000), point("statistics-4", 0.7, 45_000)
    for run in theirs.cell.runs:
        run["summary"]["accuracy"]["global"] = 0.95
    assert best_server([ours, theirs, point("isolated", 0.8, 0)]) is theirs
    told = findings([ours, theirs])
    assert "server's model is that of statistics, 96 features (95.0 %, 45,000 bits)." in told
    assert "best server's model" not in findings([ours])


def test_the_page_names_what_is_missing(tmp_path: Path) -> None:
    changes = {"protocols": "fl", "dataset": "mnist", "rounds": 5}
    cells = {"frontier/mnist-iid/fl": invented(0.9, 2e6, **changes)}
    page = write_page({"mnist-iid": cells}, {"mnist-iid": some_choices()})
    assert "| FL | 2,000,000 | 2,000,000 | 90.00 ± 0.16 |" in page
    assert "| MNIST, the paper's non-IID split | – | 0 / " in page
    assert "| [MNIST, IID](#mnist-iid) | 5 | 1 / " in page
    path = tmp_path / "f.png"
    draw_frontier("title", points_of(cells), path)
    assert path.stat().st_size > 10_000


def test_short_titles_tell_contenders_apart() -> None:
    short = [short_title(one) for one in CONTENDERS]
    assert len(set(short)) == len(short)
    assert short_title(BY_KEY["murmur-200-edges"]) == "Murmur 200†"
    assert short_title(BY_KEY["murmur-1400"]) == "Murmur 1,400"
    assert short_title(BY_KEY["mix2fld-plain"]) == "Mix2FLD°"


def test_who_was_not_run_yet_is_named_or_counted() -> None:
    cells = {f"frontier/mnist-non-iid/{one.key}": invented(0.5, 10) for one in CONTENDERS}
    no_fd = {key: cell for key, cell in cells.items() if not key.endswith("/fd")}
    no_edges = {key: cell for key, cell in cells.items() if not key.endswith("-edges")}
    pages = [write_page({"mnist-non-iid": some}, {}) for some in (cells, no_fd, no_edges)]
    assert "Not run yet" not in pages[0]
    assert "Not run yet: FD." in pages[1]
    assert f"Not run yet: {len(cells) - len(no_edges)} contenders." in pages[2]


def test_the_page_says_where_the_paper_link_cannot_carry_the_downloads() -> None:
    """12,544 weights of 32 bits do arrive; 1.6 million do not, and outputs (FD) always do."""

    def told(setting: str, contender: str) -> bool:
        changes = {**SETTINGS[setting].changes, "protocols": BY_KEY[contender].protocol}
        cells = {f"frontier/{setting}/{contender}": invented(0.9, 1e3, **changes)}
        page = unwrapped(write_page({setting: cells}, {}))
        return "Not all downloads fit that link: the largest has a chance of 0.0 %." in page

    assert not told("mnist-non-iid", "murmur-200")
    assert told("mnist-non-iid-large-mlp", "murmur-200")
    assert not told("mnist-non-iid-large-mlp", "fd")


def test_the_committed_page_follows_from_the_committed_records() -> None:
    assert RESULTS.frontier.read_text(encoding="utf-8") == RESULTS.frontier_page()


def test_the_front_says_where_both_directions_are() -> None:
    front, _, _ = RESULTS.frontier_page().partition("### How sure that is")
    assert "](../docs/downlink.md#bits-seconds-and-joules-on-five-links)" in front
    page = (RESULTS.path.parent / "docs" / "downlink.md").read_text(encoding="utf-8")
    assert "\n## Bits, seconds and joules on five links\n" in page


def test_who_is_near_by_default_is_said() -> None:
    """EDEN is near over the paper's link; over an ideal link another is, which was not measured."""
    page = unwrapped(RESULTS.frontier_page())
    assert page.count("was not measured over this one") == 1
    assert "Fewest bits among those measured here: over an ideal link Murmur, 500 bits" in page


def toy_setting(tmp_path: Path, **changes: Any) -> FrontierSetting:
    path = save_toy_dataset(tmp_path / "toy.npz")
    fields = {"dataset": str(path), "devices": 4, "samples_per_device": 20, **changes}
    return FrontierSetting("toy", "toy", "toy", fields, tuned_at="toy")


def test_seeds_that_deal_a_device_one_label_are_passed_over(tmp_path: Path) -> None:
    setting = toy_setting(tmp_path, partition="shards", shards_per_device=2)
    seeds = scale_in(setting, FULL).seeds
    assert len(seeds) == len(FULL.seeds)
    data = toy_dataset()
    for seed in range(max(seeds) + 1):
        parts = device_parts(data, Config.of(**setting.changes, seed=seed))
        alone = min(len(set(data.train_labels[part].tolist())) for part in parts) < 2
        assert (seed in seeds) == (not alone)
    assert scale_in(SETTINGS["mnist-non-iid"], FULL).seeds == FULL.seeds


@pytest.mark.parametrize(
    ("key", "when"), [("mnist-iid", "last"), ("mnist-non-iid-20-of-100", "all")]
)
def test_only_the_last_round_is_measured_where_all_devices_take_part(key: str, when: str) -> None:
    scale = scale_in(SETTINGS[key], FULL)
    cell = Cell("x", "x", {**SETTINGS[key].changes, "protocols": "fl"})
    assert cell.grid(scale).evaluated_rounds == when


def test_who_is_refused_before_the_run_is_left_out(tmp_path: Path) -> None:
    """Three mixes of a device, each used once, do not yield ten thousand unmixed samples."""
    fields = toy_setting(tmp_path, partition="iid", seed_samples=3).changes
    cells = tuple(
        Cell(f"{name}-{count}", name, {**fields, "protocols": name, "inverse_samples": count,
                                       "reuse_pairs": False})
        for name in ("mixfld", "mix2fld")
        for count in (1, 10**4)
    )  # fmt: skip
    kept = runnable(Experiment("x", "x", cells), QUICK)
    assert [cell.key for cell in kept.cells] == ["mixfld-1", "mixfld-10000", "mix2fld-1"]


def test_the_page_names_who_was_refused() -> None:
    points = {f"frontier/mnist-shards/{one.key}": invented(0.5, 10) for one in CONTENDERS[:-2]}
    page = write_page({"mnist-shards": points}, {})
    assert "Refused before the run: Mix2FLD." in page.replace("\n", " ")
