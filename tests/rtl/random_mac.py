"""Random legal MAC instructions with the scratchpad that they work on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npusim.isa.engines.systolic.timing import array_shape
from npusim.isa.hardware.hardware import Hardware, MacArray
from npusim.isa.instructions.instruction import Context
from npusim.isa.instructions.mac import CODES, Convolve, Depthwise

from .mac_referee import Shape
from .unit_bench import SCRATCHPAD_BYTES

MAX_MACS = 30_000
"""Of one instruction: what keeps a batch of thousands short."""


@dataclass(frozen=True, slots=True)
class Case:
    """One instruction, the array it runs on, and the memory before."""

    instruction: Convolve | Depthwise
    hardware: Hardware
    scratchpad: NDArray[np.uint8]


def draw_hardware(rng: np.random.Generator, shape: Shape) -> Hardware:
    """An array of this shape with random ports, lanes, accumulators and weight registers."""
    kib = [k for k in (1, 2, 4, 8) if k * 128 // shape.columns <= shape.accumulators]

    def up_to(limit: int) -> int:
        powers = [1 << k for k in range(limit.bit_length())]
        return int(rng.choice(powers) if rng.random() < 0.7 else rng.integers(1, limit + 1))

    array = MacArray(
        rows=shape.rows,
        columns=shape.columns,
        shadow_weights=bool(rng.random() < 0.6),
        accumulator_kib=int(rng.choice(kib)),
        ifm_bytes_per_cycle=up_to(shape.ifm_port),
        weight_bytes_per_cycle=up_to(shape.weight_port),
        output_lanes=up_to(shape.lanes),
        int16_passes=2,
    )
    return Hardware(name="rtl", mac_array=array)


def _corner(rng: np.random.Generator, hardware: Hardware) -> dict[str, int]:
    """Half of the time the whole array, else any corner that it has."""
    shape = array_shape(hardware.mac_array)
    sizes = {"row": shape.rows, "column": shape.columns, "accumulator": shape.half_accumulators}
    whole = rng.random() < 0.5
    return {
        f"{name}_halvings": 0 if whole else int(rng.integers(0, size.bit_length()))
        for name, size in sizes.items()
    }


class _Allocator:
    """Places regions one behind the other with gaps of random length."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.next = int(rng.integers(0, 64))

    def place(self, size_bytes: int) -> int:
        address = self.next
        self.next += size_bytes + int(self.rng.integers(0, 20))
        return address


def draw_size(rng: np.random.Generator, typical: int, largest: int) -> int:
    """A size that is often 1, near `typical`, or anything up to `largest`."""
    kind = rng.random()
    if kind < 0.15:
        return 1
    if kind < 0.45:
        return max(1, typical + int(rng.integers(-1, 2)))
    return int(rng.integers(1, largest + 1))


def draw_window(rng: np.random.Generator, side: int = 0, largest: int = 14) -> dict[str, int]:
    """Kernel, strides, dilations, padding and output size, with a feature map that the windows mostly cover.

    `side`: of all kernels, which are not dilated; 0: any. `largest`: rows and columns of the output.
    """
    fields: dict[str, int] = {}
    pointwise = rng.random() < 0.25
    for axis in ("height", "width"):
        kernel = side or (1 if pointwise else int(rng.choice([1, 2, 3, 3, 4, 5, 7])))
        stride = int(rng.choice([1, 1, 1, 2, 3]))
        dilation = 1 if side or rng.random() < 0.75 else int(rng.integers(1, 4))
        outputs = draw_size(rng, 4, largest)
        pad = int(rng.integers(0, (kernel - 1) * dilation + 1))
        visited = (outputs - 1) * stride + (kernel - 1) * dilation + 1
        fields[f"kernel_{axis}"] = kernel
        fields[f"stride_{axis}"] = stride
        fields[f"dilation_{axis}"] = dilation
        fields[f"ofm_{axis}"] = outputs
        fields["pad_top" if axis == "height" else "pad_left"] = pad
        fields[f"ifm_{axis}"] = max(1, visited - pad - int(rng.integers(-2, kernel)))
    return fields


def _order(
    rng: np.random.Generator, window: dict[str, int], ifm_depth: int, ofm_depth: int
) -> dict[str, int]:
    """How operands lie in memory: weights often with the channels side by side, a map of one column transposed."""
    order = {}
    if rng.random() < 0.3:
        order["weight_stride"] = ofm_depth + int(rng.choice([0, 1, 7]))
    if rng.random() < 0.2:
        order["ifm_transposed"] = window["ifm_width"] = 1
    return order


