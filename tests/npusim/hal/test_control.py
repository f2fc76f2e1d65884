"""Executions of several programs: IF and WHILE, and operations that count their own rows."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any

import numpy as np
import pytest

import npusim.hal as hal
from npusim.hal import ErrorStatus, HalVersion, OperandLifeTime, OperandType, OperationType
from npusim.hal.launches import host_access
from npusim.isa.base.tensor import Placement, TensorType
from npusim.isa.hardware import file as hardware_file
from npusim.isa.program.executable import Executable, If, Place, link
from npusim.machine.system import execute
from tests.npusim.hal.hal_models import Maker
from tests.npusim.hal.runs import request, run, sound

T, L, O = OperandType, OperandLifeTime, OperationType  # noqa: E741


@pytest.fixture(scope="module")
def device() -> hal.Device:
    return hal.Device()


def device_hardware() -> Any:
    return hardware_file.hardware("edge-128")


# IF and WHILE


def branch(
    values: bytearray, operation: OperationType, constant: float, sizes: Sequence[int] = (2,)
) -> Maker:
    maker = Maker(values)
    x = maker.input(T.TENSOR_FLOAT32, sizes)
    c = maker.constant(T.TENSOR_FLOAT32, np.float32([constant]))
    y = maker.output(T.TENSOR_FLOAT32, sizes)
    maker.operation(operation, [x, c, maker.scalar(0)], [y])
    return maker


def choosing(condition: str, same: bool = False) -> hal.Model:
    """y = x + 1 if the condition else x * 3; the condition is given, constant or computed."""
    values = bytearray()
    graphs = [branch(values, O.ADD, 1).subgraph(), branch(values, O.MUL, 3).subgraph()]
    maker = Maker(values)
    if condition in ("True", "False"):
        holds = maker.constant(T.TENSOR_BOOL8, np.array([condition == "True"]))
    else:
        holds = maker.input(T.TENSOR_BOOL8, [1])
    x = maker.input(T.TENSOR_FLOAT32, [2])
    if condition == "computed":
        given, holds = holds, maker.operand(T.TENSOR_BOOL8, [1])
        maker.operation(O.LOGICAL_NOT, [given], [holds])
    y = maker.output(T.TENSOR_FLOAT32, [2])
    maker.operation(O.IF, [holds, maker.graph(0), maker.graph(0 if same else 1), x], [y])
    return maker.model(HalVersion.V1_3, graphs[: 1 if same else 2])


X = np.float32([2, 5])
ADDED, TRIPLED = X + 1, X * 3


@pytest.mark.parametrize("condition", ["given", "computed", "True", "False"])
@pytest.mark.parametrize("holds", [True, False])
def test_if_takes_a_branch(device: hal.Device, condition: str, holds: bool) -> None:
    fixed = condition in ("True", "False")
    inputs = [X] if fixed else [np.array([holds != (condition == "computed")]), X]
    taken = condition == "True" if fixed else holds
    got, done = run(device, choosing(condition), inputs)
    assert np.array_equal(got, ADDED if taken else TRIPLED)
    kinds = [layer.op for layer in done.run.layers]
    decided = {"given": ["decide"], "computed": ["logical_not", "decide"]}.get(condition, [])
    assert kinds == [*decided, "add" if taken else "mul"]
    sound(done.run, len(kinds))


def test_both_branches_may_be_the_same_graph(device: hal.Device) -> None:
    for holds in (True, False):
        got, _ = run(device, choosing("given", same=True), [np.array([holds]), X])
        assert np.array_equal(got, ADDED)


def test_a_decision_costs_what_one_of_an_executable_costs() -> None:
    hardware = device_hardware()
    place = Place(-1, Placement("condition", TensorType("bool", (1,)), 0, hardware.holder("activations")))
    steps = (If("if", place, (), ()),)
    program = link(Executable("if", hardware, (), steps, (), (), (), bytes(1))).programs[0]
    assert host_access(hardware, 1, "decide").execution.cycles == execute(program, data=False).cycles


def looping(sizes: Sequence[int] = (2,), grows: bool = False, nested: bool = False) -> hal.Model:
    """i, y = 0, x; while i < n: i, y = i + 1, y * 3. Its y may grow by itself, or go through a loop of its own."""
    values = bytearray()
    test = Maker(values)
    i, _, n = (
        test.input(T.TENSOR_INT32, [1]),
        test.input(T.TENSOR_FLOAT32, sizes),
        test.input(T.TENSOR_INT32, [1]),
    )
    test.operation(O.LESS, [i, n], [test.output(T.TENSOR_BOOL8, [1])])
    turn = Maker(values)
    i, y, n = (
        turn.input(T.TENSOR_INT32, [1]),
        turn.input(T.TENSOR_FLOAT32, sizes),
        turn.input(T.TENSOR_INT32, [1]),
    )
    none = turn.scalar(0)
    more, next_y = turn.output(T.TENSOR_INT32, [1]), turn.output(T.TENSOR_FLOAT32, sizes)
    turn.operation(O.ADD, [i, turn.constant(T.TENSOR_INT32, np.int32([1])), none], [more])
    if grows:
        turn.operation(O.CONCATENATION, [y, y, none], [next_y])
    elif nested:
        start = turn.constant(T.TENSOR_INT32, np.int32([0]))
        left = turn.operand(T.TENSOR_INT32, [1])
        turn.operation(O.WHILE, [turn.graph(0), turn.graph(2), start, y, i], [left, next_y])
    else:
        turn.operation(O.MUL, [y, turn.constant(T.TENSOR_FLOAT32, np.float32([3])), none], [next_y])
    graphs = [test.subgraph(), turn.subgraph()]
    if nested:
        graphs.append(looping(sizes).referenced[1])
        inner = graphs[2]
        graphs[2] = _shifted(inner, values, looping(sizes).operandValues)
    maker = Maker(values)
    zero = maker.constant(T.TENSOR_INT32, np.int32([0]))
    x, n = maker.input(T.TENSOR_FLOAT32, [2]), maker.input(T.TENSOR_INT32, [1])
    count, y = maker.operand(T.TENSOR_INT32, [1]), maker.output(T.TENSOR_FLOAT32, sizes)
    maker.operation(O.WHILE, [maker.graph(0), maker.graph(1), zero, x, n], [count, y])
    return maker.model(HalVersion.V1_3, graphs)


def _shifted(graph: hal.Subgraph, values: bytearray, memory: bytes) -> hal.Subgraph:
    """A graph of another model, its constants appended to the memory of this one."""
    for operand in graph.operands:
        if operand.lifetime == L.CONSTANT_COPY:
            operand.location.offset += len(values)
    values += memory
    return graph


@pytest.mark.parametrize("turns", [0, 1, 3])
def test_while_goes_on_as_long_as_its_condition_holds(device: hal.Device, turns: int) -> None:
    got, done = run(device, looping(), [X, np.int32([turns])])
    assert np.array_equal(got, X * 3**turns)
    decisions = [launch for launch in done.run.launches if launch.program.name == "decide"]  # type: ignore[attr-defined]
    assert len(decisions) == turns + 1


def test_every_further_turn_costs_the_same(device: hal.Device) -> None:
    cycles = [run(device, looping(), [X, np.int32([turns])])[1].run.cycles for turns in (2, 3, 4, 9)]
    assert cycles[1] - cycles[0] == cycles[2] - cycles[1] > 0
    assert cycles[3] - cycles[2] == 5 * (cycles[1] - cycles[0])


def test_layers_of_a_loop_count_all_turns(device: hal.Device) -> None:
    done = run(device, looping(), [X, np.int32([4])])[1]
    sound(done.run, len(done.run.layers))
    launched = [launch.program.name for launch in done.run.launches]  # type: ignore[attr-defined]
    assert len(done.run.layers) < len(launched)


def test_what_a_loop_carries_may_grow(device: hal.Device) -> None:
    got, _ = run(device, looping((0,), grows=True), [X, np.int32([3])])
    assert np.array_equal(got, np.tile(X, 8))


def test_loops_may_lie_inside_loops(device: hal.Device) -> None:
    """In turn i of the outer loop the inner one triples i times: 0 + 1 + 2 + 3 times in four turns."""
    got, _ = run(device, looping(nested=True), [X, np.int32([4])])
    assert np.array_equal(got, X * 3**6)


def test_a_loop_without_end_misses_its_deadline() -> None:
    device = hal.Device(max_loop_iterations=5)
    got, _ = run(device, looping(), [X, np.int32([5])])
    assert np.array_equal(got, X * 3**5)
    asked = request([X, np.int32([6])], [8])
    late = device.prepareModel(looping()).unwrap().execute(asked)
    assert (late.status, late.value) == (ErrorStatus.MISSED_DEADLINE_TRANSIENT, None)
    assert (
        late.message
        == "operations[0]: the condition of WHILE still holds after 5 iterations (max_loop_iterations)"
    )
    assert not any(asked.pools[1])


def ended(device: hal.Device, turns: int, timeout: object = None) -> hal.Result[Any]:
    asked = request([X, np.int32([turns])], [8])
    return device.prepareModel(looping()).unwrap().execute(asked, timeout)


def test_a_loop_may_take_as_long_as_its_timeout_says_and_no_longer(device: hal.Device) -> None:
    launches = run(device, looping(), [X, np.int32([3])])[1].run.launches  # type: ignore[attr-defined]
    looks = [number for number, launch in enumerate(launches) if launch.program.name == "decide"]
    cycles = sum(launch.execution.cycles for launch in launches[looks[0] + 1 : looks[-1] + 1])
    needed_ns = ceil(device_hardware().us_of_cycles(cycles) * 1000)
    assert ended(device, 3, needed_ns).status is ErrorStatus.NONE
    late = ended(device, 3, needed_ns - 1)
    assert (late.status, late.value) == (ErrorStatus.MISSED_DEADLINE_TRANSIENT, None)
    assert late.message == (
        f"operations[0]: WHILE has not ended within {(needed_ns - 1) / 1e9:g} s of simulated time "
        "(loopTimeoutDuration)"
    )
    assert ended(device, 0, 0).status is ErrorStatus.NONE  # it never turns


def test_a_loop_takes_2_s_where_nobody_says_more_and_15_s_at_most() -> None:
    """A host that takes a tenth of a second for every call."""
    hardware = device_hardware()
    slow = hardware.model_copy(update={"host": hardware.host.model_copy(update={"handover_us": 100_000.0})})
    with hal.Device(slow) as device:
        one, two = (ended(device, turns).unwrap().timing.timeOnDevice for turns in (1, 2))
        turns_in_2_s, turns_in_15_s = (int(limit // ((two - one) / 1e6)) for limit in (2, 15))
        assert turns_in_2_s > 2
        assert ended(device, turns_in_2_s).status is ErrorStatus.NONE
        assert "within 2 s of" in ended(device, turns_in_2_s + 1).message
        assert ended(device, turns_in_15_s, hal.LoopTimeoutDurationNs.MAXIMUM).status is ErrorStatus.NONE
        assert ended(device, turns_in_15_s, 10**15).status is ErrorStatus.NONE
        assert "within 15 s of" in ended(device, turns_in_15_s + 1, 10**15).message


@pytest.mark.parametrize("timeout", [-1, 1 << 64, "2 s", 1.5, True])
def test_a_timeout_is_a_whole_number_of_nanoseconds(device: hal.Device, timeout: object) -> None:
    wrong = ended(device, 1, timeout)
    assert wrong.status is ErrorStatus.INVALID_ARGUMENT
    assert wrong.message.startswith("loopTimeoutDuration: is ")


@pytest.mark.slow
def test_ten_thousand_turns_are_given_up_soon(device: hal.Device) -> None:
    import time

    begin = time.process_time()
    late = device.prepareModel(looping()).unwrap().execute(request([X, np.int32([1 << 30])], [8]))
    assert late.status is ErrorStatus.MISSED_DEADLINE_TRANSIENT
    assert time.process_time() - begin < 30


def detecting(behind: bool) -> hal.Model:
    """BOX_WITH_NMS_LIMIT of 3 boxes and 2 classes in one batch; behind it a sum over the scores that are left."""
    maker = Maker()
    scores, boxes = maker.input(T.TENSOR_FLOAT32, [3, 2]), maker.input(T.TENSOR_FLOAT32, [3, 8])
    batches = maker.constant(T.TENSOR_INT32, np.zeros(3, np.int32))
    limits = [maker.constant(T.FLOAT32, np.float32(0.3)), maker.scalar(-1), maker.scalar(0)]
    thresholds = [maker.constant(T.FLOAT32, np.float32(value)) for value in (0.4, 0.5, 0.3)]
    kept, classes, batch = (
        maker.operand(T.TENSOR_FLOAT32, [0]) if behind else maker.output(T.TENSOR_FLOAT32, [0]),
        *(maker.output(T.TENSOR_INT32, [0]) for _ in range(2)),
    )
    left = maker.output(T.TENSOR_FLOAT32, [0, 4])
    maker.operation(
        O.BOX_WITH_NMS_LIMIT,
        [scores, boxes, batches, *limits, *thresholds],
        [kept, left, classes, batch],
    )
    if behind:
        doubled = maker.output(T.TENSOR_FLOAT32, [0])
        maker.operation(O.ADD, [kept, kept, maker.scalar(0)], [doubled])
    return maker.model(HalVersion.V1_2)


APART = np.float32([[0, 0, 1, 1] * 2, [10, 10, 11, 11] * 2, [20, 20, 21, 21] * 2])


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("above", [0, 1, 3])
def test_counted_rows_are_as_many_as_are_counted(device: hal.Device, behind: bool, above: int) -> None:
    """Boxes apart from each other stay where their score is above 0.3; of nothing the sums are nothing."""
    scores = np.zeros((3, 2), np.float32)
    scores[:above, 1] = [0.9, 0.8, 0.7][:above]
    asked = request([scores, APART], [64] * 4)
    done = device.prepareModel(detecting(behind)).unwrap().execute(asked).unwrap()
    shapes = [shape.dimensions for shape in done.outputShapes]
    rows = {1: [above], 2: [above, 4]}
    assert sorted(shapes, key=len) == [rows[1]] * 3 + [rows[2]]
    first = 3 if behind else 0
    got = np.frombuffer(asked.pools[1][64 * first :][: 4 * above], np.float32)
    assert np.array_equal(got, (2 if behind else 1) * scores[:above, 1])
    kinds = [layer.op for layer in done.run.layers]
    assert kinds[:2] == ["box_with_nms_limit", "read"]
    sound(done.run, len(kinds))


def test_timing_only_counts_no_rows() -> None:
    asked = request([np.ones((3, 2), np.float32), APART], [64] * 4)
    done = hal.Device(timing_only=True).prepareModel(detecting(False)).unwrap().execute(asked)
    assert done.status is ErrorStatus.GENERAL_FAILURE
    assert done.message.startswith("operations[0]: depends on data")
