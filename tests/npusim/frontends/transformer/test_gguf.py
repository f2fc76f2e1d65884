"""GGUF headers: sizes and formats of published models, and files that are damaged."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import pytest

import npusim
from npusim.frontends.transformer.gguf import read_sizes
from npusim.isa.base.errors import FormatError, NpusimError

from ....command_line import command

F32, Q4_0, Q8_0, Q4_K, Q6_K, IQ4_XS = 0, 2, 8, 12, 14, 23
Tensors = dict[str, tuple[tuple[int, ...], int]]


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def _value(value: Any) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", 8) + _text(value)
    if isinstance(value, list):
        return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(_text, value))
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    return struct.pack("<II", 4, value)


def written(metadata: dict[str, Any], tensors: Tensors, version: int = 3) -> bytes:
    """Return the header of a file, as ggml's documentation has it."""
    parts = [b"GGUF", struct.pack("<IQQ", version, len(tensors), len(metadata))]
    parts += [_text(key) + _value(value) for key, value in metadata.items()]
    for name, (shape, kind) in tensors.items():
        parts += [_text(name), struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, 0)]
    return b"".join(parts)


def llama(
    hidden: int,
    inner: int,
    layers: int,
    heads: int,
    kv: int,
    vocabulary: int,
    kind: int = Q4_0,
    tied: bool = True,
) -> tuple[dict[str, Any], Tensors]:
    """Return the metadata and tensors that llama.cpp writes for a Llama."""
    size = hidden // heads
    metadata = {
        "general.architecture": "llama", "general.name": "A Llama", "llama.block_count": layers,
        "llama.embedding_length": hidden, "llama.feed_forward_length": inner, "llama.attention.head_count": heads,
        "llama.attention.head_count_kv": kv, "llama.context_length": 4096, "llama.rope.freq_base": 1e4,
        "tokenizer.ggml.tokens": ["<s>", "a", "b"],
    }  # fmt: skip
    tensors: Tensors = {
        "token_embd.weight": ((hidden, vocabulary), Q6_K),
        "output_norm.weight": ((hidden,), F32),
    }
    tensors["rope_freqs.weight"] = ((size // 2,), F32)
    if not tied:
        tensors["output.weight"] = ((hidden, vocabulary), Q6_K)
    for layer in range(layers):
        products = {
            "attn_q": (hidden, hidden), "attn_k": (hidden, kv * size), "attn_v": (hidden, kv * size),
            "attn_output": (hidden, hidden), "ffn_gate": (hidden, inner), "ffn_up": (hidden, inner),
            "ffn_down": (inner, hidden),
        }  # fmt: skip
        tensors |= {f"blk.{layer}.{name}.weight": (shape, kind) for name, shape in products.items()}
        tensors |= {f"blk.{layer}.{name}_norm.weight": ((hidden,), F32) for name in ("attn", "ffn")}
    return metadata, tensors


SMALL = (64, 160, 2, 4, 2, 512)


def test_the_sizes_are_those_of_the_model(tmp_path: Path) -> None:
    file = tmp_path / "llama3.2_1b.gguf"
    file.write_bytes(written(*llama(2048, 8192, 16, 32, 8, 128256)))
    config = read_sizes(file)
    assert (config.parameters, config.tied, config.weights.name) == (1_235_814_400, True, "int4-32")
    step = {"tokens": 1, "past": 100, "batch": 1}
    with pytest.warns(
        UserWarning, match=r"weights are int4-32 \(Q4_0 of the file\); --weights FORMAT gives another"
    ):
        found = npusim.load(file, step)
    known = npusim.load("llama3.2_1b:int4-32", step)
    assert [node.op for node in found.nodes] == [node.op for node in known.nodes]
    assert [tensor.type for tensor in found.tensors] == [tensor.type for tensor in known.tensors]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Q8_0, "int8-32 (Q8_0 of the file)"),
        (Q4_K, "int4-32 (Q4_K of the file; 1 Q6_K of its tensors are timed the same)"),
        (IQ4_XS, "int8 (IQ4_XS of the file is not followed; npusim has Q4_0, Q8_0, F16, BF16, Q4_K)"),
    ],
)
def test_formats_of_weights_are_followed_or_named(kind: int, words: str, tmp_path: Path) -> None:
    metadata, tensors = llama(*SMALL, kind=kind)
    if kind == Q4_K:
        shape, _ = tensors["blk.0.ffn_down.weight"]
        tensors["blk.0.ffn_down.weight"] = (shape, Q6_K)
    file = tmp_path / "m.gguf"
    file.write_bytes(written(metadata, tensors))
    assert read_sizes(file).weights.words == words


