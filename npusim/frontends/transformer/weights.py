"""The formats in which the weights of a transformer's products are stored, by name, such as "int4-32" or "float16"."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from npusim.isa.base.block_format import BITS, BlockFormat
from npusim.isa.base.errors import NpusimError

BLOCKS = (16, 32, 64, 128, 256)
"""Weights that a block may have, as in ONNX Runtime and in the files of GGUF, GPTQ and AWQ."""
SCALE_BYTES = 2
"""Bytes of the scale of a block: float16, as in published models."""

FLOATS = {"float16": 16, "bfloat16": 16, "fp8": 8}
"""The bits of a weight by the names of the formats of floats."""


class WeightFormat(NamedTuple):
    """How the weights of products are stored.

    bits:        of a weight.
    block:       weights of a block; 0 for one scale per output channel.
    zero_points: whether each block has a zero point.
    source:      what chose the format, if it was not the user.
    real:        the name of a format of floats: "float16", "bfloat16", or "fp8" (e4m3, a scale per output channel).
    """

    bits: int = 8
    block: int = 0
    zero_points: bool = False
    source: str = ""
    real: str = ""

    @property
    def name(self) -> str:
        """The name, as `parse` reads it."""
        if self.real:
            return self.real
        return f"int{self.bits}" + f"-{self.block}" * (self.block > 0) + "-zero" * self.zero_points

    @property
    def plain(self) -> bool:
        """Whether weights are int8 with a scale per output channel, which need no decoding."""
        return (self.bits, self.block, self.zero_points, self.real) == (8, 0, False, "")

    @property
    def whole(self) -> bool:
        """Whether weights are floats of 16 bits, on which an array with float columns computes as they are."""
        return self.bits == FLOATS["float16"]

    @property
    def activations(self) -> str:
        """The element type of activations where nobody chooses one: products with floats take floats."""
        return "float16" if self.real else "int8"

    @property
    def words(self) -> str:
        """The name, and what chose the format."""
        return self.name + (f" ({self.source})" if self.source else "")

    def blocks(self, inner: int) -> BlockFormat:
        """Return how the weights of products with `inner` elements are stored."""
        return BlockFormat(self.bits, self.block or inner, SCALE_BYTES, self.zero_points)

    def channel_bytes(self, inner: int) -> int:
        """Return the bytes of an output channel's weights, with the scales and zero points of blocks."""
        if self.plain or self.whole:
            return inner * self.bits // 8
        return self.blocks(inner).channel_bytes(inner)

    def product_bytes(self, products: Iterable[tuple[int, int, int]]) -> int:
        """Return the bytes of the weights of products: output channels, elements of a dot product, and number."""
        return sum(units * count * self.channel_bytes(inner) for units, inner, count in products if inner)


INT8 = WeightFormat()
FORMATS = (INT8, WeightFormat(4, 32), WeightFormat(4, 64), WeightFormat(4, 128), WeightFormat(2, 64))
"""Formats that a message may propose, those with more bytes first."""


def parse(text: str) -> WeightFormat:
    """Return the format of a name. Raises NpusimError, with the names that exist, for another text."""
    if text in FLOATS:
        return WeightFormat(FLOATS[text], real=text)
    kind, *rest = text.split("-")
    zero = bool(rest) and rest[-1] == "zero"
    sizes = rest[:-1] if zero else rest
    bits, block = kind.removeprefix("int"), sizes[0] if sizes else "0"
    known = kind.startswith("int") and bits in map(str, BITS) and len(sizes) < 2
    if not known or block not in ("0", *map(str, BLOCKS)) or (zero and not sizes):
        shown = ", ".join(str(size) for size in BLOCKS)
        raise NpusimError(
            f"weights {text}: may be int8, int4 or int2 with a scale per output channel, or in blocks, such as "
            f"int4-32, of {shown}; int4-32-zero has zero points; or {', '.join(FLOATS)}"
        )
    return WeightFormat(int(bits), int(block), zero)


def of_configuration(given: Any) -> WeightFormat:
    """Return the format in the value of `quantization_config`; int8, and why, if npusim does not have it.

    GPTQ has zero points unless `sym` is true; AWQ if `zero_point` is true.
    """
    if given is None:
        return INT8
    values = given if isinstance(given, Mapping) else {}
    bits, block = values.get("bits"), values.get("group_size")
    if bits not in BITS or block not in (-1, *BLOCKS):
        stated = json.dumps({"bits": bits, "group_size": block}, default=str)[:60]
        return INT8._replace(source=f"quantization_config with {stated} is not followed")
    zero = values.get("sym") is False or values.get("zero_point") is True
    return WeightFormat(bits, max(block, 0), zero and block > 0, "quantization_config")
