"""Executions: pools and requests, stages, IF and WHILE, what runs cost."""

from __future__ import annotations

import json
import mmap
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import npusim.hal as hal
from npusim.hal import ErrorStatus, HalVersion, OperandLifeTime, OperandType, OperationType
from npusim.hal.glue import look
from npusim.isa.base.errors import NpusimError
from npusim.isa.base.placement import Placement
from npusim.isa.base.tensor import TensorType
from npusim.isa.hardware import file as hardware_file
from npusim.isa.program.executable import Executable, If, Place, link
from npusim.machine.system import execute
from npusim.numbers.run import RunResult
from npusim.numbers.staged import StagedRun
from npusim.reports.run import html as page
from tests.npusim.hal.hal_models import Maker, addition

T, L, O = OperandType, OperandLifeTime, OperationType  # noqa: E741
Arrays = Sequence[np.ndarray[Any, Any]]


@pytest.fixture(scope="module")
def device() -> hal.Device:
    return hal.Device()


def argument(offset: int, length: int, pool: int = 0, dimensions: Sequence[int] = ()) -> hal.RequestArgument:
    return hal.RequestArgument(location=hal.DataLocation(pool, offset, length), dimensions=list(dimensions))


def request(inputs: Arrays, sizes: Sequence[int], *, shapes: bool = False) -> hal.Request:
    """Inputs one behind the other in pool 0, outputs of so many bytes in pool 1."""
    given, arguments = bytearray(), []
    for value in inputs:
        dimensions = value.shape if shapes else ()
        arguments.append(argument(len(given), value.nbytes, dimensions=dimensions))
        given += value.tobytes()
    starts = [sum(sizes[:position]) for position in range(len(sizes))]
    outputs = [argument(start, size, 1) for start, size in zip(starts, sizes, strict=True)]
    return hal.Request(arguments, outputs, [given, bytearray(sum(sizes))])


def run(
    device: hal.Device,
    model: hal.Model,
    inputs: Arrays,
    dtype: Any = np.float32,
    room: int = 400,
    **how: bool,
) -> tuple[np.ndarray[Any, Any], hal.Execution]:
    """The first output of a model of one output, and the execution."""
    asked = request(inputs, [room], **how)
    done = device.prepareModel(model).unwrap().execute(asked).unwrap()
    (shape,) = done.outputShapes
    size = int(np.prod(shape.dimensions)) * np.dtype(dtype).itemsize
    return np.frombuffer(bytes(asked.pools[1][:size]), dtype).reshape(shape.dimensions), done


def sound(run: RunResult, count: int) -> None:
    """Layers, losses and energy of a run add up, and its JSON and page can be made."""
    assert len(run.layers) == count
    assert sum(layer.cycles for layer in run.layers) == run.cycles > 0
    assert sum(layer.energy_uj for layer in run.layers) == pytest.approx(float(run.energy_uj))
    for account in (run.accounts.network, *run.accounts.layers):
        assert account.cycles == account.bound.cycles + sum(account.lost.values())
    assert run.accounts.network.cycles == run.cycles
    assert json.loads(json.dumps(run.to_dict()))["cycles"]["total"] == run.cycles
    assert "<html" in page.render(run)


# Requests


