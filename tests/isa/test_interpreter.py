"""The in-order interpreter on programs of a few instructions, and the memory they run on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from npusim.isa.base.elements import Workload
from npusim.isa.base.errors import ProgramError, SimulationError
from npusim.isa.base.tensor import HostCall, Placement
from npusim.isa.instructions.control import Barrier, Call
from npusim.isa.instructions.dma import Copy
from npusim.isa.program.interpreter import interpret
from npusim.isa.program.program import MemoryImage
from npusim.isa.text.assembly import assemble

from .samples import program_of, tensor

IN, OUT = Placement("in", tensor("int8", 2, 3), 512), Placement("out", tensor("int8", 2, 3), 600)
VALUE = np.array([[1, 2, 3], [-4, -5, -6]], np.int8)
LOAD = Copy(source_space=1, source=512, size=6)
STORE = Copy(target_space=1, target=600, size=6)


def outputs(instructions: list[Any], inputs: Sequence[Any] = (VALUE,), **fields: Any) -> list[list[Any]]:
    program = program_of(instructions, **{"inputs": (IN,), "outputs": (OUT,), "host_calls": (), **fields})
    return [each.tolist() for each in interpret(program, inputs, {"negate": lambda *a: [-a[-1][0]]})]


def test_a_copy_through_the_scratchpad() -> None:
    assert outputs([LOAD, STORE]) == [VALUE.tolist()]


def test_instructions_take_effect_in_program_order() -> None:
    fill = Copy(fill=1, value=9, size=3)
    assert outputs([LOAD, fill, STORE]) == [[[9, 9, 9], [-4, -5, -6]]]
    assert outputs([fill, LOAD, STORE]) == [VALUE.tolist()]
    assert outputs([LOAD, STORE, fill]) == [VALUE.tolist()]
    assert outputs([STORE, LOAD]) == [[[0, 0, 0], [0, 0, 0]]]


def test_waits_are_ignored() -> None:
    waiting = ((0, 2),)
    assert outputs([replace(LOAD, waits=waiting), Barrier(waits=waiting), STORE]) == [VALUE.tolist()]


def test_memory_begins_with_zeros_and_the_constants() -> None:
    assert outputs([]) == [[[0, 0, 0], [0, 0, 0]]]
    assert outputs([], images=(MemoryImage(601, 2),), constants=b"\x01\x02") == [[[0, 1, 2], [0, 0, 0]]]


def test_an_input_may_be_an_output() -> None:
    assert outputs([], outputs=(IN,)) == [VALUE.tolist()]


NEGATE = HostCall("turn", "negate", {}, (IN,), (OUT,), Workload("elementwise", elements=6))


def test_a_host_call() -> None:
    assert outputs([Call()], host_calls=(NEGATE,)) == [(-VALUE).tolist()]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (replace(NEGATE, op="twist"), 'host call "turn": no host function "twist"; there are: negate'),
        (
            replace(NEGATE, outputs=(replace(OUT, type=tensor("int16", 2, 3)),)),
            'host call "turn": negate gave int8[2, 3], the program expects int16[2, 3]',
        ),
        (
            replace(NEGATE, outputs=(replace(OUT, type=tensor("int8", 6)),)),
            'host call "turn": negate gave int8[2, 3], the program expects int8[6]',
        ),
    ],
)
def test_host_calls_that_do_not_fit(call: HostCall, message: str) -> None:
    with pytest.raises(SimulationError) as caught:
        outputs([Call()], host_calls=(call,))
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([], "0 inputs given, the program takes 1: in"),
        ([VALUE, VALUE], "2 inputs given, the program takes 1: in"),
        ([VALUE.astype(np.uint8)], 'input "in": is uint8[2, 3], must be int8[2, 3]'),
        ([VALUE.ravel()], 'input "in": is int8[6], must be int8[2, 3]'),
    ],
)
def test_inputs_that_do_not_fit(inputs: list[Any], message: str) -> None:
    with pytest.raises(SimulationError) as caught:
        outputs([], inputs=inputs)
    assert str(caught.value) == message


def test_a_program_that_breaks_a_rule_is_not_executed() -> None:
    with pytest.raises(
        ProgramError, match=r"^sample: instruction 1 \(dma\.copy\): size is 0; it may be 1 or more$"
    ):
        outputs([LOAD, Copy(), STORE])


def test_a_network_in_assembly() -> None:
    """Two inputs through a look-up (each byte of the table is its index, but 3 gives 30) and an addition."""
    table = bytes(30 if code == 3 else code for code in range(256)).hex()
    rows = "\n".join(f"{start:#x} {table[2 * start : 2 * start + 64]}" for start in range(0, 256, 32))
    place = '{"dtype": "int8", "shape": [4], "quantization": {"scales": [1.0], "zero_points": [0]}}'
    program = assemble(f"""
        .program name="sum" dram_size_bytes=4096 code_address=2048
        .image address=1024 size_bytes=256
        .hardware "edge-32"
        .input  name="a" type={place} address=0
        .input  name="b" type={place} address=4
        .output name="c" type={place} address=8
        .layer  name="table" op="lookup" unit="vector" workload={{"kind": "elementwise", "elements": 4}}
        .layer  name="sum" op="add" unit="vector" workload={{"kind": "elementwise", "elements": 4}}
        .for 0
        dma.copy source_space=dram source=0 target=0 size=8
        dma.copy source_space=dram source=1024 target=256 size=256
        vec.lookup input=0 output=16 size=4 table=256 wait dma0>=2
        .for 1
        vec.binary function=add a=16 b=4 output=32 rows=1 columns=4 a_column_stride=1 b_column_stride=1 \
            a_multiplier=0x40000000 a_shift=1 b_multiplier=0x40000000 b_shift=1 \
            output_multiplier=0x40000000 output_shift=1 low=-128 high=127 signed=int8
        dma.copy channel=1 source=32 target_space=dram target=8 size=4 wait vector>=2
        .constants 256
        {rows}
        .end
    """)
    a, b = np.array([1, 2, 3, 4], np.int8), np.array([10, 10, 10, -128], np.int8)
    (total,) = interpret(program, [a, b])
    assert total.tolist() == [11, 12, 40, -124]
