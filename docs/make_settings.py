"""The page of all settings: each field of the config with its default and its docstring."""

import ast
import inspect
import textwrap
from typing import Any

from mix2fld.config.fields import Section
from mix2fld.config.grid import Grid
from mix2fld.config.settings import PRESETS, SECTIONS

HEAD = """# Settings

Every setting is a flag (`--max-slots 100`), a field of a TOML file and a keyword argument of
`mix2fld.Grid.of`; {doc}`change settings <docs/howto/settings>` shows all three. In a TOML file,
the settings of a section are listed below its name in brackets, such as `[data]`. Defaults are the
paper's.
"""


def settings_page() -> str:
    """A table for each section, and the presets."""
    parts = [HEAD, "## Runs", _table(Grid, skipped=SECTIONS.keys())]
    for name, kind in SECTIONS.items():
        about = inspect.getdoc(kind) or ""
        parts += [f"## [{name}]", about, _table(kind)]
    parts += ["## Presets", "`--preset NAME` sets several settings at once.", _presets()]
    return "\n\n".join(parts) + "\n"


def docstrings(kind: type[Section]) -> dict[str, str]:
    """The string below each field of a section."""
    found = {}
    for each in reversed(kind.__mro__):
        if not issubclass(each, Section):
            continue
        (body,) = ast.parse(textwrap.dedent(inspect.getsource(each))).body
        assert isinstance(body, ast.ClassDef)
        for field, below in zip(body.body, body.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr):
                assert isinstance(field.target, ast.Name)
                found[field.target.id] = " ".join(str(ast.literal_eval(below.value)).split())
    return found


def _table(kind: type[Section], skipped: Any = ()) -> str:
    said = docstrings(kind)
    fields = {name: field for name, field in kind.model_fields.items() if name not in skipped}
    silent = [name for name in fields if name not in said]
    if silent:
        raise SystemExit(f"settings without a docstring: {', '.join(silent)}")
    rows = [
        f"| `{name}` | {_shown(field.default)} | {_escaped(said[name])} |"
        for name, field in fields.items()
    ]
    return "\n".join(["| setting | default | meaning |", "|---|---|---|", *rows])


def _presets() -> str:
    rows = [
        f"| `{name}` | {', '.join(f'`{key}` = {_shown(value)}' for key, value in values.items())} |"
        for name, values in PRESETS.items()
    ]
    return "\n".join(["| preset | settings |", "|---|---|", *rows])


def _shown(value: Any) -> str:
    if value is None or value == ():
        return "–"
    if isinstance(value, tuple):
        return " ".join(map(_shown, value))
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("[", "\\[").replace("*", "\\*").replace("_", "\\_")
