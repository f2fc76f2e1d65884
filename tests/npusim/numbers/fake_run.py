"""Programs and executions made by hand, for tests of what is said about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from npusim.isa.base.elements import Workload
from npusim.isa.base.tensor import Array, HostCall, Placement, Quantization, TensorType
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.memories import Dram
from npusim.isa.hardware.units import Unit
from npusim.isa.instructions.control import Barrier, Call
from npusim.isa.instructions.dma import Copy
from npusim.isa.instructions.instruction import Instruction
from npusim.isa.instructions.mac import Convolve
from npusim.isa.instructions.region import Space
from npusim.isa.instructions.table import encode_all
from npusim.isa.instructions.vector import Convert
from npusim.isa.program.program import Buffer, Layer, MemoryImage, Program
from npusim.machine.trace import INSTRUCTION_FETCH, Execution, Trace, Transfer

BENCH = Hardware(name="bench", dram=Dram(bandwidth_gb_per_s=8.0))
"""128 multipliers at 500 MHz, and a DRAM that gives 16 bytes per cycle."""

# Two pixels of 8 channels, dot products of 36: 36 + 22 + 2 cycles on the bench, 576 multiply-accumulates.
CONVOLVE = Convolve(
    ifm_height=1, ifm_width=2, ifm_depth=36, ofm_height=1, ofm_width=2, ofm_depth=8, kernel_height=1,
    kernel_width=1, stride_height=1, stride_width=1, output_stationary=1,
)  # fmt: skip
# 8 + 96 / 8 cycles.
RESCALE = Convert(size=96)
LOAD_WEIGHTS = Copy(source_space=Space.DRAM, size=288)
STORE_SCORES = Copy(target_space=Space.DRAM, target=768, size=10)
WORK: Mapping[Unit, Instruction] = {
    Unit.MAC: CONVOLVE, Unit.VECTOR: RESCALE, Unit.HOST: Call(), Unit.FRONT_END: Barrier(),
}  # fmt: skip

IMAGE = TensorType("int8", (1, 4, 4, 1), Quantization((0.5,), (-1,)))
SCORES = TensorType("int8", (1, 10), Quantization((1 / 256,), (-128,)))


class Step(NamedTuple):
    """One instruction that ran: its unit, the layer it works for, and when; who it waited for.

    Without an instruction it is one of `WORK`, or a copy inside the scratchpad.
    """

    unit: Unit
    layer: int
    started: int
    ended: int
    blocked_by: int = -1
    instruction: Instruction | None = None


CONVOLUTION = Layer("conv", "conv_2d", "mac", Workload("gemm", macs=6400, weight_bytes=288, inner_k=9))
RELU = Layer("relu", "relu", "vector", Workload("elementwise", elements=160))
CROP = Layer("concat", "concatenation", "dma", Workload("move", input_bytes=64, output_bytes=64))
SORT = Layer("sort [bold]", "arg_max", "host", Workload("elementwise", elements=10, input_bytes=10))
VIEW = Layer("view", "reshape", "none", Workload("free"))
LAYERS = (CONVOLUTION, RELU, CROP, VIEW, SORT)

BUFFERS = (Buffer("weights", 0, 1024, 0, 1), Buffer("features", 1024, 2048, 1, 4))
STEPS = (
    Step(Unit.DMA0, 0, 0, 40, instruction=LOAD_WEIGHTS),
    Step(Unit.MAC, 0, 40, 100, Unit.DMA0),
    Step(Unit.DMA1, 1, 60, 90),
    Step(Unit.VECTOR, 1, 100, 120, Unit.MAC),
    Step(Unit.DMA0, 2, 125, 140, Unit.VECTOR),
    Step(Unit.FRONT_END, 4, 140, 140, Unit.DMA0),
    Step(Unit.HOST, 4, 150, 190),
    Step(Unit.DMA0, 4, 190, 200, Unit.HOST, STORE_SCORES),
)
"""A run of 200 cycles through all kinds of layers."""

LAYER_ACTIONS: tuple[Mapping[str, int], ...] = (
    {"mac_int8": 6400, "dram_read_byte": 320, "instruction_issue": 2},
    {"vector_max": 160, "instruction_issue": 2},
    {"scratchpad_read_byte": 64, "scratchpad_write_byte": 64, "instruction_issue": 1},
    {},
    {"dram_write_byte": 32, "instruction_issue": 3},
    {"dram_read_byte": 576, "dram_activate": 4},
)


def program(
    layers: Sequence[Layer] = LAYERS, steps: Sequence[Step] = STEPS, hardware: Hardware | None = None
) -> Program:
    """A program whose instructions have few of their fields: enough for reports, not for a machine."""
    code = encode_all([step.instruction or WORK.get(step.unit, Copy(size=16)) for step in steps])
    call = HostCall("sort [bold]", "arg_max", {}, (), (), SORT.workload, "axis is not the last")
    return Program(
        name="tiny",
        hardware=hardware or BENCH,
        code=code,
        constants=bytes(300),
        images=(MemoryImage(0, 300),),
        dram_size_bytes=4096,
        code_address=1024,
        inputs=(Placement("image", IMAGE, 512),),
        outputs=(Placement("scores", SCORES, 768),),
        layers=tuple(layers),
        layer_of=np.array([step.layer for step in steps], np.uint32),
        host_calls=(call,) if SORT in layers else (),
        buffers=BUFFERS if len(steps) > BUFFERS[-1].last_instruction else (),
    )


def trace(steps: Sequence[Step] = STEPS, transfers: Sequence[Transfer] = ()) -> Trace:
    """The timeline of `steps`."""
    started = np.array([step.started for step in steps], np.int64)
    ended = np.array([step.ended for step in steps], np.int64)
    return Trace(
        unit=np.array([step.unit for step in steps], np.int8),
        dispatched=np.maximum(started - 2, 0),
        at_head=np.maximum(started - 1, 0),
        ready=started,
        started=started,
        ended=ended,
        blocked_by=np.array([step.blocked_by for step in steps], np.int8),
        busy=ended - started,
        transfers=tuple(transfers),
    )


TRANSFERS = (
    Transfer(INSTRUCTION_FETCH, 0, 10, 576, False),
    Transfer("dma0", 10, 30, 320, False),
    Transfer("dma0", 192, 198, 32, True),
)


def execution(
    outputs: Sequence[Array] | None = (),
    steps: Sequence[Step] = STEPS,
    layer_actions: Sequence[Mapping[str, int]] = LAYER_ACTIONS,
) -> Execution:
    """What the machine would say of `steps`; `outputs` None: no data was executed."""
    if outputs is not None and not len(outputs):
        outputs = [np.arange(10, dtype=np.int8).reshape(1, 10)]
    return Execution(
        outputs=None if outputs is None else tuple(outputs),
        cycles=max((step.ended for step in steps), default=0),
        trace=trace(steps, TRANSFERS),
        layer_actions=tuple(layer_actions),
        dram_read_bytes=320,
        dram_write_bytes=32,
        instruction_bytes=576,
    )
