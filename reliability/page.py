"""``docs/reliability.md`` and the table of ``docs/formats.md``, from the records and the code."""

from pathlib import Path
from typing import Any

from mix2fld.link import payload
from mix2fld.runs import checkpoint, config_file, records

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

What may go wrong with a run, what happens then, and how it was tried. Every figure on this page is
written by the command named beside it, from `results/reliability`; `make test` has a short form of
each. What is promised of the files is in [formats](formats.md).

| what happens | what the user gets |
|---|---|
| the process is killed, the power fails | the same command, or `mix2fld resume DIR`, goes on after the last finished round; `rounds.jsonl`, `summary.json` and the last checkpoint end with the same bytes as without it |
| Ctrl-C | the round that is being written is written; one line says how to go on; exit code 130 |
| a checkpoint is damaged | found by its SHA-256; it is set aside as `….damaged`, the one before it is used, the user is told |
| a record is damaged | found by its checksum, which also covers the line before it; set aside, and what cannot be trusted is played again |
| a finished run is damaged | it is no result: whoever reads it gets one line that names the file and `mix2fld resume` |
| `config.toml` was changed, the samples are other ones | refused, with both values |
| a file is of a newer format, a folder holds something else | refused, nothing is touched |
| a cached dataset is damaged | found by checksum, set aside, fetched again |
| the disk is full or read-only | one line; finished rounds are kept |
| two processes on one run | the second is refused; the lock of a dead process is free |
| training or conversion diverges | stops with round, device and likely cause; nothing that is not a finite number is ever recorded; a run whose devices end no better than guessing says so |
| hostile files | refused in one line: no code is run, nothing is unpacked to disk, and no array is made that is larger than 256 MiB or 100 times its file |
"""

CRASH = """Real `mix2fld run` processes get SIGKILL at random instants and are started again, by the same command
or by `mix2fld resume`, until they are done. Then the folder is compared, byte for byte, with that of a
run that nobody killed.
"""

FAULTS = """Each operation that a run does on disk goes wrong in turn, before it, half done, or after it: the process
dies; the power is cut, and with it goes all that was not synced; the same, but new names survive; the
disk is full. The run starts from an empty folder, from one with a damaged checkpoint or record, or
overwrites another; after the fault it is started again and compared as above.
"""

FUZZ = """Sound files are damaged at random and read: an input is accepted, with a value that is checked, or refused
by the documented error; anything else stops the fuzzer, and there is no record. What is accepted of a run
folder must be the true rounds and the true state. Atheris, where it installs, looks for inputs that take
new paths through the code.
"""

SOAK = """Runs of all protocols in one process, each pass into a folder, one of them stopped and resumed, results
read back. Growth is the slope of a straight line through the second half.
"""

TAIL = """## Limits

- Byte for byte holds on one machine with one set of versions: another processor, XLA or compiler rounds
  otherwise. A run that goes on with another kernel than it began with says so.
- With `computing_time = "measured"`, seconds are those of each start.
- Files of format 1, from before there were checksums, are read on trust.
- A model or a link of one's own is told apart by its name or class, not by its code.
- The records of `mix2fld reproduce` and what `mix2fld export` writes are plain files without checksums.
- Checksums are against accidents, not against forgery.
- A sync is as good as the disk that answers it.
"""


def _section(title: str, command: str, text: str, record: Any, table: Any) -> str:
    figures = MISSING if record is None else table(record)
    return f"## {title}: `{command}`\n\n{text}\n{figures}"


def _crash(record: dict[str, Any]) -> str:
    rows = [
        ("SIGKILLs", record["kills"]),
        ("runs that ended with the same bytes", record["identical"]),
    ]
    rows += [(f"killed {where}", count) for where, count in sorted(record["where"].items())]
    rows += [(f"started by {how}", count) for how, count in sorted(record["starts"].items())]
    groups = ", ".join(f"{name}: {n}" for name, n in record["group"].items() if "," not in name)
    together = sum(n for name, n in record["group"].items() if "," in name)
    return (
        _table(("", "count"), rows)
        + f"\nKills by protocol: {groups}; of all together: {together}.\n"
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
            "memory after the first pass, half-way, at the end, MB",
            f"{memory['after_first_pass']}, {memory['half_way']}, {memory['end']}",
        ),
        ("growth, MB an hour", memory["growth_per_hour"]),
        (
            "open files at first, at most, at the end",
            f"{files['first']}, {files['most']}, {files['end']}",
        ),
    ]
    return _table(("", "measured"), rows)


def render_formats() -> str:
    """The page of promises, with the numbers that the code has."""
    rows = [
        (
            "`config.toml`",
            config_file.FORMAT,
            "`format`",
            "first line, over the rest",
            "without a number it is of format 1: files written by hand need none",
        ),
        (
            "`rounds.jsonl`",
            records.FORMAT,
            "`format` of each line",
            "`checksum` of each line, over it and the one before",
            "format 1 (no checksums) is read, and gone on with",
        ),
        (
            "`summary.json`",
            records.FORMAT,
            "`format`",
            "`checksum`, over it and the last record",
            "format 1 is read",
        ),
        (
            "`checkpoint.safetensors`",
            checkpoint.FORMAT,
            "`state` in the metadata",
            "SHA-256 of all scalars and tensors",
            "format 1 is read, and gone on with",
        ),
        (
            "payload",
            payload.FORMAT,
            "beside it, in the message",
            "the link's",
            "both ends must have the same number; it is not charged, as the dimensions are not",
        ),
    ]
    return FORMATS.format(
        table=_table(("file", "format", "where it stands", "checksum", "older ones"), rows)
    )


FORMATS = """# Formats

What is written to disk or sent carries a format number. A number goes up when a reader of the number
before would misread the file, and only then: a new field is not a new format.

{table}
Promises:

- A version of mix2fld reads every format from 1 to the one that it writes.
- A newer format is refused with one line, and the file is left as it is.
- `format` and `checksum` keep their place and meaning in every format, so that a newer file and a
  damaged one are never mistaken for each other.
- `rounds.jsonl` is one JSON object a line, finite numbers only; a line is never changed after it is
  written. While a run is under way the last line may be incomplete: wait for its end.
- The bytes of a payload of one format never change: `tests/reliability/test_formats_kept.py` holds
  them.

The checksum of a line is the first 16 hexadecimal digits of the SHA-256 of the line before's checksum
(nothing for the first line), followed by the line without its own, as `json.dumps` writes it.
`checkpoint.previous.safetensors` is the checkpoint before the last, kept until the run is finished;
`.part` is a file that is being written, `.lock` says that a process is at work, and `.damaged` is what
was found damaged and set aside. All but the last are removed by the next start.
"""


def _table(heads: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    def line(cells: tuple[Any, ...]) -> str:
        shown = (f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in cells)
        return f"| {' | '.join(shown)} |\n"

    dashes = "|---" + "|---:" * (len(heads) - 1) + "|\n" if len(heads) != 5 else "|---" * 5 + "|\n"
    return line(heads) + dashes + "".join(map(line, rows))


if __name__ == "__main__":
    write_page()
