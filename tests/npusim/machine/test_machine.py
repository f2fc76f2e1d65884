"""The machine: what it computes, that time does not depend on data, and what it says when nothing moves any more."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import npusim
from npusim.isa.base.errors import ProgramError, SimulationError
from npusim.isa.base.tensor import Array
from npusim.isa.hardware.units import Unit
from npusim.isa.instructions.control import Barrier
from npusim.isa.instructions.dma import Copy
from npusim.isa.instructions.instruction import Context, Instruction
from npusim.isa.instructions.mac import MacInstruction
from npusim.isa.instructions.region import Space
from npusim.isa.instructions.table import decode_all
from npusim.isa.program.interpreter import interpret
from npusim.isa.program.program import Program
from npusim.machine import core
from npusim.machine.system import execute
from npusim.machine.trace import Execution
from npusim.scheduler.emit.synchronise import synchronise

from ...examples import examples
from .handmade import barrier, bench, bytes_at, host_call, load, lookup, program, rows, run, store, waits

BYTES = np.arange(256, dtype=np.uint8)


def inverted(parameters: Mapping[str, Any], *operands: Any) -> Sequence[Array]:
    """A host function: all bits the other way round."""
    return [~operands[-1][0]]


# Reads at the start, writes at the end.


def outputs_of(instructions: Sequence[Instruction], size: int) -> tuple[Execution, Array]:
    """Run with DRAM 0..255 holding 0..255; the bytes that end up at 512."""
    made = program(
        instructions, bench(), inputs=[bytes_at("in", 0, 256)], outputs=[bytes_at("out", 512, size)]
    )
    result = execute(made, [BYTES])
    assert result.outputs is not None
    return result, result.outputs[0]


def test_operands_are_read_when_an_instruction_starts() -> None:
    instructions = [
        load(0, 0, 256),
        lookup(64, 1024, 64, after=waits(dma0=1)),
        # Starts together with the look-up and ends before it does, in the bytes that it has read already.
        Copy(channel=1, fill=1, value=99, target=64, size=64, waits=waits(dma0=1)),
        store(1024, 512, 64, after=waits(vector=1, dma1=1)),
    ]
    result, found = outputs_of(instructions, 64)
    assert rows(result)[1].started == rows(result)[2].started
    assert rows(result)[1].ended > rows(result)[2].ended
    assert found.tolist() == list(range(64, 128))


def test_a_missing_wait_shows_as_wrong_bytes() -> None:
    instructions = [
        load(0, 0, 256),
        # Should wait for the load, and runs while it is on its way: the load overwrites what it filled.
        Copy(channel=1, fill=1, value=99, target=64, size=64),
        store(64, 512, 64, after=waits(dma0=1, dma1=1)),
    ]
    assert outputs_of(instructions, 64)[1].tolist() == list(range(64, 128))
    in_order = program(
        instructions, bench(), inputs=[bytes_at("in", 0, 256)], outputs=[bytes_at("out", 512, 64)]
    )
    assert interpret(in_order, [BYTES])[0].tolist() == [99] * 64


@pytest.mark.parametrize(("late", "value"), [(-1, 0), (1, 255)])
def test_results_are_visible_when_an_instruction_ends(late: int, value: int) -> None:
    # A look-up of 256 bytes takes 8 + 32 + 32 = 72 cycles. On the store's channel a fill of n bytes takes
    # 16 + n / 16 cycles and starts one cycle after it: it ends with the look-up for n = 16 * (72 - 1 - 16).
    instructions = [
        load(0, 0, 256),
        barrier(dma0=1),
        lookup(0, 1024, 256),
        Copy(channel=1, fill=1, target=2048, size=16 * (72 - 1 - 16 + late)),
        store(1279, 512, 1, channel=1),
        barrier(vector=1, dma1=2),
    ]
    result, found = outputs_of(instructions, 1)
    assert rows(result)[4].started == rows(result)[2].ended + late
    assert found.tolist() == [value]


@pytest.mark.parametrize(("align", "behind"), [(0, 2), (10, 1024), (12, 4096)])
def test_code_continues_at_a_multiple_of_bytes_behind_a_barrier(align: int, behind: int) -> None:
    """The fetch of the second instruction waits for the barrier, then for a row of its own.

    Both fit into 5 bursts of 4 cycles, the first 3 of them for the barrier. Its row opens in 10, its last burst passes
    at 10 + 3 * 4 = 22 and arrives 20 later. Without a gap, the second one's bursts follow at once. Behind a gap, its 3
    bursts begin at 42, and its row opens again.
    """
    made = program([Barrier(align=align), Copy(fill=1, size=16)], bench())
    assert made.code_size_bytes == (behind + 72 if align else 2 * 72)
    result = execute(made, data=False)
    fetches = [(each.start_cycle, each.end_cycle) for each in result.trace.transfers]
    first, second = rows(result)
    assert first.dispatched == 22 + 20 + 1
    assert fetches == [(0, 22), (42, 42 + 10 + 3 * 4) if align else (22, 22 + 2 * 4)]
    assert second.dispatched == (64 + 20 + 1 if align else 30 + 20 + 1)


# Host calls.


def test_host_calls_read_and_write_dram() -> None:
    source, target = bytes_at("a", 0, 64), bytes_at("b", 64, 64)
    call, entry = host_call("invert", source, target, 64)
    made = program([call], bench(), inputs=[source], outputs=[target], host_calls=[entry])
    data = BYTES[:64]
    outputs = execute(made, [data], host_functions={"invert": inverted}).outputs
    assert outputs is not None
    np.testing.assert_array_equal(outputs[0], ~data)
    np.testing.assert_array_equal(interpret(made, [data], {"invert": inverted})[0], ~data)


def test_an_unknown_host_function() -> None:
    source, target = bytes_at("a", 0, 64), bytes_at("b", 64, 64)
    call, entry = host_call("invert", source, target, 64)
    made = program([call], bench(), inputs=[source], outputs=[target], host_calls=[entry])
    with pytest.raises(
        SimulationError, match=r'^host call "invert": no host function "invert"; there are: copy$'
    ):
        execute(made, [BYTES[:64]], host_functions={"copy": inverted})
    # Timing needs no functions.
    assert execute(made, data=False).cycles > 0


def test_a_host_function_that_gives_another_type() -> None:
    source, target = bytes_at("a", 0, 64), bytes_at("b", 64, 64)
    call, entry = host_call("invert", source, target, 64)
    made = program([call], bench(), inputs=[source], outputs=[target], host_calls=[entry])
    with pytest.raises(
        SimulationError,
        match=r'^host call "invert": invert gave int32\[2\], the program expects uint8\[64\]$',
    ):
        execute(made, [BYTES[:64]], host_functions={"invert": lambda *_: [np.zeros(2, np.int32)]})


# Inputs.


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (None, "0 inputs given, the program takes 1: in"),
        ([], "0 inputs given, the program takes 1: in"),
        ([BYTES, BYTES], "2 inputs given, the program takes 1: in"),
        ([BYTES.view(np.int8)], 'input "in": is int8[256], must be uint8[256]'),
        ([BYTES[:255]], 'input "in": is uint8[255], must be uint8[256]'),
        ([BYTES.reshape(16, 16)], 'input "in": is uint8[16, 16], must be uint8[256]'),
    ],
)
def test_inputs_that_do_not_fit(inputs: Sequence[Array] | None, message: str) -> None:
    made = program([load(0, 0, 256)], bench(), inputs=[bytes_at("in", 0, 256)])
    with pytest.raises(SimulationError) as caught:
        execute(made, inputs)
    assert str(caught.value) == message


# Deadlocks.


def test_a_deadlock_names_who_waits_for_whom() -> None:
    circle = [
        load(0, 0, 32, after=waits(vector=1)),
        lookup(0, 0, 64, after=waits(dma0=1)),
    ]
    with pytest.raises(SimulationError) as caught:
        run(circle, bench())
    assert str(caught.value) == (
        "hand: deadlock with 2 instructions left: "
        'dma0 with instruction 0 (dma.copy, layer "layer") waits for vector to complete 1 instructions, '
        "it has completed 0; "
        'vector with instruction 1 (vec.lookup, layer "layer") waits for dma0 to complete 1 instructions, '
        "it has completed 0"
    )


def test_a_deadlock_of_the_front_end() -> None:
    stuck = [
        lookup(0, 0, 64),
        lookup(0, 0, 64, after=waits(dma0=1)),
        lookup(0, 0, 64),
        lookup(0, 0, 64),
        load(0, 0, 32),
    ]
    # With a queue of 1 the load never gets past the fourth look-up, with a queue of 2 it does.
    with pytest.raises(SimulationError) as caught:
        run(stuck, bench(front_end__queue_depth=1))
    assert str(caught.value) == (
        "hand: deadlock with 4 instructions left: "
        'the front end with instruction 3 (vec.lookup, layer "layer") waits for room in the queue of vector; '
        'vector with instruction 1 (vec.lookup, layer "layer") waits for dma0 to complete 1 instructions, '
        "it has completed 0"
    )
    assert len(rows(run(stuck, bench(front_end__queue_depth=2)))) == 5


def test_a_deadlock_at_a_barrier() -> None:
    with pytest.raises(SimulationError) as caught:
        run([barrier(dma0=1), load(0, 0, 32)], bench())
    assert str(caught.value) == (
        "hand: deadlock with 2 instructions left: "
        'front_end with instruction 0 (ctl.barrier, layer "layer") waits for dma0 to complete 1 instructions, '
        "it has completed 0"
    )


def test_more_completions_than_there_are_instructions() -> None:
    with pytest.raises(
        ProgramError,
        match=r"^hand: instruction 1 \(vec.lookup\): waits for 2 completions of dma0, which executes 1 instructions$",
    ):
        run([load(0, 0, 32), lookup(0, 0, 64, after=waits(dma0=2))], bench())


# Progress and the empty program.


def test_progress_is_told_now_and_then() -> None:
    told: list[tuple[int, int]] = []
    made = program([lookup(0, 0, 8)] * 150, bench())
    execute(made, data=False, progress=lambda done, all_: told.append((done, all_)))
    assert told == [(64, 150), (128, 150)]


def test_an_empty_program_takes_no_time() -> None:
    result = run([], bench())
    assert (result.cycles, rows(result), result.dram_read_bytes) == (0, [], 0)


def test_actions_are_booked_on_layers_and_on_the_front_end() -> None:
    result = run([load(0, 0, 256), lookup(0, 0, 64)], bench())
    assert result.layer_actions == (
        {
            "dram_read_byte": 256, "dram_activate": 1, "noc_byte": 256, "scratchpad_write_byte": 256 + 64,
            "scratchpad_read_byte": 64 + 256, "vector_lut": 64, "instruction_issue": 2,
        },
        {"dram_read_byte": 160, "dram_activate": 1},
    )  # fmt: skip


# Random programs: dense and strided copies on up to four channels, fills and look-ups among a few hundred bytes,
# so that almost every instruction depends on some others.

AREA = 640
places = st.integers(0, AREA - 1)
spaces = st.sampled_from([Space.SCRATCHPAD, Space.DRAM, Space.MEMORY2])


@st.composite
def copies(draw: st.DrawFn) -> Copy:
    size, count = draw(st.integers(1, 60)), draw(st.integers(0, 3))
    source_stride, target_stride = draw(st.integers(0, 90)), draw(st.integers(size, 90))
    fill = draw(st.integers(0, 4)) // 4
    return Copy(
        channel=draw(st.integers(0, 3)),
        fill=fill,
        value=draw(st.integers(0, 255)),
        source_space=draw(spaces),
        source=draw(st.integers(0, AREA - size - count * source_stride - 1)),
        target_space=draw(spaces),
        target=draw(st.integers(0, AREA - size - count * target_stride - 1)),
        count2=count,
        size=size,
        source_stride2=source_stride,
        target_stride2=target_stride,
        block=0 if fill else draw(st.integers(0, 1)),
    )


@st.composite
def transposes(draw: st.DrawFn) -> Copy:
    """Rows and columns of bytes change places, in blocks or straight through."""
    rows, columns = draw(st.integers(1, 20)), draw(st.integers(1, 20))
    places = st.integers(0, AREA - rows * columns)
    return Copy(
        channel=draw(st.integers(0, 3)),
        source_space=draw(spaces),
        source=draw(places),
        target_space=draw(spaces),
        target=draw(places),
        count1=rows - 1,
        count2=columns - 1,
        size=1,
        source_stride1=columns,
        source_stride2=1,
        target_stride1=1,
        target_stride2=rows,
        block=draw(st.integers(0, 3)),
    )


@st.composite
def lookups(draw: st.DrawFn) -> Instruction:
    size = draw(st.integers(1, 100))
    where = st.integers(0, AREA - size)
    return lookup(draw(where), draw(where), size, table=draw(st.integers(0, AREA - 256)))


def near_memory(bandwidth_gb_per_s: float) -> list[dict[str, object]]:
    """A further memory, which takes part in the copies."""
    return [{"name": "near", "kind": "sram", "size_kib": 4, "bandwidth_gb_per_s": bandwidth_gb_per_s}]


hardwares = st.builds(
    lambda depth, group, decode, setup, port, latency, bandwidth, near: bench(
        memory=near,
        front_end__queue_depth=depth,
        front_end__fetch_instructions=group,
        front_end__decode_cycles=decode,
        dma__setup_cycles=setup,
        dma__port_bytes_per_cycle=port,
        dram__latency_ns=latency,
        dram__bandwidth_gb_per_s=bandwidth,
    ),
    st.sampled_from([1, 2, 8]), st.sampled_from([1, 4, 64]), st.sampled_from([0, 1]),
    st.sampled_from([0, 16]), st.sampled_from([1, 16]), st.sampled_from([0.0, 20.0, 300.0]),
    st.sampled_from([0.5, 8.0, 100.0]), st.sampled_from([1.0, 64.0]).map(near_memory),
)  # fmt: skip


def scrambled(instructions: list[Instruction], hardware: Any) -> Program:
    """A program over an area of each memory; they end up as its outputs."""
    ends = [load(AREA, 0, AREA), *instructions, store(0, AREA, AREA, channel=1)]
    ends = [
        replace(each, waits=waits)
        for each, waits in zip(ends, synchronise(ends, Context(hardware)), strict=True)
    ]
    areas = [bytes_at("dram", 0, AREA), bytes_at("scratchpad", AREA, AREA)]
    if hardware.memory:
        areas.append(replace(bytes_at("near", 0, AREA), space=Space.MEMORY2))
    return program(ends, hardware, inputs=areas, outputs=areas)


def same(first: Execution, second: Execution) -> bool:
    """Whether two executions agree in every cycle and count."""
    return (
        rows(first) == rows(second)
        and first.cycles == second.cycles
        and first.trace.transfers == second.trace.transfers
        and first.layer_actions == second.layer_actions
    )


@pytest.mark.slow
@given(
    st.lists(st.one_of(copies(), transposes(), lookups()), min_size=1, max_size=25),
    hardwares,
    st.integers(0, 99),
)
@examples(120)
def test_machine_and_interpreter_agree(instructions: list[Instruction], hardware: Any, seed: int) -> None:
    made = scrambled([replace(each) for each in instructions], hardware)
    rng = np.random.default_rng(seed)
    inputs = [rng.integers(0, 256, AREA).astype(np.uint8) for _ in made.inputs]
    result = execute(made, inputs)
    assert result.outputs is not None
    for found, expected in zip(result.outputs, interpret(made, inputs), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert same(result, execute(made, data=False))
    assert same(result, execute(made, inputs))


def test_units_execute_in_program_order() -> None:
    made = scrambled([lookup(k, 300 + k, 20) for k in range(10)], bench())
    result = execute(made, data=False)
    for unit in {each.unit for each in decode_all(made.code)}:
        mine = [row for row in rows(result) if row.unit == Unit(unit).name.lower()]
        assert all(first.ended <= second.started for first, second in pairwise(mine))


def test_a_program_is_checked_once_for_each_hardware(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = npusim.compile(npusim.load("digits_cnn"), "edge-128")
    assert isinstance(compiled, Program)
    first = core.load(compiled, compiled.hardware)
    monkeypatch.setattr(MacInstruction, "cost", lambda *_: pytest.fail("computed a second time"))
    again = core.load(compiled, compiled.hardware)
    assert again.costs is first.costs
    monkeypatch.undo()
    slower = npusim.hardware("edge-128", ["clock_mhz=250"])
    assert core.load(compiled, slower).costs is not first.costs
    before = len(core._CHECKED)
    del compiled, first, again
    gc.collect()
    assert len(core._CHECKED) < before


def test_code_that_can_change_is_checked_in_every_run() -> None:
    compiled = npusim.compile(npusim.load("digits_cnn"), "edge-128")
    assert isinstance(compiled, Program)
    changing = replace(compiled, code=compiled.code.copy())
    core.load(changing, changing.hardware)
    changing.code[0, 0] = 0xFF
    with pytest.raises(ProgramError, match="opcode 0xff"):
        core.load(changing, changing.hardware)
