"""One registration of an operator, called by a model of every format: the same bytes, the stated cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npusim
import npusim.hal as hal
from npusim.isa.base.errors import GraphError, NpusimError, SimulationError
from npusim.isa.base.tensor import TensorType
from npusim.models.writer import ModelWriter, per_tensor
from tests.npusim.hal.hal_models import Maker

X = np.float32([[1, 2, 3], [4, 5, 6]])


def steps(inputs: Sequence[Any], attributes: dict[str, Any]) -> list[Any]:
    """The differences between neighbours, and how many there are."""
    x = np.asarray(inputs[0])
    return [x[:, 1:] - x[:, :-1]]


def shapes(given: Sequence[Any], attributes: dict[str, Any]) -> list[Any]:
    rows, columns = given[0]
    return [(rows, columns - 1)]


@pytest.fixture(autouse=True)
def _no_trace() -> Iterator[None]:
    """Whatever a test registers, the next one does not know."""
    from npusim.kernels.operator import registered

    yield
    for name in list(registered._types):
        npusim.unregister_operator(name)


def register(name: str, **more: Any) -> None:
    npusim.register_operator(name, steps, shapes, **more)


def nnef(path: Path) -> Path:
    file = path / "net.nnef"
    file.write_text(
        "version 1.0\nfragment steps( x: tensor, width: extent = 2 ) -> ( y: tensor )\n"
        "graph net( x ) -> ( z ) { x = external(shape = [2,3]) y = steps(x) z = relu(y) }"
    )
    return file


def tflite(path: Path) -> Path:
    writer = ModelWriter("own")
    x = writer.input("x", TensorType("float32", (2, 3)))
    (y,) = writer.operator_of_many(
        "CUSTOM steps", (x,), [TensorType("float32", (2, 2))], custom_options=b"\1\2"
    )
    file = path / "own.tflite"
    file.write_bytes(writer.finish([y]))
    return file


def onnx(path: Path) -> Path:
    from tests.npusim.frontends.onnx import small_models

    made = small_models.model("y = own.steps(x) width=2", {}, {"x": ("float32", (2, 3))}, ["y"])
    file = path / "own.onnx"
    file.write_bytes(made.SerializeToString())
    return file


def hal_file(path: Path) -> Path:
    maker = Maker()
    x = maker.input(hal.OperandType.TENSOR_FLOAT32, [2, 3])
    y = maker.output(hal.OperandType.TENSOR_FLOAT32, [2, 2])
    maker.operation(hal.OperationType.OEM_OPERATION, [x], [y])
    file = path / "own.hal"
    hal.save(maker.model(hal.HalVersion.V1_0), file)
    return file


def extension_file(path: Path) -> Path:
    """An operation of an extension: its number in the model has the prefix that the model gives the extension."""
    maker = Maker()
    x = maker.input(hal.OperandType.TENSOR_FLOAT32, [2, 3])
    y = maker.output(hal.OperandType.TENSOR_FLOAT32, [2, 2])
    maker.operation(7 * 65536 + 3, [x], [y])
    model = maker.model(hal.HalVersion.V1_2)
    model.extensionNameToPrefix = [hal.ExtensionNameAndPrefix("com.acme.ops", 7)]
    file = path / "extension.hal"
    hal.save(model, file)
    assert hal.load(file) == model
    return file


FORMATS = (
    (
        extension_file,
        "com.acme.ops:3",
        "npusim does not compute com.acme.ops:3; npusim.register_operator makes it known",
    ),
    (nnef, "steps", "npusim does not have the operation 'steps'; npusim.register_operator makes it known"),
    (tflite, "steps", 'not known to npusim: custom "steps" (1); npusim run --unknown host'),
    (
        onnx,
        "own.steps",
        "npusim does not have the operation; `npusim ops` lists all, npusim.register_operator",
    ),
    (
        hal_file,
        "OEM_OPERATION",
        "npusim does not compute OEM_OPERATION; npusim.register_operator makes it known",
    ),
)


@pytest.mark.parametrize(
    ("write", "name", "refusal"), FORMATS, ids=lambda part: getattr(part, "__name__", "")
)
def test_a_model_of_each_format_calls_it(write: Any, name: str, refusal: str, tmp_path: Path) -> None:
    path = write(tmp_path)
    with pytest.raises(NpusimError) as raised:
        npusim.compile(npusim.load(path))
    assert refusal in str(raised.value)
    register(name)
    result = npusim.run(path, inputs=[X])
    assert result.outputs is not None
    assert np.array_equal(result.outputs[0], np.ones((2, 2), np.float32))
    timed = npusim.run(path, timing_only=True)
    assert timed.cycles == result.cycles
    npusim.unregister_operator(name)
    with pytest.raises(NpusimError) as raised:
        npusim.run(path, inputs=[X])
    assert refusal in str(raised.value)


def test_attributes_are_those_of_the_model(tmp_path: Path) -> None:
    seen: dict[str, Any] = {}

    def compute(inputs: Sequence[Any], attributes: dict[str, Any]) -> list[Any]:
        seen.update(attributes)
        return steps(inputs, attributes)

    for write, name in ((nnef, "steps"), (onnx, "own.steps")):
        npusim.register_operator(name, compute, shapes)
        npusim.run(write(tmp_path), inputs=[X])
        assert seen == {"width": 2}
        seen.clear()
    npusim.register_operator("steps", compute, shapes)
    npusim.run(tflite(tmp_path), inputs=[X])
    assert seen == {"custom_options": [1, 2]}


def test_the_cost_is_the_one_that_is_stated(tmp_path: Path) -> None:
    """The host's cycles grow by its elementwise rate; without a cost it moves the bytes."""
    cycles = []
    for count in (0, 1_000_000, 2_000_000):
        register("steps", operations=lambda given, results, attributes, count=count: count)
        cycles.append(npusim.run(tflite(tmp_path), timing_only=True).cycles)
    none, one, two = cycles
    assert two - one == pytest.approx(one - none, abs=1)
    assert one > none
    register("steps")
    assert npusim.run(tflite(tmp_path), timing_only=True).cycles < one


