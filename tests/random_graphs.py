"""Graphs drawn at random. The source is a function that picks integers: hypothesis, or a numpy generator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from npusim.kernels.graph.graph import Graph
from npusim.kernels.operator.geometry import positions, same_padding

from .graphs import Padding, Pair, Sketch, with_all_outputs

Pick = Callable[[int, int], int]
"""An integer between two bounds, both included."""

ACTIVATIONS = ("none", "relu", "relu6", "relu_n1_to_1")
_MOST_ELEMENTS = 12_000
_MOST_WEIGHTS = 40_000


class _Growth:
    """A random graph while it grows: each step adds one node to the tensors there are."""

    def __init__(self, pick: Pick, large: bool, portable: bool = False) -> None:
        self.pick = pick
        self.large = large  # large images of few channels, or small ones of many
        self.portable = portable  # only what a TFLite file can say
        self.sketch = Sketch("random", ("int8", "uint8")[pick(0, 1)], pick(0, 2**20))
        self.live: list[int] = []
        self.most_channels = 6 if large else 40

    def add_input(self, batch: int) -> None:
        """One more image."""
        pick = self.pick
        shape = (
            (pick(8, 40), pick(4, 40), pick(1, 6)) if self.large else (pick(1, 20), pick(1, 20), pick(1, 24))
        )
        self.live.append(self.sketch.input(batch, *shape))

    def step(self, steps: Sequence[Any]) -> list[int]:
        """Do one of some steps; the tensors it gives."""
        chosen = self.choose(steps)
        if chosen in _Growth.ON_IMAGES and not self.images():
            return []
        return [each for each in chosen(self) if self.sketch.type_of(each).elements]

    def graph(self) -> Graph:
        """What has grown, with at least one node."""
        if not self.sketch.builder.nodes:
            self.sketch.quantize(self.live[0])
        return self.sketch.graph()

    def choose(self, options: Sequence[Any]) -> Any:
        return options[self.pick(0, len(options) - 1)]

    def activation(self) -> str:
        return str(ACTIVATIONS[max(0, self.pick(-3, 3))])

    def images(self) -> list[int]:
        return [each for each in self.live if len(self.sketch.shape(each)) == 4]

    def sides(
        self, source: int, kernel: Pair, strides: Pair, dilations: Pair = (1, 1), wide: bool = True
    ) -> Padding:
        """Padding of height and width: none, same, or anything (as wide as the kernel and more if `wide`)."""
        found = []
        same = self.portable and bool(self.pick(0, 1))
        for axis in (0, 1):
            size, stride, extent = (
                self.sketch.shape(source)[axis + 1],
                strides[axis],
                (kernel[axis] - 1) * dilations[axis] + 1,
            )
            kind = self.pick(0, 3)
            if kind == 1:
                pair = same_padding(size, kernel[axis], stride, dilations[axis])
            elif kind == 2 and (wide or not self.portable):
                most = extent + 1 if wide else kernel[axis] - 1
                pair = (self.pick(0, most), self.pick(0, most))
            else:
                pair = (0, 0)
            if self.portable and not wide:  # a pool has one kind of padding
                pair = same_padding(size, kernel[axis], stride) if same else (0, 0)
            if positions(size, kernel[axis], stride, dilations[axis], pair) < 1:
                pair = (extent // 2, extent - extent // 2) if wide else (kernel[axis] // 2, kernel[axis] // 2)
            found.append(pair)
        return found[0], found[1]

    def fits(
        self, source: int, kernel: Pair, strides: Pair, dilations: Pair, padding: Padding, depth: int
    ) -> bool:
        n, height, width, _ = self.sketch.shape(source)
        rows = positions(height, kernel[0], strides[0], dilations[0], padding[0])
        columns = positions(width, kernel[1], strides[1], dilations[1], padding[1])
        return rows > 0 and columns > 0 and n * rows * columns * depth <= _MOST_ELEMENTS

    def takes_weights(self, source: int) -> bool:
        """In TFLite weights have the type of what they multiply."""
        return not self.portable or self.sketch.type_of(source).dtype == self.sketch.dtype

    def per_channel(self) -> bool:
        """In TFLite only int8 weights have a scale per channel."""
        wanted = bool(self.pick(0, 1))
        return wanted and not (self.portable and self.sketch.dtype == "uint8")

    # Each of these adds a node and returns what it gives, or nothing if the node would not be legal.

    def conv(self) -> Sequence[int]:
        return self._convolution(False)

    def depthwise(self) -> Sequence[int]:
        return self._convolution(True)

    def _convolution(self, depthwise: bool) -> Sequence[int]:
        source = self.choose(self.images())
        kernel = (self.pick(1, 5), self.pick(1, 5))
        strides = (self.pick(1, 3), self.pick(1, 3))
        dilations = (max(1, self.pick(-2, 3)), max(1, self.pick(-2, 3)))
        padding = self.sides(source, kernel, strides, dilations)
        multiplier, channels = max(1, self.pick(-2, 3)), self.pick(1, self.most_channels)
        taken = self.sketch.shape(source)[3]
        depth = taken * multiplier if depthwise else channels
        if not depthwise and prod(kernel) * taken * channels > _MOST_WEIGHTS:
            return ()
        if not self.fits(source, kernel, strides, dilations, padding, depth) or not self.takes_weights(
            source
        ):
            return ()
        common: dict[str, Any] = {
            "strides": strides,
            "dilations": dilations,
            "padding": padding,
            "activation": self.activation(),
            "per_channel": self.per_channel(),
            "bias": bool(self.pick(0, 3)),
        }
        if depthwise:
            return (self.sketch.depthwise(source, kernel, multiplier=multiplier, **common),)
        return (self.sketch.conv(source, channels, kernel, **common),)

    def fully_connected(self) -> Sequence[int]:
        source = self.choose(self.live)
        if prod(self.sketch.shape(source)[1:]) * 40 > _MOST_WEIGHTS or not self.takes_weights(source):
            return ()
        return (
            self.sketch.fully_connected(
                source,
                self.pick(1, 40),
                activation=self.activation(),
                per_channel=self.per_channel(),
                bias=bool(self.pick(0, 3)),
            ),
        )

    def binary(self) -> Sequence[int]:
        first = self.choose(self.live)
        shape = self.sketch.shape(first)
        same = [
            each
            for each in self.live
            if self.sketch.shape(each) == shape and self.sketch.type_of(each).dtype == self.sketch.dtype
        ]
        if self.sketch.type_of(first).dtype != self.sketch.dtype:
            return ()
        kind = self.pick(0, 5)
        if kind <= 2:
            second = self.choose(same)
        else:
            second = self.sketch.constant(*(shape if kind == 3 else shape[-1:] if kind == 4 else (1,)))
        if self.pick(0, 3) == 0:
            first, second = second, first
        op = ("add", "add", "sub", "mul")[self.pick(0, 3)]
        return (self.sketch.binary(op, first, second, activation=self.activation()),)

    def pool(self) -> Sequence[int]:
        source = self.choose(self.images())
        _, height, width, depth = self.sketch.shape(source)
        size = (self.pick(1, min(4, height)), self.pick(1, min(4, width)))
        strides = (self.pick(1, 3), self.pick(1, 3))
        padding = self.sides(source, size, strides, wide=False)
        if not self.fits(source, size, strides, (1, 1), padding, depth):
            return ()
        op = ("average_pool_2d", "max_pool_2d")[self.pick(0, 1)]
        return (
            self.sketch.pool(
                op, source, size, strides=strides, padding=padding, activation=self.activation()
            ),
        )

    def mean(self) -> Sequence[int]:
        source = self.choose(self.live)
        rank = len(self.sketch.shape(source))
        axes = sorted({self.pick(0, rank - 1), self.pick(0, rank - 1)})
        if len(axes) == rank:
            axes = axes[1:]
        return (self.sketch.mean(source, axes, keep_dims=bool(self.pick(0, 1))),)

    def elementwise(self) -> Sequence[int]:
        source = self.choose(self.live)
        kind = self.pick(0, 3)
        if kind == 0 and self.sketch.shape(source)[-1] <= 4096:
            return (self.sketch.softmax(source),)
        if kind == 1:
            return (self.sketch.logistic(source),)
        return (self.sketch.quantize(source, (None, "int8", "uint8")[self.pick(0, 2)]),)

    def concat(self) -> Sequence[int]:
        first = self.choose(self.live)
        shape = self.sketch.shape(first)
        axis = self.pick(0, len(shape) - 1)
        rest = (*shape[:axis], *shape[axis + 1 :])
        kind = self.sketch.type_of(first)
        rescale = kind.dtype == "uint8" and bool(self.pick(0, 1))

        def joins(each: int) -> bool:
            other = self.sketch.type_of(each)
            if other.dtype != kind.dtype or len(other.shape) != len(shape):
                return False
            fits = (*other.shape[:axis], *other.shape[axis + 1 :]) == rest
            return fits and (rescale or other.quantization == kind.quantization)

        fitting = [each for each in self.live if joins(each)]
        sources = [first, *(self.choose(fitting) for _ in range(self.pick(0, 2)))]
        if sum(prod(self.sketch.shape(each)) for each in sources) > _MOST_ELEMENTS:
            return ()
        return ((self.sketch.concat_rescaled if rescale else self.sketch.concat)(sources, axis),)

    def split(self) -> Sequence[int]:
        source = self.choose(self.live)
        shape = self.sketch.shape(source)
        axis = self.pick(0, len(shape) - 1)
        if shape[axis] < 2:
            return ()
        cut = self.pick(1, shape[axis] - 1)
        return self.sketch.split(source, axis, (cut, shape[axis] - cut))

    def pad(self) -> Sequence[int]:
        source = self.choose(self.live)
        pairs = [(self.pick(0, 2), self.pick(0, 2)) for _ in self.sketch.shape(source)]
        if len(pairs) == 4:
            pairs[0] = (0, 0)
        if prod(s + sum(p) for s, p in zip(self.sketch.shape(source), pairs, strict=True)) > _MOST_ELEMENTS:
            return ()
        return (self.sketch.pad(source, pairs),)

    def transpose(self) -> Sequence[int]:
        source = self.choose(self.live)
        axes = list(range(len(self.sketch.shape(source))))
        perm = [axes.pop(self.pick(0, len(axes) - 1)) for _ in range(len(axes))]
        if len(perm) == 4 and perm[0] != 0:
            return ()
        return (self.sketch.transpose(source, perm),)

    def reshape(self) -> Sequence[int]:
        source = self.choose(self.live)
        n, *rest = self.sketch.shape(source)
        shape = (n, prod(rest)) if self.pick(0, 1) else (1, n, 1, prod(rest))
        return (self.sketch.reshape(source, *shape),)

    def resize(self) -> Sequence[int]:
        source = self.choose(self.images())
        n, height, width, depth = self.sketch.shape(source)
        target = (self.pick(1, height + 3), self.pick(1, width + 3))
        return () if n * prod(target) * depth > _MOST_ELEMENTS else (self.sketch.resize(source, *target),)

    def block(self) -> Sequence[int]:
        """Up to four layers that keep height and width, and often a sum with what went in."""
        source = current = self.choose(self.images())
        n, height, width, depth = self.sketch.shape(source)
        if self.sketch.type_of(source).dtype != self.sketch.dtype or height * width < 4:
            return ()
        kernel = (self.pick(1, 3), self.pick(1, 3))
        padding = same_padding(height, kernel[0], 1), same_padding(width, kernel[1], 1)
        widest = min(_MOST_ELEMENTS // (n * height * width), _MOST_WEIGHTS // (9 * depth))
        common: dict[str, Any] = {"padding": padding, "activation": self.activation()}
        made = []
        for layer in range(self.pick(1, 4)):
            kind = self.pick(0, 3)
            if kind == 0:
                current = self.sketch.depthwise(current, kernel, **common)
            elif kind == 1:
                current = self.sketch.pool("average_pool_2d", current, kernel, **common)
            else:
                taken = self.sketch.shape(current)[3]
                channels = max(1, min(self.pick(1, self.most_channels), widest)) if layer == 0 else taken
                if taken * channels * prod(kernel) > _MOST_WEIGHTS:
                    break
                current = self.sketch.conv(current, channels, kernel, **common)
            made.append(current)
        kind = self.pick(0, 2)
        if kind and made:
            if self.sketch.shape(current) != self.sketch.shape(source):
                current = self.sketch.conv(current, depth, (1, 1))
            pair = (source, current) if kind == 1 else (current, source)
            made.append(self.sketch.add(*pair))
        return made[-1:] if self.pick(0, 2) else made

    STEPS = (
        conv, conv, conv, depthwise, depthwise, block, block, block, block, binary, binary, pool, fully_connected,
        mean, elementwise, concat, split, pad, transpose, reshape, resize,
    )  # fmt: skip
    IN_ROWS = (block, block, block, depthwise, conv, pool, elementwise)
    ON_IMAGES = (conv, depthwise, block, pool, resize)


def random_graph(pick: Pick, most_steps: int = 7, portable: bool = False) -> Graph:
    """A graph over one or two images; each of one to `most_steps` steps adds a node or a block of a few.

    Steps that would not be legal add nothing. A `portable` graph has only what a TFLite file can say.
    """
    growth = _Growth(pick, large=bool(pick(0, 1)), portable=portable)
    batch = 1 if growth.large else max(1, pick(-2, 2))
    for _ in range(1 + (pick(0, 3) == 0)):
        growth.add_input(batch)
    for _ in range(pick(1, most_steps)):
        growth.live += growth.step(_Growth.STEPS)
    graph = growth.graph()
    return with_all_outputs(graph) if pick(0, 2) == 0 else graph


def deep_graph(pick: Pick, most_steps: int = 5, portable: bool = False) -> Graph:
    """Layer after layer over one large image: what a scheduler may run band by band."""
    growth = _Growth(pick, large=True, portable=portable)
    growth.add_input(1)
    for _ in range(pick(2, most_steps)):
        made = growth.step(_Growth.IN_ROWS)
        growth.live = [*growth.live, *made][-1:]
    return growth.graph()
