"""Pages of Markdown from Jinja templates, which lie beside the modules that fill them."""

import re
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from mix2fld_lab.markdown import folded, markdown_table, paragraph


def render(template: Path, **values: Any) -> str:
    """The text of a page; never more than one empty line in a row."""
    text = _environment(template.parent).get_template(template.name).render(values)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


@cache
def _environment(folder: Path) -> Environment:
    found = Environment(
        loader=FileSystemLoader(folder),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
    found.filters |= {
        "table": lambda rows, *header: markdown_table(header, rows),
        "paragraph": lambda text: paragraph(text.strip()) + "\n",
        "folded": lambda text, title: folded(title, text),
    }
    return found
