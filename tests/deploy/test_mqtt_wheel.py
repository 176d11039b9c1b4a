"""The wheel of a small device in a clean environment without a compiler: a run over a real broker,
and what happens where the whole package is installed too.
"""

import subprocess
import sys
from pathlib import Path

import pytest
from reliability.wheels import build_wheel, device_environment

from deploy.lab import deployed_config, rounds_of
from deploy.mqtt_lab import fleet_of, needs_mosquitto, serve
from mix2fld_lab.trials.mqtt import MqttFleet
from mix2fld_lab.trials.processes import HOST
from toys import toy_dataset

pytestmark = [pytest.mark.long, needs_mosquitto]


class Installed:
    """An environment with the wheel."""

    def __init__(self, folder: Path) -> None:
        self.wheel = build_wheel("mix2fld_device", "native", [], folder, shapes="8x1:4")
        self.env = device_environment(self.wheel, folder)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command of the environment, which finds no compiler."""
        command, bare = [str(self.env / "bin" / words[0]), *words[1:]], {"PATH": "", "HOME": "/tmp"}
        return subprocess.run(command, env=bare, capture_output=True, text=True, check=False)

    def pip(self, *words: str) -> None:
        command = [str(self.env / "bin" / "python"), "-m", "pip", "-q", *words]
        subprocess.run([*command, "--disable-pip-version-check"], check=True)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(tmp_path_factory.mktemp("device"))


def start_installed(installed: Installed, fleet: MqttFleet, device: int) -> None:
    data = fleet.files[device]
    command = ["env", "-i", str(installed.env / "bin" / "mix2fld-device"), "--device", str(device)]
    command += ["--broker", f"{HOST}:{fleet.port}", "--keys", str(fleet.keys)]
    command += ["--data", str(data), "--state", str(data.parent / "state")]
    fleet.start(f"device-{device}", command)


def test_it_has_numpy_and_an_mqtt_client_and_no_more(installed: Installed) -> None:
    code = "import importlib.metadata as m; print(*{each.name for each in m.distributions()})"
    done = installed.run("python", "-c", code)
    names = set(done.stdout.split()) - {"pip", "setuptools"}
    assert names == {"mix2fld-device", "numpy", "paho-mqtt"}
    version = installed.run("mix2fld-device", "--version").stdout
    assert version.startswith("mix2fld-device 0.")


@pytest.mark.parametrize("name", ["murmur", "mix2fld"])
def test_it_trains_over_a_broker(installed: Installed, tmp_path: Path, name: str) -> None:
    fields = {"model": "paper-cnn", "kernel": "native", "devices": 2, "rounds": 2}
    config = deployed_config(tmp_path, toy_dataset(), protocol=name, **fields)
    with fleet_of(tmp_path, config) as fleet:
        for device in range(2):
            start_installed(installed, fleet, device)
        path = serve(fleet, config)
    assert [info["uploads"]["devices"] for info in rounds_of(path)] == [[0, 1], [0, 1]]


def test_other_models_need_the_whole_package(installed: Installed) -> None:
    code = (
        "from mix2fld.deploy.edge.learning import make_learning\n"
        "from mix2fld.dataset import SampleFormat\n"
        "learning = dict(model='cifar-cnn', optimizer='adam', batch_size=1, kernel='auto',"
        " soft_label_teacher='mixture')\n"
        "make_learning(dict(protocol='fl', learning=learning, seeding=dict(mixing_ratio=[0.1])),"
        " SampleFormat((8, 8, 1), 'uint8'), 4)"
    )
    done = installed.run("python", "-c", code)
    assert "InputError: model = cifar-cnn" in done.stderr
    assert "for other models the whole package: pip install 'mix2fld[device]'" in done.stderr


def test_with_the_whole_package_of_the_same_version_it_works(
    installed: Installed, tmp_path: Path
) -> None:
    """Their files are the same; who removes one of them must install the other again."""
    whole = build_wheel("mix2fld", "native", [], tmp_path)
    installed.pip("install", "--no-deps", str(whole))
    assert installed.run("mix2fld-device", "--help").returncode == 0
    installed.pip("uninstall", "-y", "mix2fld")
    assert not (installed.env / "bin" / "mix2fld-device").exists()
    installed.pip("install", "--no-deps", "--force-reinstall", str(installed.wheel))
    assert installed.run("mix2fld-device", "--help").returncode == 0


def test_with_another_version_it_refuses(installed: Installed) -> None:
    found = installed.env / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    other = found / "site-packages" / "mix2fld-9.9.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: mix2fld\nVersion: 9.9\n")
    words = ["--device", "0", "--broker", "b", "--keys", ".", "--data", ".", "--state", "."]
    done = installed.run("mix2fld-device", *words)
    assert done.returncode == 1
    assert done.stderr.startswith("mix2fld-device: mix2fld-9.9 and mix2fld_device-")
    assert len(done.stderr.splitlines()) == 1
