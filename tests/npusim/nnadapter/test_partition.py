"""Models over several devices: the bytes of one device, pieces that add up, cost that is never slower than order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import npusim
from npusim import nnadapter as nna
from npusim.frontends.nnadapter.nnadapter_codes import FeatureNotSupported
from npusim.isa.base.tensor import Quantization, TensorType
from npusim.isa.hardware.file import change, hardware
from npusim.isa.hardware.hardware import Hardware
from npusim.kernels.graph.builder import GraphBuilder
from npusim.kernels.graph.graph import Graph
from npusim.kernels.graph.placing import PartitionWarning
from npusim.kernels.graph.reference import evaluate
from npusim.kernels.table import operator
from npusim.nnadapter import device_partition, model_run
from npusim.nnadapter.compilation import Compilation
from npusim.nnadapter.device_partition import cut, plan_of, task_of
from npusim.nnadapter.gears import networks
from npusim.nnadapter.piece_programs import Programs
from npusim.session.devices import by_cost, by_order

from ...examples import NIGHT, examples
from ...graphs import Sketch, random_inputs
from ...random_graphs import random_graph
from ...scheduler.test_random_graphs import graphs


@contextmanager
def devices(*machines: Hardware | str) -> Iterator[list[nna.Device]]:
    """Devices of hardware, called npu_0, npu_1, ..., for as long; a text is the name of one that ships with npusim."""
    names = []
    try:
        for number, machine in enumerate(machines):
            name = machine if isinstance(machine, str) else f"npu_{number}"
            if not isinstance(machine, str):
                nna.register_preset(name, machine)
            names.append(name)
        yield [nna.Device.acquire(name) for name in names]
    finally:
        for name, machine in zip(names, machines, strict=False):
            if not isinstance(machine, str):
                nna.unregister(name)


def lacking(*operators: str, preset: str = "edge-128") -> Hardware:
    return change(hardware(preset), {"lacks_operators": list(operators)})


def compiled(graph: Graph, context: nna.Context, partition: object = "order") -> Compilation:
    made = nna.Compilation(nna.from_graph(graph), context, partition=partition)  # type: ignore[arg-type]
    made.finish()
    return made


def network() -> Graph:
    """Two convolutions, a pool between, reshaped to a layer that connects all, and softmax."""
    sketch = Sketch("net", seed=2)
    first = sketch.conv(sketch.input(1, 8, 8, 8), 8, padding=((1, 1), (1, 1)))
    second = sketch.conv(sketch.pool("max_pool_2d", first, (2, 2), strides=(2, 2)), 8, (1, 1))
    sketch.softmax(sketch.fully_connected(sketch.reshape(second, 1, 128), 10))
    return sketch.graph()


def run(graph: Graph, context: nna.Context, partition: object = "order") -> nna.Result:
    execution = nna.Execution(compiled(graph, context, partition))
    for index, array in enumerate(random_inputs(graph)):
        execution.set_input(index, array)
    return execution.compute()


def pieces(made: Compilation) -> list[tuple[str, tuple[str, ...]]]:
    return [(piece.device, piece.kinds) for piece in made.gears[0].pieces]


def test_one_device_is_the_run_of_its_machine() -> None:
    graph = network()
    alone = npusim.simulate(npusim.compile(graph, "edge-64"), random_inputs(graph))
    with devices("edge-64") as given:
        result = run(graph, nna.Context(given))
    assert result.cycles == alone.cycles
    assert result.energy == alone.energy_uj
    np.testing.assert_array_equal(result.outputs[0], alone.outputs[0])


def test_capability_cuts_and_what_moves_nothing_stays_with_its_neighbour() -> None:
    with devices(
        lacking("max_pool_2d", "fully_connected", "softmax"), lacking("conv_2d", "reshape"), "npusim_host"
    ) as given:
        made = compiled(network(), nna.Context(given))
    assert pieces(made) == [
        ("npu_0", ("conv_2d",)),
        ("npu_1", ("max_pool_2d",)),
        ("npu_0", ("conv_2d", "reshape")),
        ("npu_1", ("fully_connected", "softmax")),
    ]


def test_an_npu_that_lacks_it_keeps_what_moves_nothing_between_its_operations() -> None:
    with devices(lacking("reshape"), "npusim_host") as given:
        whole = compiled(network(), nna.Context(given))
        sketch = Sketch("net", seed=2)
        sketch.reshape(sketch.conv(sketch.input(1, 4, 4, 8), 8, (1, 1)), 1, 128)
        at_the_end = compiled(sketch.graph(), nna.Context(given))
    assert [device for device, _ in pieces(whole)] == ["npu_0"]
    assert pieces(at_the_end) == [("npu_0", ("conv_2d",)), ("npusim_host", ("reshape",))]


def test_what_no_npu_can_goes_to_the_cpu_and_without_one_to_the_own_host() -> None:
    with devices(lacking("max_pool_2d"), "npusim_host") as given:
        with_cpu = run(network(), nna.Context(given))
        without = run(network(), nna.Context(given[:1]))
    assert [piece.device for piece in with_cpu.pieces] == ["npu_0", "npusim_host", "npu_0"]
    assert [piece.device for piece in without.pieces] == ["npu_0"]
    np.testing.assert_array_equal(with_cpu.outputs[0], without.outputs[0])


def test_forced_lines_win() -> None:
    lines = nna.Partition.parse("max_pool_2d", "file")
    with devices("npusim", "npusim_host") as given:
        made = run(network(), nna.Context(given), lines)
        alone = run(network(), nna.Context(given[:1]), lines)
    assert [piece.device for piece in made.pieces] == ["npusim", "npusim_host", "npusim"]
    for result in (made, alone):
        assert result.run is not None
        (on_host,) = [layer for layer in result.run.layers if layer.unit == "host" and layer.op != "handover"]
        assert (on_host.op, on_host.reason) == ("max_pool_2d", "forced to the host by line 1 of file")


def test_a_line_that_takes_nothing_is_said_once() -> None:
    with devices("npusim") as given, pytest.warns(PartitionWarning, match="did you mean softmax") as said:
        compiled(network(), nna.Context(given), nna.Partition.parse("softmux", "file"))
    assert len([each for each in said if each.category is PartitionWarning]) == 1


def test_a_handover_lies_between_devices_and_not_beside_the_host() -> None:
    with devices(lacking("max_pool_2d"), lacking("conv_2d"), "npusim_host") as given:
        between = run(network(), nna.Context(given)).run
    with devices(lacking("max_pool_2d"), "npusim_host") as given:
        beside = run(network(), nna.Context(given)).run
    assert between is not None
    assert beside is not None
    # 5 us at 500 MHz in front of the pool, and behind it
    assert [piece.entered.handover_cycles for piece in between.pieces if piece.entered] == [2500, 2500]
    assert [layer.op for layer in between.layers].count("handover") == 2
    assert "handover" not in [layer.op for layer in beside.layers]


def test_pieces_and_boundaries_add_up_to_the_run() -> None:
    with devices(lacking("max_pool_2d"), lacking("conv_2d", preset="edge-512"), "npusim_host") as given:
        result = run(network(), nna.Context(given)).run
    assert result is not None
    parts = [
        each for piece in result.pieces for each in (piece, piece.entered, piece.left) if each is not None
    ]
    assert sum(each.cycles for each in parts) == result.cycles
    assert sum(each.energy_uj for each in parts) == pytest.approx(float(result.energy_uj))


def test_single_is_one_device_or_nothing() -> None:
    sketch = Sketch("net", seed=2)
    sketch.softmax(sketch.logistic(sketch.input(1, 10)))
    graph = sketch.graph()
    with devices(lacking("softmax"), "npusim", "npusim_host") as given:
        assert pieces(compiled(graph, nna.Context(given), "single")) == [("npusim", ("logistic", "softmax"))]
        neither = nna.Context([given[0], nna.Device.acquire("builtin_device")])
        text = (
            "no single device supports all operations: npu_0: n1 (softmax): edge-128 lacks the operator "
            "(lacks_operators); builtin_device: n0 (logistic): logistic is none of the 32"
        )
        with pytest.raises(FeatureNotSupported, match=re.escape(text)):
            compiled(graph, neither, "single")


@st.composite
def machines(draw: st.DrawFn) -> list[Hardware | str]:
    """One to three NPUs, each a preset that lacks some operators, and sometimes the host."""
    kinds = [
        "conv_2d",
        "depthwise_conv_2d",
        "add",
        "mul",
        "average_pool_2d",
        "max_pool_2d",
        "fully_connected",
    ]
    clocks = draw(st.sampled_from([500.0, None]))
    found: list[Hardware | str] = []
    for _ in range(draw(st.integers(1, 3))):
        lacks = draw(st.lists(st.sampled_from(kinds), unique=True, max_size=4))
        chosen = lacking(*lacks, preset=draw(st.sampled_from(["edge-32", "edge-128", "edge-512"])))
        found.append(change(chosen, {"clock_mhz": clocks}) if clocks else chosen)
    return [*found, "npusim_host"] if draw(st.booleans()) else found


@pytest.mark.slow
@given(graphs(random_graph), machines())
@examples(12)
def test_cost_is_never_slower_than_order_and_gives_its_bytes(
    graph: Graph, chosen: Sequence[Hardware | str]
) -> None:
    with devices(*chosen) as given_devices:
        context = nna.Context(given_devices)
        by_order_, by_cost_ = run(graph, context), run(graph, context, "cost")
    event(f"{len(by_order_.pieces)} pieces")
    values = evaluate(graph, random_inputs(graph))
    for number, one, other in zip(graph.outputs, by_order_.outputs, by_cost_.outputs, strict=True):
        np.testing.assert_array_equal(one, values[number])
        np.testing.assert_array_equal(other, values[number])
    assert by_cost_.cycles <= by_order_.cycles


@pytest.mark.slow
@pytest.mark.cases(2)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("clocks", [(500.0, 500.0, 500.0), (500.0, 650.0, 333.3)])
def test_a_bench_adds_up_what_the_whole_takes(seed: int, clocks: tuple[float, ...]) -> None:
    graph = random_graph(Random(seed).randint)
    lacks = ("conv_2d", "max_pool_2d"), ("add", "average_pool_2d"), ("mul",)
    chosen = [change(lacking(*names), {"clock_mhz": mhz}) for names, mhz in zip(lacks, clocks, strict=True)]
    with devices(*chosen, "npusim_host") as given_devices:
        context = nna.Context(given_devices)
        (network_,) = networks(nna.from_graph(graph))
        task = task_of(network_, context.members)
        bench = Programs(network_, context, nna.Cache()).bench({})
        found = by_order(task)
        assert bench.cycles(found) == bench.whole(found)
        best = by_cost(task, bench)
        assert bench.whole(best.pieces) == best.cycles <= bench.whole(found)
        assert best == by_cost(task, Programs(network_, context, nna.Cache()).bench({})), "always the same"


class Untimed(nna.Driver):
    """A device that nobody simulates; it can pool."""

    name, vendor, version = "untimed", "tests", 1

    def validate_program(self, context: object, model: nna.Submodel) -> list[str | None]:
        return [None if step.kind == "max_pool_2d" else "is no pool" for step in model.operations]

    def create_program(self, context: object, model: nna.Submodel | None, cache: nna.Cache) -> object:
        return model

    def execute_program(self, program: object, inputs: object, outputs: object) -> None: ...


@pytest.mark.parametrize("first", [True, False])
def test_cost_moves_nothing_to_or_from_a_device_that_nobody_times(first: bool) -> None:
    nna.register(Untimed)
    try:
        names = ["untimed", "npusim", "npusim_host"] if first else ["npusim", "npusim_host", "untimed"]
        context = nna.Context([nna.Device.acquire(name) for name in names])
        pool = [piece.device for piece in compiled(network(), context, "cost").gears[0].pieces]
        assert pool == (["npusim", "untimed", "npusim"] if first else ["npusim"])
        with pytest.raises(FeatureNotSupported, match="by cost: no device of the context is simulated"):
            compiled(network(), nna.Context([nna.Device.acquire("fake_device")]), "cost")
    finally:
        nna.unregister("untimed")


def test_tries_are_bounded_and_said() -> None:
    with devices(lacking("max_pool_2d"), lacking("conv_2d")) as given:
        context = nna.Context(given)
        made = compiled(network(), context, "cost")
        (network_,) = networks(nna.from_graph(network()))
        plan = plan_of("cost", "order")
        bench = Programs(network_, context, nna.Cache())
        assert cut(network_, context.members, plan, bench.bench).tries == made.gears[0].tries > 0
        assert by_cost(task_of(network_, context.members), bench.bench({}), most_tries=1).tries == 1


def test_the_subgraphs_are_lines_of_a_partition_file_and_a_graph() -> None:
    graph = network()
    with devices(lacking("max_pool_2d"), "npusim_host") as given:
        context = nna.Context(given)
        made = compiled(graph, context)
        text = device_partition.log_text(
            networks(nna.from_graph(graph))[0], made.gears[0].pieces
        ).splitlines()
        head, at = text.index("subgraph operators:"), text.index("subgraph clusters: 3")
        lines = text[head + 1 : at]
        assert len(lines) == len(graph.nodes)
        assert (text[at + 1], text[-1]) == ("digraph G {", "} // end G")
        colours = [line.partition("fillcolor=")[2] for line in text if "fillcolor" in line]
        assert len(set(colours)) == 3
        assert [colours.count(each) for each in dict.fromkeys(colours)] == [1, 1, 4]
        assert text.count("  node_0->node_1") == 1
        for number, line in enumerate(lines):
            forced = compiled(graph, context, nna.Partition.parse(line))
            on_cpu = [piece for piece in forced.gears[0].pieces if piece.device == "npusim_host"]
            assert graph.nodes[number].name in [name for piece in on_cpu for name in piece.operations]


def test_a_hardware_file_is_a_device_as_long_as_it_is_used(tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("chips") / "my chip.toml"
    file.write_text('extends = "edge-64"')
    with model_run.acquired([str(file), "npusim_host"]) as given:
        assert [device.name for device in given] == ["my_chip", "npusim_host"]
        assert "my_chip" in nna.devices()
    assert "my_chip" not in nna.devices()


def table(made: Compilation) -> list[tuple[str, int]]:
    """The pieces: their devices, and how many operations they have."""
    return [(piece.device, len(piece.operations)) for piece in made.gears[0].pieces]


NETWORKS = {
    # The stem, then four blocks of a depthwise and another convolution; the end goes with the last.
    "ds_cnn": (13, [1, 1, 1, 5]),
    # The stem, then a depthwise convolution in each of 17 blocks, and what is between; an addition in 10 of them.
    "mobilenet_v2": (65, [2, 2, 3, 2, 3, 3, 2, 3, 3, 3, 2, 3, 3, 2, 3, 3, 5]),
}
"""How many operations a network has, and how many of them there are behind each depthwise convolution."""


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS if NIGHT else ["ds_cnn"])
def test_a_network_over_three_devices(name: str) -> None:
    """An NPU without depthwise convolutions, one without fully connected layers, and the host."""
    graph = npusim.load(name)
    operations, between = NETWORKS[name]
    alone = npusim.simulate(npusim.compile(graph), random_inputs(graph))
    with devices(lacking("depthwise_conv_2d"), lacking("fully_connected"), "npusim_host") as given:
        context = nna.Context(given)
        ordered = compiled(graph, context)
        execution = nna.Execution(ordered)
        execution.set_input(0, random_inputs(graph)[0])
        result = execution.compute()
        by_cost_ = compiled(graph, context, "cost")
    np.testing.assert_array_equal(result.outputs[0], alone.outputs[0])
    rows = [("npu_0", 1), *(row for many in between for row in (("npu_1", 1), ("npu_0", many)))]
    assert table(ordered) == rows
    assert sum(many for _, many in rows) == len(graph.nodes) == operations
    # By cost only the last layers, which the second NPU lacks, are elsewhere.
    assert table(by_cost_) == [("npu_1", operations - 2), ("npu_0", 2)]
    (gear,) = by_cost_.gears
    fastest = by_cost_.timed(gear)
    assert fastest is not None
    assert fastest.cycles < gear.by_order_cycles == result.cycles


def running_total() -> Graph:
    """The squares of all inputs so far, summed in a state and pooled."""
    codes = TensorType("int8", (1, 4, 4, 2), Quantization((0.5,), (0,)))
    builder = GraphBuilder("total")
    x, total = builder.input("x", codes), builder.state("total", codes)
    squared = builder.node("mul", [x, x], [codes], operator("mul").parameters())
    after = builder.node("add", [*squared, total], [codes], operator("add").parameters())
    builder.keep(total, *after)
    window = operator("max_pool_2d").parameters(filter=(2, 2), strides=(2, 2))
    half = TensorType("int8", (1, 2, 2, 2), codes.quantization)
    return builder.graph(builder.node("max_pool_2d", after, [half], window))


def test_a_state_goes_on_in_the_piece_that_has_it() -> None:
    graph = running_total()
    with devices("npusim", lacking("max_pool_2d"), "npusim_host") as given:
        made = compiled(graph, nna.Context(given))
        # The host updates states.
        assert pieces(made) == [("npusim", ("mul",)), ("npusim_host", ("add",)), ("npusim", ("max_pool_2d",))]
        execution, program = nna.Execution(made), npusim.compile(graph)
        for seed in range(3):
            (array,) = random_inputs(graph, seed)
            execution.set_input(0, array)
            alone = npusim.simulate(program, [array])
            np.testing.assert_array_equal(execution.compute().outputs[0], alone.outputs[0])


def test_all_in_one_call(tmp_path: Path) -> None:
    file, forced = tmp_path / "chip.toml", tmp_path / "forced.txt"
    file.write_text('extends = "edge-128"\nlacks_operators = ["add"]')
    forced.write_text("softmax")
    alone = npusim.run("digits_cnn", seed=2)
    over = nna.run(
        "digits_cnn", [str(file), "npusim_host"], seed=2, host=["max_pool_2d"], partition=["cost", forced]
    )
    np.testing.assert_array_equal(over.outputs[0], alone.outputs[0])
    on_host = {layer.op for layer in over.layers if layer.unit == "host"}
    assert on_host >= {"add", "max_pool_2d", "softmax"}
    assert nna.run("digits_cnn", ["npusim"], timing_only=True).cycles == alone.cycles


def nchw_model() -> nna.Model:
    """An image through convolution, pool, addition of both branches, and a layer that connects all; NCHW, codes."""
    generator = np.random.default_rng(5)
    codes = nna.OperandType(nna.QUANT_INT8_SYMM_PER_LAYER, scale=0.05)

    def constant(*shape: int) -> nna.Operand:
        return model.add_constant(
            generator.integers(-127, 128, shape).astype(np.int8), replace(codes, dimensions=shape)
        )

    def bias(count: int) -> nna.Operand:
        zeros = nna.OperandType(nna.QUANT_INT32_SYMM_PER_LAYER, [count], scale=0.05 * 0.05)
        return model.add_constant(np.zeros(count, np.int32), zeros)

    model = nna.Model("nchw")
    image = model.add_operand(replace(codes, dimensions=[1, 4, 8, 8]), "image")
    first = model.conv_2d(image, constant(4, 4, 3, 3), bias(4), pads=(1, 1, 1, 1), fuse_code=nna.FUSED_RELU)
    pooled = model.max_pool_2d(first, pads=(1, 1, 1, 1), kernel_shape=(3, 3), strides=(1, 1))
    both = model.add(pooled, image)
    whole = model.fully_connected(both, constant(6, 256), bias(6))
    model.identify(inputs=[image], outputs=[model.softmax(whole, axis=1), both])
    model.finish()
    return model


@pytest.mark.slow
@pytest.mark.cases(4)
@pytest.mark.parametrize("partition", ["order", "cost"])
@pytest.mark.parametrize(
    "lacks",
    [[], ["max_pool_2d"], ["conv_2d", "softmax"], ["add"], ["transpose"], ["fully_connected", "max_pool_2d"]],
)
def test_images_of_nchw_cross_between_devices(lacks: list[str], partition: str) -> None:
    model, outputs = nchw_model(), []
    image = np.random.default_rng(1).integers(-128, 128, (1, 4, 8, 8)).astype(np.int8)
    with devices(lacking(*lacks), "npusim", "npusim_host") as given:
        for members in (given[1:2], given, [given[0], given[2]]):
            made = nna.Compilation(model, nna.Context(members), partition=partition)
            made.finish()
            execution = nna.Execution(made)
            execution.set_input(0, image)
            outputs.append(execution.compute().outputs)
    for over in outputs[1:]:
        for one, other in zip(outputs[0], over, strict=True):
            np.testing.assert_array_equal(one, other)
