"""Builds wheels: with compiled kernels for one platform, and of a part of the package.

MIX2FLD_KERNELS is the platform, x86_64 or aarch64, or native for that of this machine; without it,
the wheel is pure. CC is the compiler, which may be a cross compiler; MIX2FLD_KERNEL_SHAPES adds
shapes of images for the paper's network to those of the datasets: side x channels : labels, such as
"28x1:5 16x3:4".

Of a distribution that names a script as ``contents``, that script says which files it holds.
"""

import os
import platform
import re
import runpy
import shlex
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NATIVE = Path(__file__).parent / "src" / "mix2fld" / "native"


class WheelHook(BuildHookInterface):
    """Says what the wheel holds, compiles the kernels, and says for which platform it is."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Before the wheel is built."""
        if "contents" in self.config:
            script = runpy.run_path(str(Path(self.root) / self.config["contents"]))
            build_data["force_include"] |= script["contents"]()
        machine = os.environ.get("MIX2FLD_KERNELS", "")
        if version == "editable" or not machine:
            return
        recipe = runpy.run_path(str(NATIVE / "recipe.py"))
        machine = platform.machine() if machine == "native" else machine
        if machine not in recipe["WIDTHS"]:
            known = ", ".join([*recipe["WIDTHS"], "native"])
            raise ValueError(f"MIX2FLD_KERNELS = {machine}: must be one of {known}")
        compiler = shlex.split(os.environ.get("CC", "cc"))
        self._scratch = tempfile.TemporaryDirectory()
        made = recipe["make_kernels"](Path(self._scratch.name), compiler, machine, more_shapes())
        for library in made:
            inside = f"mix2fld/native/prebuilt/{library.name}"
            build_data["force_include"][str(library)] = inside
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-linux_{machine}"


def more_shapes() -> list[list[int]]:
    """Side, channels and labels of each shape that was asked for."""
    told, shapes = os.environ.get("MIX2FLD_KERNEL_SHAPES", ""), []
    for word in told.split():
        if not re.fullmatch(r"\d+x\d+:\d+", word):
            raise ValueError(f"MIX2FLD_KERNEL_SHAPES = {word}: must be such as 28x1:10")
        shapes.append([int(number) for number in re.split("[x:]", word)])
    return shapes
