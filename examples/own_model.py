"""Your own model: a Flax module through the adapter, here on a part of MNIST.

From the command line the same works as ``--model own_model:small_flax_cnn``.
"""

import flax.linen as nn
import jax

import mix2fld
from mix2fld.models import from_flax


class SmallCNN(nn.Module):
    num_labels: int

    @nn.compact
    def __call__(self, images: jax.Array) -> jax.Array:
        hidden = nn.relu(nn.Conv(4, (5, 5), strides=(3, 3))(images))
        return nn.Dense(self.num_labels)(hidden.reshape(len(hidden), -1))


def small_flax_cnn(sample_shape: tuple[int, int, int], num_labels: int) -> mix2fld.Model:
    return from_flax(SmallCNN(num_labels), sample_shape)


if __name__ == "__main__":
    config = mix2fld.Config.of(
        protocol="mix2fld",
        devices=4,
        local_steps=500,
        server_steps=500,
        rounds=2,
        test_samples=1000,
    )
    model = small_flax_cnn((28, 28, 1), 10)
    (result,) = mix2fld.run(config, model=model)
    print(result.summary["scores"])