def _codes(rng: np.random.Generator) -> dict[str, int]:
    """Types, zero points, clamp, rescale and rounding."""
    signed, weights_signed, other_sign, rescale = (int(x) for x in rng.integers(0, 2, 4))
    code_low, code_high = low, high = CODES[signed ^ other_sign]
    if rng.random() < 0.3:
        low, high = sorted(int(x) for x in rng.integers(code_low, code_high + 1, 2))
    map_low, map_high = CODES[signed]
    return {
        "signed": signed,
        "weights_signed": weights_signed,
        "other_sign": other_sign,
        "rescale": rescale,
        "ifm_zero": int(rng.integers(map_low, map_high + 1)),
        "weight_zero": int(rng.integers(CODES[weights_signed][0], CODES[weights_signed][1] + 1)),
        "ofm_zero": int(rng.integers(code_low, code_high + 1)),
        "low": low,
        "high": high,
        "rounding": 0 if rescale else int(rng.integers(0, 2)),
        "per_channel": int(rng.integers(0, 2)),
    }


def _parameters(rng: np.random.Generator, channels: int, inner: int, per_channel: int, wide: int) -> bytes:
    """Biases, multipliers, shifts; mostly such that results spread over codes or words, sometimes extreme."""
    scales = channels if per_channel else 1
    bias = rng.integers(-(1 << 14), 1 << 14, channels)
    multiplier = rng.integers(1 << 30, 1 << 31, scales)
    shift = -int(np.log2(inner)) // 2 - 6 + 8 * wide + rng.integers(-2, 3, scales)
    if rng.random() < 0.1:
        bias = rng.integers(-(1 << 31), 1 << 31, channels)
        shift = rng.integers(-31, 36, scales)
        multiplier[rng.random(scales) < 0.2] = 0
    return bias.astype("<i4").tobytes() + multiplier.astype("<i4").tobytes() + shift.astype(np.int8).tobytes()


def _float_parameters(rng: np.random.Generator, channels: int, inner: int, per_channel: int) -> bytes:
    """Biases, float32 scales; mostly such that results spread over codes, sometimes any bits at all."""
    scales = channels if per_channel else 1
    bias = rng.integers(-(1 << 14), 1 << 14, channels)
    scale = (rng.uniform(1, 8, scales) / (256 * np.sqrt(inner))).astype("<f4")
    if rng.random() < 0.3:  # ties
        scale = np.exp2(rng.integers(-10, -1, scales)).astype("<f4")
    if rng.random() < 0.1:
        bias = rng.integers(-(1 << 31), 1 << 31, channels)
        scale = rng.integers(0, 1 << 32, scales, np.uint32).view("<f4")
    return bias.astype("<i4").tobytes() + scale.tobytes()


def _int16_parameters(rng: np.random.Generator, channels: int, inner: int, codes: dict[str, int]) -> bytes:
    """Biases of 64 bits, scales of either arithmetic, bounds; sometimes sums of 47 bits or any bits of a float32."""
    scales = channels if codes["per_channel"] else 1
    extreme = rng.random() < 0.15
    most = 1 << (46 if extreme else 21)
    bias = rng.integers(-most, most, channels) >> rng.integers(0, 20, channels)
    spread = int(np.log2(inner)) // 2 + (25 if extreme else 0)
    low, high = (
        sorted(rng.integers(-(1 << 15), 1 << 15, 2)) if rng.random() < 0.3 else (-(1 << 15), (1 << 15) - 1)
    )
    if codes["rescale"]:
        scale = (2.0 ** rng.uniform(-8, -4, scales) / (1 << spread)).astype("<f4")
        if extreme:
            scale = np.where(
                rng.random(scales) < 0.5, rng.integers(0, 1 << 32, scales, np.uint32).view("<f4"), scale
            )
        block = scale.astype("<f4").tobytes()
    else:
        multiplier = rng.integers(1 << 30, 1 << 31, scales)
        multiplier[rng.random(scales) < 0.05] = 1 << 30  # ties
        shift = np.where(
            rng.random(scales) < (0.5 if extreme else 0.02),
            rng.integers(-31, 15, scales),
            np.maximum(-6 - spread + rng.integers(-2, 3, scales), -31),
        )
        block = multiplier.astype("<i4").tobytes() + shift.astype(np.int8).tobytes()
    return bias.astype("<i8").tobytes() + block + np.array([low, high], "<i2").tobytes()


def draw_case(rng: np.random.Generator, shape: Shape, kind: str) -> Case:
    """`kind`: weight_stationary, output_stationary or depthwise, of int16 values with "int16_" in front."""
    while True:
        case = _attempt(rng, shape, kind)
        if case is not None:
            return case


