"""The operators of TFLite: what each is called here, what becomes its parameters, what remains its inputs.

Sources: tensorflow/lite/schema/schema.fbs for the options, tensorflow/lite/kernels/ for their meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import isfinite, prod
from typing import Any

from npusim.frontends.tflite.layer import Layer
from npusim.isa.base.tensor import TensorType

Parameters = dict[str, Any]

_ACTIVATIONS = {0: "none", 1: "relu", 2: "relu_n1_to_1", 3: "relu6"}
_LSTM_ACTIVATIONS = {**_ACTIVATIONS, 4: "tanh"}
_PADDINGS = {0: "SAME", 1: "VALID"}
_MIRROR_MODES = {0: "reflect", 1: "symmetric"}
_WEIGHTS_FORMATS = {0: "default"}
_POSITION_TYPES = {2: "int32", 4: "int64"}
_LSTM_OPERANDS = 24
_MOST_STEP = (1 << 15) - 1
"""Strides and dilations of convolutions that LiteRT takes; larger ones pass its 32 bits."""


def no_parameters(layer: Layer) -> Parameters:
    """For operators that their operands describe completely."""
    return {}


def as_it_is(layer: Layer) -> dict[int, TensorType]:
    """For operators that read their operands as the file types them."""
    return {}


@dataclass(frozen=True, slots=True)
class Translation:
    """How a TFLite operator becomes a node.

    op:         the name of the operator here.
    required:   how many leading operands must be there; those after them are optional.
    most:       how many operands there may be, None for any number.
    parameters: layer -> parameters of the node by name.
    options:    the schema's options table, None if the operator has none or none that matters.
    keeps:      the operands that become the node's inputs, in this order, None for all of them. The others
                become parameters, or say what the output's type says already.
    results:    how many outputs, None for any number.
    retyped:    layer -> the operands that the kernel reads as another type than the file gives them.
    """

    op: str
    required: int = 1
    most: int | None = 1
    parameters: Callable[[Layer], Parameters] = no_parameters
    options: str | None = None
    keeps: tuple[int, ...] | None = None
    results: int | None = 1
    retyped: Callable[[Layer], Mapping[int, TensorType]] = as_it_is


# Convolution and pooling


def _same_padding(size: int, kernel: int, stride: int, dilation: int) -> list[int]:
    """Padding before and after that gives ceil(size / stride) positions; an odd one goes after."""
    positions = -(-size // stride)
    total = max((positions - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
    return [total // 2, total - total // 2]


def _padding(
    layer: Layer, image: TensorType, kernel: list[int], strides: list[int], dilations: list[int]
) -> list[list[int]]:
    """[[top, bottom], [left, right]] for a window that slides over an image, which is NHWC."""
    if layer.choice("Padding", _PADDINGS) == "VALID":
        return [[0, 0], [0, 0]]
    sizes = image.shape[1:3]
    return [_same_padding(*each) for each in zip(sizes, kernel, strides, dilations, strict=True)]


def _strides(layer: Layer, most: int | None = None) -> list[int]:
    return [layer.whole("StrideH", 1, most), layer.whole("StrideW", 1, most)]


def _activation(layer: Layer) -> Parameters:
    return {"activation": layer.choice("FusedActivationFunction", _ACTIVATIONS)}


def _kernel(layer: Layer, position: int) -> list[int]:
    """Height and width of a filter stored [out, height, width, in]."""
    return list(layer.input(position, rank=4).shape[1:3])


def _weights(layer: Layer, position: int) -> None:
    """What LiteRT refuses of 8-bit weights: another type than the feature map's, a scale per channel beside uint8."""
    ifm, weights = layer.input(0), layer.input(position)
    if ifm.dtype not in ("int8", "uint8"):
        return
    if weights.dtype != ifm.dtype:
        layer.fail(f"weights are {weights.dtype}, the feature map is {ifm.dtype}; they must be alike")
    if ifm.dtype == "uint8" and _by_channel(weights):
        layer.fail(f"weights have {len(_scales(weights))} scales, uint8 weights must have one")


def _scales(operand: TensorType) -> tuple[float, ...]:
    return () if operand.quantization is None else operand.quantization.scales


def _by_channel(operand: TensorType) -> bool:
    return operand.quantization is not None and operand.quantization.axis is not None


