"""Exact packages of a deployment with their SHA-256: ``containers/*requirements.txt``.

``make lock`` has pip resolve what servers, devices and builds need within the constraints, without
installing anything, and gives its report to this. The hashes are those of the files that pip chose,
so they are of one platform, which the first line names; no registry is named.
"""

import json
import sys
from pathlib import Path
from typing import Any

OWN = ("mix2fld", "mix2fld-device")


def main(report: Path, page: Path) -> None:
    """Write the file."""
    page.write_text(render(json.loads(report.read_text(encoding="utf-8"))), encoding="utf-8")


def render(report: dict[str, Any]) -> str:
    """The requirements, one for each package but the project's own."""
    where = report["environment"]
    lines = [
        f"# Made by make lock, for Python {where['python_version']} on {where['sys_platform']} "
        f"{where['platform_machine']}.",
        "# pip install --require-hashes -r, of what this file is called.",
    ]
    packages = [one for one in report["install"] if one["metadata"]["name"] not in OWN]
    for one in sorted(packages, key=lambda one: str(one["metadata"]["name"]).lower()):
        digest = one["download_info"]["archive_info"]["hashes"]["sha256"]
        name, version = one["metadata"]["name"], one["metadata"]["version"]
        lines.append(f"{name}=={version} --hash=sha256:{digest}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
