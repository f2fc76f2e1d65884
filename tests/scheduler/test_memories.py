"""Memories beside the scratchpad and the DRAM: a hardware file says what they hold, everything follows."""

from __future__ import annotations

from collections import Counter
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import npusim
from npusim.isa.base.errors import CompileError, HardwareError
from npusim.isa.hardware.file import change, hardware
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.memories import CONTENTS, Space
from npusim.isa.instructions.dma import Copy, Unpack
from npusim.isa.instructions.table import decode_all
from npusim.isa.program import container
from npusim.isa.program.interpreter import interpret
from npusim.isa.program.program import Program
from npusim.isa.text.assembly import assemble, disassemble
from npusim.kernels.graph.reference import evaluate
from npusim.machine.system import System, execute
from npusim.scheduler import compile_graph
from npusim.scheduler.fit.costs import Transfers
from npusim.session.api import host_functions

from ..examples import examples
from ..graphs import Sketch, random_inputs
from ..races import races, unwritten_reads
from ..random_graphs import random_graph

MRAM = {
    "name": "mram",
    "kind": "mram",
    "holds": ["constants", "code"],
    "size_kib": 4096,
    "bandwidth_gb_per_s": 4.0,
    "latency_ns": 20.0,
    "read_pj_per_byte": 3.0,
    "write_pj_per_byte": 30.0,
    "standby_mw": 0.0,
    "area_mm2": 2.0,
}
SRAM = {
    "name": "near",
    "kind": "sram",
    "holds": ["io", "activations"],
    "size_kib": 512,
    "bandwidth_gb_per_s": 8.0,
}


def chip(*memories: dict[str, Any], preset: str = "edge-128", **changes: Any) -> Hardware:
    """A preset with further memories; dots of other keys are written as two underscores."""
    keys = {path.replace("__", "."): value for path, value in changes.items()}
    if "clock_mhz" in keys:  # a design made for that clock
        keys["technology.rated_mhz"] = keys["clock_mhz"]
    return change(hardware(preset), keys | {"name": "chip", "memory": list(memories)})


def outputs(model: str, machine: Hardware, seed: int = 0) -> list[np.ndarray]:
    return list(npusim.run(model, hw=machine, seed=seed).outputs)


def used_spaces(program: Program) -> Counter[tuple[Space, Space]]:
    """How often a copy goes from one memory to another."""
    found: Counter[tuple[Space, Space]] = Counter()
    for each in decode_all(program.code):
        if isinstance(each, Copy) and not each.fill:
            found[Space(each.source_space), Space(each.target_space)] += 1
        if isinstance(each, Unpack):
            found[Space(each.source_space), Space.SCRATCHPAD] += 1
    return found


# A microcontroller whose weights and code lie in MRAM and whose inputs and outputs lie in SRAM: no DRAM.


