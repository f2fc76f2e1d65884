"""What one operator asks of a processor, whichever processor runs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from npusim.isa.base.elements import Rates


@dataclass(frozen=True, slots=True)
class Workload:
    """The amount of work of one operator, from its shapes alone.

    kind:        "gemm" (convolution, fully connected), "depthwise", "elementwise" (everything else that
                 computes), "move" (copies bytes), "free" (nothing happens, e.g. reshape), "handover" (the host
                 goes from one device to the next, and computes nothing).
    dtype:       the column of CPU rates that its element type takes (`ElementType.rates`).
    macs:        multiply-accumulates (0 for elementwise and move).
    inner_k:     length of one dot product (gemm: kernel_h * kernel_w * channels_in).
    elements:    elementwise operations (for pools and reductions: elements read, window included).
    rescaled:    results of an elementwise operator whose codes have another scale than an operand's.
    weight_bytes, input_bytes, output_bytes: bytes of constants, activations read, activations written.
    """

    kind: Literal["gemm", "depthwise", "elementwise", "move", "free", "handover"]
    dtype: Rates = "int8"
    macs: int = 0
    inner_k: int = 0
    elements: int = 0
    rescaled: int = 0
    weight_bytes: int = 0
    input_bytes: int = 0
    output_bytes: int = 0
