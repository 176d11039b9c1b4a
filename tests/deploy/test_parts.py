"""The small parts of the deployment: settings, messages, keys, what a device keeps, logs."""

import re
import shutil
import signal
import ssl
import tomllib
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key
from flwr.app import ConfigRecord, RecordDict

from deploy.lab import assert_same_trees
from mix2fld.base.errors import InputError
from mix2fld.base.locks import FolderLock
from mix2fld.cli import main
from mix2fld.config.settings import PRESETS, Config
from mix2fld.deploy.edge.messages import (
    FORMAT,
    MessageError,
    Refused,
    Taken,
    Trained,
    TrainOrder,
    pack,
)
from mix2fld.deploy.edge.store import RUNS_KEPT, Store
from mix2fld.deploy.forms import from_record, to_record
from mix2fld.deploy.keys import make_certificates, make_device_key
from mix2fld.deploy.settings import Settings, app_folder, read_settings
from mix2fld.runs.loop import Watcher
from mix2fld.runs.simulation import run
from mix2fld_lab import testbed
from mix2fld_lab.trials import flower
from mix2fld_lab.trials.federation import Federation, FlowerRunStatus
from mix2fld_lab.trials.flower import follow_run, run_locally
from mix2fld_lab.trials.trial import Trial, claim, finished_run
from toys import toy_config, toy_dataset, toy_grid

RUN = "0123456789abcdef"
TRAINED = Trained(RUN, 1, 3, 0, 0.5, [0.5], b"abc")

STATE = {
    "weights": (np.ones(2, np.float32), np.zeros((2, 2), np.float32)),
    "seeds_due": np.array(True),
    "pending": {"residual": [np.zeros(3, np.float64)], "count": 3, "none": None},
}


def test_settings_survive_the_way_through_flower() -> None:
    config = Config.of(
        protocol="fd",
        seed=7,
        devices=4,
        mixing_ratio=(0.2, 0.3),
        value_range=(-1.5, 3.0),
        ring_m=(20.0, 150.5),
        distances_m=(10.0, 20.0, 30.0, 40.5),
        trace="/a path/rates.csv",
        dataset="/a path/it's.npz",
        stop_when_converged=True,
        learning_rate=1e-3,
        seed_bits=32,
        computing_time="measured",
        target_column=("load",),
        columns=("a, m", "it's", "[b]"),
        ignore_columns=("row",),
        device_step_us=(1.0, 2.5, 3.0, 1e3),
    )
    settings = Settings(config, Path("/runs/here"), 12.5, 3.0)
    assert read_settings(settings.as_run_config()) == settings


def test_parameters_behind_a_name_are_settings_of_the_run() -> None:
    given = Settings(Config.of(protocol="fl"), Path("runs"), 1.0, 1.0).as_run_config()
    read = read_settings({**given, "protocol": "murmur:bits=60,learning_rate=0.05"}).config
    assert (read.updates.update_bits, read.learning.learning_rate) == (60, 0.05)
    assert read.protocol == "murmur:bits=60,learning_rate=0.05"


def test_the_apps_own_run_config_is_one() -> None:
    app = tomllib.loads((app_folder() / "pyproject.toml").read_text())["tool"]["flwr"]["app"]
    settings = read_settings(app["config"])
    assert settings.config == Config.of(
        **PRESETS["robust"], protocol="mix2fld", computing_time="measured"
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"settings": "devices"}, "'devices' must be a name=value"),
        ({"settings": "devises=3"}, "did you mean 'devices'"),
        ({"settings": "devices=none"}, "devices = 'none'"),
        ({"settings": "dataset='a"}, "No closing quotation"),
        ({"settings": "seed=3"}, "seed must be set by its own key"),
        ({"timeout-s": 0}, "timeout-s = 0: must be a number above 0"),
        ({"wait-s": "long"}, "wait-s = 'long'"),
        ({"wait-s": float("inf")}, "wait-s = inf: must be a number above 0"),
        ({"timeout-s": float("nan")}, "timeout-s = nan: must be a number above 0"),
    ],
)
def test_bad_settings_are_named(change: dict[str, object], words: str) -> None:
    good = Settings(Config.of(protocol="fl"), Path("runs"), 1.0, 1.0).as_run_config()
    with pytest.raises(InputError, match=re.escape(words)):
        read_settings({**good, **change})


def test_messages_survive_the_way_through_flower() -> None:
    order = TrainOrder(RUN, 2, uploaded=0, last_turn=1, watched=False, download=b"\0\1")
    message, fields = from_record(to_record(order, device=3, settings=b"run"), TrainOrder)
    assert message == order
    assert (fields["device"], fields["settings"]) == (3, b"run")
    for answer in (TRAINED, Taken(RUN, 3), Refused(RUN, 0, "no")):
        assert from_record(to_record(answer), type(answer))[0] == answer


