"""The one way to a Ray cluster: the one that this machine belongs to, or a new one on it."""

import logging
import os
import platform
import socket
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from mix2fld.base.errors import InputError
from mix2fld.native.processor import cpu_flags, usable_cores

ANSWER_S = 5.0
"""How long an address has to answer."""
HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""How a client of HTTP/2, over which Ray talks, begins: the preface and empty settings."""
SETTINGS_FRAME = 4
"""Kind of the frame that its server begins with."""
LOCAL_STORE_BYTES = 512 << 20
"""Object store of a cluster that is started here."""
QUIET: dict[str, Any] = {
    "log_to_driver": False,
    "configure_logging": False,
    "logging_level": "ERROR",
}
STARTS = 4
"""How often Ray is started before it is given up."""
FORKS = r"os\.fork\(\) was called"
"""What JAX warns of when Ray starts its processes; each of them runs another program at once."""
ANNOUNCES = "ray._private.authentication"
"""Says in each run that tokens are on by default."""
SAME = ("mix2fld", "python", "numpy", "jax")
"""What must be the same everywhere."""


def import_ray(field: str) -> Any:
    """Ray, if it is installed."""
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else it warns of the future
    if "ray" not in sys.modules:  # it reads the mode when it is imported
        use_token()
    try:
        import ray
    except ImportError:
        raise InputError(
            f"{field}: needs Ray; install it with: pip install 'mix2fld[cluster]'"
        ) from None
    return ray


def use_token() -> None:
    """Show the token of this machine, if it has one; a cluster that asks for none takes it, too.

    Ray writes it so that all users of the machine can read it; from now on they cannot.
    """
    named = any(os.environ.get(name) for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"))
    token = Path.home() / ".ray" / "auth_token"
    if token.is_file() and token.stat().st_mode & 0o077:
        with suppress(OSError):
            token.chmod(0o600)
    if named or token.is_file():
        os.environ.setdefault("RAY_AUTH_MODE", "token")


@contextmanager
def connected(address: str, field: str, cores: int | None = None) -> Iterator[Any]:
    """Ray, connected to a cluster within the block.

    ``address`` is ``auto``, HOST:PORT of its head, or empty for one that is started on this machine
    with so many cores. A connection that exists is used as it is.
    """
    ray = import_ray(field)
    if ray.is_initialized():
        yield ray
        return
    _connect(ray, address, field, cores)
    try:
        yield ray
    finally:
        ray.shutdown()


def put(ray: Any, value: Any, field: str, what: str, hint: str = "") -> Any:
    """An object in the object store; one that does not fit is bad input."""
    try:
        return ray.put(value)
    except (ray.exceptions.RayError, OSError) as error:
        raise InputError(
            f"{field}: {what} does not fit into the object store ({one_line(error)}); start the "
            f"cluster with a larger --object-store-memory{'; ' * bool(hint)}{hint}"
        ) from None


def versions() -> dict[str, str]:
    """What decides whether two machines compute the same."""
    return {
        **{name: _version(name) for name in SAME if name != "python"},
        "python": ".".join(platform.python_version_tuple()[:2]),
        "node": f"node {platform.node()}",
        "processor": f"{platform.machine()} {' '.join(_vector_units())}".strip(),
    }


def check_versions(driver: Mapping[str, str], node: Mapping[str, str]) -> None:
    """Refuse a node of another version than the driver."""
    for name in SAME:
        if node[name] != driver[name]:
            raise InputError(
                f"{node['node']} has {name} {node[name]}, but this machine has {driver[name]}; "
                "install the same version on both"
            )


def other_processor(driver: Mapping[str, str], node: Mapping[str, str]) -> str:
    """What to say of a node that computes with other units; empty if it does not."""
    if node["processor"] == driver["processor"]:
        return ""
    return (
        f"{node['node']} has another processor ({node['processor']}) than this machine "
        f"({driver['processor']}): numbers may differ in the last digits from those of one machine"
    )


def one_line(error: BaseException) -> str:
    """The first sentence of what Ray says."""
    text = " ".join(str(error).split())
    return text.split(". ")[0][:200] or type(error).__name__


def start_here(ray: Any, field: str, cores: int, store_bytes: int = LOCAL_STORE_BYTES) -> None:
    """Start a cluster on this machine; on a busy one, Ray gives up too soon, and is asked again."""
    os.environ.setdefault("RAY_worker_niceness", "0")  # they do the work, not something beside it
    logging.getLogger(ANNOUNCES).setLevel(logging.ERROR)
    for left in reversed(range(STARTS)):
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", FORKS, RuntimeWarning)
                ray.init(
                    address="local",
                    num_cpus=cores,
                    object_store_memory=store_bytes,
                    include_dashboard=False,
                    job_config=_without_working_folder(),
                    **QUIET,
                )
            return
        except Exception as error:  # Ray raises many kinds
            ray.shutdown()
            if not left:
                raise InputError(f"{field} = ray: Ray does not start: {one_line(error)}") from None


class _Nowhere(list[str]):
    """Folders that Ray's processes search before all others: none."""

    def extend(self, folders: Iterable[str]) -> None:
        """Ray adds the working folder of the driver."""


