"""Operations that choose rows or pixels: lookups by indices, keys and hashes, samples, resized images, branches."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, inf

import numpy as np

from npusim.frontends.nn_hal.enumerations import HalVersion, OperandType, OperationType
from npusim.frontends.nn_hal.fault import Fault, Refused
from npusim.frontends.nn_hal.operations import constraints
from npusim.frontends.nn_hal.operations.constraints import at_least, dimensions, rank_of
from npusim.frontends.nn_hal.operations.named_arguments import Call, tensor_type
from npusim.frontends.nn_hal.operations.operation_row import Conversion, Row
from npusim.frontends.nn_hal.operations.signatures import FLOATS, FLOATS_AND_8_BITS, NUMBERS, Choice
from npusim.frontends.nn_hal.operations.sliding_windows import not_empty
from npusim.kernels.operator.parameters import MOST
from npusim.kernels.operator.registered import custom

_T = OperationType


# Indices and keys


def _inside(values: Sequence[int] | None, size: int | None) -> bool:
    return values is None or size is None or all(0 <= value < size for value in values)


def _gathered(call: Call) -> str | None:
    """indices are in [0, s) for the dimension s of input at axis"""
    axis = call.axis("axis", "input")
    size = None if axis is None else call.size("input", axis)
    return None if _inside(call.wholes("indices"), size) else "indices"


def _looked_up(call: Call) -> str | None:
    """lookups are in [0, s) for the first dimension s of values"""
    return None if _inside(call.wholes("lookups"), call.size("values", 0)) else "lookups"


def _row_per_lookup(call: Call) -> str | None:
    """output has the dimensions of values but for the first, which is that of lookups"""
    rows, count = call.shape("values"), call.size("lookups", 0)
    wanted = None if rows is None else (count, *rows[1:])
    return None if constraints.may_equal(wanted, call.shape("output")) else "output"


def _row_per_key(call: Call) -> str | None:
    """values has a row for each element of keys"""
    return None if constraints.may_be_same(call.size("keys", 0), call.size("values", 0)) else "values"


def _ascending(call: Call) -> str | None:
    """keys ascend"""
    keys = call.wholes("keys")
    return None if keys is None or keys == sorted(keys) else "keys"


_LOOKUPS = (
    Row(
        _T.GATHER,
        ("input:T axis:i indices:I32 > output:T",),
        f"T: {NUMBERS}",
        "gather",
        (constraints.axis_of("axis", "input"), _gathered),
        quantization=(constraints.same_quantization("input", "output"),),
    ),
    Row(
        _T.EMBEDDING_LOOKUP,
        ("lookups:I32 values:T > output:T",),
        "T: F32@1.0 I32@1.2 Q8@1.2 F16@1.3 Q8S@1.3",
        "embedding_lookup",
        (_looked_up,),
        (rank_of("lookups", 1), rank_of("values", 2, inf), _row_per_lookup),
        (constraints.same_quantization("values", "output"),),
    ),
    Row(
        _T.HASHTABLE_LOOKUP,
        ("lookups:I32 keys:I32 values:T > output:T hits:Q8",),
        "T: F32@1.0 I32@1.0 Q8@1.0",
        "hashtable_lookup",
        (_ascending,),
        (
            *(rank_of("lookups", 1), rank_of("keys", 1), rank_of("values", 2, inf)),
            *(_row_per_key, _row_per_lookup, constraints.same_shape("lookups", "hits")),
        ),
        (
            constraints.same_quantization("values", "output"),
            constraints.prescribed("hits", {OperandType.TENSOR_QUANT8_ASYMM: (1.0, 0)}),
        ),
    ),
)


# Hashes and samples

_DENSE, _SPARSE = 2, 3
_TYPES = {1: "sparse_deprecated", _DENSE: "dense", _SPARSE: "sparse"}
_WORD_BITS = 32


def _projection(call: Call) -> str | None:
    """type is 1 (sparse, deprecated), 2 (dense) or, from V1_2 on, 3 (sparse)"""
    kind = call.whole("type")
    last = _SPARSE if call.version >= HalVersion.V1_2 else _DENSE
    return None if kind is None or 1 <= kind <= last else "type"


def _unweighted(call: Call) -> str | None:
    """only dense projections have weights"""
    weight, kind = call["weight"], call.whole("type")
    return None if weight.omitted or weight.undecided or kind in (None, _DENSE) else "weight"


def _weight_per_row(call: Call) -> str | None:
    """weight has one dimension, an element per row of input"""
    return None if constraints.may_equal(call.shape("weight"), (call.size("input", 0),)) else "weight"


def _short(call: Call) -> str | None:
    """sparse signatures have at most 32 bits, those of type 3 with the number of the hash function"""
    kind, functions, bits = call.whole("type"), call.size("hash", 0), call.size("hash", 1)
    if kind in (None, _DENSE) or functions is None or bits is None:
        return None
    number = (functions - 1).bit_length() if kind == _SPARSE else 0
    return None if bits + number <= _WORD_BITS else "hash"


def _length(call: Call) -> str | None:
    """output has an element per hash function, or, dense, per bit of each"""
    kind, functions, bits = call.whole("type"), call.size("hash", 0), call.size("hash", 1)
    if kind is None or functions is None or bits is None:
        return None
    wanted = functions * bits if kind == _DENSE else functions
    return None if constraints.may_equal(call.shape("output"), (wanted,)) else "output"


_HASHES = (
    Row(
        _T.LSH_PROJECTION,
        ("hash:T input:X weight:T? type:i > output:I32",),
        "T X: F32,F32@1.0 F32,I32@1.0 F32,Q8@1.0 F32,F16@1.2 F16,F16@1.2 F16,F32@1.2 F16,I32@1.2 F16,Q8@1.2",
        "lsh_projection",
        (_projection, _unweighted),
        (
            *dimensions({"hash": "functions bits"}),
            rank_of("input", 1, inf),
            _weight_per_row,
            *(_short, _length),
        ),
        words={"type": Choice("type", _TYPES)},
    ),
    Row(
        _T.RANDOM_MULTINOMIAL,
        ("input:T samples:i seeds:I32 > output:I32",),
        f"T: {FLOATS}",
        "random_multinomial",
        (at_least(1, "samples"),),
        dimensions(
            {"input": "batches classes", "seeds": "2", "output": "batches samples"}, scalars=("samples",)
        ),
    ),
)


# Resized images


def _corners_or_centers(call: Call) -> str | None:
    """align_corners and half_pixel_centers are not both true"""
    both = call.whole("align_corners") and call.whole("half_pixel_centers")
    return "half_pixel_centers" if both else None


def _height_first(call: Call) -> str:
    """Return a hint if inputs 1 and 2 only fit as height and width, their order in an earlier types.hal."""
    image, first, second = call.image("output"), call.whole("width"), call.whole("height")
    if image is None or None in image[1:3] or image[1:3] != (first, second):
        return ""
    return "input 1 is the width and input 2 the height, as drivers have it: exchange them"


def _scaled(size: int, scale: float) -> int:
    """Return a size times a scale, rounded down from float32; of an overflow a size that is refused."""
    with np.errstate(over="ignore"):
        scaled = np.float32(size) * np.float32(scale)
    return floor(min(scaled, np.float32(2 * MOST)))


def _resized(c: Conversion) -> Sequence[int]:
    if c.call.all("width"):
        size = c.whole("height"), c.whole("width")
    else:
        _, height, width, _ = c.sizes()
        size = _scaled(height, c.real("height_scale")), _scaled(width, c.real("width_scale"))
    if not all(1 <= pixels <= MOST for pixels in size):
        text = f"height and width are {list(size)}, may be 1..{MOST}"
        raise Refused(Fault(c.call["output"].place, text, "O6"))
    return c.add(size=size)


def _resize(type_: OperationType, layout: str, types: str) -> Row:
    further = "| align_corners:b=0 @1.3 | half_pixel_centers:b=0 @1.3 > output:T"
    return Row(
        type_,
        (
            f"input:T width:i height:i {layout} {further}",
            f"@1.2 input:T width_scale:s height_scale:s {layout} {further}",
        ),
        f"T: {types}",
        type_.name.lower(),
        (
            at_least(1, "width", "height"),
            constraints.positive("width_scale", "height_scale"),
            constraints.finite("width_scale", "height_scale"),
            _corners_or_centers,
        ),
        (rank_of("input", 4), rank_of("output", 4), not_empty),
        (constraints.same_quantization("input", "output"),),
        words={"size": ("height", "width")},
        convert=_resized,
        other=_height_first,
    )


# Control flow, whose further rules are in `npusim.frontends.nn_hal.rules.graph_rules`, and operations of vendors


def of_vendor(type_: OperationType) -> Row:
    """Return the row of a vendor-specific operation, which the user may have registered by its name."""
    return Row(type_, ("inputs:any?* > outputs:any?*",), op=custom(type_.name), convert=_registered)


def _registered(c: Conversion) -> Sequence[int]:
    """Add the node of an operation that the user registered; a scalar of type OEM is passed as its bytes."""
    inputs: list[int | None] = []
    for argument in c.call.inputs:
        operand = argument.operand
        if operand.type is OperandType.OEM and operand.bytes is not None:
            inputs.append(c.builder.constant(argument.place, np.array(operand.bytes, np.uint8)))
        else:
            inputs.append(c.given(argument))
    return c.node(c.row.op, inputs, *[tensor_type(output.operand) for output in c.call.outputs])


ROWS: tuple[Row, ...] = (
    *_LOOKUPS,
    *_HASHES,
    _resize(_T.RESIZE_BILINEAR, "| nchw:b=0 @1.2", "F32@1.0 F16@1.2 Q8@1.2 Q8S@1.3"),
    _resize(_T.RESIZE_NEAREST_NEIGHBOR, "nchw:b", FLOATS_AND_8_BITS),
    Row(_T.IF, ("condition:B8 then:g else:g inputs:any* > outputs:any+",)),
    Row(_T.WHILE, ("condition:g body:g inputs:any+ > outputs:any+",)),
    of_vendor(_T.OEM_OPERATION),
)
