"""Parameters of TFLite operators that move elements: reshapes, borders, slices, blocks, splits."""

from __future__ import annotations

from math import isfinite, prod

from npusim.frontends.tflite.layer import Layer, Parameters
from npusim.isa.base.tensor import TensorType

MIRROR_MODES = {0: "reflect", 1: "symmetric"}


def reshape(layer: Layer) -> Parameters:
    """Return the shape from its operand, or from the option if there is none; -1 is the size that is left over."""
    if layer.is_constant(1):
        wanted = layer.integers(1, "shape")
    elif not layer.has_operand(1):
        wanted = layer.vector("NewShape")
    elif layer.outputs[0].elements == layer.input(0).elements:
        return {"shape": layer.outputs[0].shape}  # computed while running, from shapes that are fixed here
    else:
        shape = list(layer.outputs[0].shape)
        layer.fail(
            f"operand 1 (shape) is computed while running, and the file's shape {shape} does not say it either"
        )
    elements = layer.input(0).elements
    if wanted == [0] and elements:
        return {"shape": ()}  # how old files say "a scalar"
    if wanted.count(-1) > 1 or any(size < -1 for size in wanted):
        layer.fail(f"shape {wanted}, may have one -1 and sizes from 0 on")
    rest = prod(size for size in wanted if size != -1)
    if -1 in wanted and rest and elements % rest == 0:
        wanted[wanted.index(-1)] = elements // rest
    if prod(wanted) != elements:
        layer.fail(f"shape {wanted} for {elements} elements of shape {list(layer.input(0).shape)}")
    return {"shape": wanted}


def expand(layer: Layer) -> Parameters:
    shape = layer.input(0).shape
    axis = layer.axis(layer.integers(1, "axis", 1)[0], len(shape) + 1)
    return {"shape": (*shape[:axis], 1, *shape[axis:])}


def squeeze(layer: Layer) -> Parameters:
    """Return the axes to drop: those of the option, or if it is empty all axes of one element."""
    shape = layer.input(0).shape
    ones = [axis for axis, size in enumerate(shape) if size == 1]
    gone = layer.axes(layer.vector("SqueezeDims"), len(shape))
    if not set(gone) <= set(ones):
        layer.fail(f"SqueezeDims is {gone}, which must be axes of one in the input shape {list(shape)}")
    return {"axes": gone}


def pad(layer: Layer) -> Parameters:
    return {"paddings": layer.rows(1, "paddings", len(layer.input(0).shape))}


def pad_with_value(layer: Layer) -> Parameters:
    """Return paddings and their value: a quantized value, 0 or 1 for bool, or a float."""
    value = layer.constants[2]
    if value is None or value.size != 1:
        layer.fail("operand 2 (pad value) must be one constant")
    number = value.ravel()[0].item()
    if isinstance(number, float) and not isfinite(number):
        layer.fail(f"operand 2 (pad value) is {number}, must be finite")
    return {**pad(layer), "pad_value": int(number) if isinstance(number, bool) else number}


def mirror_pad(layer: Layer) -> Parameters:
    return {**pad(layer), "mode": layer.choice("Mode", MIRROR_MODES)}


def transpose(layer: Layer) -> Parameters:
    rank = len(layer.input(0).shape)
    if layer.input(1).dtype != "int32":  # LiteRT reads whatever it is as int32
        layer.fail(f"operand 1 (permutation) is {layer.input(1).dtype}, must be int32")
    perm = [layer.axis(value, rank) for value in layer.integers(1, "permutation", rank)]
    if len(set(perm)) != rank:
        layer.fail(f"operand 1 (permutation) is {perm}, must have each of 0..{rank - 1} once")
    return {"perm": perm}


def plain_slice(layer: Layer) -> Parameters:
    shape = layer.input(0).shape
    begin = layer.integers(1, "begin", len(shape))
    size = layer.integers(2, "size", len(shape))
    size = [whole - b if s == -1 else s for whole, b, s in zip(shape, begin, size, strict=True)]
    if any(b < 0 or s < 0 or b + s > whole for whole, b, s in zip(shape, begin, size, strict=True)):
        layer.fail(f"begin {begin} and size {size} leave the input's shape {list(shape)}")
    return {"begin": begin, "size": size}


