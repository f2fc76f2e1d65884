"""Executions of one program: pools, requests, sizes, arguments of the device, what runs cost."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
import pytest

import npusim
import npusim.hal as hal
from npusim.hal import ErrorStatus, HalVersion, OperandLifeTime, OperandType, OperationType
from npusim.isa.base.errors import NpusimError
from npusim.isa.hardware import file as hardware_file
from npusim.numbers.run import RunResult
from npusim.numbers.staged import StagedRun
from tests.npusim.hal.hal_models import Maker, addition, request_of
from tests.npusim.hal.runs import argument, request, run, sound

T, L, O = OperandType, OperandLifeTime, OperationType  # noqa: E741


@pytest.fixture(scope="module")
def device() -> hal.Device:
    return hal.Device()


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
    """Between other operations a reshape moves nothing; what the caller wants in another pool has to get there."""
    cycles = []
    for rows in (2, 2000):
        maker = Maker()
        x = maker.input(T.TENSOR_FLOAT32, [rows, 3])
        y = maker.output(T.TENSOR_FLOAT32, [3 * rows])
        maker.operation(O.RESHAPE, [x, maker.constant(T.TENSOR_INT32, np.int32([-1]))], [y])
        values = np.arange(3 * rows, dtype=np.float32)
        got, done = run(device, maker.model(HalVersion.V1_0), [values], room=values.nbytes)
        assert np.array_equal(got, values)
        assert [layer.op for layer in done.run.layers if layer.cycles] == ["reshape"]
        sound(done.run, 1)
        cycles.append(done.run.cycles)
    assert cycles[0] < cycles[1]


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


def test_a_device_is_busy_while_it_works() -> None:
    """An operator of our own looks at the device that computes it."""
    seen = []
    model = addition()
    model.operations[1].type = OperationType.OEM_OPERATION

    def compute(inputs: Any, attributes: Any) -> list[Any]:
        seen.append(device.getStatus())
        return [inputs[0]]

    def shapes(given: Any, attributes: Any) -> list[Any]:
        seen.append(device.getStatus())
        return [given[0]]

    npusim.register_operator("OEM_OPERATION", compute, shapes)
    try:
        with hal.Device() as device:
            prepared = device.prepareModel(model).unwrap()
            assert set(seen) == {hal.DeviceStatus.BUSY}
            assert device.getStatus() is hal.DeviceStatus.AVAILABLE
            seen.clear()
            prepared.execute(request_of(model)).unwrap()
            assert seen == [hal.DeviceStatus.BUSY]
            assert device.getStatus() is hal.DeviceStatus.AVAILABLE
    finally:
        npusim.unregister_operator("OEM_OPERATION")
