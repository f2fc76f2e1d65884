"""Parameters of STRIDED_SLICE: masks resolved to begin, size and step, by the definition of tf.strided_slice."""

from __future__ import annotations

from npusim.frontends.tflite.layer import Layer, Parameters


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
            layer.fail(f"counted from element {first}, end {end} lies outside the axis of {length}")
        return first, len(taken), step
    last = slice(None, end, step).indices(length)[1]
    return first, len(range(first, last, step)), step


def _require_one_end(layer: Layer, masked: bool, to_the_end: range, count: int) -> None:
    """Refuse an end mask with Offset where LiteRT's shape, which ignores the mask, differs from what it copies."""
    if masked and layer.flag("Offset") and len(to_the_end) != count:
        layer.fail(
            f"takes {count} elements by its option Offset and {len(to_the_end)} by EndMask; may have one of them"
        )
