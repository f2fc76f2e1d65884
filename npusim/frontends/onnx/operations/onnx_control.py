"""Control flow of ONNX: branches, and loops that are unrolled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npusim.frontends.forms.networks import Network
from npusim.frontends.forms.node_conversion import NodeConversion
from npusim.frontends.forms.node_rows import Row

MOST_ROUNDS = 1024


def _body(c: NodeConversion, name: str) -> Network:
    body = c.attribute(name)
    if not isinstance(body, Network):
        raise c.fault(f"has no graph {name}")
    return body


def _branch(c: NodeConversion) -> Sequence[int]:
    """Add the branch that a constant condition chooses; otherwise add both and select each result."""
    cond = c.known("cond")
    if cond is not None:
        c.require(cond.size == 1, f"cond has shape {list(cond.shape)}, must be one truth")
        return c.body(_body(c, "then_branch" if cond.reshape(-1)[0] else "else_branch"), [])
    both = [c.body(_body(c, name), []) for name in ("then_branch", "else_branch")]
    results: list[int] = []
    for place, (yes, no) in enumerate(zip(*both, strict=False)):
        yes, no = c.plainly(yes), c.plainly(no)
        c.require(
            c.shape(yes) == c.shape(no) and c.like(yes) == c.like(no),
            f"output {place} has shape {list(c.shape(yes))} in one branch and {list(c.shape(no))} in the other, while "
            "cond follows from data",
        )
        cond_ = c.reshaped(c.real("cond"), ())
        results += c.nodes("select_v2", [cond_, yes, no], [c.like(yes)])
    return results


def _truth(c: NodeConversion, tensor: int, what: str) -> bool:
    array = c.builder.tensors[tensor].array
    if array is None or array.size != 1:
        raise c.fault(
            f"{what} depends on data; npusim unrolls loops, so their number of iterations must be constant"
        )
    return bool(array.reshape(-1)[0])


def _round(c: NodeConversion, rounds: int) -> None:
    c.require(
        rounds < MOST_ROUNDS, f"has more than {MOST_ROUNDS} iterations; npusim unrolls loops up to that"
    )


def _loop(c: NodeConversion) -> Sequence[int]:
    body = _body(c, "body")
    most = int(c.value("M").reshape(-1)[0]) if c.has("M") else None
    going = not c.has("cond") or _truth(c, c.real("cond"), "cond")
    carried = [c.plainly(tensor) for tensor in c.tensors("v_initial")]
    c.require(
        len(body.inputs) == 2 + len(carried) and len(body.outputs) >= 1 + len(carried),
        f"body has {len(body.inputs)} inputs and {len(body.outputs)} outputs for {len(carried)} values",
    )
    rows: list[list[int]] = [[] for _ in body.outputs[1 + len(carried) :]]
    rounds = 0
    while going and (most is None or rounds < most):
        _round(c, rounds)
        state = [c.constant(np.array(rounds, np.int64)), c.constant(np.array(True)), *carried]
        cond, *results = [c.plainly(tensor) for tensor in c.body(body, state)]
        carried = results[: len(carried)]
        for row, tensor in zip(rows, results[len(carried) :], strict=True):
            row.append(tensor)
        rounds += 1
        going = _truth(c, cond, "the condition of the next round") if most is None or rounds < most else False
    return [*carried, *(_stacked(c, row, 0) for row in rows)]


def _stacked(c: NodeConversion, rows: Sequence[int], axis: int) -> int:
    c.require(bool(rows), "has no iteration, so the shape of its collected outputs is not known")
    kinds = {(c.like(tensor), c.shape(tensor)) for tensor in rows}
    c.require(len(kinds) == 1, "collects tensors of different shapes")
    return c.step("pack", rows, axis=c.axis(axis, len(c.shape(rows[0])) + 1, "scan_output_axes"))


def _scan(c: NodeConversion) -> Sequence[int]:
    """Add the iterations of Scan, with states passed on and slices of the scan inputs."""
    body, count = _body(c, "body"), int(c.attribute("num_scan_inputs", 0))
    tensors = [c.plainly(tensor) for tensor in c.tensors("initial_state_and_scan_inputs")]
    c.require(
        0 < count <= len(tensors) == len(body.inputs), f"num_scan_inputs is {count}, of {len(tensors)} inputs"
    )
    carried, scanned = tensors[: len(tensors) - count], tensors[len(tensors) - count :]
    axes, backwards = _said(c, "scan_input_axes", count), _said(c, "scan_input_directions", count)
    slices = [
        _slices(c, tensor, axis, back) for tensor, axis, back in zip(scanned, axes, backwards, strict=True)
    ]
    c.require(
        len({len(slices_of_input) for slices_of_input in slices}) == 1, "scan inputs differ in their length"
    )
    results = len(body.outputs) - len(carried)
    rows: list[list[int]] = [[] for _ in range(results)]
    for rounds, parts in enumerate(zip(*slices, strict=True)):
        _round(c, rounds)
        of_body = [c.plainly(tensor) for tensor in c.body(body, [*carried, *parts])]
        carried = of_body[: len(carried)]
        for row, tensor in zip(rows, of_body[len(carried) :], strict=True):
            row.append(tensor)
    axes, backwards = _said(c, "scan_output_axes", results), _said(c, "scan_output_directions", results)
    stacked = [
        _stacked(c, row[::-1] if back else row, axis)
        for row, axis, back in zip(rows, axes, backwards, strict=True)
    ]
    return [*carried, *stacked]


def _said(c: NodeConversion, name: str, count: int) -> list[int]:
    numbers = [int(number) for number in c.attribute(name) or (0,) * count]
    c.require(len(numbers) == count, f"{name} {numbers} are not {count} numbers")
    return numbers


def _slices(c: NodeConversion, tensor: int, axis: int, backwards: int) -> list[int]:
    shape = c.shape(tensor)
    axis = c.axis(axis, len(shape), "scan_input_axes")
    length = shape[axis]
    c.require(
        0 < length <= MOST_ROUNDS, f"a scan input has {length} slices; npusim writes out 1 to {MOST_ROUNDS}"
    )
    kinds: Any = [c.like(tensor)] * length
    parts = list(c.nodes("unpack", [tensor], kinds, axis=axis))
    return parts[::-1] if backwards else parts


ROWS: tuple[Row, ...] = (
    Row("If", "cond", _branch, "select_v2", groups=False),
    Row("Loop", "M? cond? v_initial*", _loop, "pack", groups=False),
    Row("Scan", "initial_state_and_scan_inputs*", _scan, "pack unpack", groups=False),
)
