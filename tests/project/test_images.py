"""The images of a deployment and their compose file; ``make images`` builds and tries them."""

import os
import re
import shutil
import subprocess

import pytest
import yaml

from places import ROOT

FOLDER = ROOT / "containers"
TOOLS = ("buildah", "mmdebstrap")


def stages() -> dict[str, str]:
    """The instructions of each stage of the Dockerfile, by its name."""
    parts = re.split(r"^FROM ", (FOLDER / "Dockerfile").read_text(), flags=re.MULTILINE)[1:]
    return {part.split(maxsplit=3)[2]: part for part in parts}


def test_every_service_has_an_image_and_no_privileges() -> None:
    services = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]
    assert {"superlink", "proxy", "node", "broker", "front", "server", "device"} == set(services)
    for name, service in services.items():
        target = service["image"].removeprefix("localhost/mix2fld-")
        assert "USER 1000" in stages()[target], name
        assert service["user"] == "1000:1000", name
        assert service["cap_drop"] == ["ALL"], name
        assert service["read_only"], name


def test_no_image_that_runs_has_a_compiler_or_installs_without_hashes() -> None:
    for name, text in stages().items():
        assert ("gcc" in text) == (name == "build")
        if "pip install" in text:
            assert "--no-index" in text
            assert "--require-hashes" in text
    locks = [file.name for file in FOLDER.glob("*requirements.txt")]
    assert len(locks) == 3
    for name in locks:
        lines = (FOLDER / name).read_text().splitlines()
        assert all(" --hash=sha256:" in line for line in lines if not line.startswith("#"))


@pytest.mark.long
@pytest.mark.skipif(
    not all(map(shutil.which, TOOLS)) or os.geteuid() != 0,
    reason="needs root, buildah and mmdebstrap (apt install buildah mmdebstrap)",
)
def test_the_images_build_and_run() -> None:
    subprocess.run(["make", "images"], cwd=ROOT, check=True)
