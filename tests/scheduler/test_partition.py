"""Graphs that decide: what becomes of them, that they compute what they say, and what that costs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import npusim
from npusim.isa.base.errors import GraphError, NpusimError, ProgramError, SimulationError
from npusim.isa.base.tensor import TensorType
from npusim.isa.hardware.file import from_dict, to_dict
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.program.executable import Executable, If, Launch, Transfer, While, walk
from npusim.isa.program.program import Program
from npusim.kernels.graph.builder import GraphBuilder
from npusim.kernels.graph.graph import Graph
from npusim.kernels.graph.reference import evaluate
from npusim.kernels.operator.parameters import NONE, Activated, Parameters
from npusim.kernels.operators.movement.joining import ConcatenationParameters
from npusim.kernels.operators.movement.slicing import SliceParameters
from npusim.numbers.job import JobResult
from npusim.session.api import compile_program

from ..kernels.test_control import CODES, FLAG, FLAGS, TURNS, X, branch, decision, loop, loop_test

HELD = np.arange(10) < TURNS
"""Flags with which `loop` takes so many turns."""


class Sketch:
    """A graph under construction: codes and flags, and what can be done with them."""

    def __init__(self, name: str, *inputs: TensorType) -> None:
        self.builder = GraphBuilder(name)
        for number, kind in enumerate(inputs):
            self.builder.input(f"{name} in{number}", kind)

    def tensor(self, kind: TensorType, data: np.ndarray | None = None) -> int:
        return self.builder.tensor(f"{self.builder.name} t{len(self.builder.tensors)}", kind, data)

    def node(
        self,
        op: str,
        inputs: list[int],
        kinds: list[TensorType],
        *bodies: Graph,
        parameters: Parameters = NONE,
    ) -> list[int]:
        outputs = [self.tensor(kind) for kind in kinds]
        name = f"{op}{len(self.builder.nodes)}"
        self.builder.add(op, inputs, outputs, parameters, name=name, bodies=bodies)
        return outputs

    def add(self, a: int, b: int) -> int:
        return self.node("add", [a, b], [CODES], parameters=Activated())[0]

    def codes(self, value: int) -> int:
        return self.tensor(CODES, np.full((1, 4), value, np.int8))

    def flag(self, flags: int, position: int) -> int:
        return self.node("slice", [flags], [FLAG], parameters=SliceParameters(begin=(position,), size=(1,)))[
            0
        ]

    def shifted(self, flags: int) -> int:
        """The flags one place further, the last one not set."""
        others = self.node(
            "slice", [flags], [replace(FLAGS, shape=(9,))], parameters=SliceParameters(begin=(1,), size=(9,))
        )[0]
        last = self.tensor(FLAG, np.zeros(1, bool))
        return self.node(
            "concatenation", [others, last], [FLAGS], parameters=ConcatenationParameters(axis=0)
        )[0]

    def graph(self, *outputs: int) -> Graph:
        return self.builder.graph(outputs)


def run(graph: Graph, inputs: list[np.ndarray], hw: Hardware | str = "edge-128") -> JobResult:
    """Compiled and simulated; the bytes are those of the reference, the sums those of the launches."""
    made = npusim.compile(graph, hw)
    assert isinstance(made, Executable)
    result = npusim.simulate(made, inputs)  # type: ignore[call-overload]
    values = evaluate(graph, inputs)
    for found, number in zip(result.outputs, graph.outputs, strict=True):
        np.testing.assert_array_equal(found, values[number])
    launches = [result.launch(number) for number in range(len(result.run.parts))]
    assert result.cycles == sum(launch.cycles for launch in launches)
    assert result.energy_uj == pytest.approx(sum(launch.energy_uj for launch in launches))
    assert result.macs == sum(launch.macs for launch in launches)
    for name in ("read", "write", "instructions"):
        total = sum(getattr(launch.dram_bytes, name) for launch in launches)
        assert getattr(result.dram_bytes, name) == total
    assert sum(program.launches for program in result.programs) == len(launches)
    assert sum(program.energy_uj for program in result.programs) == pytest.approx(result.energy_uj)
    timed = npusim.simulate(made, timing_only=True, decisions=dict(result.decisions))
    if len(dict(result.decisions)) == len(result.decisions):  # each decided once: as often as is said
        assert (timed.cycles, timed.energy_uj, timed.decisions) == (
            result.cycles,
            result.energy_uj,
            result.decisions,
        )
        assert timed.assumed
        assert not timed.outputs
        assert not result.assumed
    return result


def test_a_graph_that_decides_nothing_is_one_program() -> None:
    graph = branch("relu")
    made = npusim.compile(graph)
    assert isinstance(made, Program)
    with pytest.raises(GraphError, match="decides, so the model is several programs"):
        compile_program(loop())


def test_a_while_of_seven_turns() -> None:
    result = run(loop(), [X, HELD])
    assert result.decisions == (("net/loop", TURNS),)
    launches = {program.name: program.launches for program in result.programs}
    assert launches["net/loop/test/0"] == launches["net/loop"] == TURNS + 1
    assert launches["net/loop/turn/0"] == TURNS
    # What a launch takes does not depend on the turn, so the whole is terms times how often.
    cycles = {program.name: program.cycles // program.launches for program in result.programs}
    assert result.cycles == (
        cycles["net/loop/operands"]
        + (TURNS + 1) * (cycles["net/loop/test/0"] + cycles["net/loop"])
        + TURNS
        * (cycles["net/loop/turn/0/operands"] + cycles["net/loop/turn/0"] + cycles["net/loop/turn/results"])
    )


def with_memory(*holds: str) -> Hardware:
    """edge-128 with one more memory, on the chip."""
    further = {
        "name": "sram",
        "kind": "sram",
        "size_kib": 512,
        "bandwidth_gb_per_s": 8.0,
        "holds": list(holds),
    }
    return from_dict(to_dict(npusim.hardware("edge-128")) | {"memory": [further]})


@pytest.mark.parametrize(
    "holds",
    [("constants",), ("io",), ("activations",), ("code",), ("constants", "code", "activations", "io")],
    ids=lambda holds: holds[0] if len(holds) == 1 else "all",
)
def test_windows_lie_in_every_memory(holds: tuple[str, ...]) -> None:
    result = run(loop(), [X, HELD], with_memory(*holds))
    plain = run(loop(), [X, HELD])
    assert result.outputs[0].tolist() == plain.outputs[0].tolist()
    if len(holds) > 1:  # nothing is left for the DRAM
        assert (result.dram_bytes.read, result.dram_bytes.write, result.dram_bytes.instructions) == (0, 0, 0)
        assert result.cycles < plain.cycles


def test_what_programs_hand_on_cannot_lie_in_the_scratchpad() -> None:
    hardware = to_dict(npusim.hardware("edge-128"))
    hardware["scratchpad"]["holds"] = ["io"]
    with pytest.raises(
        ProgramError,
        match=r'^net: outputs: tensor "x" lies in the scratchpad, which 2 programs share; '
        r"let another memory hold io$",
    ):
        run(loop(), [X, HELD], from_dict(hardware))


def test_carried_values_are_copied_no_more_than_needed() -> None:
    made = npusim.compile(loop())
    assert isinstance(made, Executable)
    found = next(step for step in made.steps if isinstance(step, While))
    # The test reads the flags where they are carried; the turn reads x there, and is handed the flags.
    assert [type(step) for step in found.test] == [Launch]
    assert [type(step) for step in found.body] == [Transfer, Launch, Transfer]
    handed, _, results = found.body
    assert isinstance(handed, Transfer)
    assert isinstance(results, Transfer)
    assert [source.tensor.name for source, _ in handed.moves] == ["flags"]
    assert [source.tensor.name for source, _ in results.moves] == ["sum", "moved"]


@pytest.mark.parametrize("flag", [True, False])
def test_both_branches_of_an_if(flag: bool) -> None:
    result = run(decision(), [np.array([flag]), X])
    assert result.decisions == (("net/choose", int(flag)),)


def test_before_between_and_after() -> None:
    # A program, a loop, a program, a choice, a program; constants as operands of both.
    made = Sketch("net", CODES, FLAGS)
    double = made.add(0, 0)
    y, rest = made.node("while", [double, 1], [CODES, FLAGS], *loop().nodes[0].bodies)
    z = made.add(y, double)
    _, flags = made.node(
        "while", [made.codes(3), made.tensor(FLAGS, HELD)], [CODES, FLAGS], *loop().nodes[0].bodies
    )
    chosen = made.node("if", [made.flag(flags, 0), z], [CODES], branch("relu"), branch("relu6"))[0]
    graph = made.graph(made.add(chosen, z), rest, z)
    result = run(graph, [X, HELD])
    executable = result.executable
    assert len(executable.programs) == 4 + 2 * 2 + 2
    assert [step.name for step in walk(executable.steps) if isinstance(step, If | While)] == [
        "net/while1",
        "net/while3",
        "net/if5",
    ]


def test_carried_values_that_change_places() -> None:
    # (a, b, flags) -> (b, a + b, flags further): what would be overwritten is put aside.
    turn = Sketch("turn", CODES, CODES, FLAGS)
    turned = turn.graph(1, turn.add(0, 1), turn.shifted(2))
    test = Sketch("test", CODES, CODES, FLAGS)
    tested = test.graph(test.flag(2, 0))
    made = Sketch("net", CODES, CODES, FLAGS)
    a, b, _ = made.node("while", [0, 1, 2], [CODES, CODES, FLAGS], tested, turned)
    swapped = Sketch("swap", CODES, CODES, FLAGS)
    swap = swapped.graph(1, 0, swapped.shifted(2))
    c, d, _ = made.node("while", [a, b, 2], [CODES, CODES, FLAGS], tested, swap)
    result = run(made.graph(a, b, c, d), [X, X // 3, HELD])
    assert "net/while1/turn/results/aside" in {program.name for program in result.programs}


def body(generator: np.random.Generator, depth: int, name: str) -> Graph:
    """A random graph of two codes and flags to two codes."""
    made = Sketch(name, CODES, CODES, FLAGS)
    values = [0, 1, made.codes(int(generator.integers(-9, 9)))]
    for number in range(int(generator.integers(1, 4))):
        kind = generator.integers(4) if depth else 0
        a, b = (int(value) for value in generator.choice(values, 2))
        inner = f"{name}.{number}"
        if kind < 2:
            values.append(made.add(a, b))
        elif kind == 2:
            bodies = (body(generator, depth - 1, f"{inner}t"), body(generator, depth - 1, f"{inner}o"))
            flag = made.flag(2, int(generator.integers(10)))
            values += made.node("if", [flag, a, b, 2], [CODES, CODES], *bodies)
        else:
            turn = body(generator, depth - 1, f"{inner}b")
            moved = Sketch(turn.name)
            moved.builder.tensors += turn.tensors
            moved.builder.nodes += turn.nodes
            moved.builder.inputs += turn.inputs
            whole = moved.graph(*turn.outputs, moved.shifted(2))
            test = Sketch(f"{inner}c", CODES, CODES, FLAGS)
            tested = test.graph(test.flag(2, 0))
            a, b, _ = made.node("while", [a, b, 2], [CODES, CODES, FLAGS], tested, whole)
            values += [a, b]
    first, second = (int(value) for value in generator.choice(values, 2))
    return made.graph(first, second)


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs_that_decide(seed: int) -> None:
    generator = np.random.default_rng(seed)
    graph = body(generator, 2, "net")
    while not any(node.bodies for node in graph.nodes):
        graph = body(generator, 2, "net")
    inputs = [generator.integers(-50, 50, (1, 4)).astype(np.int8) for _ in range(2)]
    run(graph, [*inputs, np.arange(10) < generator.integers(0, 4)])


def test_without_data_decisions_must_be_said() -> None:
    made = npusim.compile(loop())
    with pytest.raises(
        SimulationError, match=r'^net: what "net/loop" decides depends on data; without data, '
    ):
        npusim.simulate(made, timing_only=True)
    cycles = [
        npusim.simulate(made, timing_only=True, decisions={"net/loop": turns}).cycles for turns in range(3)
    ]
    assert cycles[2] - cycles[1] == cycles[1] - cycles[0] > 0


def test_a_state_stays_on_one_side_of_a_decision() -> None:
    made = Sketch("net", CODES, FLAGS)
    state = made.tensor(CODES)
    before = made.add(0, state)
    y, _ = made.node("while", [before, 1], [CODES, FLAGS], *loop().nodes[0].bodies)
    after = made.add(y, 0)
    made.builder.keep(state, after)
    with pytest.raises(
        GraphError,
        match=r'^net: state "net t2" is read on one side of a layer that decides, and updated on the other$',
    ):
        npusim.compile(made.graph(y, after))


def test_what_is_for_programs_only_says_so(tmp_path: object) -> None:
    with pytest.raises(NpusimError, match="decides"):
        npusim.save_program(npusim.compile(loop()), f"{tmp_path}/loop.npu")  # type: ignore[arg-type]


def test_unknown_operators_of_all_parts_are_named_at_once_or_timed() -> None:
    turn = Sketch("turn", CODES, FLAGS)
    turned = turn.graph(turn.node("rfft2d", [turn.add(0, 0)], [CODES])[0], turn.shifted(1))
    test = Sketch("test", CODES, FLAGS)
    made = Sketch("net", CODES, FLAGS)
    y, _ = made.node(
        "while", [made.node("where", [0], [CODES])[0], 1], [CODES, FLAGS], test.graph(test.flag(1, 0)), turned
    )
    graph = made.graph(made.add(y, y))
    with pytest.raises(
        GraphError,
        match=r"^net: 2 operators are not known to npusim: "
        r"RFFT2D \(1\), WHERE \(1\); npusim run --unknown host times them ",
    ):
        npusim.compile(graph)
    timed = npusim.compile(graph, unknown="host")
    result = npusim.simulate(timed, decisions={"net/while1": 2})
    assert result.decisions == (("net/while1", 2),)
    assert not result.outputs
    with pytest.raises(
        NpusimError, match=r"are timed only, there are no outputs, so inputs cannot be given$"
    ):
        npusim.simulate(timed, [X, HELD])


def test_the_test_of_a_loop_is_a_graph_too() -> None:
    # The condition is an input of the test itself: nothing computes it.
    test = Sketch("test", CODES, FLAG)
    turn = Sketch("turn", CODES, FLAG)
    turned = turn.graph(turn.add(0, 0), turn.tensor(FLAG, np.zeros(1, bool)))
    made = Sketch("net", CODES, FLAG)
    y, _ = made.node("while", [0, 1], [CODES, FLAG], test.graph(1), turned)
    for flag in (True, False):
        assert run(made.graph(y), [X, np.array([flag])]).decisions == (("net/while0", int(flag)),)
    assert loop_test().outputs != test.graph(1).outputs
