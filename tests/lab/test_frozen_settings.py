"""Settings of frozen networks: what is read of a mail, and data that nobody has."""

import json

import pytest

from mix2fld.base.errors import InputError
from mix2fld_lab import frozen_features, frozen_settings
from mix2fld_lab.frozen_settings import SETTINGS, FeatureSetting, settings_of
from toys import toy_dataset


def test_a_mail_is_its_subject_and_body_without_tags() -> None:
    mail = "From: x@y\nSubject: Life <b>\nTo: z\n\n<p>Pay\n  more?</p>\n"
    assert frozen_settings._said_in(mail) == "Life <b> Pay more?"
    assert frozen_settings._said_in("To: z\n\nnothing else") == "nothing else"


def test_data_that_are_not_found_are_skipped_aloud_and_others_are_run(
    tmp_path, capsys, monkeypatch
) -> None:
    def absent(config):
        raise InputError(field="dataset", value="cifar100", hint="could not be downloaded")

    few = (("isolated", {}), ("fl", {}))
    fields = {"model": "linear", "devices": 4, "samples_per_device": 40, "partition": "iid"}
    toys = {
        "absent": FeatureSetting("Absent", fields, few, absent),
        "toy": FeatureSetting("Toy", fields, few, lambda config: toy_dataset()),
    }
    monkeypatch.setattr(frozen_features, "SETTINGS", toys)
    monkeypatch.setattr(frozen_settings, "SETTINGS", toys)
    monkeypatch.setattr(frozen_features, "SEEDS", (0,))
    monkeypatch.setitem(frozen_settings.COMMON, "local_steps", 5)
    records = tmp_path / "records.jsonl"
    frozen_features.measure(records, list(toys))
    said = capsys.readouterr().out
    assert said.count("absent: skipped: dataset = cifar100: could not be downloaded") == 1
    rows = [json.loads(line) for line in records.read_text().splitlines()]
    assert [row["protocol"] for row in rows] == ["isolated", "fl"]
    assert "## Toy" in frozen_features.page(records)
    frozen_features.measure(records, ["toy"])
    assert len(records.read_text().splitlines()) == len(rows)  # nothing twice


@pytest.mark.parametrize("key", SETTINGS)
def test_every_contender_is_tried_once_for_its_rounds(key: str) -> None:
    tried = [(protocol, own.get("rounds", settings_of(key)["rounds"]))
             for protocol, own in SETTINGS[key].contenders]  # fmt: skip
    assert len(set(tried)) == len(tried)
