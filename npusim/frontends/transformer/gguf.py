"""Reads the sizes of a language model from the header of a GGUF file; the data of its tensors is not read.

The header has metadata (keys with values of 13 types) and the list of tensors (name, shape, format). The layout is that
of `docs/gguf.md` of ggml, versions 2 and 3, little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from math import prod
from mmap import mmap
from pathlib import Path
from typing import Any, NamedTuple

from npusim.frontends.transformer.config import config_of
from npusim.frontends.transformer.network import of_sizes
from npusim.frontends.transformer.sizes import TransformerConfig
from npusim.frontends.transformer.weights import INT8, WeightFormat, parse
from npusim.isa.base import user_file
from npusim.isa.base.errors import FormatError, nearest
from npusim.kernels.graph.builder import GraphBuilder
from npusim.kernels.graph.graph import Graph

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)

_VALUES: Mapping[int, str] = dict(enumerate(("B", "b", "H", "h", "I", "i", "f", "?", "", "", "Q", "q", "d")))
"""The codes of `struct` by the numbers of value types; 8 is a string, 9 an array."""
_STRING, _ARRAY = 8, 9
_MOST_AXES = 4
_DEEPEST = 4
"""Most arrays inside each other; writers nest none."""

_TENSORS: Mapping[int, str] = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 9: "Q8_1", 10: "Q2_K", 11: "Q3_K",
    12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S",
    20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 29: "IQ1_M", 30: "BF16", 34: "TQ1_0", 35: "TQ2_0",
    39: "MXFP4",
}  # fmt: skip
"""The formats of tensors by their numbers in ggml."""

_FORMATS: Mapping[str, WeightFormat] = {
    "Q4_0": WeightFormat(4, 32),
    "Q8_0": WeightFormat(8, 32),
    "F16": parse("float16"),
    "BF16": parse("bfloat16"),
    # 256 weights share two float16 numbers, and 32 of them 12 bits: 4.5 bits per weight, as blocks of 32 with float16.
    "Q4_K": WeightFormat(4, 32),
}
"""The formats of npusim with the bits per weight of a format of ggml."""

_FAMILIES: Mapping[str, str] = {
    "llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "gemma": "gemma", "gemma2": "gemma2", "gemma3": "gemma3_text",
    "phi3": "phi3", "olmoe": "olmoe",
}  # fmt: skip
"""Values of model_type by those of general.architecture."""

_MOST_BYTES = 1 << 26
"""Longest header that is read; the vocabularies in those of published models take at most 20 MB."""

_KEYS: Mapping[str, str] = {
    "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "num_hidden_layers": "block_count",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
    "max_position_embeddings": "context_length",
    "vocab_size": "vocab_size",
    "sliding_window": "attention.sliding_window",
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
    "num_experts_per_tok": "expert_used_count",
}
"""Keys of the metadata, behind the architecture, by those of a `config.json`."""
_ROTATED = ("rope.dimension_count", "attention.head_count", "embedding_length")
"""Keys that give the rotated elements of a head, and all elements of one: Phi-3 rotates a part."""


class Items(NamedTuple):
    """An array of the metadata, of which only the number of elements is known."""

    length: int


class Entry(NamedTuple):
    """A tensor of the list: its shape, innermost axis first, and the name of its format."""

    shape: tuple[int, ...]
    format: str


class Header(NamedTuple):
    """The header of a file: metadata by key, and tensors by name."""

    metadata: Mapping[str, Any]
    tensors: Mapping[str, Entry]


def recognises(path: Path, head: bytes) -> bool:
    """Return whether a file begins as GGUF does."""
    return head[:4] == _MAGIC


def read(path: Path, builder: GraphBuilder) -> Graph:
    """Return the network of the file at `path` for the sizes `tokens`, `past` and `batch` of the builder."""
    return of_sizes(read_sizes(path, builder.name), builder)


def read_sizes(path: Path, name: str = "") -> TransformerConfig:
    """Return the sizes of the model in a file. Raises FormatError with what is missing, unknown or damaged."""
    return sizes_of(header_of(user_file.mapped(path, user_file.GGUF, FormatError, "")), name or path.stem)


def header_of(data: bytes | mmap) -> Header:
    """Return the header of a file. Raises FormatError for one that is damaged or of another version."""
    try:
        return _Reader(data).header()
    except UnicodeDecodeError:
        raise FormatError(
            "is no GGUF file, or a damaged one: its header ends or is no text where it must be"
        ) from None


class _Reader:
    """A position in the bytes of a file."""

    def __init__(self, data: bytes | mmap) -> None:
        self._data, self._at, self._end = data, 4, min(len(data), _MOST_BYTES)

    def header(self) -> Header:
        """Return metadata and tensors."""
        version = self._number("I")
        if version not in _VERSIONS:
            raise FormatError(f"GGUF version {version}: npusim reads {' and '.join(map(str, _VERSIONS))}")
        tensors, keys = self._count(), self._count()
        metadata = {}
        for _ in range(keys):
            key = self._text()
            metadata[key] = self._value(self._number("I"))
        return Header(metadata, dict(self._entry() for _ in range(tensors)))

    def _entry(self) -> tuple[str, Entry]:
        name, axes = self._text(), self._number("I")
        if not 1 <= axes <= _MOST_AXES:
            raise FormatError(f"tensor {name[:60]!r} has {axes} axes, must have 1 to {_MOST_AXES}")
        shape = tuple(self._number("Q") for _ in range(axes))
        kind, _offset = self._number("I"), self._number("Q")
        if kind not in _TENSORS:
            raise FormatError(f"tensor {name[:60]!r} has format {kind}, which npusim does not know")
        return name, Entry(shape, _TENSORS[kind])

    def _value(self, kind: int, deep: int = 0) -> Any:
        """Return a value; of an array the number of its elements."""
        if kind == _STRING:
            return self._text()
        if kind != _ARRAY:
            code = _VALUES.get(kind)
            if code is None:
                raise FormatError(f"metadata has a value of type {kind}, must be 0 to {len(_VALUES) - 1}")
            return self._number(code)
        inner, length = self._number("I"), self._count()
        if _VALUES.get(inner):
            self._skip(length * struct.calcsize("<" + _VALUES[inner]))
        elif deep >= _DEEPEST:
            raise FormatError(f"metadata has arrays more than {_DEEPEST} deep")
        else:
            for _ in range(length):
                if inner == _STRING:
                    self._skip(self._count())
                else:
                    self._value(inner, deep + 1)
        return Items(length)

    def _number(self, code: str) -> Any:
        start = self._at
        self._skip(struct.calcsize("<" + code))
        (value,) = struct.unpack_from("<" + code, self._data, start)
        return value

    def _count(self) -> int:
        """Return a number of bytes or of things of at least a byte, which cannot be more than the file has."""
        value: int = self._number("Q")
        left = self._end - self._at
        if value > left:
            raise FormatError(
                f"is damaged or cut off: byte {self._at - 8} announces {value}, and {left} bytes follow"
            )
        return value

    def _skip(self, size: int) -> None:
        self._at += size
        if self._at > self._end:
            raise FormatError(f"is damaged or cut off: {self._at - self._end} bytes of metadata are missing")

    def _text(self) -> str:
        size = self._count()
        start, self._at = self._at, self._at + size
        return self._data[start : self._at].decode("utf-8")


def sizes_of(header: Header, name: str) -> TransformerConfig:
    """Return the sizes that a header states. Raises FormatError with the key at fault."""
    metadata, tensors = header
    kind = metadata.get("general.architecture")
    if not isinstance(kind, str) or kind not in _FAMILIES:
        near = nearest(str(kind), _FAMILIES)
        hint = f", did you mean {near}?" if near else ";"
        raise FormatError(
            f"general.architecture is {str(kind)[:60]!r}{hint} npusim builds {', '.join(_FAMILIES)}"
        )
    parts = metadata.get("split.count", 1)
    if parts != 1:
        raise FormatError(
            f"is one of {parts} parts; npusim reads files with all tensors, or the model's config.json"
        )
    given = {ours: metadata.get(f"{kind}.{theirs}") for ours, theirs in _KEYS.items()}
    given |= {"model_type": _FAMILIES[kind], "tie_word_embeddings": "output.weight" not in tensors}
    if embedding := tensors.get("token_embd.weight"):
        given["vocab_size"] = embedding.shape[-1]
    if experts := metadata.get(f"{kind}.expert_count"):
        if kind == "llama":
            given["model_type"] = "mixtral"
        given["num_experts" if kind == "olmoe" else "num_local_experts"] = experts
    if "blk.0.attn_output.bias" in tensors:
        given["attention_bias"] = True
    if kind == "phi3":
        rotated, heads, hidden = (metadata.get(f"phi3.{key}") for key in _ROTATED)
        if all(isinstance(number, int) and number > 0 for number in (rotated, heads, hidden)):
            given["partial_rotary_factor"] = rotated * heads / hidden  # type: ignore[operator]
    try:
        config = config_of({ours: value for ours, value in given.items() if value is not None}, name)
    except FormatError as fault:
        text = str(fault)
        for ours, theirs in _KEYS.items():
            text = text.replace(ours, f"{kind}.{theirs}")
        raise FormatError(text) from None
    stated = sum(prod(entry.shape) for text, entry in tensors.items() if not text.startswith("rope_"))
    if stated != config.parameters:
        raise FormatError(
            f"its tensors have {stated} parameters, and a {config.family} of its sizes {config.parameters}: it has "
            "parts that npusim does not build"
        )
    return config.stored_as(_format_of(tensors))


def _format_of(tensors: Mapping[str, Entry]) -> WeightFormat:
    """Return the format that most weights of products have; the source says which tensors have another."""
    sizes: dict[str, list[int]] = {}
    for text, entry in tensors.items():
        if text.startswith("blk.") and len(entry.shape) > 1:
            sizes.setdefault(entry.format, []).append(prod(entry.shape))
    if not sizes:
        return INT8
    most = max(sizes, key=lambda each: sum(sizes[each]))
    others = [f"{len(sizes[each])} {each}" for each in sizes if each != most]
    beside = f"; {', '.join(others)} of its tensors are timed the same" if others else ""
    if most not in _FORMATS:
        return INT8._replace(source=f"{most} of the file is not followed; npusim has {', '.join(_FORMATS)}")
    return _FORMATS[most]._replace(source=f"{most} of the file{beside}")
