"""Sphinx settings of the documentation site; ``docs/make_site.py`` puts its sources together."""

import re
from typing import Any

from mix2fld import __version__

project = "mix2fld"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx_copybutton"]
html_theme = "furo"
version = release = __version__
html_title = f"mix2fld {release}"
html_show_copyright = False
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 4
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
# Two classes of one name are no dead link: annotations name them without their module.
suppress_warnings = ["ref.python"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
templates_path: list[str] = []
autodoc_default_options = {"members": True, "ignore-module-all": True}


def setup(app: Any) -> None:
    """Docstrings are plain text with code in double backticks."""
    app.connect("autodoc-process-docstring", _as_text)


def _as_text(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Stars and bars mean themselves."""
    del app, what, name, value, options
    lines[:] = [
        "".join(
            part if part.startswith("``") else re.sub(r"([*|])", r"\\\1", part)
            for part in re.split(r"(``.*?``)", line)
        )
        for line in lines
    ]
