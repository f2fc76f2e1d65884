"""The sizes of a transformer, and the number of its parameters and bytes that results from them."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from npusim.frontends.transformer.weights import INT8, WeightFormat
from npusim.isa.base.errors import NpusimError
from npusim.isa.base.lazy_dataclass import dataclass

ACTIVATIONS = ("int8", "float16")
"""Element types that activations, keys and values may have."""


@dataclass(frozen=True, slots=True)
class TransformerConfig:
    """The sizes of a transformer and the structure of its layers.

    layers:     number of layers; each has attention and a feed-forward network.
    hidden:     elements of a token's vector.
    inner:      elements between the two products of a feed-forward network.
    heads:      attention heads of queries; kv_heads: of keys and values; head_size: elements of one head.
    vocabulary: rows of the token embedding, and results of the language model's head; 0 for a model of images.
    positions:  maximum number of tokens in a sequence; 0 for a model of images.
    norm:       "rms" or "layer" normalization.
    activation: the function in the feed-forward network; gated: a second product multiplies its result.
    rotary:     elements of each head that are rotated by the token's position; 0 for learned position embeddings.
    causal:     a token attends to itself and to tokens before it only.
    post_norms: results of attention and feed-forward network are normalized before they are added (Gemma 2 and 3).
    norms_last: the sums behind attention and feed-forward network are normalized instead of their inputs (BERT).
    query_norms: queries and keys are normalized, "head" by head or the "whole" width at once; "" for neither.
    qkv_bias, output_bias, inner_bias: the products for queries, keys and values, the product behind attention, and
                those of the feed-forward network add a vector.
    score_cap, head_cap: scores of attention, and results of the head, pass a tanh that bounds them (Gemma 2).
    tied:       the head's weights are the token embedding.
    windows:    tokens that a token attends to, itself included, layer by layer; 0 for all. () for all in every layer.
    experts:    feed-forward networks of a layer, of which a token takes `experts_used`; 0 if there is one for all.
    segments:   rows of the embedding of segments (BERT).
    pooler:     a product and a tanh follow on the first token's result (BERT, and ViT without classes).
    patch:      height and width of an image's patches, which become tokens, 0 for text; image: height and width of the
                image; channels: its colours; classes: results of the classifier.
    key_bias:   with `qkv_bias` the product for keys adds a vector, too; False for Whisper.
    distances:  rows of the table of relative position biases, which are added to scores (T5); 0 without one.
    mels:       mel bands of the spectrogram that two convolutions turn into one token for two frames (Whisper).
    encoder:    the encoder to whose results each layer attends after its own tokens; None without one.
    weights:    how the weights of products are stored.
    floats:     activations, keys and values are float16 instead of int8.
    """

    name: str
    family: str
    layers: int
    hidden: int
    inner: int
    heads: int
    kv_heads: int
    head_size: int
    vocabulary: int
    positions: int
    norm: str = "rms"
    activation: str = "swish"
    gated: bool = True
    rotary: int = 0
    causal: bool = True
    post_norms: bool = False
    norms_last: bool = False
    query_norms: str = ""
    qkv_bias: bool = False
    output_bias: bool = False
    inner_bias: bool = False
    score_cap: bool = False
    head_cap: bool = False
    tied: bool = False
    windows: tuple[int, ...] = ()
    experts: int = 0
    experts_used: int = 0
    segments: int = 0
    pooler: bool = False
    patch: int = 0
    image: int = 0
    channels: int = 0
    classes: int = 0
    key_bias: bool = True
    distances: int = 0
    mels: int = 0
    encoder: TransformerConfig | None = None
    weights: WeightFormat = INT8
    floats: bool = False

    @property
    def positions_key(self) -> str:
        """The key of a `config.json` that holds `positions`."""
        return "max_position_embeddings" if self.encoder is None else "max_target_positions"

    def stored_as(self, weights: WeightFormat, activations: str | None = None) -> TransformerConfig:
        """Return the sizes with other formats of weights and activations.

        activations: "int8" or "float16"; None for the type that goes with the weights.

        Raises NpusimError for activations that do not go with the weights.
        """
        kind = activations or weights.activations
        if kind not in ACTIVATIONS or (weights.real and kind != weights.activations):
            may_be = weights.activations if weights.real else " or ".join(ACTIVATIONS)
            raise NpusimError(f"activations {kind}: beside weights {weights.name} they may be {may_be}")
        return replace(self, weights=weights, floats=kind != ACTIVATIONS[0])

    @property
    def patches(self) -> int:
        """The number of patches in an image."""
        return (self.image // self.patch) ** 2

    @property
    def read(self) -> int:
        """The fixed number of tokens that the encoder reads (Whisper); 0 if it takes any number or does not exist."""
        return 0 if self.encoder is None else self.encoder.positions

    @property
    def layer_cache_bytes(self) -> int:
        """Bytes of the keys and values of a token in one layer."""
        return 2 * self.kv_heads * self.head_size * (1 + self.floats)

    @property
    def products(self) -> list[tuple[int, int, int]]:
        """The products with weights by size: (output channels, elements of a dot product, number of products)."""
        hidden, width, kv = self.hidden, self.heads * self.head_size, self.kv_heads * self.head_size
        networks = self.layers * max(self.experts, 1)
        attentions = self.layers * (1 if self.encoder is None else 2)
        return [
            *([] if self.encoder is None else self.encoder.products),
            (width, hidden, attentions),
            (kv, hidden, 2 * attentions),
            (hidden, width, attentions),
            (self.inner, hidden, (1 + self.gated) * networks),
            (hidden, self.inner, networks),
            (self.experts, hidden, self.layers),
            (hidden, hidden, int(self.pooler)),
            (hidden, self.patch**2 * self.channels, 1),
            (self.vocabulary if self.causal else self.classes, hidden, 1),
        ]

    @property
    def parameters(self) -> int:
        """The number of weights, biases and scales of normalizations."""
        hidden, width, kv = self.hidden, self.heads * self.head_size, self.kv_heads * self.head_size
        vector = hidden * (2 if self.norm == "layer" else 1)
        attentions = 1 if self.encoder is None else 2
        layer = vector * (1 + attentions + 2 * self.post_norms)
        biases = (width + (1 + self.key_bias) * kv) * self.qkv_bias + hidden * self.output_bias
        layer += biases * attentions
        layer += max(self.experts, 1) * ((1 + self.gated) * self.inner + hidden) * self.inner_bias
        layer += {"": 0, "head": 2 * self.head_size, "whole": width + kv}[self.query_norms]
        rest = self.layers * layer + vector + hidden * self.pooler + self.distances * self.heads
        if self.encoder is not None:
            rest += self.encoder.parameters - sum(map(prod, self.encoder.products))
        if self.mels:
            rest += 3 * hidden * (self.mels + hidden) + 2 * hidden
        total = sum(map(prod, self.products)) + rest
        if self.patch:
            return total + (self.patches + 3) * hidden + self.classes
        total += self.vocabulary * hidden * (not self.tied)
        return total + (0 if self.rotary else (self.positions + self.segments) * hidden)

    @property
    def stored_bytes(self) -> int:
        """Bytes of the model in memory: the weights of products in their format, and the embeddings.

        A head that is tied to the embedding of tokens is stored beside it.
        """
        rest = self.parameters - sum(map(prod, self.products)) + self.vocabulary * self.hidden * self.tied
        return rest * (1 + self.floats) + self.weights.product_bytes(self.products)
