"""Operations on images of every size, step, border and mode, against their definitions in plain loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import npusim
from npusim import nnadapter as nna
from npusim.frontends.nnadapter.model_building import Model
from npusim.frontends.nnadapter.nnadapter_codes import InvalidParameter, Precision
from npusim.frontends.nnadapter.operand import Operand
from npusim.frontends.nnadapter.operand_type import OperandType
from npusim.isa.base.errors import NpusimError
from npusim.isa.base.tensor import Array
from tests.npusim.nnadapter import plain_loops as plain

SEEDS = range(12)


def run(build: Any, *given: Array) -> list[Array]:
    """The outputs of a model of one operation; `build` adds it to the model, given operands for the inputs."""
    model = Model()
    inputs = [model.add_operand(_type(array)) for array in given]
    made = build(model, *inputs)
    outputs: tuple[Operand, ...] = made if isinstance(made, tuple) else (made,)
    model.identify(inputs, outputs)
    model.finish()
    network = model.network()
    program = npusim.compile(network.piece(range(len(network.steps))).graph)
    return [np.asarray(output) for output in npusim.simulate(program, given).outputs]


def _type(array: Array) -> OperandType:
    precision = Precision.INT32 if array.dtype == np.int32 else Precision.FLOAT32
    return OperandType(precision, array.shape)


def close(got: Array, wanted: NDArray[Any]) -> bool:
    return got.shape == wanted.shape and bool(np.allclose(got, wanted, rtol=1e-4, atol=1e-4))


def some(rng: np.random.Generator, *shape: int) -> NDArray[np.float32]:
    return rng.uniform(-2, 2, shape).astype(np.float32)


def pair(rng: np.random.Generator, low: int, high: int) -> tuple[int, int]:
    return int(rng.integers(low, high)), int(rng.integers(low, high))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("constant", [True, False], ids=["constant", "computed"])
def test_convolutions(seed: int, constant: bool) -> None:
    rng = np.random.default_rng(seed)
    group, depth, filters = (int(rng.integers(1, 4)) for _ in range(3))
    if seed % 3 == 0:  # depthwise
        group, depth = 3, 1
    kernel, strides, dilations = pair(rng, 1, 4), pair(rng, 1, 4), pair(rng, 1, 3)
    pads = rng.integers(0, 3, 4).tolist()
    x = some(rng, 2, group * depth, *pair(rng, 6, 10))
    w, b = some(rng, group * filters, depth, *kernel), some(rng, group * filters)
    steps = {"pads": pads, "strides": strides, "group": group, "dilations": dilations}
    given = () if constant else (w, b)

    def build(model: Model, image: Operand, *rest: Operand) -> Any:
        filter_, bias = rest or (model.add_constant(w), model.add_constant(b))
        return model.conv_2d(image, filter_, bias, **steps)

    [got] = run(build, x, *given)
    assert close(got, plain.convolution(x, w, b, pads, strides, group, dilations))


@pytest.mark.parametrize("scheme", [1, 2], ids=["same", "valid"])
@pytest.mark.parametrize("seed", range(4))
def test_padding_by_scheme(scheme: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    kernel, strides, image = pair(rng, 1, 5), pair(rng, 1, 4), pair(rng, 6, 10)
    x, w, b = some(rng, 1, 2, *image), some(rng, 3, 2, *kernel), np.zeros(3, np.float32)
    pads = [0, 0, 0, 0]
    if scheme == 1:  # as many outputs as strides fit, the odd pixel behind, and no dilation
        total = [max((-(-i // s) - 1) * s + k - i, 0) for i, s, k in zip(image, strides, kernel, strict=True)]
        pads = [total[0] // 2, -(-total[0] // 2), total[1] // 2, -(-total[1] // 2)]
    dilations = (2, 2) if scheme == 1 else (1, 1)

    def build(model: Model, image: Operand) -> Any:
        parameters = {"auto_pad": scheme, "pads": (1, 1, 1, 1), "strides": strides, "dilations": dilations}
        return model.conv_2d(image, model.add_constant(w), model.add_constant(b), **parameters)

    [got] = run(build, x)
    assert close(got, plain.convolution(x, w, b, pads, strides, 1, (1, 1)))


@pytest.mark.parametrize("seed", SEEDS)
def test_transposed_convolutions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    group, depth, filters = int(rng.integers(1, 4)), int(rng.integers(1, 4)), int(rng.integers(1, 4))
    kernel, strides, dilations = pair(rng, 2, 4), pair(rng, 1, 4), pair(rng, 1, 3)
    pads, more = rng.integers(0, 2, 4).tolist(), [int(rng.integers(0, stride)) for stride in strides]
    x = some(rng, 2, group * depth, *pair(rng, 2, 6))
    w, b = some(rng, group * depth, filters, *kernel), some(rng, group * filters)
    size = [
        (x.shape[2 + i] - 1) * strides[i]
        - pads[2 * i]
        - pads[2 * i + 1]
        + dilations[i] * (kernel[i] - 1)
        + 1
        + more[i]
        for i in (0, 1)
    ]
    steps: dict[str, Any] = {"pads": pads, "strides": strides, "group": group, "dilations": dilations}
    steps |= {"output_shape": size} if seed % 2 else {"output_padding": more}
    given = (w,) if seed % 4 == 0 else ()

    def build(model: Model, image: Operand, *rest: Operand) -> Any:
        (filter_,) = rest or (model.add_constant(w),)
        return model.conv_2d_transpose(image, filter_, model.add_constant(b), **steps)

    [got] = run(build, x, *given)
    assert close(got, plain.transposed_convolution(x, w, b, pads, strides, group, dilations, size))


@pytest.mark.parametrize("seed", SEEDS)
def test_deformable_convolutions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    group, parts = int(rng.integers(1, 3)), int(rng.integers(1, 3))
    kernel, strides, dilations = pair(rng, 1, 4), pair(rng, 1, 3), pair(rng, 1, 3)
    pads = rng.integers(0, 2, 4).tolist()
    x = some(rng, 2, 4, 7, 6)
    w, b = some(rng, 2 * group, 4 // group, *kernel), some(rng, 2 * group)
    rows, columns = plain.convolution(x, w, b, pads, strides, group, dilations).shape[2:]
    taps = parts * kernel[0] * kernel[1]
    offsets, masks = some(rng, 2, 2 * taps, rows, columns), some(rng, 2, taps, rows, columns)
    steps = {
        "pads": pads,
        "strides": strides,
        "group": group,
        "deformable_group": parts,
        "dilations": dilations,
    }

    def build(model: Model, *inputs: Operand) -> Any:
        return model.deformable_conv_2d(*inputs, model.add_constant(w), model.add_constant(b), **steps)

    [got] = run(build, x, offsets, masks)
    wanted = plain.deformable(x, offsets, masks, w, b, pads, strides, group, parts, dilations)
    assert close(got, wanted)


@pytest.mark.parametrize("seed", SEEDS)
def test_pools(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kernel, strides = pair(rng, 2, 5), pair(rng, 1, 3)
    pads = [int(rng.integers(0, (k + 1) // 2)) for k in kernel for _ in (0, 1)]
    x = some(rng, 2, 3, *pair(rng, 5, 9))
    up, include = bool(seed % 2), bool(seed // 2 % 2)
    size = []
    for i in (0, 1):
        room = x.shape[2 + i] + pads[2 * i] + pads[2 * i + 1] - kernel[i]
        size.append((-(-room // strides[i]) if up else room // strides[i]) + 1)
    shared = {"pads": pads, "kernel_shape": kernel, "strides": strides, "ceil_mode": up}
    [mean] = run(lambda model, image: model.average_pool_2d(image, count_include_pad=include, **shared), x)
    assert close(mean, plain.pool(x, pads, kernel, strides, size, "mean", include)[0])
    [largest] = run(lambda model, image: model.max_pool_2d(image, **shared), x)
    wanted, positions = plain.pool(x, pads, kernel, strides, size, "max")
    assert close(largest, wanted)

    def both(model: Model, image: Operand) -> Any:
        values, places = (
            model.add_operand(OperandType(kind)) for kind in (Precision.FLOAT32, Precision.INT64)
        )
        extra = {"return_indices": True, "return_indices_dtype": Precision.INT64}
        return model.max_pool_2d(image, **shared, **extra, outputs=[values, places])

    values, places = run(both, x)
    assert np.array_equal(values, largest)
    assert places.dtype == np.int64
    assert np.array_equal(places, positions)


@pytest.mark.parametrize(
    ("image", "size"), [((7, 9), (3, 5)), ((4, 5), (7, 9)), ((6, 8), (3, 4)), ((5, 5), (1, 1))]
)
def test_pools_into_bins(image: tuple[int, int], size: tuple[int, int]) -> None:
    x = some(np.random.default_rng(1), 2, 3, *image)
    [mean] = run(lambda model, image: model.adaptive_average_pool_2d(image, size), x)
    assert close(mean, plain.bins(x, size, "mean")[0])
    wanted, positions = plain.bins(x, size, "max")
    [largest] = run(lambda model, image: model.adaptive_max_pool_2d(image, size), x)
    assert close(largest, wanted)

    def both(model: Model, image: Operand) -> Any:
        outputs = [model.add_operand(OperandType(kind)) for kind in (Precision.FLOAT32, Precision.INT32)]
        return model.adaptive_max_pool_2d(image, size, return_indices=True, outputs=outputs)

    assert np.array_equal(run(both, x)[1], positions)


@pytest.mark.parametrize("corners", [True, False])
@pytest.mark.parametrize("size", [(8, 10), (3, 7), (1, 1), (5, 4)])
def test_resizes_by_shape(size: tuple[int, int], corners: bool) -> None:
    x = some(np.random.default_rng(2), 2, 2, 4, 5)
    steps = [
        (i - 1) / (o - 1) if corners and o > 1 else i / o for i, o in zip(x.shape[2:], size, strict=True)
    ]
    for mode in (0, 1):
        how = "corners" if corners else ("halves", "plain")[mode]
        [got] = run(lambda model, image, mode=mode: model.resize_linear(image, size, None, corners, mode), x)
        assert close(got, plain.resized(x, size, steps, how))
    [got] = run(lambda model, image: model.resize_nearest(image, size, None, corners), x)
    assert close(got, plain.resized(x, size, steps, "round" if corners else "floor"))


@pytest.mark.parametrize("scales", [(2.0, 3.0), (1.5, 1.5), (0.6, 2.3)])
def test_resizes_by_scales(scales: tuple[float, float]) -> None:
    x = some(np.random.default_rng(3), 1, 2, 4, 5)
    size = [
        int(np.float32(side) * np.float32(scale)) for side, scale in zip(x.shape[2:], scales, strict=True)
    ]
    steps = [1 / scale for scale in scales]
    for mode, how in ((0, "halves"), (1, "plain")):
        [got] = run(lambda model, image, mode=mode: model.resize_linear(image, None, scales, False, mode), x)
        assert close(got, plain.resized(x, size, steps, how))
    [got] = run(lambda model, image: model.resize_nearest(image, None, scales, False), x)
    assert close(got, plain.resized(x, size, steps, "floor"))


@pytest.mark.parametrize("corners", [True, False])
@pytest.mark.parametrize("mode", [1, 2], ids=["bilinear", "nearest"])
@pytest.mark.parametrize(("pad_mode", "outside"), [(1, "zeros"), (2, "reflection"), (3, "edge"), (4, "edge")])
def test_reading_by_a_grid(corners: bool, mode: int, pad_mode: int, outside: str) -> None:
    rng = np.random.default_rng(4)
    x, grid = some(rng, 2, 3, 4, 5), some(rng, 2, 6, 5, 2)
    [got] = run(lambda model, *inputs: model.grid_sample(*inputs, corners, mode, pad_mode), x, grid)
    assert close(got, plain.sampled(x, grid, corners, mode == 2, outside))


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize(("ratio", "scale"), [(2, 1.0), (-1, 0.5), (0, 0.25), (3, 0.3)])
def test_regions(aligned: bool, ratio: int, scale: float) -> None:
    rng = np.random.default_rng(5)
    x = some(rng, 2, 3, 8, 7)
    begin = rng.uniform(-6, 10, (6, 2)) / scale
    rois = np.concatenate([begin, begin + rng.uniform(0.1, 9, (6, 2)) / scale], axis=1).astype(np.float32)
    images = rng.integers(0, 2, 6).astype(np.int32)

    def build(model: Model, *inputs: Operand) -> Any:
        return model.roi_align(*inputs, 2, 3, ratio, scale, aligned)

    [got] = run(build, x, rois, images)
    assert close(got, plain.regions(x, rois, images, (2, 3), ratio, scale, aligned))


@pytest.mark.parametrize("share", [None, 0.4])
@pytest.mark.parametrize(("clip", "scale"), [(True, 1.0), (False, 1.2)])
def test_yolo_boxes(share: float | None, clip: bool, scale: float) -> None:
    rng = np.random.default_rng(6)
    anchors, classes = [10, 13, 16, 30, 33, 23], 2
    x = some(rng, 2, 3 * (5 + classes + (share is not None)), 2, 3)
    sizes = np.array([[90, 120], [64, 80]], np.int32)

    def build(model: Model, *inputs: Operand) -> Any:
        rest = {"iou_aware": share is not None, "iou_aware_factor": share or 0.5}
        return model.yolo_box(*inputs, anchors, classes, 0.5, 32, clip, scale, **rest)

    boxes, scores = run(build, x, sizes)
    wanted = plain.yolo(x, sizes, anchors, classes, 0.5, 32, clip, scale, share)
    assert close(boxes, wanted[0])
    assert close(scores, wanted[1])
    assert 0 < np.count_nonzero(scores) < scores.size


def test_prior_boxes_are_constants() -> None:
    """One pixel's boxes, worked out by hand: the square, the mean of both sizes, twice as wide, twice as high."""

    def build(model: Model, *inputs: Operand) -> Any:
        rest = {"flip": True, "min_max_aspect_ratios_order": True}
        return model.prior_box(*inputs, [8.0], [18.0], [2.0], [0.1, 0.1, 0.2, 0.2], **rest)

    x, image = np.zeros((1, 2, 1, 2), np.float32), np.zeros((1, 3, 20, 40), np.float32)
    boxes, variances = run(build, x, image)
    assert boxes.shape == variances.shape == (1, 2, 4, 4)
    sizes = [(8, 8), (12, 12), (8 * 2**0.5, 8 / 2**0.5), (8 / 2**0.5, 8 * 2**0.5)]
    wanted = [[(10 - w / 2) / 40, (10 - h / 2) / 20, (10 + w / 2) / 40, (10 + h / 2) / 20] for w, h in sizes]
    assert close(boxes[0, 0], np.array(wanted))
    assert close(boxes[0, 1] - boxes[0, 0], np.full((4, 4), [0.5, 0, 0.5, 0]))
    assert close(variances[0, 1], np.full((4, 4), [0.1, 0.1, 0.2, 0.2]))


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ((4,), (4,)),
        ((4,), (4, 3)),
        ((2, 4), (4,)),
        ((3, 2, 4), (4, 5)),
        ((2, 1, 3, 4), (5, 4, 2)),
        ((4,), (2, 4, 3)),
    ],
)
@pytest.mark.parametrize("swapped", [(False, False), (True, False), (False, True), (True, True)])
def test_products(x: tuple[int, ...], y: tuple[int, ...], swapped: tuple[bool, bool]) -> None:
    rng = np.random.default_rng(7)
    first, second = some(rng, *x), some(rng, *y)

    def stored(array: Any, swap: bool) -> Any:
        return np.ascontiguousarray(np.swapaxes(array, -1, -2)) if swap and array.ndim > 1 else array

    def build(model: Model, *inputs: Operand) -> Any:
        return model.mat_mul(*inputs, *swapped)

    [got] = run(build, stored(first, swapped[0]), stored(second, swapped[1]))
    assert close(got, np.matmul(first, second))


