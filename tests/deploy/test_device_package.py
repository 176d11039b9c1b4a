"""The small distribution of a device: its files are enough, and there are no others."""

import json
import os
import runpy
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import grimp
import numpy as np
import pytest

from deploy.lab import deployed_config
from deploy.memory_line import MemoryBroker, run_in_memory
from mix2fld.base.errors import InputError
from mix2fld.deploy.edge import __main__ as program
from mix2fld.deploy.edge.learning import small_learning
from mix2fld.deploy.edge.messages import Trained, TrainOrder, unpack
from mix2fld.native import small_cnn
from places import ROOT

SCRIPT = runpy.run_path(str(ROOT / "device" / "contents.py"))
CACHE = "MIX2FLD_CACHE"
NEEDED = ("numpy", "paho")
MOST_MODULES, MOST_LINES = 140, 15_900
REPLAY = """
import json, sys
from importlib.util import find_spec
from pathlib import Path
from mix2fld.deploy.edge.device import EdgeDevice
from mix2fld.deploy.edge.sources import make_source
from mix2fld.deploy.edge.learning import make_learning

assert not any(map(find_spec, ["jax", "scipy", "pydantic", "safetensors", "mix2fld.cli"]))

class Line:
    said = []
    def publish(self, topic, payload, **options):
        self.said.append([topic, payload.hex()])
    def subscribe(self, topic, **options):
        pass

heard, data, state = sys.argv[1:]
device = EdgeDevice(0, make_source(Path(data), None, 1, None), Path(state), make_learning)
line = Line()
for topic, payload in json.loads(Path(heard).read_text()):
    device.hear(line, topic, bytes.fromhex(payload))
print(json.dumps(line.said))
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of the distribution and what it depends on, and nothing else."""
    folder = tmp_path_factory.mktemp("site")
    for file, name in SCRIPT["contents"]().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, folder / name)
    packages = Path(str(find_spec("numpy").origin)).parents[1]  # type: ignore[union-attr]
    for name in (*NEEDED, "numpy.libs"):
        if (packages / name).exists():
            (folder / name).symlink_to(packages / name)
    return folder


