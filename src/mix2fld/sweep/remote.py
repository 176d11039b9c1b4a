"""A job on a node of a cluster: a task that sends its run folder home, round after round."""

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any

from mix2fld.base.custom_code import search_also
from mix2fld.native.processor import CORES

if TYPE_CHECKING:
    from mix2fld.config.settings import Config
    from mix2fld.sweep.jobs import JobResult
    from mix2fld.sweep.ray_place import Pieces
    from mix2fld.types import Dataset


def node_versions() -> dict[str, str]:
    """What a node computes with."""
    from mix2fld.engine.fleets.cluster import versions

    return versions()


def run_remote(
    config: "Config", pieces: "Pieces", dataset: "Dataset", driver: Mapping[str, str], cores: int,
    folders: Sequence[str] = (),
) -> "Iterator[str | Pieces | JobResult]":  # fmt: skip
    """The name of the node, then what changes in the run's folder, then the result.

    ``folders``: where the driver finds modules.
    """
    os.environ[CORES] = str(cores)  # before anything is imported that counts them
    search_also(folders)
    from mix2fld.base.errors import Mix2fldError
    from mix2fld.engine.fleets.cluster import check_versions, versions
    from mix2fld.sweep.jobs import JobResult, run_into
    from mix2fld.sweep.ray_place import FolderSender, write_pieces

    here = versions()
    yield here["node"]
    try:
        check_versions(driver, here)
    except Mix2fldError as error:
        yield JobResult(str(error))
        return
    news: SimpleQueue[Any] = SimpleQueue()
    with tempfile.TemporaryDirectory(prefix="mix2fld-job-") as name:
        folder = Path(name) / config.run_name
        write_pieces(folder, pieces)
        sender = FolderSender(folder)

        def work() -> None:
            done = run_into(folder.parent, config, dataset, _sending(news, sender))
            news.put(sender.changes())
            news.put(done)

        Thread(target=work, daemon=True).start()
        while True:
            item = news.get()
            yield item
            if isinstance(item, JobResult):
                return


def _sending(news: "SimpleQueue[Any]", sender: Any) -> Any:
    from mix2fld.engine.info import RoundInfo
    from mix2fld.sweep.jobs import Notes

    class Sending(Notes):
        def round_done(self, config: "Config", info: RoundInfo) -> None:
            del config, info
            news.put(sender.changes())

    return Sending()
