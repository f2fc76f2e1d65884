"""`mac_array.weight_bits`: weights of few bits in time, traffic, energy and room, results of those of eight."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import npusim
from npusim.isa.base.errors import CompileError, ProgramError
from npusim.isa.base.tensor import SIZE_ONLY
from npusim.isa.hardware.file import change, hardware
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.memories import Space
from npusim.isa.instructions.dma import LoadWeights
from npusim.isa.instructions.mac import Convolve, Depthwise
from npusim.isa.instructions.table import decode_all
from npusim.isa.program import container
from npusim.isa.program.program import Area
from npusim.kernels.graph.graph import Graph
from npusim.numbers.job import JobResult
from npusim.numbers.run import RunResult
from npusim.reports.run import pieces
from npusim.reports.words.claims import caveats
from npusim.scheduler import compile_graph

from ..graphs import Sketch
from ..litert.test_control import looping

L2 = Space.MEMORY2


def chip(bits: int, **changes: Any) -> Hardware:
    keys = {path.replace("__", "."): value for path, value in changes.items()}
    return change(hardware("gap9"), {"mac_array.weight_bits": bits, "name": "chip"} | keys)


@cache
def run(model: str, bits: int) -> RunResult:
    return npusim.run(model, hw=chip(bits))


@pytest.mark.parametrize("model", ["digits_cnn", "ds_cnn"])
@pytest.mark.parametrize("bits", [2, 5, 8])
def test_results_are_those_of_the_model(model: str, bits: int) -> None:
    for found, expected in zip(
        run(model, bits).outputs, npusim.run(model, hw="edge-128").outputs, strict=True
    ):
        np.testing.assert_array_equal(found, expected)


def timed(graph: Graph, machine: Hardware) -> RunResult:
    return npusim.simulate(compile_graph(graph, machine), timing_only=True)


def loads(result: RunResult) -> list[LoadWeights]:
    return [each for each in decode_all(result.program.code) if isinstance(each, LoadWeights)]


@pytest.mark.parametrize("bits", [2, 5, 7])
def test_each_load_is_padded_to_a_byte(bits: int) -> None:
    """Of its weights, no more: so traffic and room are those of eight bits less what is left out of each load."""
    few, whole = run("ds_cnn", bits), run("ds_cnn", 8)
    spared = sum([each.weights - -(-each.weights * bits // 8) for each in loads(few)])
    assert spared > 1000
    assert len({each.source for each in loads(few)}) == len(loads(few))  # each is loaded once
    assert few.program.spared == (Area(L2, spared),)
    assert few.program.constants_bytes == whole.program.constants_bytes - spared


def test_eight_bits_need_no_such_load() -> None:
    program = run("ds_cnn", 8).program
    assert loads(run("ds_cnn", 8)) == []
    assert program.spared == ()
    assert not any(
        each.few_bits for each in decode_all(program.code) if isinstance(each, Convolve | Depthwise)
    )


def test_fewer_bits_take_less_of_everything() -> None:
    runs = [run("digits_cnn", bits) for bits in range(2, 9)]
    for values in (
        [result.cycles for result in runs],
        [float(result.energy_uj) for result in runs],
        [result.program.constants_bytes for result in runs],
        [result.energy_uj.by_component["mac_array"] for result in runs],
        [result.energy_uj.by_component["l2"] for result in runs],
    ):
        assert all(fewer < more for fewer, more in pairwise(values)), values


def test_products_of_activations_keep_eight_bits() -> None:
    net = Sketch()
    a, b = net.input(1, 16, 32), net.input(1, 32, 32)
    graph = net.graph([net.fully_connected(net.product(a, b), 40)])
    few, whole = (timed(graph, chip(bits)) for bits in (4, 8))
    products = [
        (layer, each.few_bits)
        for layer, each in zip(few.program.layer_of, decode_all(few.program.code), strict=True)
        if isinstance(each, Convolve)
    ]
    assert set(products) == {(0, 0), (1, 1)}
    assert few.layers[0].cycles == whole.layers[0].cycles
    assert few.layers[1].cycles < whole.layers[1].cycles
    assert sum([load.weights for load in loads(few)]) == 16 * 32 * 40


def test_constants_known_by_their_size_take_the_same_time() -> None:
    net = Sketch()
    graph = net.graph([net.depthwise(net.conv(net.input(1, 12, 12, 8), 24))])
    tensors = tuple(replace(each, data=SIZE_ONLY) if each.constant else each for each in graph.tensors)
    known = timed(graph, chip(3))
    sized = timed(replace(graph, tensors=tensors), chip(3))
    assert sized.cycles == known.cycles
    assert sized.program.spared == known.program.spared != ()


def test_what_does_not_fit_with_eight_bits_may_fit_with_four() -> None:
    ((_, addressed),) = [(area.space, area.size_bytes) for area in run("ds_cnn", 4).program.areas]
    kib = (addressed - run("ds_cnn", 4).program.spared_bytes()) // 1024 + 1
    assert kib * 1024 < addressed
    small = {"memory__l2__size_kib": kib}
    result = npusim.run("ds_cnn", hw=chip(4, **small))
    for found, expected in zip(result.outputs, run("ds_cnn", 8).outputs, strict=True):
        np.testing.assert_array_equal(found, expected)
    again = container.loads(container.dumps(result.program))
    assert again.spared == result.program.spared
    with pytest.raises(
        CompileError, match=r"bytes of the memory l2, chip has \d+; enlarge memory\.l2\.size_kib"
    ):
        compile_graph(npusim.load("ds_cnn"), chip(8, **small))


def test_no_more_is_left_out_than_the_hardware_does() -> None:
    program = run("digits_cnn", 5).program
    lying = replace(program, spared=(Area(L2, len(program.constants) // 2),))
    with pytest.raises(ProgramError, match=r"bytes of memory 2 take no room; of its constants \d+ may"):
        container.loads(container.dumps(lying))


def test_the_run_says_so() -> None:
    assert list(caveats(run("digits_cnn", 8).program)) == []
    assert list(caveats(run("digits_cnn", 5).program)) == [
        "ESTIMATE: in time, energy, traffic and room a constant weight has 5 bits (mac_array.weight_bits). Results are "
        "those of the model's own weights, of 8 bits."
    ]
    assert run("digits_cnn", 5).to_dict()["weight_bits"] == 5
    assert "weight_bits" not in run("digits_cnn", 8).to_dict()


def test_a_run_of_several_programs_says_so(tmp_path: Path) -> None:
    file = tmp_path / "looping.tflite"
    file.write_bytes(looping())
    result = npusim.run(file, hw=chip(5), timing_only=True, decisions={"looping/y": 3})
    with_weights = replace(result.executable, programs=(run("digits_cnn", 5).program,))
    assert "ESTIMATE" not in flat(result)
    assert "a constant weight has 5 bits" in flat(replace(result, executable=with_weights))


def flat(result: JobResult) -> str:
    """What the terminal shows, in one line."""
    shown = Console(width=200, record=True, file=StringIO())
    shown.print(pieces.summary(result))
    return " ".join(shown.export_text().split())