def test_quantized_tensors_come_as_reals_and_results_become_codes(tmp_path: Path) -> None:
    writer = ModelWriter("codes")
    x = writer.input("x", TensorType("int8", (2, 3), per_tensor(0.5, -3)))
    (y,) = writer.operator_of_many("CUSTOM steps", (x,), [TensorType("int8", (2, 2), per_tensor(0.25, 1))])
    path = tmp_path / "codes.tflite"
    path.write_bytes(writer.finish([y]))
    register("steps")
    (output,) = npusim.run(path, inputs=[np.int8([[0, 1, 3], [0, 2, -100]])]).outputs or ()
    assert output.tolist() == [[3, 5], [5, -128]]  # 0.5 and 1, 1 and -51: (real / 0.25) + 1, within int8


def test_several_results_and_an_array_that_nothing_reads(tmp_path: Path) -> None:
    """The text's own example runs: two fragments without bodies, of which one gives an array under one name."""
    path = tmp_path / "barfoo.nnef"
    path.write_text("""version 1.0
fragment foo( input: tensor, size: extent[] = [1] ) -> ( output: tensor )
fragment bar( input: tensor, alpha: scalar = 0.5 )
-> ( output: tensor, extra: tensor[] )
graph barfoo( input ) -> ( output )
{
    input = external(shape = [1,10])
    intermediate, extra = bar(input, alpha = 2)
    output = foo(intermediate, size = [3,5])
}
""")
    npusim.register_operator(
        "bar",
        lambda inputs, attributes: [inputs[0] * attributes["alpha"]],
        lambda given, attributes: [given[0]],
    )
    npusim.register_operator(
        "foo",
        lambda inputs, attributes: [np.full(attributes["size"], inputs[0].sum(), np.float32)],
        lambda given, attributes: [attributes["size"]],
    )
    with pytest.warns(UserWarning, match="'extra' is assigned an array"):
        result = npusim.run(path, inputs=[np.ones((1, 10), np.float32)])
    assert result.outputs is not None
    assert np.array_equal(result.outputs[0], np.full((3, 5), 20, np.float32))