def test_a_product_of_vectors_may_be_declared_with_a_dimension() -> None:
    x = np.arange(4, dtype=np.float32)

    def build(model: Model, *inputs: Operand) -> Any:
        declared = model.add_operand(OperandType(Precision.FLOAT32, [1]))
        return model.mat_mul(*inputs, outputs=[declared])

    [got] = run(build, x, x)
    assert got.tolist() == [14.0]


def test_a_fully_connected_layer_takes_any_rank() -> None:
    rng = np.random.default_rng(8)
    x, w, b = some(rng, 2, 3, 2, 4), some(rng, 5, 8), some(rng, 5)

    def build(model: Model, image: Operand) -> Any:
        return model.fully_connected(image, model.add_constant(w), model.add_constant(b), fuse_code=1)

    [got] = run(build, x)
    assert close(got, np.maximum(x.reshape(6, 8) @ w.T + b, 0))


def test_channels_are_shuffled() -> None:
    x = np.arange(2 * 6 * 2 * 3, dtype=np.float32).reshape(2, 6, 2, 3)
    [got] = run(lambda model, image: model.channel_shuffle(image, 2), x)
    assert np.array_equal(got, x[:, [0, 3, 1, 4, 2, 5]])


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize(("background", "looked_at", "kept"), [(-1, 6, 5), (0, -1, -1), (1, 3, 100)])
@pytest.mark.parametrize(("iou", "eta"), [(0.3, 1.0), (0.8, 0.6)])
def test_suppression(
    background: int, looked_at: int, kept: int, iou: float, eta: float, normalized: bool
) -> None:
    rng = np.random.default_rng(9)
    corners = rng.uniform(0, 6, (2, 9, 2))
    boxes = np.concatenate([corners, corners + rng.uniform(1, 6, (2, 9, 2))], axis=2).astype(np.float32)
    scores = rng.uniform(0, 1, (2, 3, 9)).astype(np.float32)
    how = {"background": background, "score": 0.3, "iou": iou, "eta": eta, "normalized": normalized}
    how |= {"looked_at": None if looked_at < 0 else looked_at, "kept": None if kept < 0 else kept}
    rows, counts, numbers = suppressed(
        boxes, scores, (background, 0.3, looked_at, iou, eta, kept, normalized)
    )
    wanted = [plain.kept_boxes(boxes[image], scores[image], how) for image in (0, 1)]
    assert counts.tolist() == [len(found) for found in wanted]
    flat = [[label, score, *boxes[image, box]] for image in (0, 1) for label, score, box in wanted[image]]
    assert close(rows, np.array(flat).reshape(-1, 6))
    assert numbers.tolist() == [image * 9 + box for image in (0, 1) for _, _, box in wanted[image]]


