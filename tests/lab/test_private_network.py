"""What runs in a network of its own cannot be reached by other users of the machine."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.lab import wait_until
from mix2fld.base.errors import InputError
from mix2fld_lab.trials import private_network as module
from mix2fld_lab.trials.private_network import private_network
from mix2fld_lab.trials.processes import HOST, NamedProcesses, free_port

HELLO = f"import socket; print(socket.create_connection(('{HOST}', int('%d'))).getpeername())"


def test_only_processes_in_it_reach_what_listens_there(tmp_path: Path) -> None:
    port = free_port()
    with private_network() as network:
        processes = NamedProcesses(tmp_path, network)
        processes.logs.mkdir()
        assert not processes.answers(HOST, port)
        command = [sys.executable, "-m", "http.server", str(port), "--bind", HOST]
        processes.start("server", command)
        processes.wait_for_port("server", HOST, port)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((HOST, port), timeout=5)
        asking = processes.popen([sys.executable, "-c", HELLO % port], subprocess.PIPE)
        assert asking.communicate()[0].decode().strip() == f"('{HOST}', {port})"
        with socket.socket() as mine:  # the same port is free out here
            mine.bind((HOST, port))
        processes.stop("server")
        holder = Path(f"/proc/{network.inside[-1]}")
        assert holder.exists()
    wait_until(lambda: not holder.exists(), "the end of the network", 10)


def test_a_machine_without_namespaces_is_told_what_that_means(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "HOLD", "print('Operation not permitted')")
    refusal = r"no network namespace \(Operation not permitted\).* other users .*--shared-network"
    with pytest.raises(InputError, match=refusal), private_network():
        pass
