"""The formats in which weights of transformers are stored: their names, their bytes, and what a step reads of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import npusim
from npusim.frontends.transformer.config import config_of
from npusim.frontends.transformer.network import transformer
from npusim.frontends.transformer.sizes import TransformerConfig
from npusim.frontends.transformer.weights import WeightFormat, parse
from npusim.isa.base.errors import NpusimError

from ....command_line import command
from .test_transformer import LLAMA, changed, timed


@pytest.mark.parametrize(
    ("text", "row_bytes"),
    [
        ("int8", 1024),
        ("int4", 512 + 2),
        ("int4-32", 32 * (16 + 2)),
        ("int4-128-zero", 8 * (64 + 2) + 4),
        ("int2-64", 16 * (16 + 2)),
        ("int8-32-zero", 32 * (32 + 2 + 1)),
    ],
)
def test_formats_of_weights_have_names_and_bytes(text: str, row_bytes: int) -> None:
    form = parse(text)
    assert (form.name, form.channel_bytes(1024)) == (text, row_bytes)


@pytest.mark.parametrize("text", ["", "int3", "int4-33", "int4-32-one", "float", "int4-zero", "int4-32-32"])
def test_other_formats_are_refused_with_those_that_exist(text: str) -> None:
    with pytest.raises(NpusimError, match=f"^weights {text}: may be int8, int4 or int2 .* such as int4-32,"):
        parse(text)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (None, "int8"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True}, "int4-128"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 32, "sym": False}, "int4-32-zero"),
        ({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}, "int4-128-zero"),
        ({"quant_method": "gptq", "bits": 4, "group_size": -1}, "int4"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "int8"),
    ],
)
def test_a_configuration_says_how_weights_are_stored(given: Any, name: str) -> None:
    config = changed("llama", quantization_config=given)
    assert config.weights.name == name
    assert (config.weights.source == "quantization_config") == (name != "int8")
    assert config.weights.source.endswith("is not followed") == (given is not None and name == "int8")
    # Files of models of images and text have the key outside of text_config.
    of_images = {"model_type": "llava", "text_config": {}, "quantization_config": given}
    assert config_of(of_images).weights == config.weights
    notes = transformer(config, tokens=1).notes
    assert [note for note in notes if config.weights.words in note and "--weights" in note] == list(notes)
    assert len(notes) == (given is not None)


@pytest.mark.parametrize("past", [0, 40])
@pytest.mark.parametrize("text", ["int4", "int4-32", "int4-16-zero", "int8-64"])
def test_a_step_reads_the_weights_as_they_are_stored(text: str, past: int) -> None:
    config = replace(changed("qwen2", tie_word_embeddings=True), weights=parse(text))
    result = timed(config, "mobile-1024", tokens=1, past=past)
    plain = timed(replace(config, weights=parse("int8")), "mobile-1024", tokens=1, past=past)
    assert [layer.macs for layer in result.layers] == [layer.macs for layer in plain.layers]
    assert {layer.unit for layer in result.layers} <= {"mac", "vector", "dma", "none"}

    def products(form: WeightFormat) -> int:
        return form.product_bytes(config.products)

    # A channel has a float32 bias, instead of an int32 one with a multiplier and a shift; a tile two scales of maps.
    channels = sum(units * count for units, inner, count in config.products if inner)
    saved = plain.dram_bytes.read - result.dram_bytes.read
    wanted = products(parse("int8")) + 5 * channels - products(config.weights)
    assert abs(saved - wanted) < 0.05 * plain.dram_bytes.read
    assert config.stored_bytes == products(config.weights) + config.parameters - products(parse("int8")) + (
        512 * 64
    )


def test_a_format_follows_the_name_of_a_model(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(LLAMA))
    sizes = {"tokens": 1, "past": 8, "batch": 1}
    one, other = (npusim.load(name, sizes) for name in (f"{file}:int4-32", str(file)))
    assert "block_product" in {node.op for node in one.nodes} - {node.op for node in other.nodes}
    words = (
        "--timing-only",
        "--no-lever",
        "--hw",
        "mobile-1024",
        *(f"--shape={k}={v}" for k, v in sizes.items()),
    )
    done, same = (
        command("run", file, "--weights", "int4-32", *words),
        command("run", f"{file}:int4-32", *words),
    )
    last = -2  # lines: the last says how long it took
    assert (done.status, done.out.splitlines()[:last]) == (0, same.out.splitlines()[:last])
    refused = command("run", "digits_cnn", "--weights", "int4")
    assert refused.status == 2
    assert "digits_cnn:int4: the format of weights is for a config.json" in refused.err


FLOAT_COLUMNS = npusim.hardware("edge-128-float", ["mac_array.weight_blocks=dequantized"])


@pytest.mark.parametrize("kind", ["llama", "qwen3", "gemma2", "mixtral", "bert"])
def test_float_activations_run_on_float_columns_and_lanes(kind: str) -> None:
    """Nothing is left to the host, and a step reads at least the weights of its products as they are stored."""
    given = LLAMA | {"model_type": kind} | ({"num_local_experts": 2} if kind == "mixtral" else {})
    for weights, activations in (("float16", None), ("fp8", None), ("int4-32", "float16")):
        graph = npusim.models.transformer(given, tokens=3, weights=weights, activations=activations)
        result = npusim.simulate(npusim.compile(graph, FLOAT_COLUMNS), timing_only=True)
        assert {layer.unit for layer in result.layers} <= {"mac", "vector", "dma", "none"}
        config = config_of(given).stored_as(parse(weights), activations)
        assert config.floats
        least = config.weights.product_bytes(config.products)
        assert least <= result.dram_bytes.read
        assert config.stored_bytes >= least + 2 * config.vocabulary * config.hidden * config.tied


def test_floats_are_read_as_they_are_stored() -> None:
    """bfloat16 takes the bytes of float16, fp8 half of them and a scale per channel."""
    runs = {
        name: npusim.simulate(
            npusim.compile(npusim.models.transformer(LLAMA, tokens=1, past=8, weights=name), FLOAT_COLUMNS),
            timing_only=True,
        )
        for name in ("float16", "bfloat16", "fp8")
    }
    assert runs["float16"].dram_bytes == runs["bfloat16"].dram_bytes
    config = config_of(LLAMA)
    bytes_of = {name: parse(name).product_bytes(config.products) for name in runs}
    assert bytes_of["float16"] == bytes_of["bfloat16"] == 2 * (bytes_of["fp8"] - 2 * _channels(config))
    saved = runs["float16"].dram_bytes.read - runs["fp8"].dram_bytes.read
    assert abs(saved - (bytes_of["float16"] - bytes_of["fp8"])) < 0.05 * bytes_of["float16"]
    assert runs["float16"].energy_uj.total > runs["fp8"].energy_uj.total


def _channels(config: TransformerConfig) -> int:
    return sum(units * count for units, inner, count in config.products if inner)


def test_arrays_without_float_columns_leave_floats_to_the_host() -> None:
    graph = npusim.models.transformer(LLAMA, tokens=1, weights="float16")
    result = npusim.simulate(npusim.compile(graph, "mobile-1024"), timing_only=True)
    assert {layer.unit for layer in result.layers if layer.macs} == {"host"}


def test_activations_that_do_not_go_with_weights_are_refused() -> None:
    for weights, activations, said in (
        ("float16", "int8", "activations int8: beside weights float16 they may be float16"),
        ("int4-32", "int16", "activations int16: beside weights int4-32 they may be int8 or float16"),
    ):
        with pytest.raises(NpusimError, match=said):
            npusim.models.transformer(LLAMA, weights=weights, activations=activations)


def test_keys_and_values_have_the_type_of_activations() -> None:
    made = npusim.generate(LLAMA, 4, 2, FLOAT_COLUMNS, weights="int4-32", activations="float16")
    assert made.cache_bytes == 2 * npusim.generate(LLAMA, 4, 2, "mobile-1024").cache_bytes
    step = npusim.models.transformer(LLAMA, tokens=1, past=3, weights="bfloat16")
    kinds = {step.tensors[number].type.dtype for number in (*step.inputs, *step.outputs)}
    assert kinds == {"int32", "float16"}