def embedding(layer: Layer) -> Parameters:
    """Return the parameters of EMBEDDING_LOOKUP, whose int8 table may give float32 rows."""
    return (
        {"rescale": "dynamic"}
        if (layer.input(1).dtype, layer.outputs[0].dtype) == ("int8", "float32")
        else {}
    )


def fill(layer: Layer) -> Parameters:
    """Return the shape from its operand, or that of the output if it is computed at run time."""
    return _shape(layer, 0)


def broadcast(layer: Layer) -> Parameters:
    """Return the shape from its operand, or that of the output if it is computed at run time."""
    return _shape(layer, 1)


def _shape(layer: Layer, position: int) -> Parameters:
    if layer.is_constant(position):
        return {"shape": layer.integers(position, "shape")}
    if any(size < 0 for size in layer.outputs[0].shape):
        shape = list(layer.outputs[0].shape)
        layer.fail(
            f"operand {position} (shape) is computed while running, and the file's shape {shape} does not say it either"
        )
    return {"shape": layer.outputs[0].shape}


def tile(layer: Layer) -> Parameters:
    multiples = layer.integers(1, "multiples", len(layer.input(0).shape))
    if any(value < 1 for value in multiples):
        layer.fail(f"operand 1 (multiples) is {multiples}, may be 1 or more each")
    return {"multiples": multiples}


def block_size(layer: Layer) -> Parameters:
    return {"block_size": layer.whole("BlockSize", 1)}


def _block_shape(layer: Layer) -> list[int]:
    block = layer.integers(1, "block shape")
    if any(value < 1 for value in block) or len(block) >= len(layer.input(0).shape):
        layer.fail(f"operand 1 (block shape) is {block}, for input shape {list(layer.input(0).shape)}")
    return block


def space_to_batch(layer: Layer) -> Parameters:
    block = _block_shape(layer)
    return {"block_shape": block, "paddings": layer.rows(2, "paddings", len(block))}


def batch_to_space(layer: Layer) -> Parameters:
    block = _block_shape(layer)
    return {"block_shape": block, "crops": layer.rows(2, "crops", len(block))}