def suppressed(boxes: Array, scores: Array, parameters: Any) -> list[Array]:
    """What a context with one device gives: rows, how many each image has, and their numbers."""
    model = Model()
    inputs = [model.add_operand(_type(array)) for array in (boxes, scores)]
    outputs = [model.add_operand(OperandType(kind)) for kind in (Precision.FLOAT32, *[Precision.INT32] * 2)]
    model.non_max_suppression(*inputs, None, *parameters, True, outputs=outputs)
    model.identify(inputs, outputs)
    model.finish()
    context = nna.Context([nna.Device.acquire("npusim")])
    compilation = nna.Compilation(model, context)
    compilation.finish()
    execution = nna.Execution(compilation)
    execution.set_input(0, boxes)
    execution.set_input(1, scores)
    return [np.asarray(output) for output in execution.compute().outputs]


def test_suppression_may_leave_nothing() -> None:
    boxes, scores = np.ones((1, 2, 4), np.float32), np.zeros((1, 3, 2), np.float32)
    rows, counts, numbers = suppressed(boxes, scores, (-1, 0.5, -1, 0.5, 1.0, -1, True))
    assert (rows.shape, counts.tolist(), numbers.shape) == ((0, 6), [0], (0,))


WRONG: dict[str, tuple[Any, str]] = {
    "pads": (
        lambda model, x: model.average_pool_2d(x, 0, [1, 1, 1], [2, 2]),
        "pads is [1, 1, 1], must be top, bottom, left, right, each 0 or more",
    ),
    "strides": (
        lambda model, x: model.max_pool_2d(x, kernel_shape=[2, 2], strides=[0, 1]),
        "strides is [0, 1], must be of height and width, each 1 or more",
    ),
    "group": (
        lambda model, x: model.conv_2d(
            x, model.add_constant(np.zeros((4, 2, 1, 1), np.float32)), None, group=3
        ),
        "filter [4, 2, 1, 1] does not fit 4 channels in 3 groups, which must divide its axis 0",
    ),
    "filter": (
        lambda model, x: model.conv_2d(x, model.add_constant(np.zeros((4, 4, 9, 1), np.float32)), None),
        "the window [9, 1] does not fit into [6, 5] with pads [[0, 0], [0, 0]]",
    ),
    "transposed": (
        lambda model, x: model.conv_2d_transpose(
            x, model.add_constant(np.zeros((3, 2, 1, 1), np.float32)), None
        ),
        "filter [3, 2, 1, 1] does not fit 4 channels in 1 groups: axis 0 must have the channels",
    ),
    "scales": (
        lambda model, x: model.resize_linear(x, None, [1.0, -2.0]),
        "scales are [1.0, -2.0], must be of height and width, above 0 and up to 1048576",
    ),
    "neither": (
        lambda model, x: model.resize_nearest(x),
        "shape or scales must be there",
    ),
    "shuffle": (
        lambda model, x: model.channel_shuffle(x, 3),
        "group is 3, must divide the channels of the input, which has shape [1, 4, 6, 5]",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_parameters_are_named(name: str) -> None:
    build, text = WRONG[name]
    model = Model()
    x = model.add_operand(OperandType(Precision.FLOAT32, (1, 4, 6, 5)))
    with pytest.raises(InvalidParameter) as fault:
        build(model, x)
    assert text in str(fault.value)
    assert "\n" not in str(fault.value)


@pytest.mark.parametrize(
    ("corner", "text"), [(np.nan, "has corners that are no numbers"), (1e9, "pixels long")]
)
def test_regions_without_end_are_refused(corner: float, text: str) -> None:
    x, images = np.zeros((1, 1, 4, 4), np.float32), np.zeros(1, np.int32)
    rois = np.array([[0, 0, corner, 3]], np.float32)
    with pytest.raises(NpusimError, match=text):
        run(lambda model, *inputs: model.roi_align(*inputs, 2, 2, 0), x, rois, images)


def away_from_zero(steps: NDArray[Any]) -> NDArray[Any]:
    """Codes of reals over a scale: rounded, halves away from zero, and limited."""
    return np.clip(np.trunc(steps + np.copysign(0.5, steps)), -128, 127).astype(np.int8)


WINDOW = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 1, 0, 1]}
RESCALED: dict[str, tuple[Any, Any]] = {
    "average": (
        lambda model, x, **rest: model.average_pool_2d(x, **WINDOW, fuse_code=1, **rest),
        lambda x: np.maximum(plain.pool(x, [1, 1, 0, 1], [3, 2], [2, 1], (4, 6), "mean")[0], 0),
    ),
    "average with its padding": (
        lambda model, x, **rest: model.average_pool_2d(x, **WINDOW, count_include_pad=True, **rest),
        lambda x: plain.pool(x, [1, 1, 0, 1], [3, 2], [2, 1], (4, 6), "mean", include=True)[0],
    ),
    "maximum": (
        lambda model, x, **rest: model.max_pool_2d(x, **WINDOW, **rest),
        lambda x: plain.pool(x, [1, 1, 0, 1], [3, 2], [2, 1], (4, 6), "max")[0],
    ),
    "bins": (
        lambda model, x, **rest: model.adaptive_average_pool_2d(x, [3, 4], **rest),
        lambda x: plain.bins(x, (3, 4), "mean")[0],
    ),
    "linear": (
        lambda model, x, **rest: model.resize_linear(x, [14, 3], None, False, 0, **rest),
        lambda x: plain.resized(x, (14, 3), (0.5, 2.0), "halves"),
    ),
    "nearest": (
        lambda model, x, **rest: model.resize_nearest(x, [5, 9], None, False, **rest),
        lambda x: plain.resized(x, (5, 9), (7 / 5, 6 / 9), "floor"),
    ),
    "grid": (
        lambda model, x, **rest: model.grid_sample(x, model.add_constant(GRID), False, 1, 2, **rest),
        lambda x: plain.sampled(x, GRID, False, False, "reflection"),
    ),
    "shuffled": (
        lambda model, x, **rest: model.channel_shuffle(x, 2, **rest),
        lambda x: x[:, [0, 2, 1, 3]],
    ),
    "moved taps": (
        lambda model, x, **rest: moved_taps(model, x, **rest),
        lambda x: plain.deformable(x, *MOVED, FILTER, np.zeros(2), [0] * 4, (1, 1), 1, 1, (1, 1)),
    ),
}
GRID = some(np.random.default_rng(10), 2, 3, 4, 2)
MOVED = some(np.random.default_rng(11), 2, 8, 6, 5), some(np.random.default_rng(12), 2, 4, 6, 5)
FILTER = np.full((2, 4, 2, 2), 0.5, np.float32)


