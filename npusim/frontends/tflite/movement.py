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


def slice(layer: Layer) -> Parameters:
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
