"""One random model of one operator while it is drawn: shapes, scales, constants, and the writer that takes them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.models.writer import ModelWriter, per_channel, per_tensor

CODES = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767)}
EIGHT_BIT = ("int8", "uint8")
ACTIVATIONS = ("none", "relu", "relu6", "relu_n1_to_1")
ACTIVATION_CODES = {"none": 0, "relu": 1, "relu_n1_to_1": 2, "relu6": 3}
PADDINGS = ("same", "valid")
_PRODUCT = {"int8": 5500.0, "uint8": 5500.0, "int16": 1.4e6}
"""Standard deviation of a product of random values of a type and random weights."""


class Sample:
    """Draws with one generator, so that a seed is a model. `dtype` is that of the operator's main operand.

    "dynamic" is float32 with int8 weights, for which activations are quantized at run time; "dynamic int4" with weights
    of 4 bits.
    """

    def __init__(self, code: str, dtype: str, seed: int) -> None:
        self.rng = np.random.default_rng([seed, *f"{code} {dtype}".encode()])
        self.writer = ModelWriter(f"{code}_{dtype}_{seed}")
        self.dynamic, self.packed = dtype.startswith("dynamic"), dtype == "dynamic int4"
        self.code, self.dtype = code, "float32" if self.dynamic else dtype

    # Choices

    def pick(self, low: int, high: int) -> int:
        """An integer between two bounds, both included."""
        return int(self.rng.integers(low, high + 1))

    def one(self, options: Sequence[Any]) -> Any:
        """One of some options."""
        return options[self.pick(0, len(options) - 1)]

    def chance(self, one_in: int) -> bool:
        """True once in so many times."""
        return self.pick(1, one_in) == 1

    def shape(self, rank: int, most: int = 6, elements: int = 1500) -> tuple[int, ...]:
        """Sizes of 1 to `most` along each axis, not more than `elements` together."""
        while True:
            sizes = tuple(self.pick(1, most) for _ in range(rank))
            if prod(sizes) <= elements:
                return sizes

    def image(self, most_channels: int = 8) -> tuple[int, int, int, int]:
        """Batch, height, width, channels."""
        return self.pick(1, 2), self.pick(1, 9), self.pick(1, 9), self.pick(1, most_channels)

    def activation(self) -> str:
        """One of the fused activations, as often none as any."""
        return "none" if self.chance(2) else str(self.one(ACTIVATIONS[1:]))

    # Scales

    def scale(self) -> float:
        """Mostly what real models have, sometimes far beyond; rounded to the float32 that a file holds."""
        wide = self.chance(6)
        exponent = self.rng.uniform(-6, 4) if wide else self.rng.uniform(-3, 0.5)
        return float(np.float32(10.0**exponent))

    def near(self, scale: float) -> float:
        """A scale within a factor of eight of another, sometimes far away from it, as no model has it."""
        reach = 3.0 if self.rng.random() < 0.85 else float(self.one((10.0, 40.0)))
        factor = 2.0 ** self.rng.uniform(-reach, reach)
        return float(np.float32(scale * factor))

    def zero_point(self, dtype: str) -> int:
        """Any code; as often as not an end of the range or the middle."""
        low, high = CODES[dtype]
        return int(self.one((low, high, (low + high + 1) // 2))) if self.chance(2) else self.pick(low, high)

    def quantization(self, scale: float | None = None, dtype: str | None = None) -> Quantization | None:
        """Of the sample's type, or of another; None for types without codes. int16 is symmetric."""
        kind = dtype or self.dtype
        if kind not in CODES:
            return None
        zero_point = 0 if kind == "int16" else self.zero_point(kind)
        return per_tensor(self.scale() if scale is None else scale, zero_point)

    def type(self, shape: Sequence[int], scale: float | None = None, dtype: str | None = None) -> TensorType:
        """A type with a quantization of its own."""
        kind = dtype or self.dtype
        return TensorType(kind, tuple(shape), self.quantization(scale, kind))

    # Tensors

    def input(self, shape: Sequence[int], scale: float | None = None, dtype: str | None = None) -> int:
        """An input of the model."""
        return self.writer.input(f"input_{self.pick(0, 10**6)}", self.type(shape, scale, dtype))

    def input_like(self, tensor: int, shape: Sequence[int]) -> int:
        """An input with the type and scale of another tensor."""
        old = self.writer.type(tensor)
        return self.writer.input(
            f"input_{self.pick(0, 10**6)}", TensorType(old.dtype, tuple(shape), old.quantization)
        )

    def operand(self, *values: int, dtype: str = "int32") -> int:
        """A constant of integers along one axis: axes, sizes, paddings."""
        return self.writer.constant(f"operand_{self.pick(0, 10**6)}", np.array(values, dtype))

    def scalar(self, value: int) -> int:
        """A constant without axes."""
        return self.writer.constant(f"scalar_{self.pick(0, 10**6)}", np.array(value, np.int32))

    def constant(self, shape: Sequence[int], quantization: Quantization | None, dtype: str) -> int:
        """A constant of random values over the whole range of its type."""
        data = values(self.rng, dtype, shape)
        if (
            self.dynamic and dtype == "int8"
        ):  # LiteRT's x86 vectors lose the sign of -128, which no converter writes
            data = np.maximum(data, -127)
            if self.packed:
                return self.writer.constant("constant", data >> 4, quantization, packed=True)
        return self.writer.constant("constant", data, quantization)

    def kept(self, tensor: int, shape: Sequence[int]) -> TensorType:
        """The type of a tensor under another shape: what operators give that keep the codes."""
        old = self.writer.type(tensor)
        return TensorType(old.dtype, tuple(shape), old.quantization)

    def scale_of(self, tensor: int) -> float:
        """The scale of a tensor with one; 1 for types without codes."""
        found = self.writer.type(tensor).quantization
        return 1.0 if found is None else found.scale

    # Weights

    def weights(self, shape: Sequence[int], axis: int, shifted: bool = False, grouped: bool = False) -> int:
        """Filters: int8 (for int16 too) with a scale per channel or one for all, uint8 with one, float32.

        shifted: int8 ones with one scale have a zero point as well, which only some kernels take.
        grouped: filters see some of the channels only; then dynamic ones have a scale per channel.
        """
        if self.dtype == "float32" and not self.dynamic:
            return self.constant(shape, None, "float32")
        shifted = shifted and not self.dynamic
        if self.dtype == "uint8":
            return self.constant(shape, per_tensor(self.scale(), self.zero_point("uint8")), "uint8")
        if self.chance(3) and not (self.dynamic and grouped):
            zero_point = self.zero_point("int8") if shifted and self.dtype != "int16" else 0
            return self.constant(shape, per_tensor(self.scale(), zero_point), "int8")
        axis %= len(shape)
        scales = self.scale() * 2.0 ** self.rng.uniform(-4, 4, shape[axis])
        return self.constant(shape, per_channel(scales, axis), "int8")

    def matrix(self, shape: Sequence[int], weights: bool = True) -> int:
        """Small float32 values; int8 ones in a dynamic model, where they are weights."""
        reals = self.rng.uniform(-1, 1, shape)
        if not (self.dynamic and weights):
            return self.writer.constant("weights", reals.astype(np.float32))
        codes = np.rint(reals * 127).astype(np.int8)
        return self.writer.constant("weights", codes, per_tensor(self.rng.uniform(0.5, 1.5) / 127, 0))

    def rows(self) -> dict[str, bool]:
        """The option that says how rows are quantized in a dynamic model."""
        return {"AsymmetricQuantizeInputs": self.chance(2)} if self.dynamic else {}

    def bias(self, channels: int, ifm: int, weights: int, terms: int, narrow: bool = True) -> int:
        """A bias of the size of the sums, sometimes far larger; beside int16 values int64, or int32 where `narrow`."""
        if self.dtype == "float32":
            return self.constant((channels,), None, "float32")
        size = _PRODUCT[self.dtype] * terms**0.5 * (1 if self.rng.random() < 0.9 else 1000)
        wide = self.dtype == "int16" and not (narrow and self.chance(2))
        most, dtype = (2**38, np.int64) if wide else (2**30, np.int32)
        codes = np.clip(self.rng.standard_normal(channels) * size, -most, most).astype(dtype)
        scaling = self.writer.type(weights).quantization
        assert scaling is not None
        scales = np.float32(self.scale_of(ifm)) * np.array(scaling.scales, np.float32)
        axis = None if scaling.axis is None else 0
        quantization = per_tensor(float(scales[0]), 0) if axis is None else per_channel(scales, 0)
        return self.writer.constant("bias", codes, quantization)

    def sum_scale(self, ifm: int, weights: int, terms: int) -> float:
        """A scale of results over which weighted sums spread, or that clamps or squeezes them."""
        if self.dtype == "float32":
            return 1.0
        scaling = self.writer.type(weights).quantization
        assert scaling is not None
        real = self.scale_of(ifm) * float(np.mean(scaling.scales)) * _PRODUCT[self.dtype] * terms**0.5
        real /= 10000 if self.dtype == "int16" else 40
        reach = 1.0 if self.rng.random() < 0.75 else float(self.one((6.0, 6.0, 30.0)))
        return float(np.float32(real * 2.0 ** self.rng.uniform(-reach, reach)))


def values(rng: np.random.Generator, dtype: str, shape: Sequence[int]) -> Array:
    """Values of a type: over its whole range, once in four times only from its ends and middle."""
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype.startswith("float"):
        reals = np.asarray(rng.standard_normal(shape)) * 10.0 ** rng.uniform(-2, 2)
        reals = np.where(rng.random(shape) < 0.05, -0.0, reals)
        return np.asarray(reals).astype(dtype)
    limits: Any = np.iinfo(dtype)
    if rng.integers(4) == 0:
        ends = np.array([limits.min, limits.max, limits.min // 2 + limits.max // 2 + 1], dtype)
        return np.asarray(rng.choice(ends, shape)).astype(dtype)
    return rng.integers(limits.min, limits.max, shape, np.dtype(dtype).type, endpoint=True).reshape(shape)