def _without_zero_point(layer: Layer, position: int) -> dict[int, TensorType]:
    """Weights as a kernel reads them that takes the zero points of int8 ones for 0, whatever the file says."""
    weights = layer.input(position)
    scaling = weights.quantization
    if weights.dtype != "int8" or scaling is None or not any(scaling.zero_points):
        return {}
    symmetric = replace(scaling, zero_points=(0,) * len(scaling.zero_points))
    return {position: replace(weights, quantization=symmetric)}


def _depthwise_weights(layer: Layer) -> dict[int, TensorType]:
    return _without_zero_point(layer, 1)


def _matrix(layer: Layer) -> dict[int, TensorType]:
    """Zero points count for weights with one scale only."""
    return _without_zero_point(layer, 1) if _by_channel(layer.input(1)) else {}


def _convolution(layer: Layer) -> Parameters:
    """Zero points of int8 weights are refused, as LiteRT does: its kernel would not subtract them."""
    scaling = layer.input(1).quantization
    if layer.input(0).dtype == "int8" and scaling is not None and any(scaling.zero_points):
        nonzero = next(point for point in scaling.zero_points if point)
        layer.fail(f"weights have the zero point {nonzero}, those of an int8 convolution must be 0")
    return _window(layer)


def _window(layer: Layer) -> Parameters:
    strides = _strides(layer, _MOST_STEP)
    dilations = [layer.whole(f"Dilation{axis}Factor", 1, _MOST_STEP) for axis in "HW"]
    padding = _padding(layer, layer.input(0, rank=4), _kernel(layer, 1), strides, dilations)
    _weights(layer, 1)
    return {"strides": strides, "dilations": dilations, "padding": padding, **_activation(layer)}


