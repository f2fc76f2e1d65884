"""Operations of NNEF as graphs: whole and by their bodies, quantized, with activations, and refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npusim
from npusim.frontends.frontend import builder_for
from npusim.frontends.nnef import document, nnef_reader, tensor_file
from npusim.frontends.nnef.language import standard
from npusim.frontends.nnef.operations.nnef_table import ROWS
from npusim.isa.base.errors import NpusimError
from npusim.kernels.graph.check import check
from npusim.kernels.graph.graph import NCHW, Graph
from npusim.kernels.graph.reference import evaluate
from npusim.kernels.table import NAMES
from tests.npusim.frontends.nnef.bodies import IMAGE, bodies
from tests.npusim.frontends.nnef.documents import own
from tests.npusim.frontends.nnef.models import entry, folder, result

PRIMITIVE = {row.name for row in standard.OPERATIONS.values() if not row.body}


def graph_of(text: str, files: dict[str, bytes] | None = None, whole: set[str] | None = None) -> Graph:
    """The checked graph; of operations that are made of others only those `whole` stay whole."""
    return check(nnef_reader.graph_of(document.loads(text, None, files), builder_for("net", NCHW), whole))


def operators(path: Path) -> list[str]:
    return [node.op for node in npusim.load(path).nodes]


# What there is


def test_every_standard_operation_has_a_row_or_a_body() -> None:
    names = {row.name for row in ROWS}
    missing = {row.name for row in standard.OPERATIONS.values() if not row.body} - names
    assert missing == {"external", "variable", "constant"}
    assert {op for row in ROWS for op in row.operators} <= set(NAMES)
    assert len(names) == len(ROWS)


@pytest.mark.slow
def test_whole_operations_give_what_their_bodies_give() -> None:
    generator = np.random.default_rng(2)
    compared = 0
    for body, shape, variables in bodies():
        arrays = {name: generator.standard_normal(extents, np.float32) for name, extents in variables.items()}
        declared = "".join(
            f"{name} = variable(shape = {list(a.shape)}, label = '{name}');" for name, a in arrays.items()
        )
        text = f"version 1.0;\ngraph net(x) -> (y) {{ x = external(shape = {list(shape)}); {declared}\n{body} }}\n"
        files = {f"{name}.dat": tensor_file.dump(array) for name, array in arrays.items()}
        x = generator.standard_normal(shape, np.float32)
        graphs = [graph_of(text, files)]
        if "max_pool" not in body or (shape == IMAGE and "dilation = [1,1,1,1]" in body):
            graphs.append(graph_of(text, files, PRIMITIVE))  # positions lie in planes, without dilation
        found = [evaluate(graph, [x])[graph.outputs[0]] for graph in graphs]
        np.testing.assert_allclose(found[0], found[-1], rtol=1e-4, atol=1e-4, err_msg=body)
        compared += len(graphs) == 2
    assert compared > 150


# Values


@pytest.mark.parametrize(
    ("name", "function"),
    [
        *(("tan", np.tan), ("asin", np.arcsin), ("acos", np.arccos), ("atan", np.arctan), ("sinh", np.sinh)),
        *(("cosh", np.cosh), ("asinh", np.arcsinh), ("acosh", np.arccosh), ("atanh", np.arctanh)),
    ],
)
@pytest.mark.parametrize("hardware", ["edge-128", "float-npu"])
def test_trigonometric_and_hyperbolic_functions(
    name: str, function: Any, hardware: str, tmp_path: Path
) -> None:
    x = np.linspace(1.0, 3.0, 256, dtype=np.float32) if name == "acosh" else None
    x = np.linspace(-0.99, 0.99, 256, dtype=np.float32) if x is None else x
    path = folder(tmp_path, f"y = {name}(x);", (256,))
    hw = npusim.hardware("edge-128", ["vector.float32_lanes=8"]) if hardware != "edge-128" else hardware
    np.testing.assert_allclose(result(path, x, hw=hw), function(x), rtol=2e-6, atol=2e-6)


def test_halves_are_rounded_away_from_zero(tmp_path: Path) -> None:
    x = np.array([-2.5, -0.5, 0.5, 1.5, 0.49999997, 8388609.0, -3.2, 2.7], np.float32)
    wanted = np.array([-3, -1, 1, 2, 0, 8388609, -3, 3], np.float32)
    np.testing.assert_array_equal(result(folder(tmp_path, "y = round(x);", (8,)), x), wanted)


def test_operands_broadcast_from_the_left(tmp_path: Path) -> None:
    x, w = np.arange(24, dtype=np.float32).reshape(2, 3, 4), np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    np.testing.assert_array_equal(
        result(folder(tmp_path, "y = mul(w, x);", (2, 3, 4), {"w": w}), x), x * w[..., None]
    )


def test_shapes_that_a_document_computes_with_are_known(tmp_path: Path) -> None:
    text = own(
        "fragment foo( a: tensor<scalar> ) -> ( b: tensor<scalar> ) { b = reshape(a, shape = shape_of(a)[1:]); }"
    )
    graph = graph_of(text)
    assert graph.tensors[graph.outputs[0]].type.shape == (4, 8, 8)


# Codes


def test_an_external_with_codes_takes_codes_and_real_numbers(tmp_path: Path) -> None:
    path = folder(tmp_path, "y = relu(x);", (1, 4), quant=entry("x", 0.5, 3) + entry("y", 0.5, 3))
    reals = np.array([[1.25, -3.0, 100.0, 0.1]], np.float32)
    codes = np.array([[6, -3, 127, 3]], np.int8)
    wanted = np.array([[6, 3, 127, 3]], np.int8)
    np.testing.assert_array_equal(result(path, codes), wanted, strict=True)
    np.testing.assert_array_equal(result(path, reals), wanted, strict=True)
    with pytest.raises(NpusimError, match="values of float64, the model takes int8"):
        result(path, reals.astype(np.float64))


def test_a_program_file_keeps_what_its_inputs_take(tmp_path: Path) -> None:
    path = folder(tmp_path / "m", "y = copy(x);", (1, 2), quant=entry("x", 0.5) + entry("y", 0.5))
    npusim.save_program(npusim.compile(npusim.load(path)), tmp_path / "m.npu")
    run = npusim.run(tmp_path / "m.npu", inputs=[np.array([[2.0, -1.0]], np.float32)])
    assert run.outputs is not None
    np.testing.assert_array_equal(run.outputs[0], np.array([[4, -2]], np.int8), strict=True)


def test_symmetric_codes_do_without_the_lowest(tmp_path: Path) -> None:
    entries = entry("x", 1.0) + entry("y", 1.0, symmetric=True)
    path = folder(tmp_path, "y = copy(x);", (2,), quant=entries)
    found = result(path, np.array([-128, 5], np.int8))
    np.testing.assert_array_equal(found, np.array([-127, 5], np.int8), strict=True)


def test_codes_of_four_bits_stay_within_them(tmp_path: Path) -> None:
    entries = entry("x", 1.0) + entry("y", 1.0, bits=4)
    path = folder(tmp_path, "y = add(x, x);", (3,), quant=entries)
    found = result(path, np.array([-100, 3, 100], np.int8))
    np.testing.assert_array_equal(found, np.array([-8, 6, 7], np.int8), strict=True)


def test_min_and_max_on_the_grid_are_scale_and_zero_point(tmp_path: Path) -> None:
    linear = (
        '"{}": min_max_linear_quantize(min = -1.0, max = 1.55, bits = 8, signed = {}, symmetric = false);\n'
    )
    path = folder(
        tmp_path, "y = copy(x);", (3,), quant=linear.format("x", "false") + linear.format("y", "true")
    )
    tensors = {tensor.name: tensor.type for tensor in npusim.load(path).tensors}
    for name, dtype, zero_point in (("x", "uint8", 100), ("y", "int8", -28)):
        scaling = tensors[name].quantization
        assert scaling is not None
        assert (tensors[name].dtype, scaling.zero_point) == (dtype, zero_point)
        assert scaling.scale == pytest.approx(0.01)
    reals = np.array([-1.0, 0.0, 1.55], np.float32)
    np.testing.assert_array_equal(result(path, reals), np.array([-128, -28, 127], np.int8), strict=True)


@pytest.mark.parametrize(
    ("quantization", "message"),
    [
        ("linear_quantize(min = -1.0, max = 1.0, bits = 8)", r"zero is no step between min -1 and max 1.*would do"),
        ("zero_point_linear_quantize(zero_point = 300, scale = 1.0, bits = 8, signed = false, symmetric = false)",
         "zero point 300 is none of the quantized values 0 to 255"),
        ("logarithmic_quantize(max = 4.0, bits = 8)", r"its values are powers of two.*integer unit"),
        ("zero_point_linear_quantize(zero_point = [1,2,3], scale = [1.0,2.0,3.0], bits = 8, signed = true,"
         " symmetric = false)", r"3 scales for shape \[1, 4, 8, 8\]"),
    ],
)  # fmt: skip
def test_codes_that_integers_do_not_express_are_refused(
    quantization: str, message: str, tmp_path: Path
) -> None:
    path = folder(tmp_path, "y = relu(x);", quant=f'"x": {quantization};\n')
    with pytest.raises(NpusimError, match=message) as raised:
        npusim.load(path)
    assert re.search(r"graph\.quant, line 1, column 1: ", str(raised.value))
    assert len(str(raised.value).splitlines()) == 1


def test_interpolated_codes_are_real_without_an_entry(tmp_path: Path) -> None:
    body = "y = multilinear_upsample(x, factor = [2,2]);"
    codes = np.random.default_rng(6).integers(-100, 100, (1, 2, 3, 3)).astype(np.int8)
    found = result(folder(tmp_path / "codes", body, codes.shape, quant=entry("x", 0.5)), codes)
    reals = codes.astype(np.float32) * np.float32(0.5)
    np.testing.assert_allclose(found, result(folder(tmp_path / "reals", body, codes.shape), reals), rtol=1e-6)


def test_a_result_without_an_entry_is_real(tmp_path: Path) -> None:
    path = folder(tmp_path, "a = transpose(x, axes = [1,0]); y = exp(a);", (2, 2), quant=entry("x", 0.5))
    codes = np.array([[1, 2], [3, 4]], np.int8)
    np.testing.assert_allclose(result(path, codes), np.exp(codes.T * 0.5), rtol=1e-6)


def test_weights_and_biases_in_reals_get_codes(tmp_path: Path) -> None:
    generator = np.random.default_rng(3)
    w = np.round(generator.uniform(-60, 60, (6, 4, 3, 3))).astype(np.float32) / 64
    bias = np.round(generator.uniform(-99, 99, (1, 6))).astype(np.float32) / 128
    entries = entry("x", 0.5) + entry("w", 1 / 64) + entry("y", 1.0, 4)
    path = folder(tmp_path, "y = conv(x, w, b);", variables={"w": w, "b": bias}, quant=entries)
    assert operators(path)[-2:] == ["conv_2d", "transpose"]
    codes = generator.integers(-20, 20, (1, 4, 8, 8)).astype(np.int8)
    real = folder(tmp_path / "real", "y = conv(x, w, b);", variables={"w": w, "b": bias})
    exact = result(real, codes.astype(np.float32) * np.float32(0.5)) + 4
    np.testing.assert_allclose(
        result(path, codes), np.clip(exact, -128, 127), atol=0.51
    )  # rounded twice, as LiteRT does


def test_scales_lie_along_the_output_channels_of_who_reads_them(tmp_path: Path) -> None:
    scales, zeros = [0.1, 0.2, 0.3], [0, 0, 0]
    quant = (
        f'"w": zero_point_linear_quantize(zero_point = {zeros}, scale = {scales}, bits = 8, signed = true,'
        f" symmetric = true);\n{entry('x', 1.0)}{entry('y', 1.0)}"
    )
    w = np.ones((3, 3, 3, 3), np.int8)
    body = "a = transpose(w, axes = [3,0,1,2]); y = conv(x, a);"
    graph = npusim.load(folder(tmp_path, body, (1, 3, 4, 4), {"w": w}, quant))
    node = next(node for node in graph.nodes if node.op == "conv_2d")
    filter_ = node.inputs[1]
    assert filter_ is not None
    scaling = graph.tensors[filter_].type.quantization
    assert scaling is not None
    assert scaling.axis == 0


# Activations and transposes


@pytest.mark.parametrize("activation", ["relu(a)", "clamp(a, 0.0, 6.0)", "clamp(a, -1.0, 1.0)"])
def test_an_activation_with_the_same_codes_is_part_of_the_convolution(
    activation: str, tmp_path: Path
) -> None:
    generator = np.random.default_rng(4)
    w = generator.integers(-127, 128, (6, 4, 3, 3)).astype(np.int8)
    codes = generator.integers(-128, 128, (1, 4, 8, 8)).astype(np.int8)
    entries = entry("x", 0.1) + entry("w", 0.01) + entry("a", 0.05, 7)
    one = folder(tmp_path / "one", f"a = conv(x, w); y = {activation};", variables={"w": w},
                 quant=entries + entry("y", 0.05, 7))  # fmt: skip
    assert operators(one) == ["transpose", "conv_2d", "transpose"]
    both = folder(tmp_path / "both", f"a = conv(x, w); b = {activation}; y = add_n([b, a]);", variables={"w": w},
                  quant=entries + entry("b", 0.05, 7))  # fmt: skip
    assert len(operators(both)) > 3
    apart = folder(tmp_path / "apart", f"a = conv(x, w); y = {activation}; z = relu(a);", variables={"w": w},
                   quant=entries + entry("y", 0.05, 7))  # fmt: skip
    np.testing.assert_array_equal(result(one, codes), result(apart, codes), strict=True)


def test_transposes_around_images_move_nothing(tmp_path: Path) -> None:
    w = np.ones((4, 4, 3, 3), np.float32)
    body = (
        "a = transpose(x, axes = [0,3,1,2]); c = conv(a, w); r = relu(c); d = add(r, a);"
        " y = transpose(d, axes = [0,2,3,1]);"
    )
    path = folder(tmp_path, body, (1, 6, 5, 4), {"w": w})
    assert "transpose" not in operators(path)
    x = np.random.default_rng(5).standard_normal((1, 6, 5, 4), np.float32)
    turned = "a = transpose(x, axes = [0,3,1,2]); y = copy(a);"
    moved = result(folder(tmp_path / "moved", turned, (1, 6, 5, 4)), x)
    np.testing.assert_array_equal(moved, x.transpose(0, 3, 1, 2))
    assert result(path, x).shape == (1, 6, 5, 4)


def test_outputs_are_tensors_of_their_own_with_their_names(tmp_path: Path) -> None:
    text = "version 1.0;\ngraph net(x) -> (y, z, c)\n{ x = external(shape = [2]); y = copy(x); z = copy(x);"
    path = tmp_path / "m.nnef"
    path.write_text(text + " c = constant(shape = [2], value = [1.0]); }\n")
    graph = npusim.load(path)
    assert [graph.tensors[number].name for number in graph.outputs] == ["y", "z", "c"]
    run = npusim.run(path, inputs={"x": np.array([1, 2], np.float32)})
    assert run.outputs is not None
    assert [found.tolist() for found in run.outputs] == [[1, 2], [1, 2], [1, 1]]


def test_a_structure_without_weights_is_timed_and_not_run(tmp_path: Path) -> None:
    path = tmp_path / "net.nnef"
    path.write_text(
        "version 1.0;\ngraph net(x) -> (y)\n{ x = external(shape = [1,4,8,8]);"
        " w = variable(shape = [4,4,3,3], label = 'a/w'); v = variable(shape = [4,4,1,1], label = 'a/v');"
        " z = conv(x, w); y = conv(z, v); }\n"
    )
    assert npusim.run(path, timing_only=True).cycles > 0
    with pytest.raises(NpusimError, match=r'constant "w", as 1 more \("v"\), is known by its size only'):
        npusim.run(path)


@pytest.mark.parametrize("name", ["avg_roi_pool", "max_roi_pool"])
def test_pools_of_regions(name: str) -> None:
    """A region of 4 x 4 pixels in 2 x 2 bins of 2 x 2 pixels each."""
    text = (
        "version 1.0;\ngraph net(x, r, i) -> (y) {"
        "x = external(shape = [1,2,6,6]); r = external(shape = [1,4]); i = external<integer>(shape = [1]);"
        f"y = {name}(x, r, i, output_size = [2,2]); }}\n"
    )
    graph = graph_of(text)
    x = np.random.default_rng(4).standard_normal((1, 2, 6, 6), np.float32)
    inputs = [x, np.array([[1, 2, 4, 5]], np.float32), np.zeros(1, np.int32)]
    [found] = [evaluate(graph, inputs)[number] for number in graph.outputs]
    bins = x[0, :, 2:6, 1:5].reshape(2, 2, 2, 2, 2).transpose(0, 1, 3, 2, 4).reshape(2, 2, 2, 4)
    expected = bins.mean(-1, np.float64) if name == "avg_roi_pool" else bins.max(-1)
    np.testing.assert_array_equal(found[0], expected.astype(np.float32))
