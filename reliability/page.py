"""``docs/reliability.md`` and the table of ``docs/formats.md``, from the records and the code."""

from pathlib import Path
from typing import Any

from mix2fld import codecs as payloads
from mix2fld.deploy import messages
from mix2fld.report.markdown import markdown_table
from mix2fld.runs import checkpoint, config_file, records, state_files

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reliability.md"
FORMATS_PAGE = ROOT / "docs" / "formats.md"
MISSING = "No record yet.\n"


def write_page() -> None:
    from reliability.records import read_records

    PAGE.write_text(render(read_records()), encoding="utf-8")
    FORMATS_PAGE.write_text(render_formats(), encoding="utf-8")


def render(found: dict[str, dict[str, Any]]) -> str:
    """The page, every figure of it from a record."""
    return "\n".join(
        (
            HEAD,
            _section("Killed", "make crash", CRASH, found.get("crash"), _crash),
            _section(
                "Faults at every file operation", "make crash", FAULTS, found.get("faults"), _faults
            ),
            _section("Hostile input", "make fuzz", FUZZ, found.get("fuzz"), _fuzz),
            _section("Load", "make soak", SOAK, found.get("soak"), _soak),
            TAIL,
        )
    )


HEAD = """# Reliability

What can go wrong with a run, what happens then, and how it was tested. Every number on this page is
written by the command named beside it, from `results/reliability`; `make test` runs a short form of
each. The guarantees about files are in [formats](formats.md).

| what happens | what the user gets |
|---|---|
| the process is killed, the power fails | the same command, or `mix2fld resume DIR`, resumes after the last finished round; `rounds.jsonl`, `summary.json` and the last checkpoint end with the same bytes as an uninterrupted run |
| Ctrl-C | a round that is being written is written in full; one line says how to resume; exit code 130 |
| a checkpoint is damaged | detected by its SHA-256; it is set aside as `….damaged`, the previous one is used, the user is warned |
| a record is damaged | detected by its checksum, which also covers the previous line; set aside, and rounds that cannot be trusted are simulated again |
| a finished run is damaged | it is not read as a result: one line names the file and `mix2fld resume` |
| `config.toml` or the data changed | refused, with both values |
| a file is of a newer format, a folder holds something else | refused, nothing is touched |
| a cached dataset is damaged | detected by its checksum, set aside, downloaded again |
| others can write to the cache, or own it | no compiled code is loaded from it; one line says so |
| the disk is full or read-only | one line; finished rounds are kept |
| two processes on one run | the second is refused; the lock of a dead process is released |
| training or conversion diverges | stops with round, device and likely cause; only finite numbers are ever recorded; a run whose devices end at chance level warns |
| hostile files | refused in one line: no code is executed, nothing is unpacked to disk, and no array is allocated that is larger than 256 MiB or 100 times its file |
"""

CRASH = """Real `mix2fld run` processes receive SIGKILL at random instants and are restarted, by the same command
or by `mix2fld resume`, until they finish. The folder is then compared, byte for byte, with that of an
uninterrupted run.
"""

FAULTS = """Each disk operation of a run fails in turn, before it starts, halfway, or after it: the process dies; the
power is cut, and everything that was not synced is lost; the same, but new file names survive; the disk
is full. The run starts from an empty folder, from one with a damaged checkpoint or record, or overwrites
another; after the fault it is restarted and compared as above.
"""

FUZZ = """Valid files are damaged at random and read: an input is accepted, with a value that is checked, or rejected
with the documented error; anything else stops the fuzzer without a record. Whatever is accepted from a run
folder must be the true rounds and the true state. Atheris, where it can be installed, searches for inputs
that reach new code paths.
"""

SOAK = """Runs of all protocols in one process, each pass into its own folder, one run of it interrupted and resumed,
results read back. Growth is the slope of a linear fit to the second half.
"""

TAIL = """## Limits

- Byte-for-byte equality holds on one machine with one set of versions: another processor, XLA or compiler
  rounds differently. A run that resumes with another kernel than it started with warns.
- With `computing_time = "measured"`, seconds are measured anew after each restart.
- Files of format 1, which have no checksums, are trusted.
- A custom model or link is identified by its name or class, not by its code.
- The records of `mix2fld reproduce` and what `mix2fld export` writes are plain files without checksums.
- Checksums protect against accidents, not against forgery.
- A sync is only as reliable as the disk that confirms it.
"""


def _section(title: str, command: str, text: str, record: Any, table: Any) -> str:
    figures = MISSING if record is None else table(record)
    return f"## {title}: `{command}`\n\n{text}\n{figures}"


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


def render_formats() -> str:
    """The page of guarantees, with the format numbers of the code."""
    rows = [
        (
            "`config.toml`",
            config_file.FORMAT,
            "`format`",
            "first line, over the rest",
            "without a number: format 1, so files written by hand need none",
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
            "`states-*.safetensors`",
            state_files.FORMAT,
            "`states` in the metadata",
            "SHA-256 of the file, in the checkpoint",
            "–",
        ),
        (
            "message of a deployment over Flower",
            messages.FORMAT,
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
    return FORMATS.format(
        table=_table(("file", "format", "where it is stored", "checksum", "older formats"), rows)
    )


FORMATS = """# Formats

Everything that is written to disk or sent has a format number. It is raised only when a reader of the
previous number would misread the file: a new field is not a new format.

{table}
Guarantees:

- Every version of mix2fld reads all formats from 1 to the one it writes.
- A newer format is refused with one line, and the file is not touched.
- `format` and `checksum` keep their place and meaning in every format, so that a newer file and a
  damaged one are never mistaken for each other.
- `rounds.jsonl` has one JSON object per line, finite numbers only; a line is never changed after it is
  written. While a run is in progress the last line may be incomplete.
- The bytes of a payload of one format never change: `tests/reliability/test_formats_kept.py` compares
  them.

`scores` of a line and of a summary has the task's `metric` (name, unit, which direction is `better`, and how it is shown:
`factor` times the value, with so many `digits`) beside what is measured: `devices` as `measured` names them, the
`reference` device, and the server's model (`global`); each point of `curve` has a `score`. Up to format 3 these were
`accuracy`, of classification only; `mix2fld.runs.records` reads them as scores with the metric accuracy.

The checksum of a line is the first 16 hexadecimal digits of the SHA-256 of the previous line's checksum
(nothing for the first line), followed by the line without its own, as `json.dumps` writes it.
`checkpoint.previous.safetensors` is the checkpoint before the last, kept until the run is finished;
`states-*.safetensors`, with `device_states = disk`, are states of devices that either checkpoint refers to;
`failure.txt` says in one line why a run ended before its last round, and is removed when it is resumed;
`.part` is a file that is being written, `.lock` marks a run in progress, and `.damaged` is a damaged file
that was set aside. All but the last are removed by the next start.
"""


def _table(header: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    """Whole numbers with thousands separators."""
    shown = ([f"{c:,}" if isinstance(c, int) else str(c) for c in cells] for cells in rows)
    return markdown_table(header, shown) + "\n"


if __name__ == "__main__":
    write_page()
