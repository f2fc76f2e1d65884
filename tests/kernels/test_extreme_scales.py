"""Scales and zero points at the edge of what kernels define: the bytes of LiteRT, or refused with the reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import npusim
from npusim.frontends.tflite import reader as tflite
from npusim.isa.arithmetic.integer import quantize_multiplier
from npusim.isa.base.tensor import Quantization, TensorType
from npusim.models.writer import ModelWriter, per_channel, per_tensor

DTYPES = ("int8", "uint8")


def outputs_of(model: bytes, inputs: list[Any], hw: str = "edge-128") -> list[Any]:
    program = npusim.compile(tflite.parse(model, "model"), hw)
    return npusim.simulate(program, inputs).outputs


def litert_outputs(model: bytes, inputs: list[Any]) -> list[Any]:
    litert = pytest.importorskip("ai_edge_litert.interpreter", reason="needs ai-edge-litert, the oracle")
    interpreter = litert.Interpreter(
        model_content=model, experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF
    )
    interpreter.allocate_tensors()
    for detail, value in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


def codes(rng: np.random.Generator, dtype: str, *shape: int) -> Any:
    low = np.iinfo(dtype).min
    return rng.integers(low, low + 256, shape).astype(dtype)


# Weights with a zero point


def matrix_product(
    rng: np.random.Generator, dtype: str, weights: Quantization, output: Quantization, scale: float = 0.05
) -> tuple[bytes, Any, Any]:
    """A fully connected layer of 4 vectors of 16, its input and its weights."""
    writer = ModelWriter("model")
    values = codes(rng, dtype, 8, 16)
    ifm = writer.input("x", TensorType(dtype, (4, 16), per_tensor(scale, 3)))
    out = writer.fully_connected(ifm, writer.constant("w", values, weights), None, output)
    return writer.finish([out]), codes(rng, dtype, 4, 16), values


@pytest.mark.parametrize("zero_point", [-128, -7, 5, 127])
def test_zero_points_of_int8_matrices_are_subtracted(zero_point: int) -> None:
    rng = np.random.default_rng(zero_point + 128)
    model, x, w = matrix_product(rng, "int8", per_tensor(0.01, zero_point), per_tensor(0.5, 7))
    multiplier, shift = quantize_multiplier(float(np.float32(0.05)) * float(np.float32(0.01)) / 0.5)
    sums = (x.astype(np.int64) - 3) @ (w.astype(np.int64) - zero_point).T
    scaled = (sums * multiplier + (1 << (30 - shift))) >> (31 - shift)
    [found] = outputs_of(model, [x])
    assert np.array_equal(found, np.clip(scaled + 7, -128, 127))
    assert np.array_equal(found, litert_outputs(model, [x])[0])


@pytest.mark.parametrize("kind", ["matrix", "depthwise"])
def test_zero_points_that_a_kernel_ignores(kind: str) -> None:
    # int8 weights with a scale per channel are symmetric to LiteRT, and depthwise ones always
    rng = np.random.default_rng(1)
    scales = [0.01 + 0.001 * channel for channel in range(8)]
    found = []
    for zero_point in (0, 9):
        axis = 0 if kind == "matrix" else 3
        weights = Quantization(per_channel(scales, axis).scales, (zero_point,) * 8, axis)
        rng = np.random.default_rng(1)
        if kind == "matrix":
            model, x, _ = matrix_product(rng, "int8", weights, per_tensor(0.5, 7))
        else:
            writer = ModelWriter("model")
            ifm = writer.input("x", TensorType("int8", (1, 6, 6, 8), per_tensor(0.05, 3)))
            taps = writer.constant("w", codes(rng, "int8", 1, 3, 3, 8), weights)
            model = writer.finish([writer.depthwise_conv_2d(ifm, taps, None, per_tensor(0.5, 7))])
            x = codes(rng, "int8", 1, 6, 6, 8)
        found.append(outputs_of(model, [x])[0])
        assert np.array_equal(found[-1], litert_outputs(model, [x])[0])
    assert np.array_equal(*found)


def convolution(dtype: str, weights_dtype: str, quantization: Quantization) -> bytes:
    writer = ModelWriter("model")
    ifm = writer.input("x", TensorType(dtype, (1, 4, 4, 2), per_tensor(0.05, 3)))
    taps = writer.constant("w", codes(np.random.default_rng(0), weights_dtype, 2, 1, 1, 2), quantization)
    bias = writer.constant("b", np.zeros(2, np.int32))
    return writer.finish([writer.conv_2d(ifm, taps, bias, per_tensor(0.5, 7), name="y")])


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (
            convolution("int8", "int8", per_tensor(0.01, 5)),
            "weights have the zero point 5, those of an int8 convolution must be 0",
        ),
        (
            convolution("int8", "int8", Quantization((0.01, 0.02), (0, -3), 0)),
            "weights have the zero point -3, those of an int8 convolution must be 0",
        ),
        (
            convolution("int8", "uint8", per_tensor(0.01, 0)),
            "weights are uint8, the feature map is int8; they must be alike",
        ),
        (
            convolution("uint8", "uint8", Quantization((0.01, 0.02), (0, 0), 0)),
            "weights have 2 scales, uint8 weights must have one",
        ),
    ],
)
def test_weights_that_litert_refuses(model: bytes, text: str) -> None:
    with pytest.raises(npusim.NpusimError) as fault:
        tflite.parse(model, "model")
    assert str(fault.value).partition("): ")[2] == text


# Results beyond int32


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("exponent", [15, 17, 20, 29, 30, 31, 32, 40])
@pytest.mark.parametrize("zero_point", [-5, 0, 90])
def test_matrix_products_beyond_int32(dtype: str, exponent: int, zero_point: int) -> None:
    """What int32 cannot hold is -2**31, whatever its sign; the zero point is added with a wrap."""
    zero_point = max(zero_point, 0) if dtype == "uint8" else zero_point
    rng = np.random.default_rng(exponent)
    weights, output = per_tensor(1, 3), per_tensor(1, zero_point)
    model, x, w = matrix_product(rng, dtype, weights, output, scale=1.37 * 2.0**exponent)
    multiplier, shift = quantize_multiplier(float(np.float32(1.37 * 2.0**exponent)))
    sums = (x.astype(np.int64) - 3) @ (w.astype(np.int64) - 3).T
    expected = []
    for total in sums.ravel().tolist():
        scaled = (total * multiplier << 40) + (1 << (70 - shift)) >> (71 - shift)
        scaled = scaled if -(1 << 31) <= scaled < 1 << 31 else -(1 << 31)
        wrapped = (scaled + zero_point + (1 << 31)) % (1 << 32) - (1 << 31)
        low = np.iinfo(dtype).min
        expected.append(min(max(wrapped, low), low + 255))
    [found] = outputs_of(model, [x])
    assert found.ravel().tolist() == expected
    assert np.array_equal(found, litert_outputs(model, [x])[0])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("zero_point", [-5, 0, 90])
def test_reals_beyond_int32(dtype: str, zero_point: int) -> None:
    zero_point = max(zero_point, 0) if dtype == "uint8" else zero_point
    reals = np.array([1e9, -1e9, 1e10, -1e10, 1e38, np.inf, -np.inf, np.nan, 2.0**31, 1.0], np.float32)
    writer = ModelWriter("model")
    ifm = writer.input("x", TensorType("float32", reals.shape))
    out = writer.operator("QUANTIZE", (ifm,), TensorType(dtype, reals.shape, per_tensor(0.5, zero_point)))
    model = writer.finish([out])
    [found] = outputs_of(model, [reals])
    low = np.iinfo(dtype).min
    beyond = low + 255 if zero_point < 0 else low  # -2**31 - 5 wraps
    inside = [low + 255, low]
    assert found.tolist() == [*inside, *[beyond] * 7, zero_point + 2]
    assert np.array_equal(found, litert_outputs(model, [reals])[0])


# Multipliers that C leaves undefined


def elementwise(code: str, dtype: str, first: float, second: float, output: float) -> bytes:
    writer = ModelWriter("model")
    shape = (1, 4, 4, 8)
    a = writer.input("a", TensorType(dtype, shape, per_tensor(first, 3)))
    if code in ("ADD", "SUB", "MUL"):
        b = writer.input("b", TensorType(dtype, shape, per_tensor(second, 7)))
        call = getattr(writer, code.lower())
        return writer.finish([call(a, b, per_tensor(output, 5), name="y")])
    if code == "MEAN":
        return writer.finish([writer.mean(a, (1, 2), per_tensor(output, 5), name="y")])
    out = TensorType(dtype, shape, per_tensor(output, 5))
    if code == "LEAKY_RELU":
        options = {"options": "LeakyReluOptions", "fields": {"Alpha": second}}
        return writer.finish([writer.operator(code, (a,), out, name="y", version=2, **options)])
    version = 1 if code in ("HARD_SWISH", "QUANTIZE") else 2
    return writer.finish([writer.operator(code, (a,), out, name="y", version=version)])


def inputs_of(model: bytes) -> list[Any]:
    graph = tflite.parse(model, "model")
    rng = np.random.default_rng(3)
    types = [graph.tensors[tensor].type for tensor in graph.inputs]
    return [codes(rng, each.dtype, *each.shape) for each in types]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("code", "first", "second", "output"),
    [
        ("ADD", 4.7e-10, 0.25, 1.0),
        ("ADD", 1.0, 1e-9, 1 / (1 << 18)),
        ("SUB", 4.7e-10, 4.6e-10, 1.0),
        ("SUB", 1.0, 0.25, 1.01 / (1 << 19)),
        ("MUL", 4.7e-10, 1.0, 1.0),
        ("MUL", 2.4e-10, 1.0, 1.0),
        ("MUL", 1e6, 1.0, 1.0),
        ("MUL", 1e9, 2.1, 1.0),
        ("QUANTIZE", 1e9, 0, 0.5),
        ("QUANTIZE", 4.7e-10, 0, 1.0),
        ("RELU", 2e9, 0, 1.0),
        ("RELU6", 2.0, 0, 1e-8),
        ("MEAN", 3e9, 0, 1.0),
        ("LEAKY_RELU", 1.0, -3.3, 4e-9),  # a negative multiplier of a product that wraps to -2**31
        ("LEAKY_RELU", 1.0, 900.0, 1e-6),
        ("HARD_SWISH", 0.1, 0, 51.0),
        ("HARD_SWISH", 0.1, 0, 0.00079),
    ],
)
def test_the_edges_of_multipliers(code: str, dtype: str, first: float, second: float, output: float) -> None:
    model = elementwise(code, dtype, first, second, output)
    values = inputs_of(model)
    assert np.array_equal(outputs_of(model, values)[0], litert_outputs(model, values)[0])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("code", "first", "second", "output", "text"),
    [
        ("ADD", 1.0, 0.5, 1 / (1 << 19), "twice the larger input scale is less than 2**20 output scales"),
        ("SUB", 1.0, 0.5, 1e-6, "twice the larger input scale is less than 2**20 output scales"),
        ("SUB", 1e-9, 1e6, 1.0, "twice the larger input scale is less than 2**20 output scales"),
        ("MUL", 1e9, 2.2, 1.0, "input scale * input scale / output scale is less than 2**31"),
        ("MUL", 1e30, 1e30, 1.0, "input scale * input scale / output scale is less than 2**31"),
        ("QUANTIZE", 2.2e9, 0, 1.0, "input scale / output scale is less than 2**31"),
        ("MEAN", 1e12, 0, 1.0, "input scale / output scale is less than 2**31"),
        ("RELU", 2.2e9, 0, 1.0, "input scale / output scale is less than 2**31"),
        ("RELU6", 2.0, 0, 2e-9, "6 / output scale is less than 2**31"),
        ("LEAKY_RELU", 1.0, -3.3, 1e-9, "input scale / output scale, also times alpha, is less than 2**31"),
        ("HARD_SWISH", 0.1, 0, 60.0, "input scale / output scale is from 2**-9 to less than 2**7"),
        ("HARD_SWISH", 0.1, 0, 0.0007, "input scale / output scale is from 2**-9 to less than 2**7"),
    ],
)
def test_what_c_leaves_undefined_is_refused(
    code: str, dtype: str, first: float, second: float, output: float, text: str
) -> None:
    graph = tflite.parse(elementwise(code, dtype, first, second, output), "model")
    with pytest.raises(npusim.NpusimError) as fault:
        npusim.compile(graph)
    assert str(fault.value).startswith(f'model: {code.lower()} "y" breaks a rule: {text}')


def test_convolutions_with_an_undefined_shift_are_refused() -> None:
    for ofm_scale, refused in ((1e-9, True), (3e-9, False)):
        writer = ModelWriter("model")
        ifm = writer.input("x", TensorType("int8", (1, 4, 4, 2), per_tensor(1, 3)))
        taps = writer.constant("w", codes(np.random.default_rng(0), "int8", 2, 1, 1, 2), per_tensor(4, 0))
        bias = writer.constant("b", np.zeros(2, np.int32), per_tensor(4, 0))
        model = writer.finish([writer.conv_2d(ifm, taps, bias, per_tensor(ofm_scale, 7), name="y")])
        values = inputs_of(model)
        if refused:
            with pytest.raises(npusim.NpusimError, match=r"input scale \* weight scale / output scale is"):
                outputs_of(model, values)
        else:
            assert np.array_equal(outputs_of(model, values)[0], litert_outputs(model, values)[0])


def test_activations_beyond_32_bits_are_refused() -> None:
    writer = ModelWriter("model")
    ifm = writer.input("x", TensorType("int8", (1, 4, 4, 2), per_tensor(2e-9, 3)))
    model = writer.finish([writer.average_pool_2d(ifm, (2, 2), activation="relu6")])
    with pytest.raises(npusim.NpusimError, match="bounds of the fused activation, divided by the output's"):
        outputs_of(model, inputs_of(model))


@pytest.mark.parametrize("dtype", DTYPES)
def test_tables_of_tiny_output_scales(dtype: str) -> None:
    # the uint8 table converts reals beyond int32, the int8 table clamps them first
    model = elementwise("TANH", dtype, 0.1, 0, 2.0**-60)
    values = inputs_of(model)
    assert np.array_equal(outputs_of(model, values)[0], litert_outputs(model, values)[0])


def test_joined_inputs_of_large_scales() -> None:
    writer = ModelWriter("model")
    a = writer.input("a", TensorType("uint8", (4, 64), per_tensor(1e6, 168)))
    b = writer.input("b", TensorType("uint8", (4, 64), per_tensor(0.5, 3)))
    out = TensorType("uint8", (4, 128), per_tensor(1e-4, 91))
    joined = writer.operator("CONCATENATION", (a, b), out, options="ConcatenationOptions", fields={"Axis": 1})
    model = writer.finish([joined])
    values = inputs_of(model)
    assert np.array_equal(outputs_of(model, values)[0], litert_outputs(model, values)[0])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("op", ["CONCATENATION", "TANH", "LOGISTIC"])
@pytest.mark.parametrize(
    ("ifm_scale", "ofm_scale"), [(3e38, 1e-3), (1.0, 1e-44), (3e38, 1e-44), (1e-44, 3e38)]
)
def test_reals_beyond_float32_make_no_noise(op: str, ifm_scale: float, ofm_scale: float) -> None:
    """numpy would warn on the terminal of a user; the bytes are those of LiteRT where it takes the model."""
    rng = np.random.default_rng(7)
    writer = ModelWriter("model")
    x = codes(rng, "uint8", 1, 256)
    ifm = writer.input("x", TensorType("uint8", (1, 256), per_tensor(ifm_scale, 128)))
    ofm = TensorType("uint8", (1, 256), per_tensor(ofm_scale, 0))
    if op == "CONCATENATION":
        out = writer.operator(op, (ifm,), ofm, options="ConcatenationOptions", fields={"Axis": 1})
    else:
        out = writer.operator(op, (ifm,), ofm)
    outputs_of(writer.finish([out]), [x])
