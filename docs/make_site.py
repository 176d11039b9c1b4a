"""Builds the documentation site: ``make docs`` writes ``build/site/html``, offline.

The sources keep the layout of the repository, so that the links of every page hold in both. Pages
of protocols, the reference of the package and the gallery are generated.
"""

import ast
import html
import inspect
import shutil
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

from make_settings import settings_page
from public_names import PUBLIC, reference_of

from mix2fld.advice.measured import MeasuredSetting, load_measured
from mix2fld.config.settings import Config
from mix2fld.engine.wire import Wire
from mix2fld.protocols import table
from mix2fld.protocols.base import TRAINING, Protocol, parameters_of
from mix2fld.protocols.table import PROTOCOLS
from mix2fld.runs.link_plan import sizes_of
from mix2fld.tasks.learning import Sizes

ROOT = Path(__file__).parent.parent
SITE = ROOT / "docs" / "site"
BUILD = ROOT / "build" / "site"
PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "GOVERNANCE.md", "SECURITY.md")
FOLDERS = ("docs", "results", "examples", "baselines", "src")
LINKED = (
    "tests/reference.py",
    "LICENSE",
    "CITATION.cff",
    "containers/ray-up.yaml",
    "containers/ray.slurm",
    "containers/kuberay.yaml",
    "containers/Dockerfile.cluster",
)
IN_THE_SITE = (".md", ".png", ".svg", ".py", ".json", ".jsonl", ".ipynb")
PICTURES = ("results/figures", "docs/images")
INTRODUCTION = """Each protocol is a class with both its halves, and one table lists them all.
Each has a page with its idea, equation, bits, measured accuracy and code."""
GALLERY = """# Gallery

Every figure of the results, with the command that draws it. Choose one to see it in full size."""
API = """# API

The public names, from their docstrings. Most users need `mix2fld` alone; extensions import
`mix2fld.extend` and `mix2fld.codecs`, and models of other frameworks come with `mix2fld.models`.
"""
Words = dict[str, dict[str, str]]


def main() -> int:
    """Put the sources together and build them; warnings are errors."""
    from sphinx.cmd.build import build_main

    shutil.rmtree(BUILD, ignore_errors=True)
    source = BUILD / "source"
    copy_pages(source)
    write_protocols(source / "protocols")
    write_reference(source / "api")
    (source / "settings.md").write_text(settings_page(), encoding="utf-8")
    write_gallery(source)
    trees = ["-d", str(BUILD / "trees")]
    options = ["-q", "-W", "--keep-going", "-b", "html", *trees, str(source), str(BUILD / "html")]
    return int(build_main(options))


def copy_pages(source: Path) -> None:
    """The pages of the repository, with what they link to; templates of pages are none."""
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            template = folder == "src" and path.suffix == ".md"
            if path.suffix in IN_THE_SITE and not template and not path.is_relative_to(SITE):
                _copy(path, source / path.relative_to(ROOT))
    for name in (*PAGES, *LINKED):
        _copy(ROOT / name, source / name)
    _copy(SITE / "site.css", source / "_static" / "site.css")
    _copy(SITE / "index.md", source / "index.md")
    _copy(SITE / "conf.py", source / "conf.py")
    with (source / "docs" / "decisions" / "README.md").open("a", encoding="utf-8") as index:
        index.write("\n```{toctree}\n:hidden:\n:glob:\n\n[0-9]*\n```\n")


def write_protocols(folder: Path) -> None:
    """A page for each row of the table; a row without words stops the build."""
    words = protocol_words()
    silent, unknown = PROTOCOLS.keys() - words.keys(), words.keys() - PROTOCOLS.keys()
    if silent or unknown:
        raise SystemExit(
            f"src/mix2fld/protocols/*.toml: without words: {sorted(silent)}; "
            f"no rows: {sorted(unknown)}"
        )
    folder.mkdir(parents=True)
    settings = tuple(load_measured().values())
    for name, row in PROTOCOLS.items():
        page = protocol_page(name, row, words[name], settings)
        (folder / f"{name}.md").write_text(page, encoding="utf-8")
    lines = [
        f"| [{row.title}]({name}.md) | {words[name]['when']} |" for name, row in PROTOCOLS.items()
    ]
    names = "\n".join(PROTOCOLS)
    index = "\n".join(
        ["# Protocols", "", INTRODUCTION, "", "| protocol | when to use it |", "|---|---|", *lines]
    )
    (folder / "index.md").write_text(
        f"{index}\n\n```{{toctree}}\n:hidden:\n\n{names}\n```\n", encoding="utf-8"
    )