def records(**values: object) -> RecordDict:
    return RecordDict({"mix2fld": ConfigRecord({"format": FORMAT, **values})})


def record_of(**changes: object) -> RecordDict:
    return to_record(TRAINED._replace(**changes))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (RecordDict(), "records []"),
        (RecordDict({"x": records(message=b"").config_records["mix2fld"]}), "must be mix2fld"),
        (RecordDict({"Trained": ConfigRecord({"round": 1})}), "records ['Trained']"),
        (records(), "message: NoneType; must be bytes"),
        (records(message="text"), "message: str; must be bytes"),
        (records(message=b"T"), "a message of 1 bytes"),
        (records(message=pack(TRAINED)[:20]), "bytes that do not fit"),
        (to_record(Taken(RUN, 1)), "a message Taken; must be Trained or Refused"),
        (record_of(seconds=float("nan")), "Trained.seconds"),
        (record_of(seconds=-1.0), "Trained.seconds"),
        (record_of(scores=[float("inf")]), "Trained.scores.0"),
        (record_of(samples=0), "Trained.samples"),
        (record_of(samples=2**31 + 1), "Trained.samples"),
    ],
)
def test_what_is_not_a_message_is_named(content: RecordDict, words: str) -> None:
    with pytest.raises(MessageError, match=re.escape(words)):
        from_record(content, Trained, Refused)


def test_a_device_keeps_two_rounds(tmp_path: Path) -> None:
    store = Store(tmp_path, "a" * 16, 0)
    assert store.up_to(0) is None
    for number in (1, 2, 3):
        store.save(number, {"weights": (np.full(2, number, np.float32),)})
        store.keep_download(number, bytes([number]))
    found = store.up_to(3)
    assert found is not None
    assert (found.round, found.download) == (3, b"\3")
    assert_same_trees(found.state, {"weights": (np.full(2, 3, np.float32),)})
    assert store.up_to(9).round == 3
    assert store.up_to(2).round == 2
    assert store.up_to(1) is None
    store.save(3, STATE)
    assert store.up_to(3).download is None


def test_a_device_keeps_the_last_two_rounds_that_it_took_part_in(tmp_path: Path) -> None:
    store = Store(tmp_path, "a" * 16, 0)
    for number in (1, 4, 9):
        store.save(number, STATE)
        assert_same_trees(store.up_to(number).state, STATE)
    assert {file.name for file in store.path.iterdir()} == {"4.state", "9.state"}
    assert store.up_to(8).round == 4


def test_a_damaged_state_is_as_good_as_none(tmp_path: Path) -> None:
    store = Store(tmp_path, "a" * 16, 0)
    for name in ("1.state", "1.download"):
        store.save(1, STATE)
        store.keep_download(1, b"weights")
        assert store.up_to(1).download == b"weights"
        sound = (store.path / name).read_bytes()
        for damaged in (b"", b"{", sound[:-1], sound[:-1] + bytes([sound[-1] ^ 1])):
            (store.path / name).write_bytes(damaged)
            assert store.up_to(1) is None


def test_old_runs_are_forgotten(tmp_path: Path) -> None:
    for number in range(RUNS_KEPT + 3):
        store = Store(tmp_path, f"{number:016x}", 0)
        store.save(1, STATE)
    assert len(list(tmp_path.iterdir())) == RUNS_KEPT
    assert store.up_to(1) is not None


def test_what_others_keep_beside_a_state_stays(tmp_path: Path) -> None:
    foreign = ["photos", "0" * 15 + "x/device-0", "f" * 16 + "/device-0", "e" * 16 + "/thesis"]
    for name in foreign:
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / ("f" * 16) / "notes.txt").write_text("mine")
    (tmp_path / ("d" * 16)).write_text("a file")
    for number in range(RUNS_KEPT + 3):
        store = Store(tmp_path, f"{number:016x}", 0)
        store.save(1, STATE)
    assert all((tmp_path / name).is_dir() for name in foreign)
    assert (tmp_path / ("d" * 16)).exists()
    assert len(list(tmp_path.iterdir())) == RUNS_KEPT + len(foreign) + 1


