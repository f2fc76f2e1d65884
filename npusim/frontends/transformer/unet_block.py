"""Builds a block of Stable Diffusion 1.5's UNet from its sizes, without weights.

The block is the first one that reads a latent image of 64 x 64 with 320 channels (`down_blocks.0` of the library
`diffusers`): a residual part of two convolutions, then a transformer layer whose tokens are the pixels. They attend to
each other, then to the 77 vectors of a text. Its feed-forward network is a GEGLU.
"""

from __future__ import annotations

from npusim.frontends.transformer.layers import Layers
from npusim.isa.base.tensor import Quantization
from npusim.kernels.graph.builder import GraphBuilder
from npusim.kernels.graph.graph import Graph

SIDE, CHANNELS, GROUPS, HEADS, INNER = 64, 320, 32, 8, 1280
"""Height and width, channels, groups of a group normalization, attention heads, and elements of the GEGLU."""
TEXT, TEXT_WIDTH = 77, 768
"""Vectors of a text, and their elements, as CLIP gives them."""
TIME = 1280
"""Elements of the vector that stands for the step of the diffusion."""

_RECIPROCALS = Quantization((0.25,), (-128,))
"""The quantization of reciprocal square roots, which are positive."""


def sd15_block(builder: GraphBuilder) -> Graph:
    """Return the block for the builder's size `batch`.

    Inputs are the image, int8 [batch, 64, 64, 320], the vectors of the text, int8 [batch * 77, 768], and that of the
    step, int8 [batch, 1280]. The output is an image of the same size. Group normalization is taken apart: means of
    values and of squares by channel, then by group, and a product and a sum for each element.
    """
    return _Block(builder, builder.size("batch", 1)).graph()


class _Block(Layers):
    """The block under construction. Images are [batch, height, width, channels]."""

    def __init__(self, builder: GraphBuilder, batch: int) -> None:
        super().__init__(builder)
        self._batch = batch

    def graph(self) -> Graph:
        """Add all layers and return the graph."""
        batch = self._batch
        image = self.input("image", batch, SIDE, SIDE, CHANNELS)
        text = self.input("text", batch * TEXT, TEXT_WIDTH)
        step = self.input("step", batch, TIME)
        return self.builder.graph([self._transformer(self._residual(image, step), text)])

    def _residual(self, image: int, step: int) -> int:
        """Return the image with the sum of two convolutions; the step of the diffusion is added between them."""
        x = self._convolution("residual/conv1", self._normalized("residual/norm1", image, activated=True))
        step = self.product("residual/step", self._swish("residual/step/activation", step), CHANNELS, True)
        step = self.shaped(step, self._batch, 1, 1, CHANNELS)
        x = self.node("add", (x, step), "residual/stepped")
        x = self._convolution("residual/conv2", self._normalized("residual/norm2", x, activated=True))
        return self.node("add", (image, x), "residual/sum")

    def _transformer(self, image: int, text: int) -> int:
        """Return the image with the result of attention among pixels, attention to the text, and GEGLU."""
        pixels = (self._batch * SIDE * SIDE, CHANNELS)
        x = self._normalized("transformer/norm", image, activated=False)
        x = self.product("transformer/opening", self.shaped(x, *pixels), CHANNELS, True)
        for name, other in (("self_attention", None), ("cross_attention", text)):
            normal = self.norm(f"{name}/norm", x)
            x = self.node("add", (x, self._attention(name, normal, other)), f"{name}/sum")
        x = self.node(
            "add", (x, self._geglu("feed_forward", self.norm("feed_forward/norm", x))), "feed_forward/sum"
        )
        x = self.product("transformer/closing", x, CHANNELS, True)
        return self.node("add", (image, self.shaped(x, *self.builder.shape(image))), "transformer/sum")

    def _convolution(self, name: str, x: int) -> int:
        return self.convolution(name, x, CHANNELS, (3, 3), padding=((1, 1), (1, 1)))

    def _swish(self, name: str, x: int) -> int:
        return self.node("swish", (x,), name)

    def _normalized(self, name: str, x: int, activated: bool) -> int:
        """Normalize groups of channels; swish follows if `activated`.

        Mean and mean square of each channel are averaged over its group. Then each element x becomes
        x * factor + offset, with factor = scale / deviation and offset = bias - mean * factor.
        """
        batch, _, _, channels = self.builder.shape(x)
        groups = (batch, GROUPS, channels // GROUPS)
        squares = self.node("mul", (x, x), f"{name}/squares")
        mean, power = (
            self._mean(
                f"{name}/{part}/groups",
                self.shaped(self._mean(f"{name}/{part}", each, (1, 2)), *groups),
                (2,),
            )
            for part, each in (("mean", x), ("power", squares))
        )
        variance = self.node(
            "sub", (power, self.node("mul", (mean, mean), f"{name}/squared_mean")), f"{name}/variance"
        )
        inverse = self.node("rsqrt", (variance,), f"{name}/inverse", _RECIPROCALS)
        scale = self.node("mul", (self.constant(f"{name}/scale", groups[1:]), inverse), f"{name}/factors")
        offset = self.node("mul", (mean, scale), f"{name}/offsets")
        offset = self.node("sub", (self.constant(f"{name}/bias", groups[1:]), offset), f"{name}/rest")
        scale, offset = (self.shaped(each, batch, 1, 1, channels) for each in (scale, offset))
        x = self.node("add", (self.node("mul", (x, scale), f"{name}/scaled"), offset), name)
        return self._swish(f"{name}/activation", x) if activated else x

    def _mean(self, name: str, x: int, axes: tuple[int, ...]) -> int:
        return self.node("mean", (x,), name, axes=axes, keep_dims=True)

    def _attention(self, name: str, x: int, other: int | None) -> int:
        """Return each pixel's sum of the values of all pixels, or of the text in `other`."""
        queries, keys, values = (
            self.heads(
                f"{name}/{part}/heads", self.product(f"{name}/{part}", each, CHANNELS), self._batch, HEADS
            )
            for part, each in (
                ("query", x),
                *((part, x if other is None else other) for part in ("key", "value")),
            )
        )
        scores = self.matrices(f"{name}/scores", queries, keys, adj_y=True)
        taken = self.matrices(f"{name}/sums", self.softmax(name, scores), values)
        return self.product(f"{name}/output", self.joined(f"{name}/joined", taken), CHANNELS, True)

    def _geglu(self, name: str, x: int) -> int:
        """Return a gated feed-forward network: one product, times the GELU of another, projected to the channels."""
        part = self.product(f"{name}/up", x, INNER, True)
        gate = self.node("gelu", (self.product(f"{name}/gate", x, INNER, True),), f"{name}/activation")
        gated = self.node("mul", (gate, part), f"{name}/gated")
        return self.product(f"{name}/down", gated, CHANNELS, True)
