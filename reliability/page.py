"""``docs/reliability.md`` and the table of ``docs/formats.md``, from the records and the code."""

from pathlib import Path
from typing import Any

from mix2fld import codecs as payloads
from mix2fld.deploy import forms
from mix2fld.runs import checkpoint, config_file, records, state_files
from mix2fld_lab.markdown import markdown_table
from mix2fld_lab.pages import render as filled

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reliability.md"
FORMATS_PAGE = ROOT / "docs" / "formats.md"
TEMPLATES = Path(__file__).parent / "templates"
MISSING = "No record yet.\n"


def write_page() -> None:
    from reliability.records import read_records

    PAGE.write_text(render(read_records()), encoding="utf-8")
    FORMATS_PAGE.write_text(render_formats(), encoding="utf-8")


def render(found: dict[str, dict[str, Any]]) -> str:
    """The page, every figure of it from a record."""
    tables = {"crash": _crash, "faults": _faults, "fuzz": _fuzz, "soak": _soak, "chaos": _chaos}
    figures = {
        name: table(found[name]) if name in found else MISSING for name, table in tables.items()
    }
    return filled(TEMPLATES / "reliability.md.j2", **figures)


def _crash(record: dict[str, Any]) -> str:
    rows = [
        ("SIGKILLs", record["kills"]),
        ("runs that ended with identical bytes", record["identical"]),
    ]
    rows += [(f"killed {where}", count) for where, count in sorted(record["where"].items())]
    rows += [(f"started by {how}", count) for how, count in sorted(record["starts"].items())]
    groups = ", ".join(f"{name}: {n}" for name, n in record["group"].items() if "," not in name)
    together = sum(n for name, n in record["group"].items() if "," in name)
    return (
        _table(("", "count"), rows)
        + f"\nKills by protocol: {groups}; of a run of all protocols: {together}.\n"
    )


def _faults(record: dict[str, Any]) -> str:
    rows = [("faults injected, all survived", record["survived"])]
    for kind in ("fault", "instant", "operation", "start"):
        rows += [(f"{kind}: {name}", count) for name, count in record[kind].items()]
    return _table(("", "count"), rows)


def _fuzz(record: dict[str, Any]) -> str:
    rows = [
        (
            of["title"],
            f"{of['inputs']:,}",
            f"{of['accepted']:,}",
            f"{of['refused']:,}",
            f"{of['slowest_ms']:g}",
            f"{of['memory_growth_mb']:g}",
        )
        for of in record["mutation"].values()
    ]
    heads = ("reader", "inputs", "accepted", "refused", "slowest, ms", "memory, + MB")
    text = _table(heads, rows)
    searched = [
        (of["title"], f"{of['inputs']:,}", of["new_paths"]) for of in record["search"].values()
    ]
    if searched:
        text += "\nAtheris:\n\n" + _table(("reader", "inputs", "new paths"), searched)
    return text


def _soak(record: dict[str, Any]) -> str:
    memory, files = record["memory_mb"], record["open_files"]
    rows = [
        ("minutes", record["minutes"]),
        ("runs", f"{record['runs']:,}"),
        ("rounds", f"{record['rounds']:,}"),
        (
            "memory after the first pass, halfway, at the end, MB",
            f"{memory['after_first_pass']}, {memory['half_way']}, {memory['end']}",
        ),
        ("growth, MB per hour", memory["growth_per_hour"]),
        (
            "open files: first, most, last",
            f"{files['first']}, {files['most']}, {files['end']}",
        ),
    ]
    return _table(("", "measured"), rows)


def _chaos(record: dict[str, Any]) -> str:
    runs = record["runs"]
    kinds = sorted({kind for one in runs for kind in one["events"]})
    parts = sorted({part for one in runs for part in one["starts"]})

    def row(name: str, *keys: str) -> tuple[Any, ...]:
        def found(one: dict[str, Any]) -> Any:
            for key in keys:
                one = one.get(key, 0)
            return one

        return (name, *map(found, runs))

    rows = [
        row("minutes", "minutes"),
        row("rounds, each once and with an upload", "rounds"),
        row("of them with the simulator's numbers, from the first on", "like_the_simulator"),
        row("faults", "struck"),
        *(row(f"– {kind}", "events", kind) for kind in kinds),
        *(row(f"starts of {part}", "starts", part) for part in parts),
        row("rounds that waited for a lost transport", "rounds_that_waited"),
        row("rounds asked again", "rounds_asked_again"),
        row("uploads asked for", "uploads", "asked"),
        row("uploads taken", "uploads", "taken"),
        row("fewest in a round", "uploads", "fewest"),
        row("of the liar, refused", "uploads", "refused_of_liar"),
        row("rounds in which the liar is a suspect", "suspect_rounds", "liar"),
        row("the same of an honest device, at most", "suspect_rounds", "most_of_an_honest_device"),
        row("floods", "floods"),
        row("times the flooder was named and refused", "floods_named"),
        row("accuracy of the server's model", "accuracy", "here"),
        row("without faults, lies and floods", "accuracy", "without_faults"),
    ]
    return _table(("", *(f"seed {one['seed']}" for one in runs)), rows)


def render_formats() -> str:
    """The page of guarantees, with the format numbers of the code."""
    rows = [
        (
            "`config.toml`",
            config_file.FORMAT,
            "`format`",
            "first line, over the rest",
            "a file written by hand needs none: it is of the newest format; a run's config without "
            "one is of format 1",
        ),
        (
            "`rounds.jsonl`",
            records.FORMAT,
            "`format` of each line",
            "`checksum` of each line, over it and the previous one",
            "formats 1 (no checksums), 2 and 3 are read and resumed",
        ),
        (
            "`summary.json`",
            records.FORMAT,
            "`format`",
            "`checksum`, over it and the last record",
            "formats 1 to 3 are read",
        ),
        (
            "`checkpoint.safetensors`",
            checkpoint.FORMAT,
            "`state` in the metadata",
            "SHA-256 of all scalars and tensors",
            "formats 1 to 3 are read and resumed",
        ),
        (
            "`finetuned.safetensors`",
            1,
            "none: arrays are named `device.place`",
            "none; it is made again from the checkpoint if the run has no summary",
            "–",
        ),
        (
            "`states-*.safetensors`",
            state_files.FORMAT,
            "`states` in the metadata",
            "SHA-256 of the file, in the checkpoint",
            "–",
        ),
        (
            "message of a deployment over Flower",
            forms.FORMAT,
            "`format` of each order and download, which the device checks",
            "the link's",
            "both ends must run versions with the same number; 6: what was `room` in an order is "
            "`bit_budget`, as in the code, and a device refuses fields that it does not know",
        ),
        (
            "payload",
            payloads.FORMAT,
            "nowhere: a message of the deployment carries its own `format`, which the device checks",
            "the link's",
            "both ends must run versions with the same number",
        ),
    ]
    shown = [tuple(map(str, row)) for row in rows]
    return filled(TEMPLATES / "formats.md.j2", rows=shown)


def _table(header: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    """Whole numbers with thousands separators."""
    shown = ([f"{c:,}" if isinstance(c, int) else str(c) for c in cells] for cells in rows)
    return markdown_table(header, shown) + "\n"


if __name__ == "__main__":
    write_page()