def test_a_device_that_never_trains_keeps_few_downloads(tmp_path: Path) -> None:
    store = Store(tmp_path, "a" * 16, 0)
    store.save(1, STATE)
    for number in range(1, 8):
        store.keep_download(number, b"weights")
    kept = {file.name for file in store.path.iterdir()}
    assert kept == {"1.state", "1.download", "7.download"}
    store.save(8, STATE)
    assert {file.name for file in store.path.iterdir()} == {"1.state", "1.download", "8.state"}


def test_certificates_and_keys_are_what_flower_takes(tmp_path: Path) -> None:
    make_certificates(tmp_path, ["127.0.0.1", "link.example.org"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    public = make_device_key(tmp_path, "device-0")
    private = tmp_path / "device-0.key"
    assert load_ssh_public_key(public.read_bytes()).curve.name == "secp384r1"
    assert load_ssh_private_key(private.read_bytes(), None).curve.name == "secp384r1"
    assert private.stat().st_mode & 0o077 == 0
    assert (tmp_path / "server.key").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "host",
    ["", "büro.example.org", 300 * "x", "localhost:8000", "https://x", "a b", "-a", "10.0.0.300"],
)
def test_a_host_that_no_node_can_name_is_refused(tmp_path: Path, host: str) -> None:
    with pytest.raises(InputError, match="must be an IP address or a name"):
        make_certificates(tmp_path / "keys", ["10.0.0.1", host])
    assert not (tmp_path / "keys").exists()


def test_hosts_may_have_long_names(tmp_path: Path) -> None:
    hosts = ["a" * 60 + ".example.org", "node3", "::1", "3com.example.org"]
    make_certificates(tmp_path, hosts)
    assert (tmp_path / "server.crt").exists()


def test_two_trials_do_not_share_a_folder(tmp_path: Path) -> None:
    first = FolderLock(tmp_path / "flower")
    (tmp_path / "flower").mkdir()
    assert first.take()
    before = set(tmp_path.rglob("*"))
    with pytest.raises(InputError, match="another process is writing this run"):
        run_locally(toy_config(), tmp_path, toy_dataset(), Watcher(), Trial(60.0, overwrite=True))
    assert set(tmp_path.rglob("*")) == before
    first.give_back()


class Intruder:
    """In place of a federation: while it starts, a simulator runs into the same folder."""

    def __init__(self, config: Config, out: Path) -> None:
        self.config, self.out = config, out

    def run(self, run_config: object) -> str:
        path = self.out / self.config.run_name
        shutil.rmtree(path)
        run(self.config, self.out, dataset=toy_dataset())
        return "1"


def test_the_run_that_is_followed_is_the_one_that_was_started(tmp_path: Path) -> None:
    config = toy_config(protocol="fl", rounds=1, computing_time="measured")
    settings = Settings(config, tmp_path, 60.0, 60.0)
    with pytest.raises(InputError, match="another run took the place"):
        follow_run(Intruder(config, tmp_path), settings, Watcher())


class Failed:
    """In place of a federation: its server app refuses what it is told."""

    logs = Path("logs")

    def run(self, run_config: object) -> str:
        return "1"

    def status(self, run: str) -> FlowerRunStatus:
        return FlowerRunStatus("finished:failed", "devices = 'x': must be a number")


def test_why_a_run_ended_early_is_said(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(flower, "STATUS_SECONDS", 0.0)
    config = toy_config(protocol="fl", rounds=1, computing_time="measured")
    with pytest.raises(InputError, match=r"ended early .devices = 'x': must be a number"):
        follow_run(Failed(), Settings(config, tmp_path, 60.0, 60.0), Watcher())


def test_a_result_of_another_config_is_not_that_of_the_run(tmp_path: Path) -> None:
    config = toy_config(protocol="fl", rounds=1)
    run(config, tmp_path, dataset=toy_dataset())
    path = tmp_path / config.run_name
    (path / "identity").write_text("0123456789abcdef")
    assert finished_run(path, config, "0123456789abcdef") is not None
    with pytest.raises(InputError, match="another config took the place"):
        finished_run(path, config.replace(learning_rate=0.5), "0123456789abcdef")
    with pytest.raises(InputError, match="another run took the place"):
        finished_run(path, config, "f" * 16)


def test_claimed_folders_are_closed_to_the_simulator(tmp_path: Path) -> None:
    """From the first moment, and also with --overwrite; a simulator's own folder is not claimed."""
    config = toy_config(protocol="fl", rounds=1)
    path = tmp_path / config.run_name
    identity = claim(path, config)
    for overwrite in (False, True):
        with pytest.raises(InputError, match="holds a run of a deployment"):
            run(config, tmp_path, dataset=toy_dataset(), overwrite=overwrite)
    assert claim(path, config) == identity
    run(config, tmp_path / "own", dataset=toy_dataset())
    with pytest.raises(InputError, match="holds a run of the simulator"):
        claim(tmp_path / "own" / config.run_name, config)


def test_all_folders_of_a_comparison_are_locked_until_their_run_is_done(tmp_path: Path) -> None:
    config = toy_grid(protocols=("fl", "fd"), rounds=1)

    class Second(Watcher):
        def begin(self, config: Config, rounds_done: int) -> None:
            if config.protocol == "fl":
                with pytest.raises(InputError, match="another process is writing this run"):
                    run(config.replace(protocol="fd"), tmp_path, dataset=toy_dataset())

    run(config, tmp_path, dataset=toy_dataset(), watcher=Second())
    assert not list(tmp_path.rglob(".lock"))


def test_a_second_ctrl_c_does_not_stop_cleaning_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    federation = Federation(tmp_path / "flower")
    monkeypatch.setattr(federation, "_sweep", lambda: signal.raise_signal(signal.SIGINT))
    with federation:
        assert federation.keys.exists()
    assert not federation.keys.exists()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_the_command_makes_keys_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["deploy", "keys", "link.example.org", "--devices", "2", "--out", str(tmp_path / "keys")])
    made = {file.name for file in (tmp_path / "keys").iterdir()}
    devices = {f"device-{n}.{kind}" for n in (0, 1) for kind in ("key", "pub")}
    units = {f"mix2fld-{part}.service" for part in ("superlink", "proxy", "node@")}
    authority = {"ca.crt", "ca.key", "ca.crl", "issued"}
    assert made == authority | {"server.crt", "server.key", "nginx.conf"} | units | devices
    with pytest.raises(SystemExit, match="2"):
        main(["deploy", "keys", "10.0.0.1", "--out", str(tmp_path / "keys")])
    assert "already exists" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["local", "--timeout-s", "0"], "timeout_s = 0"),
        (["local", "--protocol", "mix22fld"], "did you mean 'mix2fld'"),
        (["keys", "host", "--devices", "0", "--out", "nowhere"], "devices = 0"),
        (["testbed", "--uplink-kbit-s", "-5"], "uplink_kbit_s = -5"),
    ],
)
def test_bad_flags_are_named(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["deploy", *arguments])
    said = capsys.readouterr().err
    assert words in said
    assert "Traceback" not in said


