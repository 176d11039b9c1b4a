"""Flower's own processes on this machine: a SuperLink, SuperNodes, and ``flwr`` to command them.

Everything they write stays in one folder, and nothing of them outlives the ``with`` block.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

import tomli_w

from mix2fld.base.custom_code import modules_in
from mix2fld.base.errors import InputError
from mix2fld.deploy.keys import make_certificates, make_device_key
from mix2fld.deploy.proxy import Proxy
from mix2fld.deploy.settings import app_folder
from mix2fld_lab.trials.private_network import PrivateNetwork
from mix2fld_lab.trials.processes import (
    HOST,
    START_SECONDS,
    STOP_SECONDS,
    NamedProcesses,
    free_port,
    ignoring_signals,
)

# Several ``flwr`` commands in one process, which takes longer to start than they take.
SEVERAL_COMMANDS = """
import json, sys
from flwr.cli.app import app
for command in json.loads(sys.argv[1]):
    app(command, standalone_mode=False)
"""
CONNECTION = "here"  # the name under which ``flwr`` knows the SuperLink


class FlowerRunStatus(NamedTuple):
    """How a run fares: ``finished:failed``, and why."""

    word: str
    details: str


class Federation(NamedProcesses):
    """A SuperLink and its SuperNodes; use it in a ``with`` block."""

    node_program: Sequence[str] = (sys.executable, "-P", "-m", "mix2fld.deploy.node")
    """What takes the options of ``flower-supernode``."""

    def __init__(
        self,
        folder: Path,
        host: str = HOST,
        app: Path | None = None,
        inside: Sequence[str] = (),
        modules: Path | None = None,
        network: PrivateNetwork | None = None,
    ) -> None:
        """``inside`` is a command that runs the SuperLink and ``flwr`` where the host is.

        ``modules`` is a folder with a custom module. All processes are in ``network``.
        """
        super().__init__(folder, network)
        self._inside = list(inside)
        self._modules = modules
        self._app = app or self.folder / "app"
        self.host, self.port = host, free_port()
        self._door: int | None = None  # the port that nodes use, if it is not that of the SuperLink

    def __enter__(self) -> Self:
        self.keys.mkdir(parents=True, exist_ok=True)
        self.logs.mkdir(parents=True, exist_ok=True)
        make_certificates(self.keys, [self.host, "localhost"])
        (self.folder / "home").mkdir(exist_ok=True)
        connection = {
            "address": f"{self.host}:{self.port}",
            "root-certificates": str(self.keys / "ca.crt"),
        }
        config = {"superlink": {"default": CONNECTION, CONNECTION: connection}}
        (self.folder / "home" / "config.toml").write_text(tomli_w.dumps(config))
        (self.folder / "app").mkdir(exist_ok=True)
        for name in ("pyproject.toml", "LICENSE"):  # alone: flwr looks at every file of a folder
            shutil.copy(app_folder() / name, self.folder / "app")
        return self

    def __exit__(self, *error: object) -> None:
        with ignoring_signals():
            self.stop(*self._processes)
            self._sweep()
            for name in ("keys", "home", "app", "proxy"):
                shutil.rmtree(self.folder / name, ignore_errors=True)
            for file in self.folder.glob("superlink.db*"):
                file.unlink(missing_ok=True)

    @property
    def keys(self) -> Path:
        """Where certificates and keys are, while it lasts."""
        return self.folder / "keys"

    def start_superlink(self) -> None:
        """Start the SuperLink, with TLS and registered keys only, and wait until it answers."""
        command = [*self._inside, "flower-superlink", "--host", self.host, "--port", str(self.port)]
        command += ["--ssl-ca-certfile", str(self.keys / "ca.crt")]
        command += ["--ssl-certfile", str(self.keys / "server.crt")]
        command += ["--ssl-keyfile", str(self.keys / "server.key")]
        command += ["--enable-supernode-auth", "--disable-runtime-dependency-installation"]
        command += ["--database", str(self.folder / "superlink.db")]
        self.start("superlink", command)
        self.wait_for_port("superlink", self.host, self.port)

    def start_proxy(self, largest_body: int, devices: int) -> str:
        """Start nginx, through which nodes connect from now on; returns its address."""
        program = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
        if program is None:
            raise InputError(
                field="proxy", hint="needs nginx; install it, e.g. with: apt install nginx-light"
            )
        scratch, self._door = self.folder / "proxy", free_port()
        scratch.mkdir(exist_ok=True)
        proxy = Proxy(
            certificate=self.keys / "server.crt",
            key=self.keys / "server.key",
            authority=self.keys / "ca.crt",
            largest_body=largest_body,
            devices=devices,
            listen=f"{self.host}:{self._door}",
            superlink_port=self.port,
            folder=scratch,
            user="root" if os.geteuid() == 0 else None,  # as all other processes of the trial
        )
        file = scratch / "nginx.conf"
        file.write_text(proxy.nginx_config())
        self.start("proxy", [program, "-e", "stderr", "-p", str(scratch), "-c", str(file)])
        self.wait_for_port("proxy", self.host, self._door)
        return self._for_nodes

    def register(self, devices: Sequence[int]) -> None:
        """Make a key for each device and register it under the device's name."""
        commands = []
        for device in devices:
            public = make_device_key(self.keys, f"device-{device}")
            command = ["supernode", "register", str(public), CONNECTION]
            commands.append([*command, "--name", f"device-{device}"])
        together = [
            *self._inside,
            sys.executable,
            "-P",
            "-c",
            SEVERAL_COMMANDS,
            json.dumps(commands),
        ]
        process = self.popen(together, subprocess.PIPE)
        said, _ = process.communicate(timeout=START_SECONDS)
        if process.returncode:
            raise InputError(f"a key could not be registered: {said.decode().strip()}")

    def start_node(
        self, device: int, node_config: Mapping[str, str], wrap: Sequence[str] = ()
    ) -> None:
        """Start the SuperNode of a device; ``wrap`` is a command that runs the command."""
        config = " ".join(f'{name}="{value}"' for name, value in node_config.items())
        command = [*wrap, *self.node_program, "--superlink", self._for_nodes]
        command += ["--root-certificates", str(self.keys / "ca.crt")]
        command += ["--auth-supernode-private-key", str(self.keys / f"device-{device}.key")]
        command += ["--port", str(free_port()), "--node-config", config]
        self.start(f"device-{device}", command)

    def flwr(self, *arguments: str) -> dict[str, Any]:
        """Run a ``flwr`` command and read its JSON answer."""
        process = self.popen(
            [*self._inside, "flwr", *arguments, "--format", "json"], subprocess.PIPE
        )
        try:
            said, _ = process.communicate(timeout=START_SECONDS)
        finally:
            if process.poll() is None:
                process.kill()
        try:
            answer: dict[str, Any] = json.loads(said)
        except ValueError:
            answer = {"success": False, "error-message": said.decode().strip()}
        if not answer.get("success"):
            words = " ".join(str(answer.get("error-message")).split())
            raise InputError(f"flwr {arguments[0]} failed: {words}")
        return answer

    def run(self, run_config: Mapping[str, Any]) -> str:
        """``flwr run`` with this run config; returns the number of the run."""
        file = self.folder / "run.toml"
        file.write_text(tomli_w.dumps(dict(run_config)))
        started = self.flwr("run", str(self._app), CONNECTION, "--run-config", str(file))
        return str(started["run-id"])

    def status(self, run: str) -> FlowerRunStatus:
        """What Flower says of a run."""
        row = self.flwr("list", CONNECTION, "--run-id", run)["runs"][0]
        return FlowerRunStatus(str(row["status"]), " ".join(str(row["status-details"]).split()))

    def _sweep(self) -> None:
        """Kill what has left its group: Flower starts some processes in sessions of their own."""
        deadline = time.monotonic() + STOP_SECONDS
        while (left := self.own_processes()) and time.monotonic() < deadline:
            for entry in left:
                with suppress(OSError):
                    os.kill(int(entry.name), signal.SIGKILL)
            time.sleep(0.05)

    def own_processes(self) -> list[Path]:
        """All running processes of this federation, by their environment, under ``/proc``."""
        ours = f"FLWR_HOME={self.folder / 'home'}\0".encode()
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if ours in (entry / "environ").read_bytes():
                    found.append(entry)
        return found

    @property
    def _for_nodes(self) -> str:
        return f"{self.host}:{self._door or self.port}"

    def answers(self, host: str, port: int) -> bool:
        """Whether someone listens there, as far as it can be told from here."""
        if self._inside:
            return "Application startup complete" in self.log("superlink")
        return super().answers(host, port)

    def environment(self) -> dict[str, str]:
        """Flower's settings: all of its files in this folder, no talk with anyone else."""
        return {
            **os.environ,
            **modules_in(self._modules),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
            "FLWR_HOME": str(self.folder / "home"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",
        }