@pytest.mark.parametrize("model", ["digits_cnn", "ds_cnn"])
@pytest.mark.parametrize("scratchpad_holds", [[], ["io"]])
def test_weights_on_the_chip_and_inputs_in_sram(model: str, scratchpad_holds: list[str]) -> None:
    near = SRAM | {"holds": ["activations"] if scratchpad_holds else ["io", "activations"]}
    machine = chip(MRAM, near, scratchpad__holds=scratchpad_holds)
    result = npusim.run(model, hw=machine)
    for found, expected in zip(result.outputs, outputs(model, hardware("edge-128")), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert (result.dram_bytes.read, result.dram_bytes.write, result.dram_bytes.instructions) == (0, 0, 0)
    program = result.program
    assert program.dram_size_bytes == 0
    assert {place.space for place in (*program.inputs, *program.outputs)} == {
        Space.SCRATCHPAD if scratchpad_holds else Space.MEMORY3
    }
    assert {image.space for image in program.images} == {program.code_space} == {Space.MEMORY2}
    pairs = used_spaces(program)
    assert pairs[Space.MEMORY2, Space.SCRATCHPAD] > 0
    # Inputs and outputs in the scratchpad itself are not copied at all.
    ends = {(Space.MEMORY3, Space.SCRATCHPAD), (Space.SCRATCHPAD, Space.MEMORY3)}
    assert (set(pairs) - {(Space.MEMORY2, Space.SCRATCHPAD)}) == (set() if scratchpad_holds else ends)
    assert not races(program)
    assert not unwritten_reads(program)


def test_energy_is_spent_where_the_bytes_are() -> None:
    """MRAM: 3 pJ for each byte read, whole bursts of 16. No DRAM is there, so none stands by."""
    result = npusim.run("ds_cnn", hw=chip(MRAM, SRAM), timing_only=True)
    counts: Counter[str] = Counter()
    for actions in result.execution.layer_actions:
        counts.update(actions)
    assert counts["mram_read_byte"] >= result.program.images[0].size_bytes
    assert counts["mram_write_byte"] == 0
    parts = result.energy_uj.by_component
    assert parts["mram"] == pytest.approx(3.0 * counts["mram_read_byte"] * 1e-6)
    assert parts["near"] > 0
    assert parts["dram"] == result.energy_uj.dram == 0
    assert sum(parts.values()) == pytest.approx(result.energy_uj.total)
    areas = result.to_dict()["area_mm2"]["by_component"]
    assert (areas["mram"], areas["dram_interface"]) == (2.0, 0.0)


def test_the_cycles_of_a_small_network_written_out() -> None:
    """A fully connected layer of 32 x 8, its constants and its code in MRAM, input and output in the scratchpad.

    A nanosecond is a cycle. MRAM: bursts of 16 bytes in 2 cycles, latency 20, no rows, grants of 512 bytes. The
    program: a load of 8 x 9 bytes of parameters and 8 x 32 weights, which waits for nothing, and the layer.
    """
    mram = MRAM | {"bandwidth_gb_per_s": 8.0}
    machine = chip(
        mram, scratchpad__holds=["io"], clock_mhz=1000.0, front_end__decode_cycles=1, front_end__fetch_instructions=4,
        dma__setup_cycles=16, dma__port_bytes_per_cycle=16, dma__decoder_bytes_per_cycle=0,
    )  # fmt: skip
    sketch = Sketch("small")
    sketch.fully_connected(sketch.input(1, 32), 8, per_channel=True)
    graph = sketch.graph()
    program = compile_graph(graph, machine)
    load, layer = decode_all(program.code)
    assert (load.mnemonic, layer.mnemonic) == ("dma.copy", "mac.convolve")
    assert load.size == 8 * 9 + 8 * 32
    fetched = 5 * 2 + 20  # 72 bytes are five bursts, and the latency
    dispatched = fetched + 1
    bursts = ceil((8 * 9 + 8 * 32) / 16)
    # The channel sets up, the bursts pass the port, the last one comes a latency later.
    loaded = dispatched + 16 + bursts * 2 + 20
    computed = loaded + layer.cost(program.context).cycles
    inputs = random_inputs(graph)
    execution = execute(program, inputs)
    assert execution.trace.ended.tolist() == [loaded, computed]
    assert execution.cycles == computed
    assert (execution.dram_read_bytes, execution.dram_write_bytes, execution.instruction_bytes) == (0, 0, 0)
    assert execution.outputs is not None
    np.testing.assert_array_equal(execution.outputs[0], evaluate(graph, inputs)[graph.outputs[0]])
    assert [dict(each) for each in execution.layer_actions][1] == {"mram_read_byte": 2 * 72}


@pytest.mark.parametrize("clock_mhz", [1000.0, 333.3])
def test_the_cycles_of_a_memory_with_a_clock_of_its_own(clock_mhz: float) -> None:
    """The same layer, constants and code in an SRAM at clock / 1.25 that gives 8 bytes at a time, 6 of its cycles after
    the request: whatever the clock, bursts of 16 bytes take 2 x 1.25 cycles, and the latency is 7.5, rounded up.
    """
    near = {
        "name": "near", "kind": "sram", "holds": ["constants", "code"], "size_kib": 64,
        "clock_ratio": 1.25, "access_bytes": 8, "latency_cycles": 6,
    }  # fmt: skip
    machine = chip(
        near, scratchpad__holds=["io"], clock_mhz=clock_mhz, front_end__decode_cycles=1, dma__setup_cycles=16,
        dma__port_bytes_per_cycle=16, dma__decoder_bytes_per_cycle=0,
    )  # fmt: skip
    sketch = Sketch("small")
    sketch.fully_connected(sketch.input(1, 32), 8, per_channel=True)
    program = compile_graph(sketch.graph(), machine)
    load, layer = decode_all(program.code)
    assert (load.mnemonic, load.size, layer.mnemonic) == ("dma.copy", 328, "mac.convolve")
    dispatched = ceil(5 * 2.5) + 8 + 1  # 72 bytes are five bursts, the latency, decoding
    loaded = dispatched + 16 + ceil(21 * 2.5) + 8  # 21 bursts behind the setup
    computed = loaded + layer.cost(program.context).cycles
    assert execute(program, data=False).trace.ended.tolist() == [loaded, computed]
    assert machine.gb_per_s(Space.MEMORY2) == pytest.approx(8 * clock_mhz / 1.25 / 1000)
    # What the compiler takes for them: whole cycles for a grant of 32 bursts.
    assert Transfers(machine).cycles(Space.MEMORY2, 512) == 80
    # The same in time instead of cycles.
    plain = near | {"bandwidth_gb_per_s": 6.4, "latency_ns": 7.5}
    for key in ("clock_ratio", "access_bytes", "latency_cycles"):
        del plain[key]
    timing = chip(plain, clock_mhz=1000.0).port_timing(Space.MEMORY2)
    assert machine.port_timing(Space.MEMORY2) == timing


CLOCKED = SRAM | {"clock_ratio": 2.0, "access_bytes": 8, "latency_cycles": 4}


@pytest.mark.parametrize(
    ("changes", "without", "message"),
    [
        ({}, (), "bandwidth_gb_per_s: 8 beside clock_ratio; clock_mhz / clock_ratio x access_bytes says it"),
        (
            {}, ("bandwidth_gb_per_s", "clock_ratio", "access_bytes", "latency_cycles"),
            "bandwidth_gb_per_s: is missing; give it, or clock_ratio and access_bytes",
        ),
        ({}, ("clock_ratio", "latency_cycles"), "access_bytes: 8 without clock_ratio; give that, too"),
        ({}, ("clock_ratio", "access_bytes"), "latency_cycles: 4 without clock_ratio; give that, too"),
        ({}, ("bandwidth_gb_per_s", "access_bytes"), "access_bytes: is missing; clock_ratio needs it"),
        ({"access_bytes": 6}, ("bandwidth_gb_per_s",), "access_bytes: 6 is not a power of two, such as 4 or 8"),
        (
            {"access_bytes": 32}, ("bandwidth_gb_per_s",),
            "access_bytes: 32 is more than one burst (memory.near.burst_bytes = 16)",
        ),
        (
            {"latency_ns": 5.0}, ("bandwidth_gb_per_s",),
            "latency_cycles: 4 beside latency_ns = 5; one of them is 0 or absent",
        ),
        ({"clock_ratio": 0.001}, ("bandwidth_gb_per_s",), "clock_ratio: 0.001 is not a number from 0.01 to 1000"),
        ({"banks": 3, "row_miss_ns": 10.0}, (), "banks: 3 is not a power of two, such as 2 or 4"),
    ],
)  # fmt: skip
def test_a_memory_has_a_rate_or_a_clock(
    changes: dict[str, Any], without: tuple[str, ...], message: str
) -> None:
    table = {key: value for key, value in CLOCKED.items() if key not in without}
    with pytest.raises(HardwareError) as refusal:
        chip(table | changes)
    assert f"memory.near.{message}" in str(refusal.value)


def test_a_memory_that_follows_the_clock_is_shared_by_cores_of_one() -> None:
    table = {key: value for key, value in CLOCKED.items() if key != "bandwidth_gb_per_s"}
    slow, fast = (chip(table, clock_mhz=clock) for clock in (500.0, 800.0))
    System((fast, fast))
    with pytest.raises(
        HardwareError, match=r"near follows the clock, 2 GB/s at 500 MHz and 3.2 GB/s at 800 MHz"
    ):
        System((slow, fast))


@pytest.mark.slow
def test_memories_work_at_the_same_time() -> None:
    """Weights through one port and feature maps through another take less time than both through one."""
    maps = {"scratchpad__size_kib": 64, "scratchpad__banks": 1}
    like_dram = {
        key: value
        for key, value in hardware("edge-128").dram.model_dump(exclude_none=True).items()
        if key != "size_mib"
    }
    beside = like_dram | {"name": "flash", "kind": "psram", "holds": ["constants"], "size_kib": 65536}
    one = npusim.run("mobilenet_v2", hw=chip(**maps), timing_only=True)
    two = npusim.run("mobilenet_v2", hw=chip(beside, **maps), timing_only=True)
    assert two.cycles < 0.96 * one.cycles
    # Off-chip traffic is that of both memories.
    moved = Counter[str]()
    for actions in two.execution.layer_actions[:-1]:
        moved.update(actions)
    assert two.dram_bytes.read == moved["dram_read_byte"] + moved["flash_read_byte"]
    assert moved["flash_write_byte"] == 0 < moved["flash_activate"]


@pytest.mark.slow
def test_a_memory_that_is_too_small_is_named() -> None:
    small = MRAM | {"size_kib": 16}
    with pytest.raises(CompileError, match=r"^ds_cnn: needs \d+ bytes of the memory mram, chip has 16384; enlarge "
                       r"memory\.mram\.size_kib, or let another memory hold part of it$"):  # fmt: skip
        npusim.compile(npusim.load("ds_cnn"), hw=chip(small))
    io = SRAM | {"size_kib": 1, "holds": ["io"]}
    with pytest.raises(
        CompileError, match=r"of the memory near, chip has 1024; enlarge memory\.near\.size_kib"
    ):
        npusim.compile(npusim.load("mobilenet_v2"), hw=chip(io))
    held = chip(scratchpad__holds=["io"], scratchpad__size_kib=128, scratchpad__banks=1)
    with pytest.raises(
        CompileError, match=r"for its smallest tile beside \d+ of inputs and outputs, chip has 131072"
    ):
        npusim.compile(npusim.load("mobilenet_v2"), hw=held)


def test_programs_with_memories_come_back() -> None:
    program = npusim.compile(npusim.load("digits_cnn"), hw=chip(MRAM, SRAM))
    data = container.dumps(program)
    loaded = container.loads(data)
    assert container.dumps(loaded) == data
    assert (loaded.images, loaded.areas, loaded.code_space) == (program.images, program.areas, 2)
    assert container.dumps(assemble(disassemble(program))) == data


def test_a_state_lies_with_the_feature_maps(shared: Path) -> None:
    """Its beginning is an image of its own there, although the constants lie in a memory that cannot be written."""
    flash = MRAM | {"kind": "flash", "name": "flash", "write_pj_per_byte": None, "holds": ["constants"]}
    flash = {key: value for key, value in flash.items() if value is not None}
    model = shared / "models" / "tflm_mnist_lstm_int8.tflite"
    machine = chip(flash, SRAM | {"holds": ["activations"]})
    program = npusim.compile(npusim.load(model), hw=machine)
    assert {place.space for place in program.states} <= {Space.MEMORY3}
    for found, expected in zip(
        outputs(str(model), machine), outputs(str(model), hardware("edge-128")), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


@st.composite
def machines(draw: st.DrawFn) -> Hardware:
    """Any distribution of what there is over up to three further memories, the scratchpad and the DRAM."""

    def one(*options: Any) -> Any:
        return draw(st.sampled_from(options))

    holders = {content: draw(st.integers(0, 3)) for content in CONTENTS}  # 0: the DRAM
    memories = [
        {
            "name": f"m{number}",
            "kind": one("sram", "psram", "lpddr4"),
            "holds": [content for content in CONTENTS if holders[content] == number],
            "size_kib": 4096,
            "bandwidth_gb_per_s": one(0.1, 1.0, 16.0),
            "latency_ns": one(0.0, 20.0, 500.0),
            "burst_bytes": one(4, 16, 64),
            "row_bytes": one(64, 1024),
            "row_miss_ns": one(0.0, 25.0),
            "banks": one(1, 4),
            "grant_bytes": one(64, 512),
            "outstanding_requests": one(1, 16),
        }
        for number in (1, 2, 3)
    ]
    scratchpad = ["io"] if holders["io"] == 0 and draw(st.booleans()) else []
    size_kib = one(4, 16, 256)
    return chip(*memories, scratchpad__holds=scratchpad, scratchpad__size_kib=size_kib, scratchpad__banks=1)


@pytest.mark.slow
@given(st.data())
@examples(60)
def test_random_networks_on_random_memories(data: st.DataObject) -> None:
    """The bytes of the numpy reference, from the machine and from the interpreter, whatever memory holds what."""
    machine = data.draw(machines())
    graph = random_graph(lambda low, high: data.draw(st.integers(low, high)))
    inputs = random_inputs(graph)
    try:
        program = compile_graph(graph, machine)
    except CompileError:
        return
    assert not races(program)
    values = evaluate(graph, inputs)
    functions = host_functions(program)
    execution = execute(program, inputs, host_functions=functions)
    assert execution.outputs is not None
    in_order = interpret(program, inputs, functions)
    for tensor, by_machine, by_interpreter in zip(graph.outputs, execution.outputs, in_order, strict=True):
        np.testing.assert_array_equal(by_interpreter, values[tensor])
        np.testing.assert_array_equal(by_machine, values[tensor])
    assert execute(program, data=False).cycles == execution.cycles


def test_the_bound_is_that_of_the_busiest_port() -> None:
    """Constants in a slow MRAM set the bound: their bytes, once, at its peak; and the losses add up to the cycles."""
    slow = MRAM | {"bandwidth_gb_per_s": 0.05}
    result = npusim.run("ds_cnn", hw=chip(slow, SRAM), timing_only=True)
    (image,) = result.program.images
    rate = 0.05 * 1e9 / 500e6  # bytes a cycle
    assert result.lower_bound.bound_by == "dram"  # the resource: ports of memories
    # Bursts of 16 bytes round each block up; what rounds is not compulsory.
    assert 0.95 * image.size_bytes / rate <= result.lower_bound.cycles <= ceil(image.size_bytes / rate)
    assert result.cycles >= result.lower_bound.cycles
    assert result.lower_bound.cycles + sum(result.lost_cycles.values()) == result.cycles
    for layer in result.layers:
        assert layer.lower_bound_cycles + sum(layer.lost_cycles.values()) == layer.cycles
