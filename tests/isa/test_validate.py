"""Each rule of programs, on both sides of its limit, by the text of its message."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from npusim.isa.base.errors import ProgramError
from npusim.isa.base.tensor import Placement
from npusim.isa.hardware.file import change
from npusim.isa.hardware.memories import Space
from npusim.isa.hardware.units import UNIT_NAMES
from npusim.isa.instructions.control import Barrier, Call
from npusim.isa.instructions.dma import Copy, Unpack
from npusim.isa.instructions.elementwise import Binary
from npusim.isa.instructions.instruction import Instruction
from npusim.isa.instructions.mac import Convolve, Depthwise
from npusim.isa.instructions.reduction import FUNCTIONS, Reduce
from npusim.isa.instructions.rows import Softmax
from npusim.isa.instructions.table import decode_all
from npusim.isa.instructions.vector import Convert, Lookup
from npusim.isa.instructions.windows import Pool
from npusim.isa.instructions.word import Waits
from npusim.isa.program.program import Buffer, MemoryImage
from npusim.isa.program.validate import Violation, find_violation, validate

from .samples import CALLS, program_of, tensor, tiny_hardware

CONVOLVE = Convolve(
    ifm_row_stride=4, ifm_pixel_stride=1, ifm_height=4, ifm_width=4, ifm_depth=1,
    weights=100, parameters=200, ofm=300, ofm_row_stride=4, ofm_pixel_stride=1, ofm_height=4, ofm_width=4,
    ofm_depth=1, kernel_height=3, kernel_width=3, stride_height=1, stride_width=1, dilation_height=1,
    dilation_width=1, pad_top=1, pad_left=1, low=0, high=255,
)  # fmt: skip
DEPTHWISE = Depthwise(**{spec.name: getattr(CONVOLVE, spec.name) for spec in Depthwise.specs})
POOL = Pool(
    ifm_row_stride=4, ifm_height=4, ifm_width=4, depth=1, ofm=100, ofm_row_stride=2, ofm_height=2, ofm_width=2,
    kernel_height=2, kernel_width=2, stride_height=2, stride_width=2, high=255,
)  # fmt: skip
BINARY = Binary(
    rows=2, columns=4, a_row_stride=4, b_row_stride=4, a_column_stride=1, b_column_stride=1, high=255
)
MEAN = Reduce(function=FUNCTIONS.index("sum"), outer=2, parts=1, middle=1, count=4, inner=1, high=255)
UNPACK = Unpack(source_space=Space.DRAM, packed=8, weights=8)


def message(instructions: list[Instruction], **fields: Any) -> str | None:
    """What is wrong with a program, without its name; None if nothing."""
    program = program_of(instructions, **fields)
    try:
        validate(program, decode_all(program.code))
    except ProgramError as fault:
        return str(fault).removeprefix("sample: ")
    return None


def fault_of(instruction: Instruction, **fields: Any) -> str | None:
    """What is wrong with one instruction, without where it stands."""
    said = message([instruction], **fields)
    return said and said.removeprefix(f"instruction 0 ({instruction.mnemonic}): ")


LEGAL: list[Instruction] = [
    CONVOLVE, DEPTHWISE, POOL, BINARY, MEAN, UNPACK, Copy(size=1), Call(index=1), Barrier(),
    Convert(size=1, high=255), Lookup(size=1), Softmax(rows=1, depth=1),
]  # fmt: skip


@pytest.mark.parametrize("instruction", LEGAL, ids=lambda each: each.mnemonic)
def test_legal_instructions(instruction: Instruction) -> None:
    assert fault_of(instruction) is None


ZERO = [
    *((CONVOLVE, name) for name in ("ifm_height", "ofm_width", "kernel_height", "stride_width", "dilation_height")),
    *((DEPTHWISE, name) for name in ("ifm_width", "ofm_height", "kernel_width", "stride_height", "dilation_width")),
    *((POOL, name) for name in ("ifm_height", "depth", "ofm_width", "kernel_height", "stride_width")),
    (BINARY, "rows"), (BINARY, "columns"),
    (MEAN, "outer"), (MEAN, "count"), (MEAN, "inner"),
    (Copy(size=1), "size"), (Lookup(size=1), "size"), (Convert(size=1, high=255), "size"),
    (Softmax(rows=1, depth=1), "rows"), (Softmax(rows=1, depth=1), "depth"), (UNPACK, "weights"),
]  # fmt: skip


@pytest.mark.parametrize(("instruction", "name"), ZERO, ids=lambda each: getattr(each, "mnemonic", each))
def test_sizes_are_at_least_one(instruction: Instruction, name: str) -> None:
    said = fault_of(replace(instruction, **{name: 0}))
    assert said in (f"{name} is 0; it may be 1 or more", f"{name} is 0 bytes; it may be 1 or more")


@pytest.mark.parametrize(
    ("legal", "illegal", "fault"),
    [
        # Clamps.
        (
            replace(CONVOLVE, low=7, high=7),
            replace(CONVOLVE, low=8, high=7),
            "clamp 8..7 is not within 0..255",
        ),
        (
            replace(CONVOLVE, signed=1, low=-128, high=127),
            replace(CONVOLVE, signed=1, low=-129, high=127),
            "clamp -129..127 is not within -128..127",
        ),
        (POOL, replace(POOL, low=-1), "clamp -1..255 is not within 0..255"),
        (
            replace(BINARY, signed=1, high=127),
            replace(BINARY, signed=1, high=128),
            "clamp 0..128 is not within -128..127",
        ),
        # The multipliers take 9 bits: codes less a zero point that is a code.
        (
            replace(CONVOLVE, ifm_zero=255),
            replace(CONVOLVE, ifm_zero=-1),
            "ifm_zero -1 is not within 0..255",
        ),
        (
            replace(CONVOLVE, weights_signed=1, weight_zero=-128),
            replace(CONVOLVE, weights_signed=1, weight_zero=128),
            "weight_zero 128 is not within -128..127",
        ),
        # Depth.
        (
            replace(
                DEPTHWISE, ofm_depth=4, ifm_depth=2, ifm_pixel_stride=2, ofm_pixel_stride=4, ofm_row_stride=16
            ),
            replace(DEPTHWISE, ofm_depth=3, ifm_depth=2),
            "ofm_depth 3 is not a multiple of ifm_depth 2",
        ),
        # Windows of pools touch the feature map: with 2 rows of padding a window of 2 starts outside.
        (
            replace(POOL, pad_top=1),
            replace(POOL, pad_top=2),
            "a window is outside the feature map in height",
        ),
        (
            replace(POOL, ofm_width=2, stride_width=3),
            replace(POOL, ofm_width=2, stride_width=4),
            "a window is outside the feature map in width",
        ),
        # 2^22 terms of 9 bits stay inside 32 bits.
        (
            replace(POOL, ofm_height=1, ofm_width=1, kernel_height=2048, kernel_width=2047),
            replace(POOL, ofm_height=1, ofm_width=1, kernel_height=2048, kernel_width=2048),
            "a window of 4194304 may overflow the accumulator; it may be less than 4194304",
        ),
        (
            MEAN,
            replace(MEAN, count=1 << 22),
            "4194304 terms may overflow the accumulator; may be less than 4194304",
        ),
        # Packed blocks have a header of four bytes.
        (replace(UNPACK, packed=4), replace(UNPACK, packed=3), "packed is 3; it may be 4 or more"),
        # Channels, calls.
        (Copy(size=1, channel=3), None, ""),
        (Call(index=1), Call(index=2), "host call 2 does not exist; there are 2"),
    ],
)
def test_rules_of_fields(legal: Instruction, illegal: Instruction | None, fault: str) -> None:
    assert fault_of(legal) is None
    assert illegal is None or fault_of(illegal) == fault


@pytest.mark.parametrize(
    ("instruction", "changes", "fault"),
    [
        (Copy(size=1, channel=1), {"dma.channels": 1}, "channel 1 does not exist; the hardware has 0..0"),
        (
            replace(UNPACK, channel=2),
            {"dma.channels": 2},
            "channel 2 does not exist; the hardware has 0..1",
        ),
        (
            UNPACK,
            {"dma.decoder_bytes_per_cycle": 0},
            "tiny has no decoder; dma.decoder_bytes_per_cycle is 0",
        ),
        (
            replace(CONVOLVE, output_stationary=1),
            {"mac_array.dataflow": "weight_stationary"},
            "dataflow output_stationary; the array of the hardware supports weight_stationary",
        ),
        (
            CONVOLVE,
            {"mac_array.dataflow": "output_stationary"},
            "dataflow weight_stationary; the array of the hardware supports output_stationary",
        ),
        (
            replace(CONVOLVE, row_halvings=1),
            {"mac_array.rows": 1},
            "row_halvings 1; the array has 1 rows",
        ),
        (
            replace(DEPTHWISE, column_halvings=1),
            {f"mac_array.{name}": 1 for name in ("columns", "float16_columns", "float32_columns")},
            "column_halvings 1; the array has 1 columns",
        ),
    ],
)
def test_what_the_hardware_lacks(instruction: Instruction, changes: dict[str, Any], fault: str) -> None:
    assert fault_of(instruction) is None
    assert fault_of(instruction, hardware=change(tiny_hardware(), changes)) == fault


@pytest.mark.parametrize(
    ("instruction", "fault"),
    [
        (
            # 255 windows of stride 31 and kernels of 255 taps, 63 apart: (254 * 31 + 254 * 63 + 1) squared
            replace(
                CONVOLVE, ofm_height=255, ofm_width=255, stride_height=31, stride_width=31, kernel_height=255,
                kernel_width=255, dilation_height=63, dilation_width=63,
            ),
            f"the padded feature map has {(254 * 31 + 254 * 63 + 1) ** 2} elements; it may have 268435456",
        ),
        (
            replace(CONVOLVE, ofm_width=8000, ofm_height=1, kernel_height=255, kernel_width=255),
            f"the windows of an output row have {8000 * 255 * 255} elements; they may have 268435456",
        ),
        (
            replace(DEPTHWISE, ofm_depth=1 << 19, ofm_height=1, ofm_width=1, ifm_height=500, kernel_height=500 // 2),
            f"the padded feature map has {500 * 4 << 19} elements; it may have 268435456",
        ),
    ],
)  # fmt: skip
def test_windows_are_addressable(instruction: Instruction, fault: str) -> None:
    """Whatever the fields say, an instruction asks for no more working memory than the address generator covers."""
    assert fault_of(instruction) == fault


@pytest.mark.parametrize(
    ("legal", "illegal", "fault"),
    [
        (
            Copy(target=8188, size=4),
            Copy(target=8189, size=4),
            "bytes 8189..8192 lie outside the scratchpad of 8192 bytes",
        ),
        (
            Copy(source_space=1, source=8188, size=4),
            Copy(source_space=1, source=8189, size=4),
            "bytes 8189..8192 lie outside the dram of 8192 bytes",
        ),
        (
            # rows at 0, 1000, ..., 8000
            Copy(source=100, target=0, count1=8, target_stride1=1000, size=192),
            Copy(source=100, target=0, count1=8, target_stride1=1000, size=193),
            "bytes 0..8192 lie outside the scratchpad of 8192 bytes",
        ),
        (
            replace(CONVOLVE, parameters=8192 - 9),
            replace(CONVOLVE, parameters=8192 - 8),
            "bytes 8184..8192 lie outside the scratchpad of 8192 bytes",
        ),
        (
            Lookup(table=8192 - 256, size=1),
            Lookup(table=8192 - 255, size=1),
            "bytes 7937..8192 lie outside the scratchpad of 8192 bytes",
        ),
    ],
)
def test_memory_limits(legal: Instruction, illegal: Instruction, fault: str) -> None:
    assert fault_of(legal) is None
    assert fault_of(illegal) == fault


@pytest.mark.parametrize(
    ("legal", "illegal", "fault"),
    [
        (
            Copy(count2=2, target_stride2=4, size=4, source=100),
            Copy(count2=2, target_stride2=3, size=4, source=100),
            "the scratchpad bytes from 0 on are written more than once: counts [3, 4] with strides [3] overlap",
        ),
        (
            Copy(count0=1, count2=2, target_stride0=4, target_stride2=8, size=4, target_space=1),
            Copy(count0=1, count2=2, target_stride0=4, target_stride2=7, size=4, target_space=1),
            "the dram bytes from 0 on are written more than once: counts [2, 3, 4] with strides [4, 7] overlap",
        ),
        (
            replace(CONVOLVE, ofm_row_stride=4),
            replace(CONVOLVE, ofm_row_stride=3),
            "the scratchpad bytes from 300 on are written more than once: counts [4, 4] with strides [3] overlap",
        ),
        (
            replace(POOL, ofm_row_stride=2),
            replace(POOL, ofm_row_stride=1),
            "the scratchpad bytes from 100 on are written more than once: counts [2, 2] with strides [1] overlap",
        ),
    ],
)
def test_destinations_are_written_once(legal: Instruction, illegal: Instruction, fault: str) -> None:
    assert fault_of(legal) is None
    assert fault_of(illegal) == fault


def test_sources_may_repeat() -> None:
    assert fault_of(Copy(count2=99, source_stride2=0, target_stride2=4, target=200, size=4)) is None


def waiting(**counts: int) -> Waits:
    return tuple((int(unit), counts[name]) for unit, name in UNIT_NAMES.items() if name in counts)


def test_waits_are_for_completions_that_there_are() -> None:
    two = [Copy(size=1), Copy(size=1), Copy(channel=1, size=1)]
    assert message([*two, Barrier(waits=waiting(dma0=2, dma1=1))]) is None
    assert message([*two, Barrier(waits=waiting(dma0=3))]) == (
        "instruction 3 (ctl.barrier): waits for 3 completions of dma0, which executes 2 instructions"
    )
    assert message([*two, Barrier(waits=waiting(host=1))]) == (
        "instruction 3 (ctl.barrier): waits for 1 completions of host, which executes 0 instructions"
    )


PLACE = Placement("t", tensor("int8", 10), 8182)


@pytest.mark.parametrize(
    ("legal", "illegal", "fault"),
    [
        (
            {"layer_of": np.array([1], np.uint32)},
            {"layer_of": np.array([2], np.uint32)},
            "layer 2 does not exist; there are 2",
        ),
        (
            {"layer_of": np.zeros(1, np.uint32)},
            {"layer_of": np.zeros(2, np.uint32)},
            "layer table has 2 entries for 1 instructions",
        ),
        (
            {"dram_size_bytes": 1 << 20},
            {"dram_size_bytes": (1 << 20) + 1},
            "needs 1048577 bytes of DRAM, the hardware has 1048576: dram.size_mib=2 holds it",
        ),
        (
            {"images": (MemoryImage(8192 - 200, 200),)},
            {"images": (MemoryImage(8192 - 199, 200),)},
            "the image at 7993 with 200 bytes lies outside the 8192 bytes of dram",
        ),
        (
            {"code_address": 8192 - 72},
            {"code_address": 8192 - 71},
            "the code at 8121 with 72 bytes lies outside the 8192 bytes of dram",
        ),
        (
            {"inputs": (PLACE,)},
            {"inputs": (replace(PLACE, address=8183),)},
            'tensor "t" at 8183 with 10 bytes lies outside the 8192 bytes of dram',
        ),
        (
            {"outputs": (PLACE,)},
            {"outputs": (replace(PLACE, address=-1),)},
            'tensor "t" at -1 with 10 bytes lies outside the 8192 bytes of dram',
        ),
        (
            {"host_calls": (replace(CALLS[0], inputs=(None, PLACE)),)},
            {"host_calls": (replace(CALLS[0], inputs=(None, replace(PLACE, address=9000))),)},
            'tensor "t" at 9000 with 10 bytes lies outside the 8192 bytes of dram',
        ),
        (
            {"states": (PLACE,)},
            {"states": (replace(PLACE, address=8183),)},
            'tensor "t" at 8183 with 10 bytes lies outside the 8192 bytes of dram',
        ),
        (
            {"buffers": (Buffer("b", 8000, 192, 0, 0),)},
            {"buffers": (Buffer("b", 8000, 193, 0, 0),)},
            'buffer "b" at 8000 with 193 bytes lies outside the 8192 bytes of scratchpad',
        ),
        (
            {"buffers": (Buffer("b", 0, 1, 0, 0),)},
            {"buffers": (Buffer("b", 0, 1, 0, 1),)},
            'buffer "b" is in use in instructions 0..1; there are 0..0',
        ),
        (
            {},
            {"buffers": (Buffer("b\n" * 30, 0, 1, 1, 0),)},
            f'buffer "{"b?" * 20}..." is in use in instructions 1..0; there are 0..0',
        ),
    ],
)
def test_tables_fit(legal: dict[str, Any], illegal: dict[str, Any], fault: str) -> None:
    assert message([Copy(size=1)], **legal) is None
    assert message([Copy(size=1)], **illegal) == fault


def test_where_it_is_and_one_line() -> None:
    program = program_of([Barrier(), Copy()], name="two\nlines")
    instructions = decode_all(program.code)
    assert find_violation(program, instructions) == Violation(1, "size is 0; it may be 1 or more")
    with pytest.raises(ProgramError) as caught:
        validate(program, instructions)
    assert str(caught.value) == "two?lines: instruction 1 (dma.copy): size is 0; it may be 1 or more"


def test_a_program_without_instructions_is_legal() -> None:
    assert message([]) is None
    assert message([], layers=()) is None
