"""The block of Stable Diffusion 1.5's UNet: the published sizes, and units that work at the same time."""

from __future__ import annotations

import pytest

import npusim


def test_parameters_are_those_of_the_published_block() -> None:
    graph = npusim.load("sd15_block", {"batch": 1})
    channels, text, time, inner = 320, 768, 1280, 1280
    residual = 2 * (9 * channels**2 + channels) + time * channels + channels + 2 * 2 * channels
    products = 2 * (channels**2 + channels)  # in front of the layer and behind it
    own = 4 * channels**2 + channels
    cross = 2 * channels**2 + 2 * text * channels + channels
    geglu = channels * 2 * inner + 2 * inner + inner * channels + channels
    wanted = residual + 2 * channels + products + 3 * 2 * channels + own + cross + geglu
    assert wanted == 4_801_280
    assert sum(tensor.type.elements for tensor in graph.tensors if tensor.constant) == wanted
    assert graph.tensors[graph.outputs[0]].type.shape == (1, 64, 64, channels)


@pytest.mark.slow
def test_attention_beside_large_maps_keeps_both_units_at_work() -> None:
    """Few rows of scores fit beside attention's operands and a skip connection; they need two buffers all the same."""
    graph = npusim.load("sd15_block", {"batch": 1})
    result = npusim.simulate(npusim.compile(graph, "mobile-4096"), timing_only=True)
    assert {layer.unit for layer in result.layers} <= {"mac", "vector", "dma", "none"}
    assert result.cycles.total < 1.37 * result.lower_bound.cycles
