"""``mix2fld doctor``, what this machine has and what is missing, and ``mix2fld completion``."""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from textwrap import wrap
from typing import Literal

import tyro

from mix2fld.cli.options import Output


@dataclass(frozen=True)
class Diagnosis:
    """One line: what was looked for, what is here, and what to do about it."""

    name: str
    found: str
    fine: bool = True
    cost: str = ""
    """What does not work, or works more slowly, and how to change that."""


@dataclass(frozen=True)
class DoctorCommand:
    """Show what mix2fld finds on this machine, what is missing, and what that costs.

    Exits with 1 if a run cannot work here, with 0 otherwise: extras may be missing.
    """

    output: tyro.conf.OmitArgPrefixes[Output] = field(default_factory=Output)

    def run(self) -> None:
        with self.output.working("checking this machine"):
            findings = [find() for find in CHECKS]
        console = self.output.console()
        width = max(len(finding.name) for finding in findings)
        room = max(20, console.width - width - 5) if console.is_terminal else 1000
        for finding in findings:
            mark = "[green]ok[/]" if finding.fine else "[yellow]--[/]"
            console.print(mark, end=" ")
            lines = [*wrap(finding.found, room), *wrap(finding.cost or "", room)]
            console.print(f"{finding.name:<{width}}  {lines[0]}", markup=False)
            for line in lines[1:]:
                console.print(f"{'':<{width + 5}}{line}", markup=False)
        self.output.print_json([asdict(finding) for finding in findings])
        if any(not finding.fine and finding.name in ESSENTIAL for finding in findings):
            sys.exit(1)


def _program() -> Diagnosis:
    from mix2fld import __version__

    where = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    return Diagnosis("mix2fld", f"{__version__}, {where}")


def _cores() -> Diagnosis:
    from mix2fld.native.processor import usable_cores

    return Diagnosis("cores", f"{usable_cores()} usable")


def _vectors() -> Diagnosis:
    from mix2fld.native.processor import cpu_flags

    flags = cpu_flags().split()
    known = {"avx512f": "AVX-512", "avx2": "AVX2", "asimd": "NEON"}
    found = [title for flag, title in known.items() if flag in flags]
    return Diagnosis("vector units", ", ".join(found) or "unknown", fine=bool(found))


def _kernel() -> Diagnosis:
    from mix2fld.native import small_cnn

    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    name = "none" if compiler is None else _first_line(compiler, "--version")
    if small_cnn((28, 28, 1), 12, 6, 10) is not None:
        return Diagnosis("C compiler", f"{name}: the paper's network trains with native code")
    return Diagnosis(
        "C compiler",
        name,
        fine=False,
        cost="the paper's network trains with XLA, several times slower (docs/benchmarks.md); "
        "install gcc, or the wheel of this platform (docs/operations.md)",
    )


def _jax() -> Diagnosis:
    try:
        import jax

        devices = jax.devices()
    except (ImportError, RuntimeError) as error:
        return Diagnosis("JAX", f"cannot be used ({error})", fine=False, cost="no run can train")
    kinds = sorted({device.platform for device in devices})
    return Diagnosis("JAX", f"{jax.__version__}, on {', '.join(kinds)}")


def _accelerator() -> Diagnosis:
    card = _first_line("nvidia-smi", "--list-gpus") if shutil.which("nvidia-smi") else ""
    try:
        import jax

        used = [str(device) for device in jax.devices() if device.platform != "cpu"]
    except (ImportError, RuntimeError):
        used = []
    if used:
        return Diagnosis("GPU", ", ".join(used))
    if card:
        cost = "JAX does not use it; install jax[cuda12], or train with PyTorch (mix2fld[torch])"
        return Diagnosis("GPU", card, fine=False, cost=cost)
    return Diagnosis("GPU", "none; runs use the processor")


def _mosquitto() -> Diagnosis:
    where = shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if where:
        return Diagnosis("Mosquitto", where)
    cost = "mix2fld deploy mqtt needs a broker on this machine; apt install mosquitto"
    return Diagnosis("Mosquitto", "not installed", fine=False, cost=cost)


def _memory() -> Diagnosis:
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:  # noqa: PTH123
            sizes = {name: int(rest.split()[0]) for name, rest in (x.split(":") for x in lines)}
    except (OSError, ValueError):
        return Diagnosis("memory", "unknown")
    free, total = (sizes[name] / 2**20 for name in ("MemAvailable", "MemTotal"))
    return Diagnosis("memory", f"{free:.1f} GiB free of {total:.1f}")


def _cache() -> Diagnosis:
    from mix2fld.base.errors import Mix2fldError
    from mix2fld.base.folders import cache_folder
    from mix2fld.data import DATASETS, cached

    try:
        folder = cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
        held = [name for name in DATASETS if cached(name)]
    except (Mix2fldError, OSError) as error:
        cost = "datasets are downloaded for each run; set MIX2FLD_CACHE to a folder"
        return Diagnosis("cache", f"cannot be used ({error})", fine=False, cost=cost)
    free = shutil.disk_usage(folder).free / 2**30
    return Diagnosis("cache", f"{folder} ({', '.join(held) or 'empty'}; {free:.1f} GiB free)")


def _extra(title: str, package: str, extra: str, without: str) -> Callable[[], Diagnosis]:
    """Look for a package of an extra, without importing it."""

    def find() -> Diagnosis:
        try:
            return Diagnosis(title, version(package))
        except PackageNotFoundError:
            cost = f"{without}; pip install 'mix2fld[{extra}]'"
            return Diagnosis(title, "not installed", fine=False, cost=cost)

    return find


def _first_line(*command: str) -> str:
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return command[0]
    return said.stdout.splitlines()[0] if said.stdout else command[0]


ESSENTIAL = frozenset({"JAX"})
CHECKS: tuple[Callable[[], Diagnosis], ...] = (
    _program,
    _cores,
    _memory,
    _vectors,
    _kernel,
    _jax,
    _accelerator,
    _cache,
    _extra("matplotlib", "matplotlib", "figures", "no figures; tables and the HTML report work"),
    _extra("PyTorch", "torch", "torch", "PyTorch models cannot be trained"),
    _extra("Flower", "flwr", "flower", "no deployment over Flower"),
    _extra("MQTT", "paho-mqtt", "mqtt", "no deployment over an MQTT broker"),
    _mosquitto,
    _extra("Ray", "ray", "cluster", "no runs on a cluster"),
    _extra("Optuna", "optuna", "cluster", "no search for the best settings"),
    _extra("scikit-image", "scikit-image", "privacy", "no image similarity in privacy audits"),
    _extra("pandas", "pandas", "frames", "no Parquet and no data frames"),
    _extra("datasets", "datasets", "hugging-face", "no Hugging Face datasets"),
)
"""Everything that is looked at, in the order of the list."""


@dataclass(frozen=True)
class CompletionCommand:
    """Print the completion script of a shell, for commands, options and choices.

    Examples:
      eval "$(mix2fld completion bash)"                      in ~/.bashrc
      mix2fld completion zsh > "${fpath[1]}/_mix2fld"
      mix2fld completion fish > ~/.config/fish/completions/mix2fld.fish
    """

    shell: tyro.conf.Positional[Literal["bash", "zsh", "fish"]]
    """Your shell."""

    def run(self) -> None:
        from mix2fld.cli.commands import every_form

        arguments = ["--tyro-write-completion", self.shell, "-"]
        tyro.cli(every_form(), args=arguments, prog="mix2fld")
