"""Sentences as paragraphs of a page."""

import re
import textwrap

JOINED = "\0"
TOGETHER = re.compile(r"`[^`]+`|\S+ = \S+|[\d.,]+ (?:%|µs|points)")


def paragraph(text: str) -> str:
    """The text in lines of at most 100 characters; code and numbers with units stay together."""
    kept = TOGETHER.sub(lambda found: found[0].replace(" ", JOINED), text)
    lines = textwrap.fill(kept, 100, break_long_words=False, break_on_hyphens=False)
    return lines.replace(JOINED, " ")
