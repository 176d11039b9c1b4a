"""The networks of the oracle: forward and backward pass of one image, by hand, in float64."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Weights = dict[str, Floats]
Network = Callable[[Weights, Floats], tuple[Floats, Callable[[Floats], Weights]]]
"""(weights, image [H, W, C]) -> logits [N_L], and what turns their gradient into the weights'."""


def cnn(weights: Weights, image: Floats) -> tuple[Floats, Callable[[Floats], Weights]]:
    """conv 3x3, ReLU, max-pool 2, conv 3x3, ReLU, linear, whose inputs are ordered (C, H, W)."""
    scores1 = conv(image, weights["conv1.kernel"], weights["conv1.bias"])
    pooled, chosen = max_pool(np.maximum(scores1, 0))
    scores2 = conv(pooled, weights["conv2.kernel"], weights["conv2.bias"])
    features = np.maximum(scores2, 0).transpose(2, 0, 1)
    logits = weights["linear.kernel"] @ features.ravel() + weights["linear.bias"]

    def back(d_logits: Floats) -> Weights:
        d_features = (weights["linear.kernel"].T @ d_logits).reshape(features.shape)
        d_scores2 = d_features.transpose(1, 2, 0) * (scores2 > 0)
        d_pooled, d_kernel2, d_bias2 = conv_back(pooled, weights["conv2.kernel"], d_scores2)
        d_scores1 = max_pool_back(d_pooled, chosen) * (scores1 > 0)
        _, d_kernel1, d_bias1 = conv_back(image, weights["conv1.kernel"], d_scores1)
        return {
            "conv1.kernel": d_kernel1,
            "conv1.bias": d_bias1,
            "conv2.kernel": d_kernel2,
            "conv2.bias": d_bias2,
            "linear.kernel": np.outer(d_logits, features),
            "linear.bias": d_logits,
        }

    return logits, back


def mlp(weights: Weights, image: Floats) -> tuple[Floats, Callable[[Floats], Weights]]:
    """One hidden layer with ReLU; pixels are ordered (C, H, W)."""
    pixels = image.transpose(2, 0, 1).ravel()
    scores = weights["linear1.kernel"] @ pixels + weights["linear1.bias"]
    hidden = np.maximum(scores, 0)
    logits = weights["linear2.kernel"] @ hidden + weights["linear2.bias"]

    def back(d_logits: Floats) -> Weights:
        d_scores = (weights["linear2.kernel"].T @ d_logits) * (scores > 0)
        return {
            "linear1.kernel": np.outer(d_scores, pixels),
            "linear1.bias": d_scores,
            "linear2.kernel": np.outer(d_logits, hidden),
            "linear2.bias": d_logits,
        }

    return logits, back


def in_zeros(x: Floats) -> Floats:
    """``x`` [H, W, C] with a frame of zeros, as ``np.pad`` makes it in ten times the time."""
    padded = np.zeros((x.shape[0] + 2, x.shape[1] + 2, x.shape[2]))
    padded[1:-1, 1:-1] = x
    return padded


def conv(x: Floats, kernel: Floats, bias: Floats) -> Floats:
    """A 3x3 convolution that keeps the size: x [H, W, C], kernel [3, 3, C, O] -> [H, W, O]."""
    height, width, _ = x.shape
    padded, scores = in_zeros(x), np.zeros((height, width, len(bias))) + bias
    for a in range(3):
        for b in range(3):
            scores += padded[a : a + height, b : b + width] @ kernel[a, b]
    return scores


def conv_back(x: Floats, kernel: Floats, d_scores: Floats) -> tuple[Floats, Floats, Floats]:
    """Gradients of ``conv`` with respect to x, kernel and bias."""
    height, width, _ = x.shape
    padded = in_zeros(x)
    d_padded, d_kernel = np.zeros_like(padded), np.zeros_like(kernel)
    for a in range(3):
        for b in range(3):
            window = np.s_[a : a + height, b : b + width]
            d_kernel[a, b] = np.einsum("hwc,hwo->co", padded[window], d_scores)
            d_padded[window] += d_scores @ kernel[a, b].T
    return d_padded[1:-1, 1:-1], d_kernel, d_scores.sum(axis=(0, 1))


def max_pool(x: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """2x2 maxima of x [H, W, C], and where they stand; of equal ones the first, row by row."""
    height, width, channels = x.shape
    windows = x.reshape(height // 2, 2, width // 2, 2, channels).transpose(0, 2, 4, 1, 3)
    flat = windows.reshape(*windows.shape[:3], 4)
    first = np.eye(4, dtype=bool)[flat.argmax(axis=3)].reshape(windows.shape)
    return flat.max(axis=3), first.transpose(0, 3, 1, 4, 2).reshape(x.shape)


def max_pool_back(d_pooled: Floats, chosen: NDArray[np.bool_]) -> Floats:
    """The whole gradient of a window goes to its chosen pixel."""
    return d_pooled.repeat(2, axis=0).repeat(2, axis=1) * chosen


def softmax(logits: Floats) -> Floats:
    """The output vector F."""
    exponentials = np.exp(logits - logits.max())
    return np.asarray(exponentials / exponentials.sum())
