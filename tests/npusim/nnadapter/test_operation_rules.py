"""What the document says of operations beside their arithmetic: types per channel, optional outputs, shapes, limits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import npusim
from npusim import nnadapter as nna
from npusim.nnadapter import c


@pytest.mark.parametrize("device", ["npusim", "npusim_host", "builtin_device"])
def test_codes_with_a_scale_and_a_zero_point_per_channel(device: str) -> None:
    """QUANTIZE gives them, DEQUANTIZE takes them; other operations compute on what they stand for."""
    x = np.arange(12, dtype=np.float32).reshape(1, 3, 2, 2) / 2
    model = nna.Model()
    image = model.add_operand(nna.OperandType(nna.FLOAT32, x.shape))
    codes = model.quantize(image, axis=1, scale=[0.5, 0.25, 0.1], zero_point=[3, 4, 200])
    assert codes.type.precision == nna.QUANT_UINT8_ASYMM_PER_CHANNEL == 33
    assert (codes.type.zero_points, codes.type.channel_dim) == ((3, 4, 200), 1)
    kind = codes.type.copy()
    given = model.add_operand(kind)
    results = (codes, model.dequantize(codes), model.dequantize(given))
    model.identify([image, given], results)
    model.finish()
    with nna.Context([nna.Device.acquire(device)]) as context:
        compilation = nna.Compilation(model, context)
        compilation.finish()
        assert compilation.inputs[1].quantization == kind.quantization
        execution = nna.Execution(compilation)
        scales = np.array([0.5, 0.25, 0.1], np.float32).reshape(1, 3, 1, 1)
        zeros = np.array([3, 4, 200]).reshape(1, 3, 1, 1)
        wanted = np.clip(np.round(x / scales) + zeros, 0, 255).astype(np.uint8)
        execution.set_input(0, x)
        execution.set_input(1, wanted)
        outputs = execution.compute().outputs
    assert outputs[0].tobytes() == wanted.tobytes()
    for output in outputs[1:]:
        np.testing.assert_array_equal(output, (wanted.astype(np.float32) - zeros.astype(np.float32)) * scales)


def test_zero_points_per_channel_are_as_many_as_scales() -> None:
    def kind(zero_points: list[int] | None, precision: int = nna.QUANT_UINT8_ASYMM_PER_CHANNEL) -> None:
        scaling = {"scales": [0.5, 0.25], "channel_dim": 0, "zero_points": zero_points}
        nna.Model().add_operand(nna.OperandType(precision, [2, 3], **scaling))

    kind([1, 255])
    kind(None)
    for zero_points, sentence in (
        ([1], "has 1 zero points, must have 2, one for each scale"),
        ([1, 256], r"zero_points\[1\]: is 256, must be 0..255"),
    ):
        with pytest.raises(nna.InvalidParameter, match=sentence):
            kind(zero_points)
    with pytest.raises(
        nna.InvalidParameter, match=r"zero_points: is .*, QUANT_INT8_SYMM_PER_CHANNEL has none"
    ):
        kind([0, 0], nna.QUANT_INT8_SYMM_PER_CHANNEL)


@pytest.mark.parametrize("name", ["max_pool_2d", "adaptive_max_pool_2d"])
def test_a_pool_that_returns_indices_has_two_outputs(name: str) -> None:
    x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    model = nna.Model()
    image = model.add_operand(nna.OperandType(nna.FLOAT32, x.shape))
    size = {"kernel_shape": [2, 2], "strides": [2, 2]} if name == "max_pool_2d" else {"output_shape": [2, 2]}
    how = {**size, "return_indices_dtype": nna.INT64}
    largest, indices = getattr(model, name)(image, **how, return_indices=True)
    alone = getattr(model, name)(image, **how)
    assert indices.type.precision == nna.INT64
    model.identify([image], [largest, indices, alone])
    model.finish()
    with nna.Context([nna.Device.acquire("npusim_host")]) as context:
        compilation = nna.Compilation(model, context)
        compilation.finish()
        execution = nna.Execution(compilation)
        execution.set_input(0, x)
        outputs = execution.compute().outputs
    assert [output.reshape(-1).tolist() for output in outputs] == [[5, 7, 13, 15]] * 3
    more = nna.Model()
    image = more.add_operand(nna.OperandType(nna.FLOAT32, x.shape))
    places = [more.add_operand(nna.OperandType(nna.FLOAT32)), more.add_operand(nna.OperandType(nna.INT64))]
    with pytest.raises(nna.InvalidParameter, match="output for indices, and return_indices is false"):
        getattr(more, name)(image, **how, outputs=places)


X = np.zeros((1, 3, 2, 2), np.float32)


@pytest.mark.parametrize(
    ("name", "arguments", "sentence"),
    [
        ("prelu", [np.ones(1, np.float32)], ""),
        ("prelu", [np.ones(3, np.float32)], ""),
        ("prelu", [np.ones(2, np.float32)], r"slope has shape \[2\], must be \[1\] or \[3\], the channels"),
        ("prelu", [np.ones((3, 2, 2), np.float32)], r"slope has shape \[3, 2, 2\], must be"),
        ("clip", [1.0, 1.0], ""),
        ("clip", [3.0, 1.0], "min is 3.0, max 1.0: min must be at most max"),
        ("pad", [[0] * 8, nna.PAD_MODE_NONE], ""),
        (
            "pad",
            [[0, 0, 0, 0, 1, 0, 0, 0], nna.PAD_MODE_NONE],
            "mode is PAD_MODE_NONE and pads is .*, must be zeros",
        ),
    ],
)
def test_shapes_and_limits_of_parameters(name: str, arguments: list[Any], sentence: str) -> None:
    model = nna.Model()
    x = model.add_operand(nna.OperandType(nna.FLOAT32, X.shape))
    if not sentence:
        assert getattr(model, name)(x, *arguments).type.shape == X.shape
        return
    with pytest.raises(nna.InvalidParameter, match=sentence):
        getattr(model, name)(x, *arguments)


def test_bool_is_the_documents_other_name_of_bool8() -> None:
    assert nna.BOOL is nna.BOOL8
    assert c.NNADAPTER_BOOL == c.NNADAPTER_BOOL8
    model = nna.Model()
    value = model.add_constant(np.array([True]), nna.OperandType(nna.BOOL, [1]))
    filled = model.fill([2, 3], value)
    assert (filled.type.precision, filled.values[0].tolist()) == (nna.BOOL8, [[True] * 3] * 2)


@pytest.mark.parametrize("size", [6, 9])
@pytest.mark.parametrize("way", ["array", "access", "c"])
def test_an_output_goes_into_flat_memory(size: int, way: str) -> None:
    model = nna.Model()
    x = model.add_operand(nna.OperandType(nna.FLOAT32, [2, 3]))
    y = model.relu(x)
    model.identify([x], [y])
    model.finish()
    with nna.Context([nna.Device.acquire("npusim_host")]) as context:
        compilation = nna.Compilation(model, context)
        compilation.finish()
        execution = nna.Execution(compilation)
        execution.set_input(0, np.arange(6, dtype=np.float32).reshape(2, 3))
        memory = np.full(size, -1, np.float32)
        if way == "array":
            execution.set_output(0, memory)
        elif way == "access":
            execution.set_output(0, memory=memory, access=lambda memory, type: memory)
        else:
            assert c.NNAdapterExecution_setOutput(execution, 0, memory, lambda memory, type: memory) == 0
        assert c.NNAdapterExecution_compute(execution) == 0, c.last_error()
        assert memory.tolist() == [0, 1, 2, 3, 4, 5, -1, -1, -1][:size]
        execution.set_output(0, np.zeros(5, np.float32))
        assert c.NNAdapterExecution_compute(execution) == c.NNADAPTER_INVALID_DIMENSIONS


@pytest.fixture
def doubled() -> Iterator[str]:
    """A registered operation, by a number: twice the first input plus the second, and sums along dimension 1."""
    npusim.register_operator(
        "-1001",
        compute=lambda inputs, attributes: [
            inputs[0] * 2 + (0 if inputs[1] is None else inputs[1]),
            inputs[0].sum(axis=1),
        ],
        shapes=lambda shapes, attributes: [shapes[0], (shapes[0][0], *shapes[0][2:])],
        operations=lambda shapes, results, attributes: 1000,
    )
    yield "-1001"
    npusim.unregister_operator("-1001")


@pytest.mark.parametrize("devices", [["npusim"], ["npusim", "npusim_host"]])
@pytest.mark.parametrize("precision", [nna.FLOAT32, nna.QUANT_INT8_SYMM_PER_LAYER])
def test_a_custom_operation_that_is_registered(devices: list[str], precision: int, doubled: str) -> None:
    scale = None if precision == nna.FLOAT32 else 0.5
    model, place = nna.Model(), c.Ref()
    x = model.add_operand(nna.OperandType(precision, [1, 2, 3, 3], scale=scale))
    first = model.relu(x)
    results = [model.add_operand(nna.OperandType(precision, scale=scale)) for _ in range(2)]
    code = c.NNAdapterModel_addOperation(model, int(doubled), 2, [first, None], 2, results, place)
    assert code == 0, c.last_error()
    assert [result.type.shape for result in results] == [(1, 2, 3, 3), (1, 3, 3)]
    model.identify([x], [model.relu(results[0]), results[1]])
    model.finish()
    with nna.Context([nna.Device.acquire(name) for name in devices]) as context:
        compilation = nna.Compilation(model, context)
        compilation.finish()
        execution = nna.Execution(compilation)
        data = np.arange(18).reshape(1, 2, 3, 3).astype(x.type.dtype)
        execution.set_input(0, data)
        outputs = execution.compute().outputs
    np.testing.assert_array_equal(outputs[0], 2 * data)
    np.testing.assert_array_equal(outputs[1], data.sum(axis=1))
    lines = nna.Partition.parse(f"\\{doubled}")
    assert lines.forced([(model.operations[1].kind, [], [])]) == [0]


def test_a_custom_operation_that_nobody_registered() -> None:
    model = nna.Model()
    x = model.add_operand(nna.OperandType(nna.FLOAT32, [2]))
    with pytest.raises(nna.InvalidParameter, match=r"operations\[0\].type: is -1001, must be one of ABS 0"):
        model.add_operation(-1001, [x], [model.add_operand(nna.OperandType(nna.FLOAT32))])


def test_outputs_of_a_custom_operation_are_given(doubled: str) -> None:
    model = nna.Model()
    x = model.add_operand(nna.OperandType(nna.FLOAT32, [1, 2]))
    with pytest.raises(nna.InvalidParameter, match=r"operations\[0\] \(-1001\): outputs must be given"):
        model.add_operation(doubled, [x, None])