def protocol_words() -> Words:
    """What the page of each protocol says, from the file beside the code of its family."""
    words: Words = {}
    for page in sorted((ROOT / "src" / "mix2fld" / "protocols").glob("*.toml")):
        words |= tomllib.loads(page.read_text(encoding="utf-8"))
    return words


def protocol_page(
    name: str, row: Protocol, words: dict[str, str], settings: tuple[MeasuredSetting, ...]
) -> str:
    """Idea, picture, equation, bits, when to use it, measured accuracy, and its row."""
    return f"""# {row.title}

{words["idea"]}

{diagram(words)}

{equation(words["equation"])}

{words["where"]}

**When to use it.** {words["when"]}

**Bits of a device** with the default settings on MNIST: {bits(name, row)}.

## Measured accuracy

{fares(name, settings)}

## Code

```
mix2fld run --protocols {name}
```

{parameters(row)}

In the file of its family, listed in [the protocol table](../src/mix2fld/protocols/table.py):

```python
{source_of(name)}
```
"""


def parameters(row: Protocol) -> str:
    """What can be spelled behind its name."""
    named = ", ".join(f"`{name}`" for name in sorted(parameters_of(row), key=TRAINING.__contains__))
    return f"Parameters, as in `murmur:bits=200`: {named}."


def bits(name: str, row: Protocol) -> str:
    """Of the first and of later uploads, and of a download."""
    wire = _wire(name, row)
    first, later = wire.upload_size(with_seeds=True), wire.upload_size(with_seeds=False)
    down = wire.download_size()
    ups = (
        f"{later.bits:,} on the uplink"
        if first == later
        else f"{first.bits:,} on the uplink in the first round, then {later.bits:,}"
    )
    return f"{ups}; {down.bits:,} on the downlink"


def diagram(words: dict[str, str]) -> str:
    """Device and server, and what goes between them."""
    up, down, step = (html.escape(words[key]) for key in ("up", "down", "server"))
    box = 'fill="none" stroke="currentColor" rx="6"'
    text = 'fill="currentColor" text-anchor="middle" font-size="13"'
    return f"""<svg class="exchange" viewBox="0 0 440 130" role="img"
aria-label="up: {up}; down: {down}">
<rect x="2" y="30" width="70" height="64" {box}/><text x="37" y="67" {text}>device</text>
<rect x="368" y="30" width="70" height="64" {box}/><text x="403" y="67" {text}>server</text>
<path d="M78 47H360M352 41l8 6l-8 6" fill="none" stroke="currentColor"/>
<path d="M362 78H80M88 72l-8 6l8 6" fill="none" stroke="currentColor"/>
<text x="220" y="36" {text}>{up}</text><text x="220" y="98" {text}>{down}</text>
<text x="438" y="118" fill="currentColor" text-anchor="end" font-size="13">{step}</text>
</svg>"""


def equation(tex: str) -> str:
    """An equation as a drawing, so that the site needs no script from elsewhere."""
    from matplotlib.textpath import TextPath

    path = TextPath((0, 0), f"${tex}$", size=18)
    box = path.get_extents()
    steps = []
    for points, code in path.iter_segments(curves=True, simplify=False):
        places = " ".join(f"{x:.2f}" for x in points) if code != path.CLOSEPOLY else ""
        steps.append(f"{'?MLQC'[code] if code < 5 else 'Z'}{places}")
    width, height = box.width + 8, box.height + 8
    return (
        f'<svg class="equation" role="img" aria-label="{html.escape(tex)}" width="{width:.0f}" '
        f'height="{height:.0f}" viewBox="{box.x0 - 4:.1f} {-box.y1 - 4:.1f} {width:.1f} '
        f'{height:.1f}"><path transform="scale(1,-1)" fill="currentColor" d="{"".join(steps)}"/>'
        "</svg>"
    )


