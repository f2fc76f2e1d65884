"""Basic recurrent cells, their layers over sequences, and SVDF."""

from __future__ import annotations

from npusim.frontends.nn_hal.enumerations import OperationType
from npusim.frontends.nn_hal.operations import constraints
from npusim.frontends.nn_hal.operations.constraints import dimensions
from npusim.frontends.nn_hal.operations.lstm_rows import merged
from npusim.frontends.nn_hal.operations.named_arguments import Call
from npusim.frontends.nn_hal.operations.operation_row import Row

_T = OperationType
_TYPES = "T: F32@1.0 F16@1.2"
_LATER_TYPES = "T: F32@1.2 F16@1.2"
_SIZES = {"state": "batch units", "weights": "units inputs", "recurrent": "units units", "bias": "units"}
_OPERANDS = ("input", "weights", "recurrent", "bias", "state")
_CELL = " ".join(f"{name}:T" for name in _OPERANDS)
_LINKS = ("auxiliary", "fw_auxiliary_weights", "bw_auxiliary_weights")


# Both directions


def _linked(call: Call) -> str | None:
    """auxiliary weights both have values, beside an auxiliary input, or neither has"""
    links = [one for name in _LINKS for one in call.all(name)]
    if any(one.undecided and not one.omitted for one in links):
        return None
    sequence, forward, backward = (not one.omitted for one in links)
    if forward != backward:
        return _LINKS[1 if backward else 2]
    return "auxiliary" if forward and not sequence else None


def _backward_inputs(call: Call) -> str | None:
    """bw_weights have the depth of input, or of the auxiliary input where that has no weights"""
    links = [one for name in _LINKS for one in call.all(name)]
    if any(one.undecided and not one.omitted for one in links):
        return None
    parallel = not links[0].omitted and links[1].omitted
    depth = call.size("auxiliary" if parallel else "input", 2)
    return None if constraints.may_be_same(depth, call.size("bw_weights", 1)) else "bw_weights"


def _depth(call: Call) -> str | None:
    """output is as deep as the forward cell, or as both where outputs are merged"""
    units = [call.size(name, 0) for name in ("fw_weights", "bw_weights")]
    merge, depth = call.whole("merge_outputs"), call.size("output", 2)
    if merge is None or depth is None or None in units:
        return None
    wanted = sum(size or 0 for size in units) if merge else units[0]
    return None if depth == wanted else "output"


_WAYS = " ".join(f"{way}_{name}:T" for way in ("fw", "bw") for name in _OPERANDS[1:])
_LINKED = " ".join(f"{name}:T?" for name in _LINKS)
_BOTH = f"input:T {_WAYS} {_LINKED} activation:i time_major:b merge_outputs:b"
_STATES_OUT = "fw_state_out:T bw_state_out:T"
_BOTH_SIZES = {
    **{
        f"{way}_{name}": " ".join(word if word == "batch" else f"{way}_{word}" for word in sizes.split())
        for way in ("fw", "bw")
        for name, sizes in _SIZES.items()
    },
    "input": "steps batch fw_inputs",
    "auxiliary": "steps batch auxiliary_inputs",
    "fw_auxiliary_weights": "fw_units auxiliary_inputs",
    "bw_auxiliary_weights": "bw_units auxiliary_inputs",
    "output": "steps batch depth",
    "backward": "steps batch bw_units",
    "fw_state_out": "batch fw_units",
    "bw_state_out": "batch bw_units",
}


# SVDF


def _filters(call: Call) -> str | None:
    """weights_feature and weights_time have as many rows, a multiple of rank"""
    rows, rank = call.size("weights_feature", 0), call.whole("rank")
    if rows is None or rank is None or rank < 1:
        return None
    return "weights_feature" if rows % rank else None


def _units(call: Call) -> str | None:
    """output has dimensions [batch, units], and a bias as many elements, with rank filters per unit"""
    rows, rank = call.size("weights_feature", 0), call.whole("rank")
    if rows is None or rank is None:
        return None
    if not constraints.may_be_same(rows // rank, call.size("output", 1)):
        return "output"
    bias = call.get("bias")
    known = bias is not None and not (bias.undecided and bias.shape and None in bias.shape)
    return "bias" if known and not constraints.may_be_same(rows // rank, call.size("bias", 0)) else None


def _without_newest(call: Call) -> str:
    """Return a hint if the state is as long as types.hal says, one element per filter shorter than in drivers."""
    filters, memory = call.size("weights_time", 0), call.size("weights_time", 1)
    if filters is None or memory is None or call.size("state", 1) != filters * (memory - 1):
        return ""
    return "types.hal writes memory_size - 1, drivers have memory_size"


_SVDF_SIZES = {
    "input": "batch inputs",
    "weights_feature": "filters inputs",
    "weights_time": "filters memory_size",
    "state": "batch memory_size*filters",
    "state_out": "batch memory_size*filters",
    "bias": "units",
    "output": "batch units",
}

ROWS: tuple[Row, ...] = (
    Row(
        _T.RNN,
        (f"{_CELL} activation:i?=0 > state_out:T output:T",),
        _TYPES,
        "rnn",
        (constraints.activation,),
        dimensions(_SIZES | {"input": "batch inputs", "state_out": "batch units", "output": "batch units"}),
        order=(1, 0),
    ),
    Row(
        _T.UNIDIRECTIONAL_SEQUENCE_RNN,
        (f"{_CELL} activation:i time_major:i > output:T | state_out:T @1.3",),
        _LATER_TYPES,
        "unidirectional_sequence_rnn",
        (constraints.activation, constraints.one_of("time_major", 0, 1, "0 or 1")),
        dimensions(
            _SIZES
            | {"input": "steps batch inputs", "output": "steps batch units", "state_out": "batch units"},
            ("input", "output"),
        ),
    ),
    Row(
        _T.BIDIRECTIONAL_SEQUENCE_RNN,
        (
            f"{_BOTH} > output:T | backward:T @1.2 | {_STATES_OUT} @1.3",
            f"@1.3 {_BOTH} > output:T {_STATES_OUT}",
        ),
        _LATER_TYPES,
        "bidirectional_sequence_rnn",
        (constraints.activation, merged),
        (
            *dimensions(_BOTH_SIZES, ("input", "auxiliary", "output", "backward")),
            *(_linked, _backward_inputs, _depth),
        ),
    ),
    Row(
        _T.SVDF,
        (
            "input:T weights_feature:T weights_time:T bias:T? state:T rank:i activation:i?=0 > "
            "state_out:T output:T",
        ),
        _TYPES,
        "svdf",
        (constraints.at_least(1, "rank"), constraints.activation),
        (*dimensions(_SVDF_SIZES), _filters, _units),
        fixed={"shift": "after"},
        order=(1, 0),
        other=_without_newest,
    ),
)
