"""Your own PyTorch module, trained by PyTorch itself, here on a part of MNIST.

From the command line the same works as ``--model own_torch_model:SmallCNN``.
"""

import torch
from torch import nn

import mix2fld
from mix2fld.models import from_torch


class SmallCNN(nn.Module):
    def __init__(self, sample_shape: tuple[int, ...], num_labels: int) -> None:
        super().__init__()
        height, width, channels = sample_shape
        self.layers = nn.Sequential(
            nn.Conv2d(channels, 8, 5, stride=3),
            nn.GroupNorm(2, 8),  # BatchNorm keeps statistics beside its weights
            nn.ReLU(),
            nn.Flatten(),
            nn.Dropout(0.1),
            nn.Linear(8 * ((height - 5) // 3 + 1) * ((width - 5) // 3 + 1), num_labels),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.layers(images)


if __name__ == "__main__":
    config = mix2fld.Config.of(
        protocol="mix2fld",
        devices=4,
        local_steps=500,
        server_steps=500,
        rounds=2,
        test_samples=1000,
    )
    model = from_torch(lambda: SmallCNN((28, 28, 1), 10), name="small CNN")
    (result,) = mix2fld.run(config, model=model)
    print(result.summary["kernel"], result.summary["scores"])