def moved_taps(model: Model, x: Operand, **rest: Any) -> Any:
    weights = OperandType(Precision.QUANT_INT8_SYMM_PER_LAYER, FILTER.shape, scale=0.125)
    filter_ = model.add_constant(np.full(FILTER.shape, 4, np.int8), weights)
    offsets, masks = (model.add_constant(array) for array in MOVED)
    return model.deformable_conv_2d(x, offsets, masks, filter_, None, **rest)


@pytest.mark.parametrize("name", RESCALED)
@pytest.mark.parametrize("scale", [1 / 16, 3 / 64], ids=["same scale", "another scale"])
def test_codes_are_those_of_the_reals(name: str, scale: float) -> None:
    """But for results so near a tie that rounding in float32 decides, or the 10 bits of a position in LiteRT: then one
    code off.
    """
    build, expected = RESCALED[name]
    codes = np.random.default_rng(13).integers(-128, 128, (2, 4, 7, 6), np.int8)
    model = Model()
    kinds = [
        OperandType(Precision.QUANT_INT8_SYMM_PER_LAYER, shape, scale=of)
        for shape, of in ((codes.shape, 1 / 16), ((), scale))
    ]
    x, y = (model.add_operand(kind) for kind in kinds)
    build(model, x, outputs=[y])
    model.identify([x], [y])
    model.finish()
    network = model.network()
    program = npusim.compile(network.piece(range(len(network.steps))).graph)
    [got] = npusim.simulate(program, [codes]).outputs
    wanted = away_from_zero(expected(codes / 16) / scale)
    assert got.shape == wanted.shape
    off = np.abs(got.astype(int) - wanted)
    assert off.max() <= 1
    assert np.count_nonzero(off) <= (0.05 if name == "linear" else 0.01) * off.size
