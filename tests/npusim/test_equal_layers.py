"""Networks of equal layers: compiled from a few of them, and simulated once where that changes no number."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npusim
from npusim.frontends.transformer.config import TransformerConfig
from npusim.frontends.transformer.network import transformer
from npusim.frontends.transformer.published import configuration
from npusim.frontends.transformer.weights import parse
from npusim.isa.base.tensor import HostCall, TensorType
from npusim.isa.instructions.control import Call
from npusim.isa.instructions.region import Space
from npusim.isa.instructions.table import decode_all, encode_all
from npusim.isa.program.program import Program
from npusim.isa.program.repeat import repeats_of
from npusim.isa.program.validate import validate
from npusim.kernels.graph.builder import GraphBuilder
from npusim.kernels.graph.graph import Graph
from npusim.machine.system import execute
from npusim.scheduler import lengthening
from npusim.scheduler.compile import _by_estimates
from npusim.scheduler.emit.equal_parts import equal_parts
from npusim.scheduler.lengthening import KEPT
from npusim.scheduler.network.network import prepare
from npusim.scheduler.network.periods import shortened
from npusim.session import api

from ..json_documents import faults

SMALL = configuration("qwen2_0.5b")
assert SMALL is not None
SMALL = replace(
    SMALL, name="small", layers=KEPT + 8, hidden=128, heads=4, kv_heads=2, head_size=32, rotary=32, inner=320,
    vocabulary=512,
)  # fmt: skip


def graph_of(config: TransformerConfig, tokens: int, past: int) -> Graph:
    return transformer(config, tokens=tokens, past=past, batch=1)


def compiled(config: TransformerConfig, tokens: int, past: int, hw: str, *changes: str) -> Program:
    return api.compile_program(graph_of(config, tokens, past), npusim.hardware(hw, changes))


@cache
def small() -> Program:
    return compiled(SMALL, 1, 64, "mobile-4096")


def numbers(program: Program, *, every_layer: bool) -> dict[str, Any]:
    """All of the JSON but the time on the clock and the line about equal layers."""
    found: dict[str, Any] = npusim.simulate(program, timing_only=True, every_layer=every_layer).to_dict()
    return {name: value for name, value in found.items() if name not in ("wall_s", "equal_layers")}


def assert_equal(program: Program) -> str:
    """The run that counts gives the numbers, columns and transfers of the run of all layers; returns its line."""
    counted, whole = (execute(program, data=False, every_layer=every) for every in (False, True))
    assert not whole.equal_layers
    assert counted.cycles == whole.cycles
    assert counted.layer_actions == whole.layer_actions
    for name in ("unit", "dispatched", "at_head", "ready", "started", "ended", "blocked_by", "busy"):
        assert np.array_equal(getattr(counted.trace, name), getattr(whole.trace, name)), name
    assert counted.trace.transfers == whole.trace.transfers
    assert numbers(program, every_layer=False) == numbers(program, every_layer=True)
    return counted.equal_layers


MODELS = (
    SMALL,
    replace(SMALL, name="int4", weights=parse("int4-32")),
    replace(SMALL, name="wide", heads=8, kv_heads=8, inner=1024),
    replace(SMALL, name="deep", layers=40, hidden=64, inner=128),
    replace(SMALL, name="whole heads", kv_heads=4, query_norms="head"),
)
MACHINES = (
    ("mobile-4096",),
    ("mobile-1024",),
    ("edge-128", "dram.size_mib=256"),
    ("mobile-4096", "scratchpad.size_kib=512", "dram.banks=4"),
    ("mobile-1024", "dram.row_bytes=1024", "front_end.queue_depth=4"),
    ("mobile-4096", "dram.latency_ns=90", "dma.channels=1"),
    ("mobile-4096", "scratchpad.bank_ports=8"),
    ("rk3588",),
    ("rk3576",),
)
"""The last two compute some operators of each layer on the host."""


def test_instructions_of_short_programs_are_those_of_their_bytes() -> None:
    """They are taken from the program that the short one was made of where the words are equal."""
    of_lengths = repeats_of(small())
    assert len(of_lengths) == 2
    for repeat in of_lengths:
        code = repeat.short.code
        assert decode_all(code) == decode_all(code.copy())  # the copy is writable, so no cache knows it


def test_points_of_a_study_share_the_shortened_graph() -> None:
    graph = graph_of(SMALL, 1, 64)
    assert shortened(graph, KEPT) is shortened(graph, KEPT)
    assert shortened(graph, KEPT) != shortened(graph, KEPT + 1)


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: " ".join(machine))
@pytest.mark.parametrize("model", MODELS, ids=lambda model: str(model.name))
def test_every_number_is_that_of_all_layers(model: TransformerConfig, machine: tuple[str, ...]) -> None:
    counted = 0
    for tokens, past in ((24, 0), (1, 64)):
        program = compiled(model, tokens, past, *machine)
        line = assert_equal(program)
        counted += "counted, not simulated" in line
        assert line.startswith("equal layers were scheduled and simulated") == (not repeats_of(program))
        assert line
    assert counted or machine[0] == "edge-128"


@pytest.mark.parametrize(
    ("past", "machine"),
    [
        (256, ("rk3588", "scratchpad.size_kib=128", "scratchpad.banks=4")),
        (1024, ("mobile-4096", "scratchpad.size_kib=384", "scratchpad.banks=4")),
    ],
)
def test_keys_take_no_room_before_their_layer(past: int, machine: tuple[str, ...]) -> None:
    """Keys and values of all layers exceed the scratchpad, but each layer has the same tiles as the next one."""
    program = compiled(SMALL, 1, past, *machine)
    keys_and_values = 2 * SMALL.layers * SMALL.kv_heads * SMALL.head_size * past
    assert keys_and_values > program.hardware.scratchpad_bytes
    assert repeats_of(program)
    assert_equal(program)


@pytest.mark.slow
def test_layers_of_a_decode_step_are_counted() -> None:
    program = small()
    line = assert_equal(program)
    assert line in {
        f"{number} layers that are equal to the one before were counted, not simulated"
        for number in range(SMALL.layers - KEPT, SMALL.layers)
    }
    assert npusim.simulate(program, timing_only=True).to_dict()["equal_layers"] == line
    assert "equal_layers" not in npusim.simulate(program, timing_only=True, every_layer=True).to_dict()


@pytest.mark.slow
def test_tables_that_all_layers_read_displace_nothing() -> None:
    """Cosines and sines are no part of the first layer, whose constants would lie otherwise than those of the next."""
    step = npusim.load("llama3.2_1b", sizes={"tokens": 1, "past": 2047, "batch": 1})
    program = npusim.compile(step, "mobile-4096")
    assert repeats_of(program)
    assert "counted, not simulated" in execute(program, data=False).equal_layers


@pytest.mark.slow
def test_the_program_does_the_work_of_all_layers() -> None:
    """Multiply-accumulates, layers, names and constants are those of a compilation without equal parts."""
    graph, machine = graph_of(SMALL, 1, 64), npusim.hardware("mobile-4096")
    program, plain = small(), _by_estimates(prepare(graph, machine))
    assert repeats_of(program)
    assert not repeats_of(plain)
    assert [replace(layer, unit="") for layer in program.layers] == [
        replace(layer, unit="") for layer in plain.layers
    ]
    for ends in ("inputs", "outputs"):
        mine, other = getattr(program, ends), getattr(plain, ends)
        assert [(each.name, each.type) for each in mine] == [(each.name, each.type) for each in other]
        places = sorted((each.address, each.end) for each in mine)
        assert all(end <= begin for (_, end), (begin, _) in pairwise(places))
    assert 0 <= len(program.constants) - len(plain.constants) <= (SMALL.layers + 1) * 16384
    ours, theirs = (npusim.simulate(each, timing_only=True) for each in (program, plain))
    assert ours.macs == theirs.macs
    assert abs(int(ours.cycles) - int(theirs.cycles)) <= 0.02 * int(theirs.cycles)


@pytest.mark.slow
@pytest.mark.parametrize("tokens", [24, 1])
def test_the_host_does_the_work_of_all_layers(tokens: int) -> None:
    """Its calls are those of a compilation without equal parts, and their tensors are where the layers' copies are."""
    graph, machine = graph_of(SMALL, tokens, 64 // tokens), npusim.hardware("rk3588")
    program, plain = api.compile_program(graph, machine), _by_estimates(prepare(graph, machine))
    assert repeats_of(program)
    assert not repeats_of(plain)
    assert len(program.host_calls) >= SMALL.layers

    def without_addresses(program: Program) -> list[HostCall]:
        return [
            replace(
                call,
                inputs=tuple(place and replace(place, address=0) for place in call.inputs),
                outputs=tuple(replace(place, address=0) for place in call.outputs),
            )
            for call in program.host_calls
        ]

    assert without_addresses(program) == without_addresses(plain)
    results = [npusim.simulate(each, timing_only=True) for each in (program, plain)]
    (ours, theirs) = (
        [
            (piece.side, piece.first_layer, piece.last_layer, piece.entered and piece.entered.tensors)
            for piece in result.pieces
        ]
        for result in results
    )
    assert ours == theirs


@pytest.mark.slow
def test_a_program_is_checked_and_read_as_any_other(tmp_path: Path) -> None:
    program = small()
    validate(program, decode_all(program.code))
    npusim.save_program(program, tmp_path / "small.npu")
    read = npusim.load_program(tmp_path / "small.npu")
    assert isinstance(read, Program)
    assert not repeats_of(read)
    assert numbers(read, every_layer=False) == numbers(program, every_layer=False)


@pytest.mark.slow
def test_layers_that_take_turns_with_two_addresses_are_counted_in_pairs() -> None:
    bert = configuration("bert_base")
    assert bert is not None
    program = compiled(bert, 128, 0, "mobile-4096")
    *_, repeat = repeats_of(program)
    assert repeat.grouped == 2
    assert assert_equal(program) == "4 layers that are equal to the one before were counted, not simulated"


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes", [("dram.row_bytes=8192", "dram.banks=16"), ("dram.row_bytes=4096", "dram.banks=1")]
)
def test_other_rows_are_not_taken_for_the_same(changes: tuple[str, ...]) -> None:
    """On hardware with longer rows or stripes, what parts access is not apart by whole ones."""
    program = small()
    compiled_for = program.hardware.dram
    assert (compiled_for.row_bytes, compiled_for.banks) == (2048, 8)
    other = npusim.hardware("mobile-4096", changes)
    counted, whole = (
        npusim.simulate(program, timing_only=True, hardware=other, every_layer=every)
        for every in (False, True)
    )
    assert counted.execution.equal_layers.startswith("equal layers were simulated one by one: ")
    assert counted.cycles == whole.cycles


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (('scratchpad.holds=["io"]',), "scratchpad holds io instead of the DRAM"),
        ((), "their instructions differ"),
    ],
)  # fmt: skip
def test_a_run_says_why_equal_layers_are_not_scheduled_once(
    changes: tuple[str, ...], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not changes:  # the compiler gives all layers of this model the same instructions
        monkeypatch.setattr(lengthening, "equal_parts", lambda program, layers: None)
    program = compiled(SMALL, 1, 64, "mobile-4096", *changes)
    assert not repeats_of(program)
    line = f"equal layers were scheduled and simulated one by one: {why}"
    assert npusim.simulate(program, timing_only=True).to_dict()["equal_layers"] == line
    assert "equal_layers" not in npusim.simulate(program, timing_only=True, every_layer=True).to_dict()


@pytest.mark.slow
def test_the_programs_of_a_prompt_and_of_tokens_say_what_was_counted() -> None:
    def said(config: TransformerConfig, new: int, **options: bool) -> Any:
        document = npusim.generate(config, 24, new, "rk3588", bucket=32, **options).to_dict()
        assert faults("generation", document) == []
        return document["generation"].get("equal_layers")

    lines = [assert_equal(compiled(SMALL, *shape, "rk3588")) for shape in ((24, 0), (1, 32), (1, 64))]
    assert lines[0] != lines[1]
    assert said(SMALL, 12) == lines
    assert said(SMALL, 1) == lines[:1]
    assert said(SMALL, 12, every_layer=True) is None
    assert said(replace(SMALL, layers=2), 12) is None


def test_parts_that_share_constants_in_another_way_differ() -> None:
    """Each layer multiplies and adds its own vector; from the middle on, it adds the one that the layer before adds."""
    for shared in (False, True):
        builder, kind = GraphBuilder("vectors"), TensorType("float32", (64,))
        x = builder.input("x", kind)
        vectors = [builder.sized(f"vector {number}", kind) for number in range(4 * KEPT + 1)]
        for number in range(4 * KEPT):
            x = builder.layer("mul", [x, vectors[number]])
            late = shared and number >= 2 * KEPT
            x = builder.layer("add", [x, vectors[number + 1 if late else number]])
        parts = shortened(builder.graph([x]), KEPT)
        assert parts is not None
        # The run of equal layers begins with the first addition; the last layer gives the output.
        assert parts.removed == (2 * KEPT if shared else 4 * KEPT - 1) - KEPT


def test_a_layer_that_differs_ends_the_run_of_equal_ones() -> None:
    windows = [0] * SMALL.layers
    assert shortened(graph_of(SMALL, 1, 64), KEPT) is not None
    windows[SMALL.layers // 2] = 32
    assert shortened(graph_of(replace(SMALL, windows=tuple(windows)), 1, 64), KEPT) is None


@pytest.mark.parametrize("field", ["row_halvings", "waits"])
def test_a_part_with_another_instruction_is_none_of_the_equal_ones(field: str) -> None:
    program = small()
    *_, repeat = repeats_of(program)
    short, layers = repeat.short, repeat.layers
    assert equal_parts(short, layers) is not None
    instructions = decode_all(short.code)
    middle = repeat.first + repeat.number // 2 * repeat.size
    at = next(
        at
        for at in range(middle, middle + repeat.size)
        if hasattr(instructions[at], "row_halvings") and instructions[at].waits
    )
    old = instructions[at]
    ((unit, count), *rest) = old.waits
    changes: dict[str, Any] = {
        "row_halvings": {"row_halvings": getattr(old, "row_halvings", 0) + 1},
        "waits": {"waits": ((unit, count - 1), *rest)},
    }
    instructions[at] = replace(old, **changes[field])
    parts = equal_parts(replace(short, code=encode_all(instructions)), layers)
    assert parts is None or not parts.first <= at < parts.end


def test_a_part_with_another_host_call_is_none_of_the_equal_ones() -> None:
    program = compiled(SMALL, 1, 64, "rk3588")
    *_, repeat = repeats_of(program)
    short, layers = repeat.short, repeat.layers
    plain = equal_parts(short, layers)
    assert plain is not None
    instructions = decode_all(short.code)
    middle = repeat.first + repeat.number // 2 * repeat.size
    at = next(at for at in range(middle, middle + repeat.size) if isinstance(instructions[at], Call))
    calls = list(short.host_calls)
    row = getattr(instructions[at], "index")  # noqa: B009
    for change in ({"op": "other"}, {"reason": "other"}, {"parameters": {"axis": 7}}, {"inputs": ()}):
        calls[row] = replace(short.host_calls[row], **change)
        parts = equal_parts(replace(short, host_calls=tuple(calls)), layers)
        assert parts is None or not parts.first <= at < parts.end
    calls[row] = replace(short.host_calls[row], name="other")
    assert equal_parts(replace(short, host_calls=tuple(calls)), layers) == plain


def test_a_wait_for_the_instruction_before_differs_from_none() -> None:
    """A wait of dma0 for all of its instructions so far is 0 completions behind, with the unit number of no wait."""
    program = small()
    *_, repeat = repeats_of(program)
    short = repeat.short
    instructions = decode_all(short.code)
    middle = repeat.first + repeat.number // 2 * repeat.size
    at = next(at for at in range(middle, repeat.end) if not instructions[at].waits)
    completed = sum(each.unit == 0 for each in instructions[:at])
    instructions[at] = replace(instructions[at], waits=((0, completed),))
    parts = equal_parts(replace(short, code=encode_all(instructions)), repeat.layers)
    assert parts is None or not parts.first <= at < parts.end


def test_parts_whose_steps_differ_are_not_equal() -> None:
    """One address of a part in the middle is a stripe farther: its steps from and to its neighbours differ."""
    *_, repeat = repeats_of(small())
    short = repeat.short
    instructions = decode_all(short.code)
    middle = repeat.first + repeat.number // 2 * repeat.size
    at = next(
        at for at in range(middle, repeat.end) if getattr(instructions[at], "source_space", 0) == Space.DRAM
    )
    moved: Any = instructions[at]
    stripe = short.hardware.port_timing(Space.DRAM).stripe_bytes
    instructions[at] = replace(moved, source=moved.source + stripe)
    parts = equal_parts(replace(short, code=encode_all(instructions)), repeat.layers)
    assert parts is None or not parts.first <= at < parts.end


@settings(max_examples=8, deadline=None)
@given(
    layers=st.integers(KEPT + 3, KEPT + 12),
    hidden=st.sampled_from([64, 96, 160]),
    inner=st.integers(1, 9).map(lambda number: 48 * number),
    heads=st.sampled_from([(4, 4), (4, 2), (4, 1)]),
    shape=st.sampled_from([(16, 0), (1, 40), (4, 100)]),
    bits=st.sampled_from(["int8", "int4-32"]),
    machine=st.sampled_from(MACHINES),
)
@pytest.mark.slow
def test_random_models_keep_every_number(
    layers: int,
    hidden: int,
    inner: int,
    heads: tuple[int, int],
    shape: tuple[int, int],
    bits: str,
    machine: tuple[str, ...],
) -> None:
    model = replace(
        SMALL, layers=layers, hidden=hidden, inner=inner, heads=heads[0], kv_heads=heads[1], weights=parse(bits)
    )  # fmt: skip
    assert_equal(compiled(model, *shape, *machine))