def split(layer: Layer) -> Parameters:
    """Return axis and sizes of equal parts."""
    shape, count = layer.input(1).shape, len(layer.outputs)
    axis = layer.axis(layer.integers(0, "axis", 1)[0], len(shape))
    if not count or shape[axis] % count:
        layer.fail(f"{count} outputs from {shape[axis]} elements along axis {axis}, must divide them")
    return {"axis": axis, "sizes": [shape[axis] // count] * count}


def split_by_sizes(layer: Layer) -> Parameters:
    """Return axis and sizes of parts. A size may be -1, what is left; computed sizes are those of the outputs."""
    shape = layer.input(0).shape
    axis = layer.axis(layer.integers(2, "axis", 1)[0], len(shape))
    if not layer.is_constant(1):
        return {"axis": axis, "sizes": [_size(layer, output, axis) for output in layer.outputs]}
    sizes = layer.integers(1, "sizes", len(layer.outputs))
    if sizes.count(-1) == 1:
        sizes[sizes.index(-1)] = shape[axis] - sum(sizes) - 1
    if min(sizes) < 0 or sum(sizes) != shape[axis]:
        layer.fail(f"operand 1 (sizes) is {sizes}, must add up to {shape[axis]}")
    return {"axis": axis, "sizes": sizes}


def _size(layer: Layer, output: TensorType, axis: int) -> int:
    """Return the size of an output along an axis, from the file."""
    if axis >= len(output.shape) or output.shape[axis] < 0:
        shape = list(output.shape)
        layer.fail(
            f"operand 1 (sizes) is computed while running, and the file's shape {shape} does not say it either"
        )
    return output.shape[axis]


# STRIDED_SLICE, whose masks are defined by tf.strided_slice


def _bit(mask: int, position: int) -> bool:
    return bool(mask >> position & 1)


def strided_slice(layer: Layer) -> Parameters:
    """Return begin, size and strides, one entry per input dimension, and the shape of the result.

    Element i of an axis of the result is element begin + i * stride of the input's, i < size. Axes that the masks add
    or remove afterwards show in the shape only.
    """
    shape = layer.input(0).shape
    begins = layer.integers(1, "begin")
    ends, steps = layer.integers(2, "end", len(begins)), layer.integers(3, "strides", len(begins))
    masks = {name: int(layer.option(name)) for name in ("BeginMask", "EndMask", "ShrinkAxisMask")}
    spec = _dimensions_of_slice(layer, len(begins), len(shape))
    begin, size, strides = [], [], []
    for length, i in zip(shape, spec, strict=True):
        if i is None:
            first, count, step = 0, length, 1
        else:
            first, count, step = _range_of_slice(
                layer,
                length,
                steps[i],
                None if _bit(masks["BeginMask"], i) else begins[i],
                None if _bit(masks["EndMask"], i) and not layer.flag("Offset") else ends[i],
                _bit(masks["ShrinkAxisMask"], i),
            )
            _require_one_end(
                layer, _bit(masks["EndMask"], i), range(first, length if step > 0 else -1, step), count
            )
        begin.append(first)
        size.append(count)
        strides.append(step)
    return {"begin": begin, "size": size, "strides": strides, "shape": _sliced(layer, size)}


def _sliced(layer: Layer, sizes: list[int]) -> list[int]:
    """Return the shape of the result: the sizes without shrunk axes, and with new ones."""
    entries = len(layer.integers(1, "begin"))
    new_axis, shrink = int(layer.option("NewAxisMask")), int(layer.option("ShrinkAxisMask"))
    ellipsis = int(layer.option("EllipsisMask"))
    spec = _dimensions_of_slice(layer, entries, len(sizes))
    shape, axis = [], 0
    for i in range(entries):
        if _bit(ellipsis, i):
            left_over = len(spec) - sum(entry is not None for entry in spec)
            shape += sizes[axis : axis + left_over]
            axis += left_over
        elif _bit(new_axis, i):
            shape.append(1)
        else:
            shape += [] if _bit(shrink, i) else [sizes[axis]]
            axis += 1
    return [*shape, *sizes[axis:]]


def _dimensions_of_slice(layer: Layer, entries: int, rank: int) -> list[int | None]:
    """Yield for each input dimension its entry in begin, end and strides, None for the whole axis."""
    ellipsis, new_axis = int(layer.option("EllipsisMask")), int(layer.option("NewAxisMask"))
    if layer.flag("Offset") and (ellipsis or new_axis):
        layer.fail("ends are offsets beside an ellipsis or a new axis, whose result LiteRT does not define")
    spoken = [i for i in range(entries) if not _bit(new_axis, i) or _bit(ellipsis, i)]
    dots = [i for i in spoken if _bit(ellipsis, i)]
    left_over = rank - len(spoken) + len(dots)
    if len(dots) > 1 or left_over < 0:
        layer.fail(f"slices {len(spoken)} dimensions, the input has {rank}, and one ellipsis is allowed")
    if not dots:
        return [*spoken, *[None] * left_over]
    at = spoken.index(dots[0])
    return [*spoken[:at], *[None] * left_over, *spoken[at + 1 :]]


def _range_of_slice(
    layer: Layer, length: int, step: int, begin: int | None, end: int | None, single: bool
) -> tuple[int, int, int]:
    """Return first element, count and step along one axis of `length` elements; None is the end of the axis.

    With the option Offset an end counts from the first element. LiteRT does not clip such an end to the axis, and may
    then give bytes that were never written. Such ends are refused.
    """
    if step == 0 or (single and step < 0):
        layer.fail(f"operand 3 (strides) has {step}, may not be 0, nor negative where one element is taken")
    if single:
        first = 0 if begin is None else begin
        if not -length <= first < length:
            layer.fail(f"takes element {first} of {length}")
        return first % length, 1, 1
    first = slice(begin, None, step).indices(length)[0]
    if end is not None and layer.flag("Offset"):
        taken = range(first, first + end, step)
        if taken and (taken[-1] not in range(length) or first + end < 0):
            layer.fail(f"counted from element {first}, end {end} is outside the axis of {length}")
        return first, len(taken), step
    last = slice(None, end, step).indices(length)[1]
    return first, len(range(first, last, step)), step


def _require_one_end(layer: Layer, masked: bool, to_the_end: range, count: int) -> None:
    """Refuse an end mask with Offset where LiteRT's shape, which ignores the mask, differs from what it copies."""
    if masked and layer.flag("Offset") and len(to_the_end) != count:
        layer.fail(
            f"takes {count} elements by its option Offset and {len(to_the_end)} by EndMask; may have one of them"
        )
