"""LSTM, GRU and RNN unrolled step by step; the input's share of the gates is one product for all steps.

In com.microsoft's DynamicQuantizeLSTM the inputs of all steps are quantized together, and the hidden states in each
step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from npusim.frontends.forms.node_conversion import NodeConversion
from npusim.frontends.forms.node_rows import Convert, Row, microsoft
from npusim.frontends.onnx.operations.quantized_products import DynamicWeights, dynamic_product
from npusim.isa.base.lazy_dataclass import dataclass

MOST_STEPS = 1024

_DYNAMIC = "DynamicQuantizeLSTM"

Function = Callable[[int], int]


@dataclass(frozen=True, slots=True)
class _FloatWeights:
    """Float weights [wide, inner] of one direction."""

    weights: int

    def times(self, c: NodeConversion, x: int, bias: int | None) -> int:
        """Return the product of [rows, inner] with the weights, [rows, wide]."""
        return c.step("fully_connected", [x, self.weights, bias])


@dataclass(frozen=True, slots=True)
class _QuantizedWeights:
    """Quantized weights [inner, wide] of one direction, multiplied by floats that are quantized at run time."""

    weights: DynamicWeights

    def times(self, c: NodeConversion, x: int, bias: int | None) -> int:
        """Return the product of [rows, inner] with the weights, [rows, wide]."""
        product = dynamic_product(c, x, self.weights)
        return product if bias is None else c.step("add", [product, bias])


_Matrix = _FloatWeights | _QuantizedWeights


@dataclass(frozen=True, slots=True)
class _Cell:
    """One direction of a layer: its weights, and the functions of its gates.

    recurrent: the matrix of hidden states.
    bias: the bias of the recurrent part, [gates * hidden].
    """

    c: NodeConversion
    gates: int
    hidden: int
    functions: tuple[Function, ...]
    recurrent: _Matrix
    bias: int | None
    peepholes: int | None

    def parts(self, tensor: int) -> list[int]:
        """Return [batch, gates * hidden] as one tensor per gate."""
        kinds = [self.c.like(tensor)] * self.gates
        if self.gates == 1:
            return [tensor]
        return list(self.c.nodes("split", [tensor], kinds, axis=1, sizes=(self.hidden,) * self.gates))

    def clipped(self, tensor: int) -> int:
        """Return the operand of a gate's function, limited by the attribute `clip`."""
        limit = float(self.c.attribute("clip", 0.0))
        return self.c.step("clip", [tensor], least=-limit, most=limit) if limit > 0 else tensor

    def of_hidden(self, hidden: int) -> int:
        """Return the recurrent part of the gates."""
        return self.recurrent.times(self.c, hidden, self.bias)


Step = Callable[[_Cell, int, Sequence[int]], list[int]]
"""The function (cell, input's share of the gates [batch, gates * hidden], states) -> next states."""


def _lstm(cell: _Cell, inputs: int, states: Sequence[int]) -> list[int]:
    """Compute an LSTM step; gates are i, o, f, c, and peepholes read the cell state."""
    c, (hidden, held) = cell.c, states
    i, o, f, g = cell.parts(c.step("add", [inputs, cell.of_hidden(hidden)]))
    looks: list[int] = []
    if cell.peepholes is not None:
        looks = list(c.nodes("split", [cell.peepholes], [c.like(held)] * 3, axis=0, sizes=(cell.hidden,) * 3))
        i, f = (c.step("add", [gate, c.step("mul", [looks[at], held])]) for gate, at in ((i, 0), (f, 2)))
    gate, inner, outer = cell.functions
    kept = c.step("mul", [gate(cell.clipped(f)), held])
    fresh = c.step("mul", [gate(cell.clipped(i)), inner(cell.clipped(g))])
    held = c.step("add", [kept, fresh])
    if looks:
        o = c.step("add", [o, c.step("mul", [looks[1], held])])
    return [c.step("mul", [gate(cell.clipped(o)), outer(held)]), held]