def test_a_test_bed_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testbed.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(testbed.shutil, "which", lambda tool: f"/sbin/{tool}")
    with pytest.raises(InputError, match="needs root"):
        testbed.check_possible()
    monkeypatch.setattr(testbed.shutil, "which", lambda tool: None)
    with pytest.raises(InputError, match="ip and tc not found: apt-get install iproute2"):
        testbed.check_possible()


def test_transfers_are_read_from_a_stamped_log() -> None:
    log = """\
100.0000 50 70 INFO :      [RUN 1, ROUND 1]
100.0000 50 70 INFO :      Receiving: train message (ID: aa)
100.5000 60 900 INFO :      Received successfully
101.0000 60 900 INFO :      [RUN 1, ROUND 1]
101.0000 60 900 INFO :      Sending: train message (ID: bb)
103.2500 5060 1000 INFO :      Sent successfully
104.0000 5100 1000 INFO :      [RUN 1, ROUND 2]
104.0000 5100 1000 INFO :      Receiving: query.download message (ID: cc)
104.2500 5200 3000 INFO :      Received successfully
"""
    assert testbed.transfers_in(log) == [
        ("upload", 1, 2.25, 5000),
        ("download", 2, 0.25, 2000),
    ]


def test_a_download_may_come_with_the_next_order() -> None:
    log = """\
100.0000 50 70 INFO :      [RUN 1, ROUND 1]
100.0000 50 70 INFO :      Receiving: train message (ID: aa)
100.5000 60 900 INFO :      Received successfully
104.0000 60 900 INFO :      [RUN 1, ROUND 2]
104.0000 60 900 INFO :      Receiving: train message (ID: bb)
104.2500 60 6900 INFO :      Received successfully
105.0000 60 6900 INFO :      [RUN 1, ROUND 2]
105.0000 60 6900 INFO :      Receiving: query.download message (ID: cc)
105.1250 60 8900 INFO :      Received successfully
106.0000 60 8900 INFO :      [RUN 1, ROUND 3]
106.0000 60 8900 INFO :      Receiving: train message (ID: dd)
106.5000 60 9900 INFO :      Received successfully
"""
    assert testbed.transfers_in(log) == [("download", 2, 0.125, 2000), ("download", 1, 0.25, 6000)]