def fares(name: str, settings: tuple[MeasuredSetting, ...]) -> str:
    """The points of a protocol in every measured setting."""
    lines = [
        f"| {setting.title} | {point.title} | {point.bits:,.0f} | {_percent(point.devices)} "
        f"| {_percent(point.server)} |"
        for setting in settings
        for point in setting.points
        if point.protocol == name
    ]
    if not lines:
        return "Not part of [the comparison](../results/FRONTIER.md) so far."
    head = "| setting | contender | uplink bits of a device | devices, % | server, % |"
    source = "From [the comparison](../results/FRONTIER.md), `make frontier`."
    return "\n".join([source, "", head, "|---|---|---:|---:|---:|", *lines])


def source_of(name: str) -> str:
    """The class of a protocol, and the object of it that the table lists."""
    kind = type(PROTOCOLS[name])
    entries: ast.Dict = _assigned(table, "PROTOCOLS")[1]  # type: ignore[assignment]
    keys = [ast.literal_eval(key) for key in entries.keys if key is not None]
    made = entries.values[keys.index(name)]
    source = inspect.getsource(table)
    if isinstance(made, ast.Name):
        source, made = _assigned(sys.modules[kind.__module__], made.id)
    return (
        f'{inspect.getsource(kind)}\n\nPROTOCOLS["{name}"] = {ast.get_source_segment(source, made)}'
    )


def _assigned(module: ModuleType, name: str) -> tuple[str, ast.expr]:
    """The source of a module, and what it calls by this name."""
    source = inspect.getsource(module)
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if ast.unparse(target) == name:
                return source, node.value
    raise LookupError(f"{module.__name__}: no {name}")


def write_reference(folder: Path) -> None:
    """A page for each public module, from docstrings; a name without one stops the build."""
    folder.mkdir(parents=True)
    for module in PUBLIC:
        (folder / f"{module}.md").write_text(reference_of(module), encoding="utf-8")
    names = "\n".join(PUBLIC)
    (folder / "index.md").write_text(
        f"{API}\n```{{toctree}}\n:maxdepth: 1\n\n{names}\n```\n",
        encoding="utf-8",
    )


def write_gallery(source: Path) -> None:
    """Every figure of the results and pages; one without words stops the build."""
    words: Words = tomllib.loads((SITE / "gallery.toml").read_text(encoding="utf-8"))
    found = {path.stem: path for folder in PICTURES for path in (ROOT / folder).glob("*.png")}
    silent = [name for name in found if name not in words and not name.startswith("frontier-")]
    unknown = sorted(words.keys() - found.keys())
    if silent or unknown:
        raise SystemExit(f"docs/site/gallery.toml: without words: {silent}; no figures: {unknown}")
    shown = [_in_gallery(found[name], about) for name, about in words.items()]
    titles = {key: setting.title for key, setting in load_measured().items()}
    settings = [
        _in_gallery(
            found[name],
            {"title": titles.get(name.removeprefix("frontier-"), name), "made": "make frontier"},
        )
        for name in sorted(name for name in found if name.startswith("frontier-"))
    ]
    sections = [GALLERY, _pictures(shown), "## Accuracy against uplink bits", _pictures(settings)]
    (source / "gallery.md").write_text("\n\n".join(sections) + "\n", encoding="utf-8")


def _pictures(shown: list[str]) -> str:
    """Side by side, as many as the page is wide."""
    return "\n\n".join(["::::{container} gallery", *shown, "::::"])


def _in_gallery(path: Path, about: dict[str, str]) -> str:
    """A picture that opens in full size, with its title and the command that makes it."""
    title, place = about["title"], path.relative_to(ROOT)
    return (
        f":::{{figure}} {place}\n:alt: {title}\n:target: {place}\n\n"
        f"**{title}.** Made by `{about['made']}`.\n:::"
    )


def _sizes(name: str) -> Sizes:
    """Of the paper's network and MNIST, which need no data."""
    return sizes_of(Config.of(protocol=name))


def _wire(name: str, row: Protocol) -> Wire:
    return Wire(row, _sizes(name))


def _percent(values: Any) -> str:
    if values is None:
        return "–"
    return f"{100 * sum(values) / len(values):.1f}"


def _copy(path: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, target)


if __name__ == "__main__":
    sys.exit(main())