def _gru(cell: _Cell, inputs: int, states: Sequence[int]) -> list[int]:
    """Compute a GRU step; gates are z, r, h, and the reset comes before or after the product with the hidden state."""
    c, [hidden] = cell.c, states
    gate, inner = cell.functions
    z, r, h = cell.parts(inputs)
    if c.flag("linear_before_reset"):
        own_z, own_r, own_h = cell.parts(cell.of_hidden(hidden))
    else:
        assert isinstance(cell.recurrent, _FloatWeights)
        both, last = c.nodes(
            "split",
            [cell.recurrent.weights],
            [c.like(hidden)] * 2,
            axis=0,
            sizes=(2 * cell.hidden, cell.hidden),
        )
        sums = c.step("fully_connected", [hidden, both, None])
        own_z, own_r = c.nodes("split", [sums], [c.like(sums)] * 2, axis=1, sizes=(cell.hidden,) * 2)
    z, r = gate(cell.clipped(c.step("add", [z, own_z]))), gate(cell.clipped(c.step("add", [r, own_r])))
    if c.flag("linear_before_reset"):
        own_h = c.step("mul", [r, own_h])
    else:
        own_h = c.step("fully_connected", [c.step("mul", [r, hidden]), last, None])
    fresh = inner(cell.clipped(c.step("add", [h, own_h])))
    rest = c.step("sub", [c.scalar(1, z), z])
    return [c.step("add", [c.step("mul", [rest, fresh]), c.step("mul", [z, hidden])])]


def _rnn(cell: _Cell, inputs: int, states: Sequence[int]) -> list[int]:
    c, [hidden] = cell.c, states
    return [cell.functions[0](cell.clipped(c.step("add", [inputs, cell.of_hidden(hidden)])))]


_FUNCTIONS: dict[str, tuple[str, dict[str, float]]] = {
    "sigmoid": ("logistic", {}),
    "tanh": ("tanh", {}),
    "relu": ("relu", {}),
    "softplus": ("softplus", {}),
    "softsign": ("softsign", {}),
    "leakyrelu": ("leaky_relu", {"alpha": 0.01}),
    "elu": ("elu", {"alpha": 1.0}),
    "thresholdedrelu": ("thresholded_relu", {"alpha": 1.0}),
    "hardsigmoid": ("hard_sigmoid", {"alpha": 0.2, "beta": 0.5}),
    "affine": ("affine", {"alpha": 1.0, "beta": 0.0}),
    "scaledtanh": ("scaled_tanh", {"alpha": 1.0, "beta": 1.0}),
}
"""Activations by their lower-case names: the operator, and its parameters in order."""


def _functions(c: NodeConversion, defaults: Sequence[str], directions: int) -> list[Function]:
    names = [str(name) for name in c.attribute("activations") or list(defaults) * directions]
    count = len(defaults) * directions
    c.require(len(names) == count, f"activations {names} are not {count} names")
    alphas = list(c.attribute("activation_alpha") or ())
    betas = list(c.attribute("activation_beta") or ())
    functions = []
    for name in names:
        c.require(name.lower() in _FUNCTIONS, f"npusim does not have activation {name!r}")
        op, parameters = _FUNCTIONS[name.lower()]
        values = dict(parameters)
        for key, numbers in (("alpha", alphas), ("beta", betas)):
            if key in values and numbers:
                values[key] = float(numbers.pop(0))
        functions.append(_function(c, op, values))
    return functions


def _function(c: NodeConversion, op: str, values: dict[str, float]) -> Function:
    if op == "softsign":
        return lambda x: c.step("div", [x, c.step("add", [c.step("abs", [x]), c.scalar(1, x)])])
    if op == "affine":
        return lambda x: c.step(
            "add", [c.step("mul", [x, c.scalar(values["alpha"], x)]), c.scalar(values["beta"], x)]
        )
    if op == "scaled_tanh":
        return lambda x: c.step(
            "mul",
            [c.step("tanh", [c.step("mul", [x, c.scalar(values["beta"], x)])]), c.scalar(values["alpha"], x)],
        )
    more: dict[str, object] = dict(values)
    return lambda x: c.step(op, [x], None, **more)


