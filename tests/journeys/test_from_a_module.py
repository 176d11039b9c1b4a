"""The first hour with a PyTorch module: a pre-trained head in 2 kbit a round, out as ONNX."""

from pathlib import Path

import numpy as np
import pytest

import mix2fld
from mix2fld.models import from_torch

torch = pytest.importorskip("torch")
onnxruntime = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.long


class Net(torch.nn.Module):
    """A body that was trained before, and a new head."""

    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(
            torch.nn.Conv2d(1, 8, 3, stride=2), torch.nn.ReLU(), torch.nn.Flatten()
        )
        self.head = torch.nn.Linear(8 * 13 * 13, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(images))


def pretrained(data: mix2fld.Dataset) -> dict[str, torch.Tensor]:
    """A body from some other place: trained on images that no device holds."""
    torch.manual_seed(0)
    net, steps = Net(), 300
    optimiser = torch.optim.SGD(net.parameters(), 0.05)
    for step in range(steps):
        rows = slice(50_000 + 32 * step, 50_032 + 32 * step)
        images = torch.from_numpy(data.train_inputs[rows]).float().movedim(-1, 1) / 255
        loss = torch.nn.functional.cross_entropy(
            net(images), torch.from_numpy(data.train_labels[rows]).long()
        )
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return net.body.state_dict()


def test_from_a_module_to_onnx(tmp_path: Path) -> None:
    from mix2fld.data import load_dataset

    data = load_dataset(mix2fld.Config.of(dataset="mnist").data)
    body = pretrained(data)

    def make() -> Net:
        net = Net()
        net.body.load_state_dict(body)
        net.body.requires_grad_(False)  # stays as it is, and is never sent
        return net

    config = mix2fld.Config.of(
        protocol="murmur", update_bits=2000, devices=10, samples_per_device=300, rounds=3,
        local_steps=300, link="ideal", test_samples=2000,
    )  # fmt: skip
    (result,) = mix2fld.run(config, tmp_path, dataset=data, model=from_torch(make, "head"))
    assert result.summary["bits"]["up"] <= 3 * 10 * 2000
    assert list(result.weights) == ["head.weight", "head.bias"]

    # Out as ONNX, and as a state_dict for plain PyTorch: three programs, one answer.
    result.model.save(tmp_path / "head.onnx")
    result.model.save(tmp_path / "head.pt")
    images = data.test_inputs[:500]
    said = result.model.predict(images)
    session = onnxruntime.InferenceSession(tmp_path / "head.onnx")
    (chances,) = session.run(None, {"samples": images})
    net = Net()
    net.load_state_dict(torch.load(tmp_path / "head.pt", weights_only=True))
    with torch.no_grad():
        logits = net(torch.from_numpy(images).float().movedim(-1, 1) / 255)
    np.testing.assert_array_equal(chances.argmax(axis=1), said)
    np.testing.assert_array_equal(logits.argmax(1).numpy(), said)
    assert np.mean(said == data.test_labels[:500]) > 0.8
