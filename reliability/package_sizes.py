"""What each dependency weighs, alone and with what only it brings, as ``docs/packages.md``."""

import json
import re
import subprocess
import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import NamedTuple

from pip._vendor.packaging.requirements import Requirement  # in every environment

MEGABYTE = 2**20
DEVICE = "## A small device"
"""The heading of the last part of the page, which ``make wheels`` writes."""
PAGE = Path(__file__).parent.parent / "docs" / "packages.md"
WHAT_FOR = {
    "jax": "trains models without native code, and evaluates all",
    "scipy": "link and privacy formulas; JAX needs it anyway",
    "numpy": "arrays; JAX needs it anyway",
    "optax": "optimisers",
    "pillow": "pictures of samples in the report",
    "pydantic": "checks settings and messages",
    "rich": "tables and progress in the terminal",
    "tyro": "the command line",
    "requests": "downloads datasets",
    "filelock": "one process writes a dataset into the cache",
    "safetensors": "checkpoints",
    "platformdirs": "where the cache is",
    "tomli-w": "writes config files",
}


class Weight(NamedTuple):
    """A direct dependency in megabytes."""

    name: str
    own: float
    alone: float
    """Of all packages that nothing else needs: what leaving it out would save."""
    brings: list[str]


def sizes() -> dict[str, float]:
    """Megabytes of each installed distribution."""
    return {_key(one.metadata["Name"]): _size(one) for one in distributions()}


def _size(package: Distribution) -> float:
    files = [Path(str(file.locate())) for file in package.files or []]
    return sum(file.stat().st_size for file in files if file.exists()) / MEGABYTE


def weights(root: str) -> list[Weight]:
    """The direct dependencies of ``root``, the heaviest first."""
    size = sizes()
    needs = {_key(one.metadata["Name"]): _required(one) for one in distributions()}
    direct = needs[root]
    found = []
    for name in direct:
        kept = _closure([other for other in direct if other != name], needs)
        lost = sorted(_closure(direct, needs) - kept)
        alone = sum(size.get(each, 0.0) for each in lost)
        found.append(Weight(name, size.get(name, 0.0), alone, [x for x in lost if x != name]))
    return sorted(found, key=lambda one: (-max(one.own, one.alone), one.name))


def _required(package: Distribution) -> list[str]:
    wanted = [Requirement(text) for text in package.requires or []]
    plain = [one for one in wanted if one.marker is None or one.marker.evaluate({"extra": ""})]
    return sorted({_key(one.name) for one in plain})


def _closure(names: list[str], needs: dict[str, list[str]]) -> set[str]:
    found: set[str] = set()
    left = list(names)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += needs.get(name, [])
    return found


def _key(name: str) -> str:
    return re.sub("[-_.]+", "-", name).lower()


def measured(python: Path) -> dict[str, object]:
    """The weights of the environment of another interpreter."""
    done = subprocess.run([python, __file__], check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout))


def render(record: dict[str, object], tried: list[str]) -> str:
    """The page."""
    rows = record["weights"]
    assert isinstance(rows, list)
    lines = [
        f"| {name} | {own:.1f} | {alone:.1f} | {WHAT_FOR.get(name, '')} |"
        for name, own, alone, _ in rows
    ]
    return "\n".join(
        [
            "# Packages",
            "",
            "Made by `make package`, which builds sdist and wheel, installs them into clean environments",
            "without a compiler, runs `mix2fld run` there and measures the size of what was installed; do not edit it.",
            f"Tested with Python {', '.join(tried)}.",
            "",
            f"`pip install mix2fld`: {record['total']:.0f} MB in {record['packages']} packages. *Saved* is what",
            "leaving the package out would save: nothing if another package needs it too. Bytecode, which",
            "pip adds (about an eighth more), is not counted.",
            "",
            "| package | MB | MB saved | what for |",
            "|---|---:|---:|---|",
            *lines,
            "",
            "JAX with what it needs (jaxlib, NumPy, SciPy, ml-dtypes) is",
            f"{record['jax']:.0f} MB of that. It stays in the base, since training without a compiler needs it.",
            "matplotlib is the extra `figures`: without it `mix2fld run` prints its table and writes the HTML",
            "report, but not `curves.png`. PyTorch, pandas, Flower, Ray, MQTT and trackers are extras, too;",
            "`mix2fld doctor` says which are missing and what that costs.",
            "",
        ]
    )


def device_part(page: Path = PAGE) -> str:
    """What the page says of a small device."""
    head, found, tail = page.read_text(encoding="utf-8").partition(f"\n{DEVICE}")
    del head
    return found + tail


def keep_device_size(python: Path, page: Path = PAGE) -> None:
    """Weigh the environment of a device and write its part of the page."""
    size = measured(python)["sizes"]
    assert isinstance(size, dict)
    heaviest_first = sorted(size, key=lambda name: -size[name])
    lines = [
        DEVICE,
        "",
        f"`pip install mix2fld-device` (x86-64, with kernels): {sum(size.values()):.0f} MB in {len(size)} packages,",
        "weighed by `make wheels` in a clean environment.",
        "",
        "| package | MB |",
        "|---|---:|",
        *(f"| {name} | {size[name]:.1f} |" for name in heaviest_first),
        "",
    ]
    head = page.read_text(encoding="utf-8").partition(f"\n{DEVICE}")[0]
    page.write_text(head + "\n" + "\n".join(lines), encoding="utf-8")
    print(f"what a device has installed: {sum(size.values()):.0f} MB")


def main() -> None:
    """Print the weights of this environment as JSON."""
    size = {name: value for name, value in sizes().items() if name not in ("pip", "setuptools")}
    needs = {_key(one.metadata["Name"]): _required(one) for one in distributions()}
    jax = sum(size.get(name, 0.0) for name in _closure(["jax"], needs))
    found = weights("mix2fld") if "mix2fld" in needs else []
    total = sum(size.values())
    record = {"total": total, "packages": len(size), "jax": jax, "weights": found, "sizes": size}
    json.dump(record, sys.stdout)


if __name__ == "__main__":
    main()