def _layer(step: Step, gates: int, states: int, defaults: Sequence[str]) -> Convert:
    def convert(c: NodeConversion) -> Sequence[int]:
        x = c.real("X")
        batch_first = c.flag("layout")
        if batch_first:
            x = c.transposed(x, (1, 0, 2))
        directions = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}.get(
            c.attribute("direction", "forward")
        )
        if directions is None:
            raise c.fault(f"direction is {c.attribute('direction')!r}")
        _check(c, x, gates, len(directions))
        functions = _functions(c, defaults, len(directions))
        rows, lasts = [], []
        for number, backwards in enumerate(directions):
            own = tuple(functions[number * len(defaults) : (number + 1) * len(defaults)])
            sequence, last = _direction(c, x, step, number, gates, states, own, backwards, batch_first)
            rows.append(sequence)
            lasts.append(last)
        every = c.step("pack", rows, axis=1)  # [steps, directions, batch, hidden]
        ends = [c.step("pack", list(ends), axis=0) for ends in zip(*lasts, strict=True)]
        if batch_first:
            every = c.transposed(every, (2, 0, 1, 3))
            ends = [c.transposed(end, (1, 0, 2)) for end in ends]
        return [every, *ends]

    return convert


def _check(c: NodeConversion, x: int, gates: int, directions: int) -> None:
    shape, hidden = c.shape(x), _hidden(c)
    weights, recurrent = c.shape(c.real("W")), c.shape(c.real("R"))
    sizes = (*shape[2:], gates * hidden), (hidden, gates * hidden)
    wanted = [(directions, *(size if _is_quantized(c) else size[::-1])) for size in sizes]
    c.require(
        len(shape) == 3 and [weights, recurrent] == wanted,
        f"W {list(weights)} and R {list(recurrent)} do not fit X {list(shape)} in {directions} directions",
    )
    c.require(
        int(c.attribute("hidden_size", hidden)) == hidden, f"hidden_size is {c.attribute('hidden_size')}"
    )
    c.require(0 < shape[0] <= MOST_STEPS, f"has {shape[0]} steps; npusim writes out 1 to {MOST_STEPS}")
    c.require(min(*shape, hidden) > 0, f"X {list(shape)} has no elements")
    c.require(not c.flag("input_forget"), "npusim has no coupled gates (input_forget)")


def _is_quantized(c: NodeConversion) -> bool:
    """Return whether weights are quantized, [directions, inner, wide] instead of [directions, wide, inner]."""
    return c.source.operation == _DYNAMIC


def _hidden(c: NodeConversion) -> int:
    """Return the number of hidden states."""
    shapes = [c.shape(c.real(name)) for name in ("X", "W", "R")]
    c.require({len(shape) for shape in shapes} == {3}, "X, W and R must have 3 axes")
    return shapes[2][1 if _is_quantized(c) else 2]


def _matrix(c: NodeConversion, name: str, number: int, wide: int, inner: int) -> _Matrix:
    """Return the weights of a direction."""
    if not _is_quantized(c):
        weights = _one(c, name, number, (wide, inner))
        assert weights is not None
        return _FloatWeights(weights)
    codes, scale, zero = (c.value(f"{name}{part}")[number] for part in ("", "_scale", "_zero_point"))
    scale, zero = scale.reshape(-1), zero.reshape(-1)
    for array in (scale, zero):
        c.require(
            array.size in (1, wide), f"{name} has {array.size} scales or zero points for {wide} columns"
        )
    numbers = c.constant(scale if scale.size > 1 else scale.reshape(()))
    return _QuantizedWeights(DynamicWeights(c.constant(codes), numbers, zero))


def _one(c: NodeConversion, name: str, number: int, size: tuple[int, ...]) -> int | None:
    """Return a direction's part of an input."""
    if not c.has(name):
        return None
    whole = c.real(name)
    c.require(
        c.shape(whole)[1:] == size and number < c.shape(whole)[0], f"{name} has shape {list(c.shape(whole))}"
    )
    count = c.shape(whole)[0]
    if count == 1:
        return c.reshaped(whole, size)
    return c.nodes("unpack", [whole], [c.like(whole)] * count, axis=0)[number]


