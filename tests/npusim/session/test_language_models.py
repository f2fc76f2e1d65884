"""Language models of ../shared/llm on a machine with float lanes: every step's values, and nothing for the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import npusim

from ...llm import LLM, Decoder, steps_of, stored

ALLOWED = 1e-5
"""Of the largest value, for floats; quantized models and LiteRT's have 0 differing values."""
FILES = {
    "encoder_mask_qdq_s8s8": 0.0,
    "llama_kv_qdq_u8s8": 0.0,
    "llama_static_cache_s8": 0.0,
    "llama_kv_dynamic": ALLOWED,
    "genai_gqa_int4": ALLOWED,
    "opset23_attention_int4": ALLOWED,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_the_steps_of_a_file(name: str) -> None:
    expected, decoder = stored(name), Decoder(name)
    before: dict[str, Any] = {}
    compared = 0
    for step, given in enumerate(steps_of(name)):
        before = decoder.run(given, before)
        for key, value in before.items():
            wanted = expected.get(f"s{step}_out_{key}")
            if wanted is not None:
                compared += 1
                difference = np.abs(wanted.astype(np.float64) - value).max()
                assert difference <= FILES[name] * np.abs(wanted).max(), (step, key)
    assert compared > 2
    assert decoder.host_layers == set()


def test_the_encoder_of_tflite() -> None:
    values = dict(np.load(LLM / "litert_encoder_int8.npz"))
    program = npusim.compile(npusim.load(LLM / "litert_encoder_int8.tflite"), "edge-128")
    assert not program.host_calls
    for run in range(3):
        inputs = [
            values[f"in{run}_{place}"] for place in range(sum(key.startswith("in0_") for key in values))
        ]
        assert npusim.simulate(program, inputs).outputs[0].tobytes() == values[f"out{run}_0"].tobytes()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "sizes"), [("gpt_int4_blocked", {"T": 8}), ("smart_turn_v3_2", {})])
def test_nothing_of_a_float_model_is_the_hosts(name: str, sizes: dict[str, int]) -> None:
    graph = npusim.load(LLM.parent / "onnx" / "models" / f"{name}.onnx", sizes=sizes)
    assert not npusim.compile(graph, "edge-128-float").host_calls