def _depthwise_convolution(layer: Layer) -> Parameters:
    channels, filters = layer.input(0, rank=4).shape[3], layer.input(1, rank=4).shape[3]
    # As the kernels do: the option says the same in good files and nothing in old ones.
    if not channels or filters % channels:
        layer.fail(f"{filters} filters for {channels} channels, must be a multiple")
    return {**_window(layer), "depth_multiplier": filters // channels}


def _transposed_convolution(layer: Layer) -> Parameters:
    """Padding is that of the convolution that leads from the output back to the input."""
    output = layer.output(rank=4)
    if layer.is_constant(0) and layer.integers(0, "output shape") != list(output.shape):
        layer.fail(f"output shape {list(output.shape)}, its operand says {layer.integers(0, 'output shape')}")
    strides = _strides(layer)
    padding = _padding(layer, output, _kernel(layer, 1), strides, [1, 1])
    return {"strides": strides, "padding": padding, **_activation(layer)}


def _pooling(layer: Layer) -> Parameters:
    window = [layer.whole("FilterHeight", 1), layer.whole("FilterWidth", 1)]
    strides = _strides(layer)
    padding = _padding(layer, layer.input(0, rank=4), window, strides, [1, 1])
    return {"filter": window, "strides": strides, "padding": padding, **_activation(layer)}


def _fully_connected(layer: Layer) -> Parameters:
    layer.choice("WeightsFormat", _WEIGHTS_FORMATS)
    _weights(layer, 1)
    return {**_activation(layer), "keep_num_dims": layer.flag("KeepNumDims")}


def _matrix_product(layer: Layer) -> Parameters:
    return {"adj_x": layer.flag("AdjX"), "adj_y": layer.flag("AdjY")}


# Functions of single elements, of rows and of neighbourhoods


def _softmax(layer: Layer) -> Parameters:
    return {"beta": layer.real("Beta")}


def _leaky(layer: Layer) -> Parameters:
    return {"alpha": layer.real("Alpha")}


def _gelu(layer: Layer) -> Parameters:
    return {"approximate": layer.flag("Approximate")}


def _local_response(layer: Layer) -> Parameters:
    constants = {name.lower(): layer.real(name) for name in ("Bias", "Alpha", "Beta")}
    return {"radius": layer.whole("Radius", 0), **constants}


def _resize(layer: Layer) -> Parameters:
    layer.input(0, rank=4)
    flags = {
        "align_corners": layer.flag("AlignCorners"),
        "half_pixel_centers": layer.flag("HalfPixelCenters"),
    }
    return {"size": layer.integers(1, "size", 2), **flags}


# Along axes


def _reduction(layer: Layer) -> Parameters:
    axes = layer.axes(layer.integers(1, "axes"), len(layer.input(0).shape))
    return {"axes": axes, "keep_dims": layer.flag("KeepDims")}


def _operand_axis(layer: Layer) -> Parameters:
    return {"axis": layer.axis(layer.integers(1, "axis", 1)[0], len(layer.input(0).shape))}


def _position(layer: Layer) -> Parameters:
    """The kernels give positions of the type that the option names, whatever type the output has in the file."""
    kind = layer.choice("OutputType", _POSITION_TYPES)
    if layer.outputs[0].dtype != kind:
        layer.fail(f"the output is {layer.outputs[0].dtype}, its option OutputType says {kind}")
    return _operand_axis(layer)


def _cumulative_sum(layer: Layer) -> Parameters:
    return {**_operand_axis(layer), "exclusive": layer.flag("Exclusive"), "reverse": layer.flag("Reverse")}


def _reversal(layer: Layer) -> Parameters:
    return {"axes": layer.axes(layer.integers(1, "axes"), len(layer.input(0).shape))}


def _concatenation(layer: Layer) -> Parameters:
    axis = layer.axis(int(layer.option("Axis")), len(layer.input(0).shape))
    return {"axis": axis, **_activation(layer)}


def _pack(layer: Layer) -> Parameters:
    return {"axis": layer.axis(int(layer.option("Axis")), len(layer.input(0).shape) + 1)}


def _unpack(layer: Layer) -> Parameters:
    return {"axis": layer.axis(int(layer.option("Axis")), len(layer.input(0).shape))}


def _split(layer: Layer) -> Parameters:
    """Equal parts."""
    shape, count = layer.input(1).shape, len(layer.outputs)
    axis = layer.axis(layer.integers(0, "axis", 1)[0], len(shape))
    if not count or shape[axis] % count:
        layer.fail(f"{count} outputs from {shape[axis]} elements along axis {axis}, must divide them")
    return {"axis": axis, "sizes": [shape[axis] // count] * count}


def _split_by_sizes(layer: Layer) -> Parameters:
    """The sizes operand; one of them may be -1, "what is left over". Computed ones are those of the outputs."""
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
    """The size of an output along an axis, from the file."""
    if axis >= len(output.shape) or output.shape[axis] < 0:
        shape = list(output.shape)
        layer.fail(
            f"operand 1 (sizes) is computed while running, and the file's shape {shape} does not say it either"
        )
    return output.shape[axis]


def _gather(layer: Layer) -> Parameters:
    axis = layer.axis(int(layer.option("Axis")), len(layer.input(0).shape))
    batch_dims = int(layer.option("BatchDims"))
    if batch_dims < 0:
        batch_dims += len(layer.input(1).shape)
    if not 0 <= batch_dims <= axis:
        layer.fail(f"BatchDims is {batch_dims}, may be 0..{axis}, the axis")
    return {"axis": axis, "batch_dims": batch_dims}


# Moving elements


def _reshape(layer: Layer) -> Parameters:
    """The shape operand, or the option of the same meaning where there is none; -1 is "what is left over"."""
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


def _expand(layer: Layer) -> Parameters:
    shape = layer.input(0).shape
    axis = layer.axis(layer.integers(1, "axis", 1)[0], len(shape) + 1)
    return {"shape": (*shape[:axis], 1, *shape[axis:])}


def _squeeze(layer: Layer) -> Parameters:
    """Without the axes that the option names, or without all axes of one element."""
    shape = layer.input(0).shape
    ones = [axis for axis, size in enumerate(shape) if size == 1]
    gone = layer.axes(layer.vector("SqueezeDims"), len(shape))
    if not set(gone) <= set(ones):
        layer.fail(f"SqueezeDims is {gone}, which must be axes of one in the input shape {list(shape)}")
    return {"axes": gone}


def _pad(layer: Layer) -> Parameters:
    return {"paddings": layer.rows(1, "paddings", len(layer.input(0).shape))}


def _pad_with_value(layer: Layer) -> Parameters:
    """`pad_value` is a code of the output's type, or a real number for float tensors."""
    value = layer.constants[2]
    if value is None or value.size != 1:
        layer.fail("operand 2 (pad value) must be one constant")
    number = value.ravel()[0].item()
    if isinstance(number, float) and not isfinite(number):
        layer.fail(f"operand 2 (pad value) is {number}, must be finite")
    return {**_pad(layer), "pad_value": number}


def _mirror_pad(layer: Layer) -> Parameters:
    return {**_pad(layer), "mode": layer.choice("Mode", _MIRROR_MODES)}


def _transpose(layer: Layer) -> Parameters:
    rank = len(layer.input(0).shape)
    if layer.input(1).dtype != "int32":  # LiteRT reads whatever it is as int32
        layer.fail(f"operand 1 (permutation) is {layer.input(1).dtype}, must be int32")
    perm = [layer.axis(value, rank) for value in layer.integers(1, "permutation", rank)]
    if len(set(perm)) != rank:
        layer.fail(f"operand 1 (permutation) is {perm}, must have each of 0..{rank - 1} once")
    return {"perm": perm}


def _slice(layer: Layer) -> Parameters:
    shape = layer.input(0).shape
    begin = layer.integers(1, "begin", len(shape))
    size = layer.integers(2, "size", len(shape))
    size = [whole - b if s == -1 else s for whole, b, s in zip(shape, begin, size, strict=True)]
    if any(b < 0 or s < 0 or b + s > whole for whole, b, s in zip(shape, begin, size, strict=True)):
        layer.fail(f"begin {begin} and size {size} leave the input's shape {list(shape)}")
    return {"begin": begin, "size": size}


def _tile(layer: Layer) -> Parameters:
    multiples = layer.integers(1, "multiples", len(layer.input(0).shape))
    if any(value < 1 for value in multiples):
        layer.fail(f"operand 1 (multiples) is {multiples}, may be 1 or more each")
    return {"multiples": multiples}


def _block_size(layer: Layer) -> Parameters:
    return {"block_size": layer.whole("BlockSize", 1)}


def _block_shape(layer: Layer) -> list[int]:
    block = layer.integers(1, "block shape")
    if any(value < 1 for value in block) or len(block) >= len(layer.input(0).shape):
        layer.fail(f"operand 1 (block shape) is {block}, for input shape {list(layer.input(0).shape)}")
    return block


def _space_to_batch(layer: Layer) -> Parameters:
    block = _block_shape(layer)
    return {"block_shape": block, "paddings": layer.rows(2, "paddings", len(block))}


def _batch_to_space(layer: Layer) -> Parameters:
    block = _block_shape(layer)
    return {"block_shape": block, "crops": layer.rows(2, "crops", len(block))}


def _bit(mask: int, position: int) -> bool:
    return bool(mask >> position & 1)


def _strided_slice(layer: Layer) -> Parameters:
    """Element i of the result's axis is element begin + i * stride of the input's, i < size.

    The masks of the file are resolved, one entry per input dimension; the axes that the file adds or
    removes afterwards show in the shape. Meaning of the masks: tf.strided_slice.
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
    """The sizes of the slice, without the axes that are taken out and with those that are put in."""
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
    """For each input dimension the entry of begin, end and strides that speaks of it, None for "all"."""
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
    """First element, count and step along one axis of `length` elements; None means "as far as it goes".

    With the option Offset an end counts from the first element. LiteRT does not bring one from outside into the axis
    then, and where that matters its result has bytes that nobody wrote.
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
            layer.fail(f"counted from element {first}, end {end} lies outside the axis of {length}")
        return first, len(taken), step
    last = slice(None, end, step).indices(length)[1]
    return first, len(range(first, last, step)), step


def _require_one_end(layer: Layer, masked: bool, to_the_end: range, count: int) -> None:
    """With Offset, LiteRT finds the shape without the mask of the end and copies with it: more than has room."""
    if masked and layer.flag("Offset") and len(to_the_end) != count:
        layer.fail(
            f"takes {count} elements by its option Offset and {len(to_the_end)} by EndMask; may have one of them"
        )


# Networks in one operator


def _scale_and_zero_point(operand: TensorType) -> list[float | int] | None:
    quantization = operand.quantization
    return None if quantization is None else [quantization.scale, quantization.zero_point]


def _lstm(layer: Layer) -> Parameters:
    if layer.flag("DiagonalRecurrentTensors"):
        layer.fail("DiagonalRecurrentTensors is true, may be false")
    return {
        "activation": layer.choice("FusedActivationFunction", _LSTM_ACTIVATIONS),
        "cell_clip": layer.real("CellClip"),
        "proj_clip": layer.real("ProjClip"),
        "time_major": layer.flag("TimeMajor"),
        "intermediates": [_scale_and_zero_point(operand) for operand in layer.intermediates],
    }


_DETECTION_COUNTS = ("max_detections", "max_classes_per_detection", "num_classes")
_DETECTION_REALS = ("nms_score_threshold", "nms_iou_threshold", "y_scale", "x_scale", "h_scale", "w_scale")


def _detection(layer: Layer) -> Parameters:
    optional = {"detections_per_class": 100, "use_regular_nms": 0}
    required = (*_DETECTION_COUNTS, *_DETECTION_REALS)
    found = optional | layer.flexbuffer((*required, *optional))
    missing = [name for name in required if name not in found]
    if missing:
        layer.fail(f"its custom options lack {', '.join(missing)}")
    for name, value in found.items():
        if not isfinite(value) or value < 0:
            layer.fail(f"{name} is {value}, may be 0 or more")
    counts = {name: int(found[name]) for name in (*_DETECTION_COUNTS, "detections_per_class")}
    reals = {name: float(found[name]) for name in _DETECTION_REALS}
    return {**counts, "use_regular_nms": bool(found["use_regular_nms"]), **reals}


# The table


def _plain(operands: int, *kinds: str) -> dict[str, Translation]:
    """Operators of `operands` operands without parameters, called here as there."""
    return {kind: Translation(kind.lower(), operands, operands) for kind in kinds}


OPERATORS: dict[str, Translation] = {
    **_plain(1, "ABS", "CAST", "CEIL", "COS", "DEQUANTIZE", "ELU", "EXP", "FLOOR", "HARD_SWISH", "LOG"),
    **_plain(1, "LOGICAL_NOT", "LOGISTIC", "LOG_SOFTMAX", "NEG", "QUANTIZE", "RELU", "RELU6", "RELU_0_TO_1"),
    **_plain(1, "RELU_N1_TO_1", "ROUND", "RSQRT", "SIGN", "SIN", "SQRT", "SQUARE", "TANH"),
    **_plain(2, "EQUAL", "FLOOR_DIV", "FLOOR_MOD", "GATHER_ND", "GREATER", "GREATER_EQUAL", "LESS"),
    **_plain(2, "LESS_EQUAL", "LOGICAL_AND", "LOGICAL_OR", "MAXIMUM", "MINIMUM", "NOT_EQUAL", "POW", "PRELU"),
    **_plain(2, "SQUARED_DIFFERENCE"),
    **_plain(3, "SELECT", "SELECT_V2"),
    "ADD": Translation("add", 2, 2, _activation, "AddOptions"),
    "ADD_N": Translation("add_n", 1, None),
    "ARG_MAX": Translation("arg_max", 2, 2, _position, "ArgMaxOptions", keeps=(0,)),
    "ARG_MIN": Translation("arg_min", 2, 2, _position, "ArgMinOptions", keeps=(0,)),
    "AVERAGE_POOL_2D": Translation("average_pool_2d", 1, 1, _pooling, "Pool2DOptions"),
    "BATCH_MATMUL": Translation("batch_matmul", 2, 2, _matrix_product, "BatchMatMulOptions"),
    "BATCH_TO_SPACE_ND": Translation("batch_to_space_nd", 3, 3, _batch_to_space, keeps=(0,)),
    "BROADCAST_TO": Translation("broadcast_to", 2, 2, keeps=(0,)),
    "CONCATENATION": Translation("concatenation", 1, None, _concatenation, "ConcatenationOptions"),
    "CONV_2D": Translation("conv_2d", 2, 3, _convolution, "Conv2DOptions", keeps=(0, 1, 2)),
    "CUMSUM": Translation("cumsum", 2, 2, _cumulative_sum, "CumsumOptions", keeps=(0,)),
    "CUSTOM TFLite_Detection_PostProcess": Translation("detection_post_process", 3, 3, _detection, results=4),
    "DEPTHWISE_CONV_2D": Translation(
        "depthwise_conv_2d",
        2,
        3,
        _depthwise_convolution,
        "DepthwiseConv2DOptions",
        keeps=(0, 1, 2),
        retyped=_depthwise_weights,
    ),
    "DEPTH_TO_SPACE": Translation("depth_to_space", 1, 1, _block_size, "DepthToSpaceOptions"),
    "DIV": Translation("div", 2, 2, _activation, "DivOptions"),
    "EXPAND_DIMS": Translation("reshape", 2, 2, _expand, keeps=(0,)),
    "FULLY_CONNECTED": Translation(
        "fully_connected", 2, 3, _fully_connected, "FullyConnectedOptions", keeps=(0, 1, 2), retyped=_matrix
    ),
    "GATHER": Translation("gather", 2, 2, _gather, "GatherOptions"),
    "GELU": Translation("gelu", 1, 1, _gelu, "GeluOptions"),
    "L2_NORMALIZATION": Translation("l2_normalization", 1, 1, _activation, "L2NormOptions"),
    "L2_POOL_2D": Translation("l2_pool_2d", 1, 1, _pooling, "Pool2DOptions"),
    "LEAKY_RELU": Translation("leaky_relu", 1, 1, _leaky, "LeakyReluOptions"),
    "LOCAL_RESPONSE_NORMALIZATION": Translation(
        "local_response_normalization", 1, 1, _local_response, "LocalResponseNormalizationOptions"
    ),
    "MAX_POOL_2D": Translation("max_pool_2d", 1, 1, _pooling, "Pool2DOptions"),
    "MEAN": Translation("mean", 2, 2, _reduction, "ReducerOptions", keeps=(0,)),
    "MIRROR_PAD": Translation("mirror_pad", 2, 2, _mirror_pad, "MirrorPadOptions", keeps=(0,)),
    "MUL": Translation("mul", 2, 2, _activation, "MulOptions"),
    "PACK": Translation("pack", 1, None, _pack, "PackOptions"),
    "PAD": Translation("pad", 2, 2, _pad, keeps=(0,)),
    "PADV2": Translation("pad", 3, 3, _pad_with_value, keeps=(0,)),
    "REDUCE_ALL": Translation("reduce_all", 2, 2, _reduction, "ReducerOptions", keeps=(0,)),
    "REDUCE_ANY": Translation("reduce_any", 2, 2, _reduction, "ReducerOptions", keeps=(0,)),
    "REDUCE_MAX": Translation("reduce_max", 2, 2, _reduction, "ReducerOptions", keeps=(0,)),
    "REDUCE_MIN": Translation("reduce_min", 2, 2, _reduction, "ReducerOptions", keeps=(0,)),
    "REDUCE_PROD": Translation("reduce_prod", 2, 2, _reduction, "ReducerOptions", keeps=(0,)),
    "RESHAPE": Translation("reshape", 1, 2, _reshape, "ReshapeOptions", keeps=(0,)),
    "RESIZE_BILINEAR": Translation("resize_bilinear", 2, 2, _resize, "ResizeBilinearOptions", keeps=(0,)),
    "RESIZE_NEAREST_NEIGHBOR": Translation(
        "resize_nearest_neighbor", 2, 2, _resize, "ResizeNearestNeighborOptions", keeps=(0,)
    ),
    "REVERSE_V2": Translation("reverse_v2", 2, 2, _reversal, keeps=(0,)),
    "SLICE": Translation("slice", 3, 3, _slice, keeps=(0,)),
    "SOFTMAX": Translation("softmax", 1, 1, _softmax, "SoftmaxOptions"),
    "SPACE_TO_BATCH_ND": Translation("space_to_batch_nd", 3, 3, _space_to_batch, keeps=(0,)),
    "SPACE_TO_DEPTH": Translation("space_to_depth", 1, 1, _block_size, "SpaceToDepthOptions"),
    "SPLIT": Translation("split", 2, 2, _split, keeps=(1,), results=None),
    "SPLIT_V": Translation("split", 3, 3, _split_by_sizes, keeps=(0,), results=None),
    "SQUEEZE": Translation("squeeze", 1, 1, _squeeze, "SqueezeOptions"),
    "STRIDED_SLICE": Translation("strided_slice", 4, 4, _strided_slice, "StridedSliceOptions", keeps=(0,)),
    "SUB": Translation("sub", 2, 2, _activation, "SubOptions"),
    "SUM": Translation("sum", 2, 2, _reduction, "ReducerOptions", keeps=(0,)),
    "TILE": Translation("tile", 2, 2, _tile, keeps=(0,)),
    "TRANSPOSE": Translation("transpose", 2, 2, _transpose, keeps=(0,)),
    "TRANSPOSE_CONV": Translation(
        "transpose_conv", 3, 4, _transposed_convolution, "TransposeConvOptions", keeps=(2, 1, 3)
    ),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": Translation(
        "unidirectional_sequence_lstm",
        1,
        _LSTM_OPERANDS,
        _lstm,
        "UnidirectionalSequenceLSTMOptions",
        keeps=tuple(range(_LSTM_OPERANDS)),
    ),
    "UNPACK": Translation("unpack", 1, 1, _unpack, "UnpackOptions", results=None),
}
"""By the name of the builtin operator in the schema, or "CUSTOM" and that of the custom operator."""