def _direction(
    c: NodeConversion,
    x: int,
    step: Step,
    number: int,
    gates: int,
    states: int,
    functions: tuple[Function, ...],
    backwards: bool,
    batch_first: bool,
) -> tuple[int, list[int]]:
    """Return all hidden states [steps, batch, hidden] of one direction, and the last states."""
    steps, batch, width = c.shape(x)
    hidden = _hidden(c)
    wide = gates * hidden
    both = _one(c, "B", number, (2 * wide,))
    bias = own_bias = None
    if both is not None:
        bias, own_bias = c.nodes("split", [both], [c.like(both)] * 2, axis=0, sizes=(wide, wide))
    if own_bias is not None and not (gates == 3 and c.flag("linear_before_reset")):
        bias, own_bias = c.step("add", [bias, own_bias]), None
    recurrent = _matrix(c, "R", number, wide, hidden)
    cell = _Cell(c, gates, hidden, functions, recurrent, own_bias, _one(c, "P", number, (3 * hidden,)))
    flat = _matrix(c, "W", number, wide, width).times(c, c.reshaped(x, (steps * batch, width)), bias)
    apart = c.reshaped(flat, (steps, batch, wide))
    inputs = c.nodes("unpack", [apart], [c.like(apart)] * steps, axis=0)
    held = [
        _begin(c, name, number, batch, hidden, batch_first) for name in ("initial_h", "initial_c")[:states]
    ]
    rows: dict[int, int] = {}
    for at in reversed(range(steps)) if backwards else range(steps):
        fresh = step(cell, inputs[at], held)
        goes_on = _goes_on(c, at, batch)
        if goes_on is None:
            held, rows[at] = fresh, fresh[0]
            continue
        held = [
            c.nodes("select_v2", [goes_on, new, old], [c.like(new)])[0]
            for new, old in zip(fresh, held, strict=True)
        ]
        rows[at] = c.nodes("select_v2", [goes_on, fresh[0], c.scalar(0, fresh[0])], [c.like(fresh[0])])[0]
    return c.step("pack", [rows[at] for at in range(steps)], axis=0), held


def _begin(c: NodeConversion, name: str, number: int, batch: int, hidden: int, batch_first: bool) -> int:
    if not c.has(name):
        return c.filled((batch, hidden), 0.0, c.builder.type(c.real("X")).dtype)
    whole = c.real(name)
    c.require(len(c.shape(whole)) == 3, f"{name} has shape {list(c.shape(whole))}, must have 3 axes")
    if batch_first:
        whole = c.transposed(whole, (1, 0, 2))
    count = c.shape(whole)[0]
    c.require(c.shape(whole)[1:] == (batch, hidden), f"{name} has shape {list(c.shape(whole))}")
    return c.reshaped(c.nodes("unpack", [whole], [c.like(whole)] * count, axis=0)[number], (batch, hidden))


def _goes_on(c: NodeConversion, at: int, batch: int) -> int | None:
    """Return which sequences have a step, [batch, 1]; None if all have it."""
    if not c.has("sequence_lens"):
        return None
    lengths = c.real("sequence_lens")
    c.require(
        c.shape(lengths) == (batch,), f"sequence_lens has shape {list(c.shape(lengths))}, not [{batch}]"
    )
    known: object = c.builder.tensors[lengths].array
    if known is not None and bool(np.all(np.asarray(known) > at)):
        return None
    c.require(
        not _is_quantized(c),
        "sequences must go through all steps: what is quantized together depends on them",
    )
    return c.reshaped(c.step("greater", [lengths, c.scalar(at, lengths)], "bool"), (batch, 1))


_PARTS = "fully_connected add mul logistic tanh select_v2 split pack unpack reshape"
_INPUTS = "X W R B? sequence_lens? initial_h?"

ROWS: tuple[Row, ...] = (
    Row(
        "LSTM",
        f"{_INPUTS} initial_c? P?",
        _layer(_lstm, 4, 2, ("Sigmoid", "Tanh", "Tanh")),
        _PARTS,
        groups=False,
    ),
    microsoft(
        _DYNAMIC,
        f"{_INPUTS} initial_c? P? W_scale W_zero_point R_scale R_zero_point",
        _layer(_lstm, 4, 2, ("Sigmoid", "Tanh", "Tanh")),
        f"dynamic_quantize {_PARTS} cast sum sub",
    ),
    Row("GRU", _INPUTS, _layer(_gru, 3, 1, ("Sigmoid", "Tanh")), f"{_PARTS} sub", groups=False),
    Row("RNN", _INPUTS, _layer(_rnn, 1, 1, ("Tanh",)), _PARTS, groups=False),
)