def run_alone(site: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Python with that folder alone: no site-packages, and no package of the project."""
    command = [sys.executable, "-S", "-P", *words]
    kept = {name: os.environ[name] for name in ("PATH", "HOME", CACHE) if name in os.environ}
    bare = {**kept, "PYTHONPATH": str(site)}
    return subprocess.run(command, env=bare, capture_output=True, text=True, check=False)


def test_the_files_are_those_that_the_import_contract_reaches() -> None:
    contract = SCRIPT["read_contract"]()
    graph = grimp.build_graph("mix2fld", exclude_type_checking_imports=True)
    for ignored in contract["ignore_imports"]:
        importer, imported = ignored.split(" -> ")
        if imported in graph.modules:
            graph.remove_import(importer=importer, imported=imported)
    reached = graph.find_upstream_modules("mix2fld.deploy.edge.__main__") | {
        "mix2fld.deploy.edge.__main__"
    }
    files = {name for name in SCRIPT["contents"]().values() if name.endswith(".py")}
    named = {name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in files}
    assert reached <= named
    assert all(any(name.startswith(one) for name in reached) for one in named - reached)
    assert "mix2fld.deploy.edge.full" not in named


def test_what_only_servers_call_stays_with_them() -> None:
    """And what a device gets does not grow unnoticed."""
    files = {Path(file): name for file, name in SCRIPT["contents"]().items()}
    modules = {name for name in files.values() if name.endswith(".py")}
    stub = (ROOT / "src/mix2fld/protocols/at_server.pyi").read_text()
    homes = {line.split()[1] for line in stub.splitlines()}
    assert "mix2fld.protocols.seed_screening" in homes
    assert not {home.replace(".", "/") + ".py" for home in homes} & modules
    assert len(modules) <= MOST_MODULES
    lines = sum(len(f.read_text().splitlines()) for f, name in files.items() if name in modules)
    assert lines <= MOST_LINES


def test_the_program_starts_with_nothing_else(site: Path) -> None:
    done = run_alone(site, "-m", "mix2fld.deploy.edge", "--help")
    assert done.returncode == 0, done.stderr
    assert "--broker" in done.stdout
    wrong = ["--device", "0", "--broker", "b", "--keys", ".", "--data", ".", "--state", "."]
    done = run_alone(site, "-m", "mix2fld.deploy.edge", *wrong)
    assert done.stderr.startswith("mix2fld-device: keys = .: has no ca.crt")


class Recorder(MemoryBroker):
    """Keeps what device 0 hears, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[tuple[str, str]] = []

    def deliveries(self, line, topic, payload):
        if line.name == "0":
            self.heard.append((topic, payload.hex()))
        return super().deliveries(line, topic, payload)


@pytest.mark.skipif(small_cnn((8, 8, 1), 12, 6, 4) is None, reason="no compiler for the kernel")
@pytest.mark.parametrize("name", ["murmur", "mix2fld", "statistics"])
def test_it_answers_as_the_whole_package_does(site: Path, tmp_path: Path, name: str) -> None:
    """What a device heard in a run is told to one that has nothing else installed."""
    fields = {"model": "paper-cnn", "kernel": "native", "feature_side": 4, "rounds": 2}
    config = deployed_config(tmp_path, protocol=name, **fields)
    broker = Recorder()
    run_in_memory(tmp_path, config, broker, make_learning=small_learning)
    heard, data = tmp_path / "heard.json", tmp_path / "device-0" / "samples.npz"
    heard.write_text(json.dumps(broker.heard))
    (tmp_path / "replay.py").write_text(REPLAY)
    words = [str(tmp_path / "replay.py"), str(heard), str(data), str(tmp_path / "state")]
    done = run_alone(site, *words)
    assert done.returncode == 0, done.stderr
    theirs = [timeless(bytes.fromhex(payload)) for _, payload in json.loads(done.stdout)]
    ours = [timeless(payload) for topic, payload, _ in broker.sent if topic == "u/0"]
    assert theirs == ours
    assert sum(isinstance(answer, Trained) for answer in ours) == 2
    orders = [unpack(bytes.fromhex(payload)) for topic, payload in broker.heard if topic == "o/0"]
    assert all(isinstance(order, TrainOrder) for order in orders)


def timeless(payload: bytes) -> object:
    """An answer, without the seconds that it took."""
    answer = unpack(payload)
    return answer._replace(seconds=0.0) if isinstance(answer, Trained) else answer


def test_levels_of_updates_need_no_scipy(site: Path) -> None:
    code = "from mix2fld.codecs.rotated_plan import lloyd_max; print(lloyd_max(2).means.tolist())"
    done = run_alone(site, "-c", code)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(json.loads(done.stdout), [0.4528, 1.5104], atol=1e-4)


@pytest.mark.parametrize(
    ("found", "refused"),
    [
        (["mix2fld-1.0", "mix2fld_device-1.0"], False),
        (["mix2fld_device-1.0"], False),
        ([], False),
        (["mix2fld-1.0", "mix2fld_device-1.1"], True),
    ],
)
def test_two_versions_in_one_folder_are_refused(
    tmp_path: Path, found: list[str], refused: bool
) -> None:
    for name in found:
        (tmp_path / f"{name}.dist-info").mkdir()
    if not refused:
        program.check_distributions(tmp_path)
        return
    with pytest.raises(InputError, match=r"mix2fld-1\.0 and mix2fld_device-1\.1 are installed"):
        program.check_distributions(tmp_path)


def test_both_distributions_have_the_same_version_and_command() -> None:
    import tomllib

    read = [
        tomllib.loads((ROOT / name).read_text())
        for name in ("pyproject.toml", "device/pyproject.toml")
    ]
    from mix2fld import __version__

    assert read[0]["project"]["version"] == __version__
    assert read[1]["tool"]["hatch"]["version"]["path"] == "../src/mix2fld/__init__.py"
    commands = [each["project"]["scripts"]["mix2fld-device"] for each in read]
    assert commands[0] == commands[1]
