"""Operators of codes in float32 and in the fused formulas: the machine beside the references, all of it on the NPU."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.isa.hardware.file import change, hardware
from npusim.kernels.graph.builder import unshaped
from npusim.kernels.graph.graph import Graph
from npusim.kernels.table import NAMES, family
from npusim.scheduler import compile_graph

from ..examples import examples
from ..graphs import CODE_RANGES, Sketch
from ..random_graphs import ACTIVATIONS, Pick
from .test_random_graphs import check, graphs

EDGE = hardware("edge-128")
SMALL = change(EDGE, {"scratchpad.size_kib": 16, "scratchpad.banks": 1})

LITERAL = ("add", "sub", "mul", "div", "maximum", "minimum", "prelu")
FUSED = ("add", "mul")


def quantization(pick: Pick, dtype: str, least: int = 1) -> Quantization:
    """Scales whose quotients are powers of two, or tenths, so that ties are many; sometimes none of these.

    The last kind is `least` or more times 2**-22.
    """
    low, high = CODE_RANGES[dtype]
    scale = (0.1 * 2.0 ** pick(-3, 3), 0.1 * pick(1, 9), pick(least, 1 << 20) / (1 << 22))[pick(0, 2)]
    return Quantization((float(np.float32(scale)),), (pick(low, high),))


def operand(pick: Pick, sketch: Sketch, shape: tuple[int, ...], dtype: str, constant: bool) -> int:
    kind = TensorType(dtype, shape, quantization(pick, dtype))
    if constant:
        return sketch.add_tensor(kind, sketch.codes(shape, dtype))
    return sketch.builder.as_input(sketch.add_tensor(kind))


def random_pairs(pick: Pick) -> Graph:
    """An operator of two operands that broadcast, of any two types, one of them perhaps a constant or one number."""
    fused = bool(pick(0, 1))
    names = FUSED if fused else LITERAL
    name = names[pick(0, len(names) - 1)]
    sketch = Sketch("random", seed=pick(0, 1 << 20))
    shape = tuple(pick(1, 12) for _ in range(pick(1, 4)))
    other = tuple(1 if pick(0, 3) == 0 else size for size in shape)[pick(0, len(shape)) :]
    dtypes = [("int8", "uint8")[pick(0, 1)] for _ in range(3)]
    if fused:
        dtypes = dtypes[:1] * 3
    operands = [
        operand(pick, sketch, shape, dtypes[0], False),
        operand(pick, sketch, other, dtypes[1], bool(pick(0, 1))),
    ]
    if name != "prelu" and pick(0, 1):
        operands.reverse()
    # Fused products that exceed 2**31 output scales are refused: those of 0.9 * 255 need an output scale of 2**-15.
    least = 1 << 7 if fused and name == "mul" else 1
    output = unshaped(dtypes[2], quantization(pick, dtypes[2], least))
    more = {} if name in ("maximum", "minimum", "prelu") else {"activation": ACTIVATIONS[pick(0, 3)]}
    last = sketch.node(name, operands, output, rescale="fused" if fused else "float32", **more)
    return sketch.graph([last])


TABLES: dict[str, dict[str, object]] = {
    **{name: {} for name in NAMES if family(name) == "tables"},
    "leaky_relu": {"alpha": 0.1},
    "hard_sigmoid": {"alpha": 0.2, "beta": 0.5},
    "clip": {"least": -0.7, "most": 1.3},
    "gelu": {"approximate": True},
    "swish": {"beta": 1.7},
    "quantize": {},
}
del TABLES["logical_not"], TABLES["look_up"]


def random_functions(pick: Pick) -> Graph:
    """Functions of one operand one after the other, from any type to any type."""
    sketch = Sketch("random", seed=pick(0, 1 << 20))
    shape = tuple(pick(1, 30) for _ in range(pick(1, 3)))
    last = operand(pick, sketch, shape, ("int8", "uint8")[pick(0, 1)], False)
    for _ in range(pick(1, 4)):
        name = list(TABLES)[pick(0, len(TABLES) - 1)]
        dtype = ("int8", "uint8")[pick(0, 1)]
        output = unshaped(dtype, quantization(pick, dtype))
        last = sketch.node(name, [last], output, rescale="float32", **TABLES[name])
    return sketch.graph([last])


@pytest.mark.slow
@given(graphs(random_functions), st.sampled_from([EDGE, SMALL]))
@examples(80)
def test_functions_of_one_operand(graph: Graph, chosen: object) -> None:
    on_npu(graph)
    check(graph, chosen)  # type: ignore[arg-type]


def random_sums(pick: Pick) -> Graph:
    """Pools, means and sums over axes, and softmax, literal or fused, of any types."""
    sketch = Sketch("random", seed=pick(0, 1 << 20))
    dtypes = [("int8", "uint8")[pick(0, 1)] for _ in range(2)]
    rescale = ("float32", "fused")[pick(0, 1)]
    if rescale == "fused":
        dtypes[1] = dtypes[0]
    kind = pick(0, 2)
    shape = (pick(1, 2), pick(1, 12), pick(1, 12), pick(1, 20))
    source = operand(pick, sketch, shape, dtypes[0], False)
    output = unshaped(dtypes[1], quantization(pick, dtypes[1]))
    if kind == 0:
        sizes = tuple(pick(1, min(5, size)) for size in shape[1:3])
        padding = tuple((pick(0, size - 1), pick(0, size - 1)) for size in sizes)
        counted = padding if pick(0, 1) else ((0, 0), (0, 0))
        how = {"filter": sizes, "strides": (pick(1, 3), pick(1, 3)), "padding": padding, "counted": counted}
        how["activation"] = ACTIVATIONS[pick(0, 3)]
        if rescale == "float32":
            how["by_columns"] = bool(pick(0, 1))
        return sketch.graph([sketch.node("average_pool_2d", [source], output, rescale=rescale, **how)])
    if kind == 1:
        axes = [axis for axis in range(4) if pick(0, 1)]
        name = "mean" if rescale == "fused" else ("mean", "sum")[pick(0, 1)]
        return sketch.graph([sketch.node(name, [source], output, rescale=rescale, axes=axes)])
    return sketch.graph([sketch.node("softmax", [source], output, rescale=rescale, axis=pick(0, 3))])


@pytest.mark.slow
@given(graphs(random_sums), st.sampled_from([EDGE, SMALL]))
@examples(150)
def test_sums(graph: Graph, chosen: object) -> None:
    on_npu(graph)
    check(graph, chosen)  # type: ignore[arg-type]


def reals(sketch: Sketch, shape: tuple[int, ...]) -> Array:
    return sketch.rng.normal(0, 3, shape).astype(np.float32)


def random_norms(pick: Pick) -> Graph:
    """A layer or RMS normalization over the last axes, literal or fused, of any types; scale and bias of any kind."""
    sketch = Sketch("random", seed=pick(0, 1 << 20))
    dtypes = [("int8", "uint8")[pick(0, 1)] for _ in range(2)]
    shape = (pick(1, 3), pick(1, 20), pick(1, 30))
    begin = pick(0, 2)
    source = operand(pick, sketch, shape, dtypes[0], False)
    vectors = [
        operand(pick, sketch, shape[begin:], "int8", True)
        if pick(0, 1)
        else sketch.add_tensor(TensorType("float32", shape[begin:]), reals(sketch, shape[begin:]))
        for _ in range(2)
    ]
    output = unshaped(dtypes[1], quantization(pick, dtypes[1]))
    how = {"epsilon": (0.0, 1e-5, 0.1)[pick(0, 2)], "centred": bool(pick(0, 1))}
    rescale = ("float32", "fused")[pick(0, 1)]
    node = sketch.node(
        "layer_normalization", [source, *vectors], output, begin_axis=begin, rescale=rescale, **how
    )
    return sketch.graph([node])


@pytest.mark.slow
@given(graphs(random_norms), st.sampled_from([EDGE, SMALL]))
@examples(100)
def test_normalizations(graph: Graph, chosen: object) -> None:
    on_npu(graph)
    check(graph, chosen)  # type: ignore[arg-type]


def on_npu(graph: Graph) -> None:
    """Every layer is the NPU's."""
    layers = compile_graph(graph, EDGE).layers
    assert [layer.unit for layer in layers if layer.unit == "host"] == [], layers


@pytest.mark.slow
@given(graphs(random_pairs), st.sampled_from([EDGE, SMALL]))
@examples(150)
def test_two_operands(graph: Graph, chosen: object) -> None:
    on_npu(graph)
    check(graph, chosen)  # type: ignore[arg-type]


@pytest.mark.parametrize("rescale", ["float32", "fused"])
def test_a_machine_without_leaves_them_to_the_host(rescale: str) -> None:
    sketch = Sketch("random")
    graph = sketch.graph(
        [
            sketch.node(
                "add",
                [sketch.input(4, 5), sketch.input(4, 5)],
                unshaped("int8", sketch.quantization()),
                rescale=rescale,
            )
        ]
    )
    without = change(EDGE, {"float32_rescale": False})
    (call,) = compile_graph(graph, without).host_calls
    assert (
        call.reason
        == "needs lanes that compute on quantized values in float32 (float32_rescale); edge-128 has none"
    )
    on_npu(graph)
