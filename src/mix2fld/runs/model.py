"""A trained model in the user's hands: what it says of new samples, and its files."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save as safetensors_bytes

from mix2fld.base.errors import InputError, some_of
from mix2fld.base.files import write_atomic, writing
from mix2fld.config.settings import Config
from mix2fld.data.columns import Column, encode
from mix2fld.data.features.compute import network_of_run
from mix2fld.data.features.network import Network
from mix2fld.data.features.text import as_samples
from mix2fld.data.forecast import SeriesColumns
from mix2fld.data.samples import PIXEL_MAX, as_measured, standardise
from mix2fld.data.tables import columns_of
from mix2fld.dataset import Dataset, SampleFormat
from mix2fld.models.adapters import library
from mix2fld.models.peft_files import save_adapters
from mix2fld.models.trained import ALL, EVERY, lora_rank
from mix2fld.runs.folder import warn
from mix2fld.runs.trained import FinalWeights, Form, NamedWeights
from mix2fld.tasks.classification import Classification
from mix2fld.tasks.learning import Learning
from mix2fld.tasks.make_learning import make_learning
from mix2fld.tasks.metric import metric_of
from mix2fld.tasks.table import from_record
from mix2fld.types import Inputs

FILE_FORMAT = 1
ABOUT = "mix2fld"
"""In the metadata of a file: what the weights stand for, as JSON."""
ENDINGS = (".safetensors", ".pt", ".onnx")
AT_ONCE = 4096
"""Samples that a model is asked about in one go."""
TABLES_HAVE = ("columns", "column_names")
"""What a frame or an Arrow table has, and no array."""
CLOSE = 1e-4
"""How far ONNX Runtime may be from this package, as a probability."""


@dataclass(frozen=True, eq=False, repr=False)
class TrainedModel:
    """A trained model, with what is needed to use it: how samples are scaled, what labels mean."""

    weights: NamedWeights
    form: Form
    learn: Callable[[], Learning]

    @classmethod
    def of(
        cls, trained: FinalWeights, weights: NamedWeights, summary: Mapping[str, Any] | None = None
    ) -> Self:
        """That of a run, with these of its weights; ``summary`` is that of its server's."""
        form = {**trained.form, "run": trained.config.run_name}
        if summary is not None:
            form[metric_of(summary["scores"]).name] = summary["scores"]["global"]
        learn = trained.learn or (lambda: learning_of(trained.config, form))
        return cls(weights, form, cache(learn))

    def __repr__(self) -> str:
        size = sum(weight.size for weight in self.weights.values())
        names = some_of(self.labels) if self.labels else "numbers"
        return (
            f"TrainedModel({self.form['model']}, {size:,} weights, {self.samples} to {names}; "
            f"run {self.form['run']})"
        )

    @property
    def samples(self) -> SampleFormat:
        """What a sample is, as the model was trained on it."""
        return _format_of(self.form)

    @property
    def labels(self) -> tuple[str, ...]:
        """What the labels are called; none where numbers are predicted."""
        return tuple(self.form["labels"])

    def predict(self, samples: Any) -> NDArray[Any]:
        """The label of each sample, as the dataset calls it; numbers where these were learned.

        Numbers are in units of the data, [n] or, where several were learned, [n, T].

        Samples are as they were measured: an array [n, ...], a table with the columns that the
        model was trained on, or texts where its features are of texts. Of a ``Dataset``, its test
        samples are taken.
        """
        return self.named(self.outputs(samples))

    def named(self, outputs: NDArray[np.float32]) -> NDArray[Any]:
        """What ``predict`` returns for these outputs."""
        if not self.labels:
            task = self.form.get("task")
            found = outputs if task is None else from_record(task).in_units(outputs)
            return found[:, 0] if task is not None and found.shape[1] == 1 else found
        chosen = outputs.argmax(axis=1)
        numbered = self.labels == tuple(map(str, range(len(self.labels))))
        return chosen if numbered else np.array(self.labels)[chosen]

    def predict_proba(self, samples: Any) -> NDArray[np.float32]:
        """The probability of each label, [n, N_L]; samples as for ``predict``."""
        return self.probabilities(self.outputs(samples))

    def probabilities(self, outputs: NDArray[np.float32]) -> NDArray[np.float32]:
        """What ``predict_proba`` returns for these outputs."""
        if not self.labels:
            raise InputError("predict_proba: the model predicts numbers; predict returns them")
        raised = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        found: NDArray[np.float32] = raised / raised.sum(axis=1, keepdims=True)
        return found

    def outputs(self, samples: Any) -> NDArray[np.float32]:
        """What the model itself returns, [n, O]: logits where labels were learned."""
        stored, learning = self._stored(samples), self.learn()
        tensors = tuple(self.weights.values())
        parts = range(0, len(stored), AT_ONCE)
        found = [learning.stepper.logits(tensors, stored[i : i + AT_ONCE]) for i in parts]
        return np.concatenate(found)

    def state_dict(self) -> dict[str, Any]:
        """Of a PyTorch module: what ``load_state_dict`` takes, frozen parameters and buffers too.

        Of other models, every weight by its name, as NumPy arrays. Adapters are merged.
        """
        if self._torch is None:
            return dict(self._merged() if self._has_adapters else self.weights)
        return dict(self._module().state_dict())

    def save(self, path: Path | str) -> None:
        """Write it to a file: .safetensors (read by ``load_model``), .pt, or .onnx.

        A .pt is a state_dict for ``torch.load``. ONNX takes samples as they are measured (vectors
        of features that are no ONNX graph, which a note says), and returns probabilities; it is
        run with ONNX Runtime and compared before it is written.
        """
        path = Path(path)
        data = self.file(path.suffix)
        with writing("out", path):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, data)

    def save_adapters(self, folder: Path | str) -> None:
        """Write the adapters of a PyTorch module (``trained = lora:...``) as PEFT reads them."""
        save_adapters(self.weights, folder)

    def file(self, ending: str) -> bytes:
        """The content of such a file."""
        match ending:
            case ".safetensors" | "":
                weights, about = self.weights, self.about
                if self._has_adapters:
                    weights = self._merged()
                    about = {**about, "trained": EVERY, "names": list(weights)}
                told = json.dumps({"format": FILE_FORMAT, **about})
                return bytes(safetensors_bytes(weights, metadata={ABOUT: told}))
            case ".pt":
                return self._pytorch_file()
            case ".onnx":
                return self._onnx_file()
        raise InputError(field="out", value=ending, hint=f"must end in {', '.join(ENDINGS)}")

    @property
    def about(self) -> dict[str, Any]:
        """What is needed to use the weights without this package."""
        samples = self.samples
        return {
            **{name: value for name, value in self.form.items() if name != "samples"},
            "sample_shape": samples.shape,
            "dtype": samples.dtype,
            "fed_as": f"x / {PIXEL_MAX}" if samples.dtype == "uint8" else "x",
            "value_range": [samples.low, samples.high],
            "standardisation": {"mean": samples.mean, "std": samples.std},
            "network": samples.record().get("network"),
        }

    @property
    def _torch(self) -> Any:
        model = self.learn().model
        return None if model is None else model.torch

    def _module(self) -> Any:
        from mix2fld.models.torch_network import TorchNetwork

        network = TorchNetwork(self._torch)
        network.load(tuple(self.weights.values()))
        module = network.module.eval()
        if not self._has_adapters:
            return module
        from mix2fld.models.torch_trained import without_adapters

        return without_adapters(module)

    @property
    def _has_adapters(self) -> bool:
        return bool(lora_rank(self.form.get("trained", ALL)))

    def _merged(self) -> NamedWeights:
        """All weights by the names that they have without adapters, products of these added."""
        if self._torch is not None:
            named = self._module().named_parameters()
            return {name: np.array(value.detach().numpy()) for name, value in named}
        model = self.learn().model
        assert model is not None
        assert model.merged is not None
        return model.merged(self.weights)

    def _pytorch_file(self) -> bytes:
        import io

        torch = library("torch", "'mix2fld[torch]'")
        file = io.BytesIO()
        tensors = {name: torch.as_tensor(value) for name, value in self.state_dict().items()}
        torch.save(tensors, file)
        return file.getvalue()

    def _onnx_file(self) -> bytes:
        from mix2fld.models.onnx_file import Exported, onnx_file

        model = self.learn().model
        assert model is not None
        weights = tuple(self.weights.values())
        exported = Exported(
            model, weights, self.samples, self.about, bool(self.labels), self._onnx_features()
        )
        data, differ = onnx_file(exported, self._expected)
        if differ > CLOSE:
            raise InputError(
                field="out",
                hint=f"ONNX Runtime differs from the model by up to {differ:.2g}; nothing written",
            )
        return data

    def _onnx_features(self) -> Network | None:
        """The frozen network that goes into an ONNX file; None: there is none that is a graph."""
        frozen = self.samples.network
        if frozen is None:
            return None
        network = network_of_run(frozen)
        if network.graph is not None:
            return network
        warn(
            f"features = {frozen.name} are no ONNX graph: the file takes their vectors "
            f"{list(self.samples.shape)} in place of samples"
        )
        return None

    def _expected(self, measured: NDArray[Any]) -> NDArray[np.float32]:
        outputs = self.outputs(measured)
        return self.probabilities(outputs) if self.labels else outputs

    def _as_text(self, samples: NDArray[Any]) -> NDArray[Any]:
        """Texts as the bytes that the network of the features takes."""
        frozen = self.samples.network
        if frozen is None or frozen.dtype != "uint8" or len(frozen.shape) != 1:
            raise InputError(field="samples", hint=f"are texts; must be {self.samples}")
        return as_samples([str(text) for text in samples.ravel().tolist()], frozen.shape[0])

    def _stored(self, samples: Any) -> Inputs:
        """Samples as the model was trained on them; raises ``InputError`` for other ones."""
        form = self.samples
        if isinstance(samples, Dataset):
            if samples.samples.shape != form.shape or samples.mean != form.mean:
                raise InputError(
                    field="samples",
                    hint=f"are {samples.samples}; the model was trained on {form}",
                )
            return samples.test_inputs
        if isinstance(samples, Mapping) or any(hasattr(samples, n) for n in TABLES_HAVE):
            samples = self.of_table(samples)
        given = np.asarray(samples)
        if given.dtype.kind in "UO" and given.size:
            given = self._as_text(given)
        measured = as_measured(given, form)
        return standardise(measured, form.mean, form.std) if form.mean else measured

    def of_table(self, table: Any) -> NDArray[Any]:
        """The samples in a table, as they are measured; of a forecast, see ``of_series``."""
        if self.series is not None:
            return self.of_series(table)[0]
        if not self.form["columns"]:
            raise InputError(
                field="samples",
                hint=f"the model was not trained on a table; must be an array [n, "
                f"{', '.join(map(str, self.samples.shape))}]",
            )
        return encode(columns_of(table), self._columns)

    @property
    def series(self) -> SeriesColumns | None:
        """How a table becomes windows, where a forecast was learned."""
        stated = self.form.get("series")
        return None if stated is None else SeriesColumns(**stated)

    def of_series(self, table: Any) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """The windows in a table of series, and the row with which each of them ends."""
        assert self.series is not None
        return self.series.latest(columns_of(table), self._columns)

    @property
    def _columns(self) -> list[Column]:
        return [Column(name, tuple(kinds), fill) for name, kinds, fill in self.form["columns"]]


def learning_of(config: Config, form: Form, model: Any = None) -> Learning:
    """The learning of a run, as its config names it."""
    named = form["model"]
    if model is None and ":" not in named and config.learning.model in ("auto", named):
        config = config.replace(model=named)
    count = len(form["labels"])
    task = from_record(form["task"]) if "task" in form else Classification(count)
    if not count and "task" not in form:
        raise InputError(
            field="run",
            value=form.get("run", named),
            hint="predicts numbers; use result.model in the program that has its task",
        )
    made = make_learning(config, _format_of(form), task, model)
    if made.model_name != named:
        raise InputError(
            field="model",
            value=named,
            hint="was given to the run by a program, not named in its config; in Python: "
            "mix2fld.load_model(..., model=...), or result.model",
        )
    return made


def _format_of(form: Form) -> SampleFormat:
    return SampleFormat.of(form["samples"])