def test_a_prompt_is_generated_from_a_file(tmp_path: Path) -> None:
    for name in ("m.gguf", "without_suffix"):
        file = tmp_path / name
        file.write_bytes(written(*llama(*SMALL)))
        done = command("run", file, "--prompt", "8", "--new", "4", "--hw", "mobile-1024")
        assert done.status == 0
        assert "ESTIMATE without weights: int4-32 (Q4_0 of the file)" in done.out


FAULTS: list[tuple[dict[str, Any], Tensors, int, str]] = [
    ({"general.architecture": "llam"}, {}, 3, "general.architecture is 'llam', did you mean llama?"),
    ({"general.architecture": "bitnet"}, {}, 3, "general.architecture is 'bitnet'; npusim builds llama, "),
    ({"llama.block_count": "two"}, {}, 3, 'llama.block_count is "two", must be an integer'),
    ({"llama.attention.head_count": ["4", "4"]}, {}, 3, "llama.attention.head_count is"),
    ({"llama.embedding_length": 0}, {}, 3, "llama.embedding_length is 0, must be an integer, 1 to"),
    ({"split.count": 2}, {}, 3, "is one of 2 parts"),
    ({}, {"blk.0.attn_q.bias": ((64,), F32)}, 3, "parts that npusim does not build"),
    ({}, {"blk.0.odd": ((64,), 99)}, 3, "tensor 'blk.0.odd' has format 99, which npusim does not know"),
    ({}, {"blk.0.odd": ((1, 1, 1, 1, 1), F32)}, 3, "tensor 'blk.0.odd' has 5 axes, must have 1 to 4"),
    ({}, {}, 1, "GGUF version 1: npusim reads 2 and 3"),
]


@pytest.mark.parametrize(("changed", "more", "version", "said"), FAULTS)
def test_a_fault_is_one_line(
    changed: dict[str, Any], more: Tensors, version: int, said: str, tmp_path: Path
) -> None:
    metadata, tensors = llama(*SMALL)
    file = tmp_path / "m.gguf"
    file.write_bytes(written(metadata | changed, tensors | more, version))
    done = command("run", file, "--timing-only")
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert done.err.startswith(f"npusim: {file}: ")
    assert said in done.err


def test_damaged_headers_are_refused(tmp_path: Path) -> None:
    """300 files with a byte changed, a piece left out or a number made large give a network or a line."""
    data, draw, file = written(*llama(*SMALL)), random.Random(23), tmp_path / "m.gguf"
    refused = 0
    for _ in range(300):
        damaged, at = bytearray(data), draw.randrange(4, len(data))
        how = draw.randrange(4)
        if how == 0:
            damaged[at] ^= 1 << draw.randrange(8)
        elif how == 1:
            del damaged[at:]
        elif how == 2:
            del damaged[at : at + draw.randrange(1, 9)]
        else:
            damaged[at : at + 8] = struct.pack("<Q", draw.choice([0, 1 << 31, (1 << 64) - 1]))
        file.write_bytes(damaged)
        refused += _is_refused(file)
    assert 200 < refused < 300


def _is_refused(file: Path) -> bool:
    try:
        read_sizes(file)
    except FormatError as fault:
        return "\n" not in str(fault)
    return False


def test_what_is_no_such_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    for data in (b"", b"GGUF", b"GGUF\3", b"\0" * 100, b"{}"):
        file.write_bytes(data)
        with pytest.raises(NpusimError, match=r"m\.gguf: "):
            npusim.load(file)
        with pytest.raises(NpusimError, match=r"m\.gguf: "):
            npusim.generate(file, 4)