def test_a_device_of_the_hal_says_that_it_supports_it() -> None:
    maker = Maker()
    x = maker.input(hal.OperandType.TENSOR_OEM_BYTE, [4])
    scalar = maker.constant(hal.OperandType.OEM, np.uint8(7))
    maker.operands[scalar].dimensions = []
    y = maker.output(hal.OperandType.TENSOR_OEM_BYTE, [4])
    maker.operation(hal.OperationType.OEM_OPERATION, [x, scalar], [y])
    model = maker.model(hal.HalVersion.V1_0)
    with hal.Device() as device:
        assert device.getSupportedOperations(model).unwrap() == [False]
        refused = device.prepareModel(model)
        assert refused.status is hal.ErrorStatus.GENERAL_FAILURE
        npusim.register_operator(
            "OEM_OPERATION",
            lambda inputs, attributes: [inputs[0] + inputs[1]],
            lambda given, attributes: [given[0]],
        )
        assert device.getSupportedOperations(model).unwrap() == [True]
        output = np.zeros(4, np.uint8)
        place = hal.DataLocation(0, 0, 4)
        request = hal.Request(
            [hal.RequestArgument(location=place)],
            [hal.RequestArgument(location=hal.DataLocation(1, 0, 4))],
            [np.arange(4, dtype=np.uint8), output],
        )
        device.prepareModel(model).unwrap().execute(request).unwrap()
        assert output.tolist() == [7, 8, 9, 10]


def test_a_program_file_runs_where_the_operator_is_registered(tmp_path: Path) -> None:
    register("steps")
    npusim.save_program(npusim.compile(npusim.load(tflite(tmp_path))), tmp_path / "own.npu")
    (output,) = npusim.run(tmp_path / "own.npu", inputs=[X]).outputs or ()
    assert np.array_equal(output, np.ones((2, 2), np.float32))
    npusim.unregister_operator("steps")
    with pytest.raises(NpusimError, match=r'operator custom "steps" is not one that npusim has; register it'):
        npusim.run(tmp_path / "own.npu", inputs=[X])


WRONG: tuple[tuple[dict[str, Any], type[Exception], str], ...] = (
    (
        {"shapes": lambda given, attributes: [(2, 3)]},
        GraphError,
        r"output .* has shape \[2, 2\], \[2, 3\] by its",
    ),
    (
        {"shapes": lambda given, attributes: [(2, 2)] * 2},
        GraphError,
        "shapes gives 2 results, the model has 1",
    ),
    ({"shapes": lambda given, attributes: 1 / 0}, GraphError, "operator steps: shapes: ZeroDivisionError"),
    (
        {"compute": lambda given, attributes: 1 / 0},
        SimulationError,
        "operator steps: compute: ZeroDivisionError",
    ),
    (
        {"compute": lambda given, attributes: [X]},
        SimulationError,
        r"results have shapes \[\(2, 3\)\], must be",
    ),
    ({"operations": lambda *_: -1}, GraphError, "operations: ValueError: gives -1, must be 0 or more"),
    ({"operations": lambda *_: "many"}, GraphError, "operations: ValueError"),
)


@pytest.mark.parametrize(("wrong", "kind", "said"), WRONG)
def test_what_the_users_functions_do_wrong_is_said_in_one_line(
    wrong: dict[str, Any], kind: type[Exception], said: str, tmp_path: Path
) -> None:
    npusim.register_operator("steps", **{"compute": steps, "shapes": shapes, **wrong})
    with pytest.raises(kind, match=said) as raised:
        npusim.run(tflite(tmp_path), inputs=[X])
    assert len(str(raised.value).splitlines()) == 1
    assert len(str(raised.value)) <= 400


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("", steps, shapes), "must be a name of 1 to 80 characters"),
        ((5, steps, shapes), "must be a name"),
        (("a\nb", steps, shapes), "must be a name"),
        (("steps", None, shapes), "compute is None, must be a function"),
        (("steps", steps, [(2, 2)]), r"shapes is \[\(2, 2\)\], must be a function"),
    ],
)
def test_wrong_arguments_are_refused(arguments: tuple[Any, ...], said: str) -> None:
    with pytest.raises(NpusimError, match=said):
        npusim.register_operator(*arguments)
    with pytest.raises(NpusimError, match="operator steps: is not registered"):
        npusim.unregister_operator("steps")