def _without_working_folder() -> Any:
    """Have processes of Ray search what is installed; hosts and tasks are told of other folders."""
    from ray.job_config import JobConfig

    config = JobConfig()
    config._py_driver_sys_path = _Nowhere()
    return config


def _connect(ray: Any, address: str, field: str, cores: int | None) -> None:
    if not address:
        start_here(ray, field, cores or usable_cores())
        return
    head = _own_head(field) if address == "auto" else address
    _check_answers(head, field)
    try:
        with _silenced():
            ray.init(address=head, job_config=_without_working_folder(), **QUIET)
    except Exception as error:  # Ray raises many kinds
        raise InputError(
            f"{_shown(field, address)}: {one_line(error)}; this machine must be a node of the "
            "cluster (ray start --address=HOST:PORT --num-cpus=0) and have its token "
            "(~/.ray/auth_token, or RAY_AUTH_TOKEN)"
        ) from None


def _own_head(field: str) -> str:
    """The head of the cluster that this machine belongs to, or belonged to last."""
    from ray._private.services import canonicalize_bootstrap_address

    try:
        return str(canonicalize_bootstrap_address("auto"))
    except ConnectionError:
        raise InputError(
            f"{_shown(field, 'auto')}: this machine belongs to no Ray cluster; start one with: "
            "ray start --head"
        ) from None


def _check_answers(address: str, field: str) -> None:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        raise InputError(
            f"{_shown(field, address)}: must be auto, or HOST:PORT of the head node, such as "
            "192.168.0.1:6379"
        )
    try:
        with socket.create_connection((host, int(port)), timeout=ANSWER_S) as connection:
            reason = "" if _is_http2(connection) else "something other than Ray listens there"
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
    if reason:
        raise InputError(
            f"{_shown(field, address)}: does not answer ({reason}); start its head with: ray start "
            "--head, and name its HOST:PORT"
        )


def _is_http2(connection: socket.socket) -> bool:
    """Whether the other side may be Ray: to anything else, Ray would talk for minutes."""
    if os.environ.get("RAY_USE_TLS", "0") not in ("", "0"):
        return True  # the hello would have to be encrypted
    connection.sendall(HELLO)
    answer = b""
    while len(answer) < 4 and (more := connection.recv(4 - len(answer))):
        answer += more
    return len(answer) == 4 and answer[3] == SETTINGS_FRAME


@contextmanager
def _silenced() -> Iterator[None]:
    """Standard error goes nowhere: Ray writes there once a second why it has to wait."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _shown(field: str, address: str) -> str:
    """The setting as it was given."""
    return f"{field} = {'ray:' if field == 'fleet' else ''}{address}"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"


def _vector_units() -> list[str]:
    flags = cpu_flags().split()
    return [unit for unit in ("avx512f", "avx2", "fma", "asimd", "sve") if unit in flags]
