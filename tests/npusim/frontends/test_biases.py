"""A bias on the scale of the sums, and on another one: what each front end makes of it."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npusim
from npusim import hal
from npusim import nnadapter as nna
from npusim.frontends.bias_scales import bias_fault, products
from npusim.frontends.nn_hal.reader import graph_of
from npusim.frontends.targets import target_of
from npusim.frontends.tflite.reader import parse
from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.kernels.graph.builder import GraphBuilder
from npusim.models.writer import ModelWriter, per_channel, per_tensor
from tests.litert.live import by_litert, needs_litert
from tests.npusim.frontends.nnef.models import entry, folder
from tests.npusim.hal.hal_models import Maker

IFM, WEIGHTS = Quantization((0.5,), (3,)), Quantization((0.25, 0.5), (0, 0), 0)


@pytest.mark.parametrize(
    ("dtype", "scales", "zero_point", "said"),
    [
        ("int32", (0.125, 0.25), 0, None),
        ("int32", (0.125 * (1 + 5e-7), 0.25), 0, None),  # a rounding of float32 or two
        ("int32", (0.125 * (1 + 2e-6), 0.25), 0, "int32 with scale 0.1250003, 0.25, must be int32"),
        ("int32", (0.125,), 0, "scale 0.125, must be int32 with input scale times weight scale, 0.125, 0.25"),
        ("int32", (0.125, 0.25), 1, "scale 0.125, 0.25 and zero point 1, must be"),
        ("int16", (0.125, 0.25), 0, "the bias is int16 with scale"),
        ("int32", (), 0, "the bias is int32 with no scale, must be"),
    ],
)
def test_what_is_part_of_the_sum(
    dtype: str, scales: tuple[float, ...], zero_point: int, said: str | None
) -> None:
    bias = Quantization(scales, (zero_point,) * len(scales), 0) if scales else None
    fault = bias_fault(dtype, bias, IFM, WEIGHTS)
    assert fault is None if said is None else said in str(fault)
    assert products(IFM, WEIGHTS).tolist() == [0.125, 0.25]


def _nnadapter(name: str, bias: nna.OperandType, per_channel: bool) -> nna.Model:
    """An int8 model of input scale 0.5 and weight scale 0.25."""
    model = nna.Model()
    image = name != "fully_connected"
    shape = [1, 2, 3, 3] if image else [1, 2]
    x = model.add_operand(nna.OperandType(nna.QUANT_INT8_SYMM_PER_LAYER, shape, scale=0.5))
    filters = np.ones([2, 2, 1, 1] if image else [2, 2], np.int8)
    kind = nna.OperandType(nna.QUANT_INT8_SYMM_PER_LAYER, filters.shape, scale=0.25)
    if per_channel:
        kind = nna.OperandType(
            nna.QUANT_INT8_SYMM_PER_CHANNEL, filters.shape, scales=[0.25, 0.5], channel_dim=0
        )
    w = model.add_constant(filters, kind)
    b = model.add_constant(np.array([8, 16], np.int32), bias)
    y = model.add_operand(nna.OperandType(nna.QUANT_INT8_SYMM_PER_LAYER, [], scale=0.5))
    beside = []
    if name == "deformable_conv_2d":
        beside = [np.zeros((1, 2, 3, 3), np.float32), np.ones((1, 1, 3, 3), np.float32)]
    getattr(model, name)(x, *beside, w, b, outputs=[y])
    model.identify([x], [y])
    model.finish()
    return model


def _layer(scale: float) -> nna.OperandType:
    return nna.OperandType(nna.QUANT_INT32_SYMM_PER_LAYER, [2], scale=scale)


def _channels(*scales: float) -> nna.OperandType:
    return nna.OperandType(nna.QUANT_INT32_SYMM_PER_CHANNEL, [2], scales=scales, channel_dim=0)


NNADAPTER = ("conv_2d", "conv_2d_transpose", "deformable_conv_2d", "fully_connected")


@pytest.mark.parametrize("name", NNADAPTER)
def test_nnadapter_demands_the_scale_of_the_sums(name: str) -> None:
    _nnadapter(name, _layer(0.125), per_channel=False)
    for kind, by_channel in (
        (_layer(0.5), False),
        (nna.OperandType(nna.INT32, [2]), False),
        (_layer(0.125), True),
        (_channels(0.125, 0.5), True),
    ):
        with pytest.raises(
            nna.InvalidParameter, match=r"operations\[0\] .*the bias is int32 with .*, must be"
        ):
            _nnadapter(name, kind, by_channel)
    if name in ("conv_2d", "fully_connected"):
        _nnadapter(name, _channels(0.125, 0.25), per_channel=True)


@pytest.mark.parametrize("device", ["npusim", "builtin_device"])
def test_nnadapters_devices_agree_on_the_bias(device: str) -> None:
    """5 x 0.5 x 0.25 twice, and 8 x 0.125 or 16 x 0.125: 2.25 and 3.25, in steps of 0.5 (one device cuts off)."""
    with nna.Context([nna.Device.acquire(device)]) as context:
        compilation = nna.Compilation(_nnadapter("fully_connected", _layer(0.125), False), context)
        compilation.finish()
        execution = nna.Execution(compilation)
        execution.set_input(0, np.full((1, 2), 5, np.int8))
        [output] = execution.compute().outputs
    assert output.tolist() == ([[5, 7]] if device == "npusim" else [[4, 6]])


@pytest.mark.parametrize(("scale", "fits"), [(0.125, True), (0.5, False)])
def test_the_hal_demands_it(scale: float, fits: bool) -> None:
    maker = Maker()
    kind = hal.OperandType.TENSOR_QUANT8_ASYMM
    x = maker.input(kind, [1, 2], scale=0.5)
    w = maker.constant(kind, np.ones((2, 2), np.uint8), scale=0.25)
    b = maker.constant(hal.OperandType.TENSOR_INT32, np.array([8, 16], np.int32), scale=scale)
    y = maker.output(kind, [1, 2], scale=0.5)
    maker.operation(hal.OperationType.FULLY_CONNECTED, [x, w, b, maker.scalar(0)], [y])
    model = maker.model(hal.HalVersion.V1_0)
    if fits:
        graph_of(model, GraphBuilder("model"))
    else:
        with pytest.raises(
            GraphError, match=r"has scale 0.5 and zero point 0; the bias of 8-bit operands has"
        ):
            graph_of(model, GraphBuilder("model"))


def _linear(path: Path, bias: str, variables: dict[str, Array], quant: str, inputs: list[Array]) -> Any:
    filters = {"w": np.ones((2, 2), np.int8)}
    scales = entry("x", 0.5, signed=True, symmetric=True) + entry("w", 0.25, signed=True, symmetric=True)
    scales += entry("y", 0.5, signed=True, symmetric=True) + quant
    body = f"{bias}y = linear(x, w, b);"
    model = folder(path, body, [1, 2], filters | variables, scales)
    if bias:
        text = (model / "graph.nnef").read_text()
        (model / "graph.nnef").write_text(text.replace("net( x )", "net( x, b )"))
    return npusim.run(model, inputs=inputs)


def test_nnef_gives_a_bias_its_value(tmp_path: Path) -> None:
    """5 x 0.5 x 0.25 twice, and 1 or 2: 2.25 and 3.25 in steps of 0.5, whatever the scale of the constant b is."""
    x = np.full((1, 2), 5, np.int8)
    for scale, codes in ((0.125, [8, 16]), (0.5, [2, 4])):
        b = {"b": np.array([codes], np.int32)}
        quant = entry("b", scale, bits=32, signed=True, symmetric=True)
        done = _linear(tmp_path / str(scale), "", b, quant, [x])
        assert done.outputs[0].tolist() == [[5, 7]]


def test_nnef_gives_a_computed_bias_its_value(tmp_path: Path) -> None:
    x, b = np.full((1, 2), 5, np.int8), np.array([[2, 4]], np.int8)
    quant = entry("b", 0.5, signed=True, symmetric=True)
    done = _linear(tmp_path / "net", "b = external(shape = [1,2]);\n", {}, quant, [x, b])
    assert done.outputs[0].tolist() == [[5, 7]]


def _tflite(op: str, dtype: str, scale: float, channels: bool = False) -> bytes:
    writer, zero = ModelWriter("model"), 0 if dtype == "int8" else 128
    shape = (1, 4) if op == "fully_connected" else (1, 2, 2, 4)
    filters = {"conv_2d": (2, 1, 1, 4), "depthwise_conv_2d": (1, 1, 1, 4)}.get(op, (2, 4))
    axis, count = (3, 4) if op == "depthwise_conv_2d" else (0, 2)
    x = writer.input("x", TensorType(dtype, shape, per_tensor(0.5, zero)))
    kind = per_channel([0.125] * count, axis) if channels else per_tensor(0.125, zero)
    w = writer.constant("w", np.full(filters, zero + 1, dtype), kind)
    scaling = per_channel([scale] * count, 0) if channels else per_tensor(scale, 0)
    b = writer.constant("b", np.full(count, 100, np.int32), scaling)
    return writer.finish([getattr(writer, op)(x, w, b, per_tensor(0.5, zero))])


@needs_litert
@pytest.mark.parametrize("op", ["conv_2d", "depthwise_conv_2d", "fully_connected"])
@pytest.mark.parametrize(("dtype", "channels"), [("int8", False), ("int8", True), ("uint8", False)])
@pytest.mark.parametrize("scale", [0.0625, 0.065, 0.0724, 0.0726, 0.5])
def test_tflite_is_read_as_litert_reads_it(op: str, dtype: str, channels: bool, scale: float) -> None:
    """LiteRT refuses bias scales that are off by 0.02 output steps where it looks, and adds the others as they are."""
    data = _tflite(op, dtype, scale, channels)
    shape = (1, 4) if op == "fully_connected" else (1, 2, 2, 4)
    x = np.full(shape, 3, dtype)
    try:
        wanted = by_litert(data, [x])
    except npusim.NpusimError:
        with pytest.raises(GraphError, match="the bias is int32 with scale"):
            parse(data, "model")
        return
    graph = parse(data, "model")
    assert bool(graph.notes) == (scale != 0.0625)
    assert all("LiteRT adds it to the sum as it is" in note for note in graph.notes)
    done = npusim.simulate(npusim.compile(graph), [x])
    assert done.outputs is not None
    np.testing.assert_array_equal(done.outputs[0], wanted[0])


@pytest.mark.parametrize("to", ["nnef", "onnx", "hal", "tflite"])
def test_a_bias_that_litert_adds_as_it_is_is_written_so(to: str, tmp_path: Path) -> None:
    """A convolution whose bias has a scale that LiteRT does not look at gives the same bytes in another format."""
    graph = parse(_tflite("conv_2d", "int8", 0.5), "model")
    target = target_of(to, Path())
    file = tmp_path / f"model{target.suffixes[0]}"
    file.write_bytes(target.written(graph, file.name))
    x = np.full((1, 2, 2, 4), 3, np.int8)
    wanted = npusim.simulate(npusim.compile(graph), [x]).outputs
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = npusim.run(file, inputs=[x]).outputs
    assert wanted is not None
    assert found is not None
    np.testing.assert_array_equal(found[0], wanted[0])
