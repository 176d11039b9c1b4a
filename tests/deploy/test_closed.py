"""A deployment that is closed as shipped: proxy, units, and what a stranger finds at the port."""

import datetime
import http.server
import shutil
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
import yaml

from deploy.lab import (
    FAULTY,
    Lab,
    assert_same_as_engine,
    deployed_config,
    diary,
    rounds_of,
    run_in_process,
)
from mix2fld.base.errors import InputError
from mix2fld.cli import main
from mix2fld.config.grid import Grid
from mix2fld.config.settings import PRESETS, Config
from mix2fld.deploy.keys import make_certificates
from mix2fld.deploy.proxy import MESSAGE_BYTES, PROXY_PORT, SUPERLINK_PORT, largest_request
from mix2fld.deploy.units import KEYS, unit
from mix2fld.runs.folder import RunFolder
from mix2fld_lab.trials import check
from mix2fld_lab.trials.check import CONTROL, FLEET, RUNTIME, check_address
from mix2fld_lab.trials.federation import CONNECTION
from places import ROOT

sys.path.insert(0, str(FAULTY))
import faulty_app


class Server(http.server.BaseHTTPRequestHandler):
    """Answers every path with the status that ``statuses`` has for its beginning."""

    statuses: ClassVar[dict[str, int]] = {}
    most = 1000

    def do_POST(self) -> None:
        if int(self.headers["Content-Length"]) > self.most:
            status = 413
        else:
            found = [s for start, s in self.statuses.items() if self.path.startswith(start)]
            status = found[0] if found else 403
        self.send_response(status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def door(tmp_path: Path) -> Iterator[str]:
    """A server with TLS whose answers a test chooses."""
    make_certificates(tmp_path / "keys", ["127.0.0.1"])
    Server.statuses, Server.most = {FLEET: 401}, 1000
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "keys" / "server.crt", tmp_path / "keys" / "server.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def opened(address: str, authority: Path | None = None) -> set[str]:
    return {one.tried for one in check_address(address, authority) if not one.closed}


def test_a_closed_door_is_called_closed(
    door: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["deploy", "check", door, "--root-certificates", str(tmp_path / "keys" / "ca.crt")])
    assert capsys.readouterr().out.count("ok  ") == 7


@pytest.mark.parametrize(
    ("statuses", "found"),
    [
        ({CONTROL[1]: 200}, {"control API"}),
        ({RUNTIME[0]: 401}, {"runtime API"}),
        ({"/docs": 405}, {"other pages"}),
        ({"/v1//control": 200}, {"paths in disguise"}),
        ({FLEET: 200}, {"fleet API"}),
        ({FLEET: 403}, {"fleet API"}),
        ({FLEET: 502}, {"fleet API"}),
    ],
)
def test_every_open_door_is_named(
    door: str, statuses: dict[str, int], found: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Server.statuses = {**statuses, FLEET: statuses.get(FLEET, 401)}
    with pytest.raises(SystemExit, match="2"):
        main(["deploy", "check", door])
    said = capsys.readouterr()
    lines = [line for line in said.out.splitlines() if line.startswith("OPEN")]
    assert {line.removeprefix("OPEN  ").partition(":")[0] for line in lines} == found
    assert "1 of 7 checks failed" in said.err


def test_a_large_body_and_a_foreign_certificate_are_named(door: str, tmp_path: Path) -> None:
    Server.most = 1 << 50
    assert opened(door) == {"size of a request"}
    make_certificates(tmp_path / "others", ["127.0.0.1"])
    assert "certificate" in opened(door, tmp_path / "others" / "ca.crt")
    assert opened(door.replace("127.0.0.1", "localhost"), tmp_path / "keys" / "ca.crt") == {
        "size of a request"
    }


@pytest.mark.parametrize("address", ["here", "here:", ":1", "here:x", "here:70000"])
def test_a_bad_address_is_named(address: str) -> None:
    with pytest.raises(InputError, match="must be host:port"):
        check_address(address)


def test_an_address_without_tls_is_open() -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    assert opened(f"127.0.0.1:{server.server_port}") == {"TLS"}
    server.shutdown()
    server.server_close()
    with pytest.raises(InputError, match="cannot be reached"):
        check_address(f"127.0.0.1:{server.server_port}")


def _hang_up(server: socket.socket) -> None:
    server.accept()[0].close()


@pytest.mark.parametrize(("answers", "why"), [(False, "no answer"), (True, "closed before TLS")])
def test_something_else_that_listens_is_not_called_open(
    answers: bool, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        if answers:
            threading.Thread(target=_hang_up, args=(silent,), daemon=True).start()
        with pytest.raises(InputError, match=f"cannot be reached .*{why}"):
            check_address(f"127.0.0.1:{silent.getsockname()[1]}")


def test_a_certificate_that_ends_soon_says_so(door: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "SOON", datetime.timedelta(days=400))
    (found,) = [one for one in check_address(door) if not one.closed]
    assert found.tried == "certificate"
    assert "renew it, less than 400 days are left" in found.found


def test_a_request_is_as_large_as_the_largest_upload() -> None:
    """FL of the paper's network: 12,544 weights of 4 bytes."""
    fl, fd = (largest_request(Config.of(protocol=name)) for name in ("fl", "fd"))
    assert fl == 4 * 12_544 + MESSAGE_BYTES
    assert fd == 400 + MESSAGE_BYTES
    assert largest_request(Grid.of(protocols=("fd", "fl"))) == fl
    murmur = largest_request(Grid.of(protocols=("murmur:bits=200000", "fd")))
    assert murmur == 25_000 + MESSAGE_BYTES


def test_written_files_are_ones_that_nginx_and_systemd_take(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    main(["deploy", "keys", "link.example.org", "--devices", "2", "--out", str(keys)])
    text = (keys / "nginx.conf").read_text()
    for there, here in (
        ("/run/credentials/mix2fld-proxy.service", keys),
        ("/etc/mix2fld", keys),
        ("/run/mix2fld-proxy", tmp_path),
    ):
        text = text.replace(there, str(here))
    (tmp_path / "nginx.conf").write_text(text)
    program = shutil.which("nginx", path="/usr/sbin:/usr/bin")
    if program is not None:
        checked = [program, "-t", "-e", "stderr", "-c", str(tmp_path / "nginx.conf")]
        subprocess.run(checked, check=True, capture_output=True)
    for part in ("superlink", "proxy", "node@"):
        unit = (keys / f"mix2fld-{part}.service").read_text()
        assert "DynamicUser=yes" in unit
        assert "NoNewPrivileges=yes" in unit
        assert "\nMemoryMax=" in unit
    assert "--host 127.0.0.1" in (keys / "mix2fld-superlink.service").read_text()
    assert "--superlink link.example.org:8443" in (keys / "mix2fld-node@.service").read_text()
    assert "key" not in {p.suffix for p in keys.iterdir() if p.stat().st_mode & 0o077}
    if shutil.which("systemd-analyze"):
        units = [keys / f"mix2fld-{part}.service" for part in ("superlink", "proxy")]
        said = subprocess.run(
            ["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False
        ).stderr
        faults = [line for line in said.splitlines() if "is not executable" not in line]
        assert faults == []


def test_containers_start_what_the_units_start() -> None:
    """No builder runs here: at least both forms agree on commands, ports and places of files."""
    text = (ROOT / "containers" / "compose.yaml").read_text()
    services = yaml.safe_load(text)["services"]
    superlink, proxy, node = (services[name] for name in ("superlink", "proxy", "node"))
    words = unit("superlink").replace("\\\n", " ").replace("=", " ").split()
    flags = [word.partition("=")[0] for word in superlink["command"] if word.startswith("--")]
    assert flags == [word for word in words if word.startswith("--")]
    assert {"--host=127.0.0.1", f"--port={SUPERLINK_PORT}"} <= set(superlink["command"])
    assert superlink["ports"] == [f"{PROXY_PORT}:{PROXY_PORT}"]
    assert proxy["network_mode"] == "service:superlink"
    assert f"./keys:{KEYS}:ro" in proxy["volumes"]
    words = unit("node@", "a").replace("\\\n", " ").replace("=", " ").split()
    flags = [word.partition("=")[0] for word in node["command"] if word.startswith("--")]
    assert flags == [word for word in words if word.startswith("--")]
    for service in services.values():
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]


@pytest.mark.parametrize("fault", ["flipped", "zeros"])
def test_one_bad_device_does_not_spoil_a_robust_run(tmp_path: Path, fault: str) -> None:
    """−10 times the weights; zeros, with a claim of 2³¹ samples."""
    reached = {}
    for name, defence, faults in (
        ("honest", PRESETS["robust"], {}),
        ("robust", PRESETS["robust"], {2: f"0:{fault}"}),
        ("mean", {}, {2: f"0:{fault}"}),
    ):
        folder = tmp_path / name
        folder.mkdir()
        config = deployed_config(folder, protocol="fl", rounds=3, devices=5, **defence)
        path = run_in_process(folder, config, faulty_app.client, faults)
        result = RunFolder(path).finished()
        assert result is not None
        reached[name] = result.summary["scores"]["global"]
        if faults:
            assert "device 2 uploaded weights" in diary(path)
        else:
            assert "times as far" not in diary(path)
    assert reached["robust"] > reached["honest"] - 0.1
    assert reached["mean"] < reached["robust"]


@pytest.mark.long
@pytest.mark.skipif(
    shutil.which("nginx", path="/usr/sbin:/usr/bin") is None,
    reason="no nginx here: apt-get install nginx-light",
)
def test_through_the_proxy_nodes_work_and_strangers_do_not(tmp_path: Path) -> None:
    """FL over three nodes has the simulator's numbers; commands and large bodies are refused."""
    config = deployed_config(tmp_path, protocol="fl", devices=3)
    with Lab(tmp_path / "lab") as lab:
        lab.start_superlink()
        authority = lab.keys / "ca.crt"
        assert {"control API", "runtime API", "size of a request"} <= opened(
            f"{lab.host}:{lab.port}", authority
        )
        address = lab.start_proxy(largest_request(config), devices=3)
        assert opened(address, authority) == set()

        lab.begin_all(config)
        path = lab.run_to_end(config)
        assert [info["uploads"]["delivered"] for info in rounds_of(path)] == [3] * config.rounds
        assert_same_as_engine(path, lab.folder, tmp_path / "engine")

        home = lab.folder / "home" / "config.toml"
        home.write_text(home.read_text().replace(f"{lab.host}:{lab.port}", address))
        runs = sorted((lab.folder / "runs").iterdir())
        with pytest.raises(InputError, match="flwr run failed"):
            lab.flwr("run", str(FAULTY), CONNECTION)
        with pytest.raises(InputError, match="flwr list failed"):
            lab.flwr("list", CONNECTION)
        assert sorted((lab.folder / "runs").iterdir()) == runs
