"""Figures of an earlier trial beside those of records: which are reached, and how it is judged."""

from mix2fld.config.grid import Grid
from mix2fld_lab.attacks.rates import Share
from mix2fld_lab.audit.reference import reference_table
from mix2fld_lab.audit.sections import AuditSection


def section(stages: dict, **fields: object) -> AuditSection:
    about = {"config": Grid().replace(**fields).model_dump(mode="json")}
    return AuditSection("mnist", ({"about": about, "stages": stages},), ("a.json",))


def device(found: int, of: int) -> dict:
    return {"0.001": {"device": Share(found, of).as_record()}}


def test_a_figure_is_reached_missed_or_within_its_interval() -> None:
    table = reference_table(
        section(
            {
                "averages/ten/s0": device(700, 1000),
                "uploads/s0": {"fl": device(28, 1000), "fl8": device(72, 1000)},
                "accuracy/dp-sum/s0": {"accuracy": 0.94},
                "accuracy/dp-sum/s1": {"accuracy": 0.93},
            }
        )
    )
    lines = table.splitlines()[2:]
    assert len(lines) == 4
    assert lines[0].startswith("| share found: FL | 7.4 % | 2.8 %")
    assert lines[0].endswith("| not reached |")
    assert lines[1].endswith("| within the interval |")
    assert lines[2].endswith("| 68.0 % | 70.0 % [67.1, 72.8] | reached |")
    assert lines[3] == "| accuracy: DP sum, ε = 8 | 94.0 % | 93.5 % | not reached |"


def test_the_least_of_all_mixing_ratios_counts() -> None:
    def recovered(found: int) -> dict:
        return {
            part: {"among_all": Share(found, 100).as_record()} for part in ("minor", "dominant")
        }

    table = reference_table(
        section({"recovery/0.1/s0": recovered(100), "recovery/0.49/s0": recovered(60)})
    )
    assert table.count("60.0 %") == 2
    assert table.count("| not reached |") == 2


def test_records_without_any_of_them_or_of_other_devices_have_no_table() -> None:
    assert reference_table(section({})) == ""
    held = {"averages/ten/s0": device(700, 1000)}
    assert "68.0 %" in reference_table(section(held, seed=3))
    assert reference_table(section(held, devices=7)) == ""
