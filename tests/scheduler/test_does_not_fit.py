"""Models that do not fit: the message names the operator, the bytes it needs and the bytes there are."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from npusim.frontends.transformer.network import transformer
from npusim.frontends.transformer.published import BY_NAME
from npusim.isa.base.errors import CompileError, GraphError
from npusim.isa.hardware.file import hardware
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.memories import Scratchpad
from npusim.kernels.graph.graph import Graph
from npusim.scheduler import compile_graph, prepare
from npusim.scheduler.fit.cuts import FAST
from npusim.scheduler.place.residency import fit, most_attempts, shrink

from ..graphs import Sketch


def tiny(size_kib: int) -> Hardware:
    """edge-128 with a scratchpad as small as a hardware file could not make it."""
    return hardware("edge-128").model_copy(
        update={"name": "tiny", "scratchpad": Scratchpad(size_kib=size_kib, banks=1)}
    )


def convolution() -> Graph:
    sketch = Sketch("net")
    sketch.conv(sketch.input(1, 8, 40, 64), 16)
    return sketch.graph()


def matrix() -> Graph:
    sketch = Sketch("net")
    sketch.fully_connected(sketch.input(1, 1500), 16)
    return sketch.graph()


def depthwise() -> Graph:
    sketch = Sketch("net")
    sketch.depthwise(sketch.input(1, 9, 9, 50), multiplier=2, per_channel=True)
    return sketch.graph()


def softmax() -> Graph:
    sketch = Sketch("net")
    sketch.softmax(sketch.input(3, 700))
    return sketch.graph()


@pytest.mark.parametrize(
    ("network", "operator", "needs"),
    [
        # One output channel: 9 * 64 weights, a bias, multiplier and shift: 585, aligned 592. One band of 3 rows of
        # 40 * 64, one tile of one output row of 38 pixels.
        (convolution, "conv_2d", 592 + 7680 + 48),
        # One of 16 units: 1500 weights, a bias, multiplier and shift: 1509, aligned 1520; the input 1504, the
        # result 16.
        (matrix, "fully_connected", 1520 + 1504 + 16),
        # All 100 channels at once, two of them read one of the map:
        # 9 taps and 9 bytes of parameters each; a band of 3 rows of 9 * 50, an output row
        # of 7 * 100.
        (depthwise, "depthwise_conv_2d", 1808 + 1360 + 704),
        # A row in and a row out.
        (softmax, "softmax", 704 + 704),
    ],
)
def test_what_does_not_fit_is_named(network: Callable[[], Graph], operator: str, needs: int) -> None:
    size_kib = needs // 1024
    with pytest.raises(CompileError) as caught:
        compile_graph(network(), tiny(size_kib))
    assert str(caught.value) == (
        f'net: {operator} "n0" needs {needs} bytes of scratchpad for its smallest tile, '
        f"tiny has {size_kib * 1024}; enlarge scratchpad.size_kib"
    )
    # One KiB more is enough.
    assert compile_graph(network(), tiny(size_kib + 1)).scratchpad_peak_bytes <= (size_kib + 1) * 1024


@pytest.mark.parametrize(
    ("preset", "said"),
    [
        ("edge-128", "the memory dram of edge-128 has 67,108,864; give more than dram.size_mib=1049"),
        ("gap9", "the memory l2 of gap9 has 1,572,864; give more than memory.l2.size_kib=1074268"),
    ],
)
def test_constants_of_known_size_are_refused_before_any_search(preset: str, said: str) -> None:
    graph = transformer(BY_NAME["tinyllama_1.1b"].config, tokens=1)
    with pytest.raises(CompileError) as caught:
        prepare(graph, hardware(preset))
    sized = sum(each.type.size_bytes for each in graph.tensors if each.constant)
    wanted = f"tinyllama_1.1b: constants alone take {sized:,} bytes, {said}, or a smaller model"
    assert str(caught.value) == wanted


def test_the_operator_that_needs_most_is_named() -> None:
    sketch = Sketch("net")
    wide = sketch.conv(sketch.input(1, 8, 8, 8), 64, (1, 1))
    sketch.conv(wide, 8, (5, 5))
    with pytest.raises(CompileError, match=r'^net: conv_2d "n1" needs \d+ bytes'):
        compile_graph(sketch.graph(), tiny(4))


def test_moves_and_residents_make_room_for_each_other() -> None:
    # Two maps of 2 KiB are joined into one of 4 KiB: not all three fit 6 KiB at once, though each layer does.
    sketch = Sketch("net")
    x = sketch.conv(sketch.input(1, 16, 16, 8), 8, (1, 1))
    y = sketch.pool("max_pool_2d", x, (1, 1))
    sketch.conv(sketch.concat([x, y], 3), 4, (1, 1))
    for size_kib in range(5, 13):
        program = compile_graph(sketch.graph(), tiny(size_kib))
        assert program.scratchpad_peak_bytes <= size_kib * 1024


def test_attempts_end() -> None:
    # Each item in turn finds no place until nothing is left to take from it: no state comes twice, and the number of
    # steps is within the bound. In this order all storages are evicted, and all items lose what they can.
    sketch = Sketch("net")
    x = sketch.conv(sketch.input(1, 32, 32, 8), 8, padding=((1, 1), (1, 1)))
    y = sketch.conv(x, 8, padding=((1, 1), (1, 1)))
    sketch.conv(sketch.concat([sketch.binary("add", x, y), y], 3), 8)
    network = prepare(sketch.graph(), hardware("edge-128"))
    residents = fit(network, FAST)
    assert residents.roots
    seen, most = [residents], most_attempts(residents)
    for index in range(len(network.items)):
        try:
            while len(seen) < most:
                seen.append(shrink(seen[-1], index, fused=True))
        except CompileError:
            continue
    assert not seen[-1].roots
    states = [(each.roots, tuple(sorted(each.allowances.items()))) for each in seen]
    assert len(set(states)) == len(states)
    assert 4 * len(network.items) < len(states) < most


def test_a_broken_rule_names_operator_and_layer() -> None:
    sketch = Sketch("net")
    tensor = sketch.input(1, 8, 8, 4)
    sketch.node("softmax", (tensor,), sketch.type_of(tensor), beta=1.0)
    with pytest.raises(GraphError, match=r"""^net: softmax "n0".*: an output's zero point is the smallest"""):
        compile_graph(sketch.graph(), hardware("edge-128"))


def test_unknown_operators_are_named() -> None:
    sketch = Sketch("net")
    tensor = sketch.input(1, 8)
    sketch.node("conv_2", (tensor,), sketch.type_of(tensor))
    with pytest.raises(GraphError, match=r"^net: 1 operator is not known to npusim: CONV_2 \(1\)"):
        compile_graph(sketch.graph(), hardware("edge-128"))
