"""Operators that repeat, mirror, reverse, interleave and choose elements: small vectors, rules, aliases, work."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npusim.isa.base.errors import SimulationError
from npusim.isa.base.tensor import TensorType
from npusim.kernels.lowering.move import Loop, phases, strided_moves
from npusim.kernels.operator.operator import Alias, Call
from npusim.kernels.table import operator

from .calls import call_with, codes, given, reals, results


def whole(*shape: int, dtype: str = "int32") -> TensorType:
    return TensorType(dtype, shape)


COUNTED = [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize(
    ("name", "inputs", "output", "parameters", "values", "expected"),
    [
        ("tile", [codes(2, 3)], codes(2, 6), {"multiples": [1, 2]}, [COUNTED],
         [[0, 1, 2, 0, 1, 2], [3, 4, 5, 3, 4, 5]]),
        ("tile", [codes(2, 3)], codes(0, 3), {"multiples": [0, 1]}, [COUNTED], []),
        ("broadcast_to", [reals(2, 1)], reals(2, 2, 2), {"shape": [2, 2, 2]}, [[[1.0], [2.0]]],
         [[[1, 1], [2, 2]]] * 2),
        ("fill", [whole()], whole(2, 2), {"shape": [2, 2]}, [7], [[7, 7], [7, 7]]),
        ("pack", [codes(2), codes(2)], codes(2, 2), {"axis": 1}, [[1, 2], [3, 4]], [[1, 3], [2, 4]]),
        ("mirror_pad", [codes(3)], codes(7), {"paddings": [[2, 2]], "mode": "reflect"}, [[1, 2, 3]],
         [3, 2, 1, 2, 3, 2, 1]),
        ("mirror_pad", [codes(3)], codes(7), {"paddings": [[2, 2]], "mode": "symmetric"}, [[1, 2, 3]],
         [2, 1, 1, 2, 3, 3, 2]),
        ("edge_pad", [codes(3)], codes(8), {"paddings": [[2, 3]]}, [[1, 2, 3]], [1, 1, 1, 2, 3, 3, 3, 3]),
        ("roll", [codes(2, 3)], codes(2, 3), {"shifts": [0, 1]}, [COUNTED], [[2, 0, 1], [5, 3, 4]]),
        ("roll", [codes(2, 3)], codes(2, 3), {"shifts": [3, -4]}, [COUNTED], [[4, 5, 3], [1, 2, 0]]),
        ("reverse_v2", [codes(2, 3)], codes(2, 3), {"axes": [1]}, [COUNTED], [[2, 1, 0], [5, 4, 3]]),
        ("reverse_v2", [codes(2, 3)], codes(2, 3), {"axes": [0, 1]}, [COUNTED], [[5, 4, 3], [2, 1, 0]]),
        ("depth_to_space", [codes(1, 1, 2, 4)], codes(1, 2, 4, 1), {"block_size": 2}, [range(8)],
         [[[[0], [1], [4], [5]], [[2], [3], [6], [7]]]]),
        ("space_to_depth", [codes(1, 2, 4, 1)], codes(1, 1, 2, 4), {"block_size": 2}, [range(8)],
         [[[[0, 1, 4, 5], [2, 3, 6, 7]]]]),
        ("space_to_batch_nd", [codes(1, 3, zero_point=9)], codes(2, 2, zero_point=9),
         {"block_shape": [2], "paddings": [[1, 0]]}, [[1, 2, 3]], [[9, 2], [1, 3]]),
        ("batch_to_space_nd", [codes(2, 2)], codes(1, 3), {"block_shape": [2], "crops": [[1, 0]]},
         [[[9, 2], [1, 3]]], [[1, 2, 3]]),
        ("channel_shuffle", [codes(6)], codes(6), {"groups": 2, "axis": 0}, [range(6)], [0, 3, 1, 4, 2, 5]),
        ("gather", [codes(2, 3), whole(2)], codes(2, 2), {"axis": 1}, [COUNTED, [2, 0]], [[2, 0], [5, 3]]),
        ("gather", [codes(2, 3), whole(2, 1, dtype="int64")], codes(2, 1), {"axis": 1, "batch_dims": 1},
         [COUNTED, [[2], [0]]], [[2], [3]]),
        ("gather", [codes(2, 3), whole()], codes(3), {}, [COUNTED, 1], [3, 4, 5]),
        ("gather", [codes(2, 3), whole(0)], codes(0, 3), {}, [COUNTED, []], []),
        ("gather_nd", [codes(2, 3), whole(2, 2)], codes(2), {}, [COUNTED, [[1, 2], [0, 0]]], [5, 0]),
        ("gather_nd", [codes(2, 3), whole(1, 1)], codes(1, 3), {}, [COUNTED, [[1]]], [[3, 4, 5]]),
        (
            "scatter_nd",
            [codes(2, 3), whole(2, 1), codes(2, 3)],
            codes(2, 3),
            {},
            [COUNTED, [[1], [1]], [[7, 7, 7], [8, 8, 8]]],
            [[0, 1, 2], [8, 8, 8]],
        ),
        (
            "scatter_nd",
            [codes(2, 3), whole(3, 2), codes(3)],
            codes(2, 3),
            {"reduction": "add"},
            [COUNTED, [[0, 0], [0, 0], [1, 2]], [10, 20, 30]],
            [[30, 1, 2], [3, 4, 35]],
        ),
        ("dynamic_update_slice", [codes(2, 3), codes(1, 2), whole(2)], codes(2, 3), {},
         [COUNTED, [[7, 8]], [1, 0]], [[0, 1, 2], [7, 8, 5]]),
        ("dynamic_update_slice", [codes(2, 3), codes(1, 2), whole(2, dtype="int64")], codes(2, 3), {},
         [COUNTED, [[7, 8]], [-4, 9]], [[0, 7, 8], [3, 4, 5]]),
        ("embedding_lookup", [whole(3), reals(2, 2)], reals(3, 2), {}, [[1, 0, 1], [[1, 2], [3, 4]]],
         [[3, 4], [1, 2], [3, 4]]),
    ],
)  # fmt: skip
def test_written_out(
    name: str,
    inputs: list[TensorType],
    output: TensorType,
    parameters: dict[str, Any],
    values: Any,
    expected: Any,
) -> None:
    call = call_with(inputs, [output], given(name, **parameters))
    assert results(operator(name), call, *values) == [expected]
    assert operator(name).infer(call) == (output.shape,)


def test_unpack_gives_the_slices() -> None:
    call = call_with([codes(2, 3)], [codes(2)] * 3, given("unpack", axis=1))
    assert results(operator("unpack"), call, COUNTED) == [[0, 3], [1, 4], [2, 5]]


def test_a_key_that_is_not_there_gives_zeros() -> None:
    call = call_with([whole(3), whole(2), reals(2, 2)], [reals(3, 2), whole(3, dtype="uint8")])
    found = results(operator("hashtable_lookup"), call, [7, 8, 3], [3, 7], [[1, 2], [3, 4]])
    assert found == [[[3, 4], [0, 0], [1, 2]], [1, 0, 1]]
    # Keys that are computed may be in any order.
    assert results(operator("hashtable_lookup"), call, [7, 8, 3], [7, 3], [[3, 4], [1, 2]]) == found


@pytest.mark.parametrize(
    ("name", "call", "values", "message"),
    [
        ("gather", call_with([codes(3), whole(2)], [codes(2)], given("gather")), [[1, 2, 3], [0, 3]],
         "index 3 at [1] of input 1: may be 0..2"),
        ("gather", call_with([codes(3), whole(2)], [codes(2)], given("gather")), [[1, 2, 3], [-1, 0]],
         "index -1 at [0] of input 1: may be 0..2"),
        ("gather", call_with([codes(0), whole(1)], [codes(1)], given("gather")), [[], [0]],
         "index 0 at [0] of input 1: there is nothing to choose from"),
        ("gather_nd", call_with([codes(3, 2), whole(1, 2)], [codes(1)]), [[[1, 2], [3, 4], [5, 6]], [[1, 2]]],
         "index 2 at [0, 1] of input 1: may be 0..1"),
        ("embedding_lookup", call_with([whole(1), codes(3, 1)], [codes(1, 1)]), [[3], [[1], [2], [3]]],
         "index 3 at [0] of input 0: may be 0..2"),
    ],
)  # fmt: skip
def test_an_index_outside_is_an_error(name: str, call: Call, values: Any, message: str) -> None:
    with pytest.raises(SimulationError) as fault:
        results(operator(name), call, *values)
    assert str(fault.value) == message


RULES: list[tuple[str, Call, str]] = [
    ("gather", call_with([codes(3), whole(2, dtype="int16")], [codes(2)], given("gather")), "element types are (int8,"),
    ("gather", call_with([codes(3), whole(2)], [codes(2)], given("gather", axis=1)), "axis is an axis of the values"),
    ("gather", call_with([codes(2, 3), whole(3, 1)], [codes(2, 1)], given("gather", axis=1, batch_dims=1)),
     "axis is an axis of the values, and batch_dims are axes before it that the indices have too"),
    ("gather_nd", call_with([codes(3), whole(1, 2)], [codes(1)]), "the indices have an axis or more, the last of"),
    ("tile", call_with([codes(3)], [codes(3)], given("tile", multiples=[1, 1])), "multiples has a number for each"),
    ("tile", call_with([codes(3)], [codes(5)], given("tile", multiples=[2])), "the output's size along each axis"),
    ("mirror_pad", call_with([codes(3)], [codes(6)], given("mirror_pad", paddings=[[3, 0]])),
     "paddings has two numbers for each axis, no more than the axis has elements to mirror"),
    ("edge_pad", call_with([codes(0)], [codes(1)], given("edge_pad", paddings=[[1, 0]])),
     "paddings has two numbers for each axis, zeros where the axis has no element to repeat"),
    ("roll", call_with([codes(3)], [codes(3)], given("roll", shifts=[1, 1])), "shifts has a number for each axis of"),
    ("reverse_v2", call_with([codes(3)], [codes(3)], given("reverse_v2", axes=[1])), "axes are axes of the input"),
    ("depth_to_space", call_with([codes(1, 1, 1, 6)], [codes(1, 2, 2, 1)], given("depth_to_space", block_size=2)),
     "the input has four axes, and a multiple of block_size squared as depth"),
    ("space_to_depth", call_with([codes(1, 3, 2, 1)], [codes(1, 1, 1, 4)], given("space_to_depth", block_size=2)),
     "the input has four axes, and multiples of block_size as height and width"),
    ("channel_shuffle", call_with([codes(6)], [codes(6)], given("channel_shuffle", groups=4, axis=0)),
     "axis is an axis of the input, and groups divides its size"),
    ("batch_to_space_nd",
     call_with([codes(3, 2)], [codes(1, 4)], given("batch_to_space_nd", block_shape=[2], crops=[[0, 0]])),
     "the batches are a multiple of the elements of a block"),
    ("space_to_batch_nd",
     call_with([codes(1, 3)], [codes(2, 2)], given("space_to_batch_nd", block_shape=[2], paddings=[[0, 0]])),
     "the sizes with their paddings are multiples of those of a block"),
    ("fill", call_with([codes(2)], [codes(3)], given("fill", shape=[3])), "the input has one element"),
    ("broadcast_to", call_with([codes(2)], [codes(3)], given("broadcast_to", shape=[3])), "the sizes of the input,"),
    ("pack", call_with([codes(2), codes(3)], [codes(2, 2)], given("pack")), "all inputs have one shape, and axis is"),
    ("unpack", call_with([codes(3)], [codes()] * 2, given("unpack")), "axis is an axis of the input, of as many"),
    ("hashtable_lookup", call_with([whole(1), whole(2), codes(3)], [codes(1), whole(1, dtype="uint8")]),
     "lookups and keys have one axis, and the values have a row for each key"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "call", "message"), RULES)
def test_rules(name: str, call: Call, message: str) -> None:
    broken = operator(name).broken_rule(call)
    assert broken is not None
    assert broken.startswith(message)


def test_constants_are_checked_before_anything_runs() -> None:
    keys = np.array([3, 1], np.int32)
    inputs = (whole(1), whole(2), codes(2))
    call = Call(given("hashtable_lookup"), inputs, (codes(1), whole(1, dtype="uint8")), {1: keys})
    assert operator("hashtable_lookup").broken_rule(call) == "constant keys ascend"


def test_slices_share_memory_where_they_are_whole() -> None:
    call = call_with([reals(3, 2)] * 2, [reals(2, 3, 2)], given("pack", axis=0))
    alias = operator("pack").alias
    assert alias is not None
    assert alias(call) == (Alias(("in", 0), ("out", 0), 0), Alias(("in", 1), ("out", 0), 24))
    assert alias(call_with([reals(3, 2)] * 2, [reals(3, 2, 2)], given("pack", axis=1))) is None
    alias = operator("unpack").alias
    assert alias is not None
    assert alias(call_with([reals(1, 2, 3)], [reals(1, 3)] * 2, given("unpack", axis=1))) == (
        Alias(("out", 0), ("in", 0), 0),
        Alias(("out", 1), ("in", 0), 12),
    )
    assert alias(call_with([reals(2, 2, 3)], [reals(2, 3)] * 2, given("unpack", axis=1))) is None


def test_a_gather_reads_no_more_than_it_takes() -> None:
    """1,000 rows of 8 bytes, 3 of them taken: 24 bytes, and 12 of indices."""
    work = operator("gather").workload(call_with([codes(1000, 8), whole(3)], [codes(3, 8)], given("gather")))
    assert (work.kind, work.input_bytes, work.output_bytes) == ("move", 36, 24)


def test_what_is_one_walk_is_one_run() -> None:
    [move] = strided_moves([Loop(2, 12, 12), Loop(3, 4, 4), Loop(4, 1, 1)], 4)
    assert (move.counts, move.source_strides, move.target_strides) == ((96,), (), ())
    [move] = strided_moves([Loop(2, 0, 12), Loop(3, 0, 4), Loop(4, 1, 1)], 2)
    assert (move.counts, move.source_strides, move.target_strides) == ((6, 8), (0,), (8,))
    assert strided_moves([Loop(2, 1, 1), Loop(0, 1, 1)], 1) == ()


def test_the_shortest_loops_are_unrolled() -> None:
    loops = [Loop(9, 1000, 1), Loop(2, 100, 9), Loop(7, 20, 18), Loop(8, 2, 126)]
    moves = strided_moves(loops, 1)
    assert [(move.source_offset, move.target_offset) for move in moves] == [(0, 0), (100, 9)]
    assert {move.counts for move in moves} == {(9, 7, 8, 1)}


@pytest.mark.parametrize(
    ("block", "size", "before"), [(1, 5, 0), (3, 5, 1), (4, 2, 3), (7, 3, 0), (100, 3, 2), (5, 40, 7)]
)
def test_phases_of_a_block(block: int, size: int, before: int) -> None:
    """Each element of the axis once, in at most three kinds of phases."""
    steps = -(-(size + before) // block)
    kinds = list(phases(block, size, before, steps))
    seen = [
        phase + step * block - before
        for kind in kinds
        for phase in range(kind.first, kind.first + kind.times)
        for step in range(kind.begin, kind.end)
    ]
    assert sorted(seen) == list(range(size))
    assert len(kinds) <= 3