def test_one_program_is_an_ordinary_run(device: hal.Device) -> None:
    values = np.arange(6, dtype=np.uint8)
    got, done = run(device, addition(), [values], np.uint8, 6)
    assert got.tolist() == [[0] * 3] * 2  # below what there is: x - 2 * 127
    assert type(done.run) is RunResult
    assert [layer.op for layer in done.run.layers] == ["add", "add"]
    assert done.run.outputs[0].tobytes() == got.tobytes()
    sound(done.run, 2)
    clock = device_hardware().clock_mhz
    assert done.timing.timeOnDevice == -(-done.run.cycles // clock)
    assert done.timing.timeInDriver == np.ceil(done.run.cycles / clock + 20)


def device_hardware() -> Any:
    return hardware_file.hardware("edge-128")


@pytest.mark.parametrize("kind", ["bytearray", "mmap", "int16", "float64", "view"])
def test_a_pool_is_any_buffer(device: hal.Device, kind: str) -> None:
    pools: dict[str, Any] = {
        "bytearray": bytearray(64),
        "mmap": mmap.mmap(-1, 64),
        "int16": np.zeros((8, 4), np.int16),
        "float64": np.zeros(8),
        "view": memoryview(bytearray(64)),
    }
    pool = pools[kind]
    raw = np.frombuffer(pool, np.uint8)
    raw[:] = 7
    raw[3:9] = np.arange(250, 256)
    asked = hal.Request([argument(3, 6)], [argument(33, 8)], [pool])
    done = device.prepareModel(addition()).unwrap().execute(asked)
    assert done.status is ErrorStatus.NONE
    expected = [7] * 64
    expected[3:9] = range(250, 256)
    expected[33:39] = [0, 0, 0, 0, 0, 1]  # 255 + 2 * (1 - 128)
    assert raw.tolist() == expected
    del raw


def test_a_short_output_leaves_everything_as_it_is(device: hal.Device) -> None:
    asked = request([np.full(6, 255, np.uint8)], [5])
    asked.pools[1][:] = b"\x55" * 5
    done = device.prepareModel(addition()).unwrap().execute(asked)
    assert done.status is ErrorStatus.OUTPUT_INSUFFICIENT_SIZE
    assert done.message == "outputs[0].location.length: is 5, the output [2, 3] has 6 bytes"
    assert done.value.outputShapes == [hal.OutputShape([2, 3], False)]
    assert done.value.run.cycles > 0
    assert asked.pools[1] == b"\x55" * 5


def test_a_wrong_request_writes_nothing(device: hal.Device) -> None:
    asked = request([np.full(6, 255, np.uint8)], [6])
    asked.outputs[0].dimensions = [3, 2]
    asked.pools[1][:] = b"\x55" * 6
    done = device.prepareModel(addition()).unwrap().execute(asked)
    assert (done.status, done.value) == (ErrorStatus.INVALID_ARGUMENT, None)
    assert done.message.startswith("outputs[0].dimensions")
    assert asked.pools[1] == b"\x55" * 6


def test_equal_requests_give_equal_bytes_whatever_ran_before(device: hal.Device) -> None:
    one = device.prepareModel(addition()).unwrap()
    other = device.prepareModel(addition(HalVersion.V1_2)).unwrap()
    first, second = (request([np.full(6, value, np.uint8)], [6]) for value in (255, 254))
    runs = []
    for prepared, asked in ((one, first), (other, second), (one, second), (one, first), (other, first)):
        asked.pools[1][:] = bytes(6)
        runs.append((prepared.execute(asked).unwrap(), bytes(asked.pools[1])))
    assert [written for _, written in runs] == [b"\1" * 6, b"\0" * 6, b"\0" * 6, b"\1" * 6, b"\1" * 6]
    assert len({done.run.cycles for done, _ in runs}) == 1
    assert len({float(done.run.energy_uj) for done, _ in runs}) == 1


def test_what_ran_before_it_was_asked_for_counts_the_same(device: hal.Device) -> None:
    """The first launch is the machine's, later ones take its timeline: two prepared models agree about it."""
    asked = request([np.full(6, 255, np.uint8)], [6])
    first = device.prepareModel(addition()).unwrap()
    again = [first.execute(asked).unwrap().run.to_dict() for _ in range(2)]
    alone = device.prepareModel(addition()).unwrap().execute(asked).unwrap().run.to_dict()
    assert [part | {"wall_s": 0} for part in again] == [alone | {"wall_s": 0}] * 2


def test_closed_devices_do_nothing() -> None:
    with hal.Device() as device:
        prepared = device.prepareModel(addition()).unwrap()
        assert device.getStatus() is hal.DeviceStatus.AVAILABLE
    assert device.getStatus() is hal.DeviceStatus.OFFLINE
    results: list[Any] = [
        device.getCapabilities(),
        device.prepareModel(addition()),
        prepared.execute(request([np.zeros(6, np.uint8)], [6])),
    ]
    for result in results:
        assert (result.status, result.value) == (ErrorStatus.DEVICE_UNAVAILABLE, None)
    supported = device.getSupportedOperations(addition())
    assert (supported.status, supported.value) == (ErrorStatus.DEVICE_UNAVAILABLE, [])
    with pytest.raises(hal.HalError, match="closed"):
        supported.unwrap()


# Sizes


def sized(version: HalVersion = HalVersion.V1_2, rank: int | None = 2) -> hal.Model:
    """y = x + x with open sizes."""
    maker = Maker()
    open_sizes = [] if rank is None else [0] * rank
    x = maker.input(T.TENSOR_FLOAT32, open_sizes)
    none = maker.scalar(0)
    y = maker.output(T.TENSOR_FLOAT32, open_sizes)
    maker.operation(O.ADD, [x, x, none], [y])
    return maker.model(version)


@pytest.mark.parametrize("rank", [2, None])
def test_one_prepared_model_takes_many_sizes(device: hal.Device, rank: int | None) -> None:
    prepared = device.prepareModel(sized(rank=rank)).unwrap()
    for shape in ((2, 3), (4, 5), (2, 3)):
        values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        asked = request([values], [100], shapes=True)
        done = prepared.execute(asked).unwrap()
        assert done.outputShapes == [hal.OutputShape(list(shape), True)]
        assert np.array_equal(np.frombuffer(asked.pools[1], np.float32)[: values.size], 2 * values.ravel())
    missing = prepared.execute(request([values], [100]))
    assert missing.status is ErrorStatus.INVALID_ARGUMENT
    assert missing.message.startswith("inputs[0]")


def reshaping(computed: bool) -> hal.Model:
    """A reshape by a tensor that the request gives, or that is computed of it; then x + x."""
    maker = Maker()
    x = maker.input(T.TENSOR_FLOAT32, [6])
    shape = maker.input(T.TENSOR_INT32, [2])
    none = maker.scalar(0)
    if computed:
        target = maker.operand(T.TENSOR_INT32, [2])
        maker.operation(O.ADD, [shape, maker.constant(T.TENSOR_INT32, np.int32([1, 1])), none], [target])
        shape = target
    doubled = maker.operand(T.TENSOR_FLOAT32, [6])
    maker.operation(O.ADD, [x, x, none], [doubled])
    folded = maker.operand(T.TENSOR_FLOAT32, [0, 0])
    maker.operation(O.RESHAPE, [doubled, shape], [folded])
    y = maker.output(T.TENSOR_FLOAT32, [0, 0])
    maker.operation(O.ADD, [folded, x_row(maker), none], [y])
    return maker.model(HalVersion.V1_3)


def x_row(maker: Maker) -> int:
    return maker.constant(T.TENSOR_FLOAT32, np.float32([0.5]))


def test_values_of_the_request_say_sizes(device: hal.Device) -> None:
    """What the request gives is known before anything runs: one program."""
    x = np.arange(6, dtype=np.float32)
    for shape in ((2, 3), (3, 2), (-1, 6)):
        got, done = run(device, reshaping(False), [x, np.int32(shape)])
        assert np.array_equal(got, (2 * x + 0.5).reshape(shape))
        assert type(done.run) is RunResult
    wrong = device.prepareModel(reshaping(False)).unwrap().execute(request([x, np.int32([4, 2])], [24]))
    assert wrong.status is ErrorStatus.INVALID_ARGUMENT
    assert wrong.message.startswith("operations[1]")


def test_computed_values_that_say_sizes_cut_the_model(device: hal.Device) -> None:
    """The sums, a look of the host, a copy of what the second program reads, the rest."""
    x = np.arange(6, dtype=np.float32)
    got, done = run(device, reshaping(True), [x, np.int32([1, 2])])
    assert np.array_equal(got, (2 * x + 0.5).reshape(2, 3))
    assert isinstance(done.run, StagedRun)
    assert [layer.op for layer in done.run.layers] == ["add", "add", "read", "transfer", "reshape", "add"]
    assert done.run.cycles == sum(launch.execution.cycles for launch in done.run.launches)
    sound(done.run, 6)


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
    assert look(hardware, 1, "decide").execution.cycles == execute(program, data=False).cycles


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


def test_ten_thousand_turns_are_given_up_soon(device: hal.Device) -> None:
    import time

    begin = time.process_time()
    late = device.prepareModel(looping()).unwrap().execute(request([X, np.int32([1 << 30])], [8]))
    assert late.status is ErrorStatus.MISSED_DEADLINE_TRANSIENT
    assert time.process_time() - begin < 30


# Without data


def test_timing_only_costs_the_same_and_writes_nothing(device: hal.Device) -> None:
    timed = hal.Device(timing_only=True)
    inputs = [np.arange(6, dtype=np.float32), np.int32([2, 3])]
    asked = request(inputs, [24])
    done = timed.prepareModel(reshaping(False)).unwrap().execute(asked).unwrap()
    assert done.run.cycles == run(device, reshaping(False), inputs)[1].run.cycles
    assert done.outputShapes == [hal.OutputShape([2, 3], True)]
    assert done.run.outputs == []
    assert not any(asked.pools[1])


def test_timing_only_says_what_it_would_have_to_compute() -> None:
    timed = hal.Device(timing_only=True)
    asked = request([np.arange(6, dtype=np.float32), np.int32([1, 2])], [24])
    done = timed.prepareModel(reshaping(True)).unwrap().execute(asked)
    assert (done.status, done.value) == (ErrorStatus.GENERAL_FAILURE, None)
    assert done.message.startswith("operations[2]: depends on data")


def test_data_that_an_operation_refuses_is_a_failure_with_its_place(device: hal.Device) -> None:
    maker = Maker()
    indices, values = maker.input(T.TENSOR_INT32, [2]), maker.input(T.TENSOR_FLOAT32, [3, 2])
    y = maker.output(T.TENSOR_FLOAT32, [2, 2])
    maker.operation(O.EMBEDDING_LOOKUP, [indices, values], [y])
    prepared = device.prepareModel(maker.model(HalVersion.V1_0)).unwrap()
    table = np.arange(6, dtype=np.float32).reshape(3, 2)
    asked = request([np.int32([2, 0]), table], [16])
    assert prepared.execute(asked).status is ErrorStatus.NONE
    assert np.frombuffer(asked.pools[1], np.float32).tolist() == [4, 5, 0, 1]
    wrong = prepared.execute(request([np.int32([2, 3]), table], [16]))
    assert (wrong.status, wrong.value) == (ErrorStatus.GENERAL_FAILURE, None)
    assert wrong.message.startswith("operations[0]: ")


def test_an_output_with_the_bytes_of_an_input_is_copied(device: hal.Device) -> None:
    """Inside a program a reshape moves nothing; what the caller wants in another pool has to get there."""
    cycles = []
    for rows in (2, 2000):
        maker = Maker()
        x = maker.input(T.TENSOR_FLOAT32, [rows, 3])
        y = maker.output(T.TENSOR_FLOAT32, [3 * rows])
        maker.operation(O.RESHAPE, [x, maker.constant(T.TENSOR_INT32, np.int32([-1]))], [y])
        values = np.arange(3 * rows, dtype=np.float32)
        got, done = run(device, maker.model(HalVersion.V1_0), [values], room=values.nbytes)
        assert np.array_equal(got, values)
        assert [layer.op for layer in done.run.layers if layer.cycles] == ["transfer"]
        sound(done.run, 2)
        cycles.append(done.run.cycles)
    assert cycles[0] < cycles[1]


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


@pytest.mark.parametrize("name", ["ADD", "add"])
def test_operations_go_to_the_host_by_name(device: hal.Device, name: str) -> None:
    asked = [np.full(6, 255, np.uint8)]
    got, done = run(hal.Device(host=(name,)), addition(), asked, np.uint8, 6)
    assert [(layer.op, layer.unit) for layer in done.run.layers] == [("add", "host")] * 2
    assert np.array_equal(got, run(device, addition(), asked, np.uint8, 6)[0])
    other = hal.Device(host=("SOFTMAX",))  # which the model does not have
    assert (
        run(other, addition(), asked, np.uint8, 6)[1].run.cycles
        == run(device, addition(), asked, np.uint8, 6)[1].run.cycles
    )


def test_wrong_arguments_of_a_device_are_refused() -> None:
    for arguments, text in (
        ({"hw": "edge-12"}, "edge-12"),
        ({"host": ("SOFTMOX",)}, "did you mean SOFTMAX"),
        ({"partition": "no_such_file.txt"}, "no_such_file.txt"),
        ({"max_loop_iterations": -1}, "0 or more"),
        ({"host": 3}, "must be names of operations"),
        ({"host": None}, "must be names of operations"),
        ({"partition": 3}, "must be the path of a file"),
        ({"timing_only": 1}, "True or False"),
    ):
        with pytest.raises(NpusimError, match=text):
            hal.Device(**arguments)  # type: ignore[arg-type]