def _attempt(rng: np.random.Generator, shape: Shape, kind: str) -> Case | None:
    """One draw; None if it is too large."""
    by_channel = kind.endswith("depthwise")
    values = shape.columns if by_channel else shape.rows
    ifm_depth, ofm_depth = (draw_size(rng, size, 3 * size) for size in (values, shape.columns))
    int16 = kind.startswith("int16")
    made = operands(rng, draw_window(rng), ifm_depth, None if by_channel else ofm_depth, int16=int16)
    if made is None:
        return None
    fields, scratchpad = made
    hardware = draw_hardware(rng, shape)
    fields |= _corner(rng, hardware)
    if not by_channel:
        fields["output_stationary"] = int(kind.endswith("output_stationary"))
    return Case(instruction_of(fields, by_channel, hardware), hardware, scratchpad)


def instruction_of(fields: dict[str, int], by_channel: bool, hardware: Hardware) -> Convolve | Depthwise:
    """The instruction of some fields, which is legal."""
    instruction = Depthwise(**fields) if by_channel else Convolve(**fields)
    faults = instruction.faults() + instruction.misfits(Context(hardware))
    if faults:
        raise AssertionError(f"the generator drew an illegal instruction: {faults}")
    return instruction


def operands(
    rng: np.random.Generator,
    window: dict[str, int],
    ifm_depth: int,
    ofm_depth: int | None,
    *,
    int16: bool = False,
) -> tuple[dict[str, int], NDArray[np.uint8]] | None:
    """Fields of an instruction and the memory that it works on; None if it is too large.

    ofm_depth: None for a depthwise convolution, whose channels are those of the feature map or some times as many.
    """
    ofm_pixels = window["ofm_height"] * window["ofm_width"]
    inner = window["kernel_height"] * window["kernel_width"]
    by_channel = ofm_depth is None
    if ofm_depth is None:
        ofm_depth = ifm_depth * int(rng.choice([1, 1, 1, 2, 3]))
    else:
        inner *= ifm_depth
    weight_bytes = inner * ofm_depth
    if ofm_pixels * inner * ofm_depth > MAX_MACS:
        return None
    codes = _codes(rng)
    order = {} if by_channel else _order(rng, window, ifm_depth, ofm_depth)
    wide = int(rng.choice([0, 0, 0, 1, 2])) if not by_channel and not int16 else 0
    size = 1 + int16
    if int16:
        order.pop("ifm_transposed", None)
        codes |= {"int16": 1, "ifm_zero": 0, "ofm_zero": 0, "low": 0, "high": 0}
    if wide:
        order["wide"] = wide
        codes |= {"ofm_zero": 0, "low": 0, "high": 0, "rescale": 0, "other_sign": 0}
    if int16:
        parameters = _int16_parameters(rng, ofm_depth, inner, codes)
    elif codes["rescale"]:
        parameters = _float_parameters(rng, ofm_depth, inner, codes["per_channel"])
    else:
        parameters = _parameters(rng, ofm_depth, inner, codes["per_channel"], wide)
    if weight_stride := order.get("weight_stride"):
        weight_bytes = inner * weight_stride
    ifm_pixel = size * ifm_depth + int(rng.choice([0, 0, 3]))
    ifm_row = window["ifm_width"] * ifm_pixel + int(rng.choice([0, 0, 5]))
    ofm_pixel = size * (ofm_depth << wide) + int(rng.choice([0, 0, 3]))
    ofm_row = window["ofm_width"] * ofm_pixel + int(rng.choice([0, 0, 5]))
    if order.get("ifm_transposed"):
        ifm_row, ifm_pixel = 1, window["ifm_height"] + int(rng.choice([0, 0, 3]))
    memory = _Allocator(rng)
    fields = {
        "ifm": memory.place(max(window["ifm_height"] * ifm_row, ifm_depth * ifm_pixel)),
        "weights": memory.place(weight_bytes),
        "parameters": memory.place(len(parameters)),
        "ofm": memory.place(window["ofm_height"] * ofm_row),
        "ifm_row_stride": ifm_row,
        "ifm_pixel_stride": ifm_pixel,
        "ofm_row_stride": ofm_row,
        "ofm_pixel_stride": ofm_pixel,
        "ifm_depth": ifm_depth,
        "ofm_depth": ofm_depth,
        **window,
        **codes,
        **order,
    }
    if memory.next > SCRATCHPAD_BYTES:
        return None
    scratchpad = rng.integers(0, 256, SCRATCHPAD_BYTES, np.uint8)
    start = fields["parameters"]
    scratchpad[start : start + len(parameters)] = np.frombuffer(parameters, np.uint8)
    return fields, scratchpad
