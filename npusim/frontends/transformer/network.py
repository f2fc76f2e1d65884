"""Builds the network of a transformer from its sizes, without weights: enough to time it.

The network computes one step: `tokens` new tokens attend to themselves and to the keys and values of `past` tokens
before them. A prompt is a step with past = 0, each further token one with tokens = 1. The configuration says whether
activations are int8 or float16, and which format weights have. Only the sizes of constants are known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from npusim.frontends.transformer.config import is_config, read_config
from npusim.frontends.transformer.layers import PROBABILITIES, TANH, Layers
from npusim.frontends.transformer.sizes import TransformerConfig
from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import TensorType
from npusim.kernels.graph.builder import GraphBuilder
from npusim.kernels.graph.graph import Graph
from npusim.kernels.operators.reduction.softmax import LONGEST

MOST_SCORES = LONGEST
"""Most scores of one token, whose exponentials softmax in fixed point can sum."""
HEADS = ("last", "all", "none")
"""The tokens for which a language model's head predicts the next one."""
DEFAULT_TOKENS = 128
"""Tokens of a step whose length the user does not say."""


def transformer(
    config: TransformerConfig,
    *,
    tokens: int,
    past: int = 0,
    batch: int = 1,
    head: str = "last",
    source: int = 0,
) -> Graph:
    """Return the network of one step of a transformer.

    tokens: new tokens of each sequence; past: earlier tokens of each, whose keys and values are inputs.
    batch:  number of sequences.
    head:   tokens for which the next one is predicted: the "last" of each sequence, "all" or "none".
    source: tokens of each sequence that an encoder reads; 0 without one.

    Inputs are the tokens as int32 [batch, tokens] (of images their patches), and for past > 0 the keys and values of
    every layer, [batch, kv_heads, past, head_size]; a layer with a window takes those in the window. Outputs are the
    result of the head, and the keys and values of the new tokens, which a device appends to the known ones. An encoder
    of text gives the vectors of all tokens and, with a head, the pooled first one. All but tokens have the type of
    activations.

    A model with encoder and decoder: a step with past = 0 has the encoder, then the decoder, whose layers also attend
    to the encoder's vectors; their keys and values are further outputs. Of steps with past > 0 they are inputs, and the
    encoder does not run again. With tokens = 0 the encoder runs alone.

    Raises GraphError for sizes that do not fit the model.
    """
    builder = GraphBuilder(config.name)
    return build(builder, config, tokens=tokens, past=past, batch=batch, head=head, source=source)


def build(
    builder: GraphBuilder,
    config: TransformerConfig,
    *,
    tokens: int,
    past: int,
    batch: int,
    head: str,
    source: int,
) -> Graph:
    """Add the network to an empty builder and return its graph, as `transformer` does."""
    with_encoder = config.encoder is not None
    least = 0 if with_encoder and not past else 1
    for name, value, lowest in (
        ("tokens", tokens, least), ("past", past, 0), ("batch", batch, 1), ("source", source, int(with_encoder)),
    ):  # fmt: skip
        if value < lowest:
            raise GraphError(f"{name} is {value}, must be {lowest} or more")
    if head not in HEADS:
        raise GraphError(f"head is {head}; it may be {', '.join(HEADS)}")
    if past and not config.causal:
        raise GraphError(f"past is {past}, must be 0: {config.family} reads a sequence as a whole")
    if source and (not with_encoder or config.read not in (0, source)):
        raise GraphError(
            f"source is {source}, must be {config.read}: what the encoder of {config.family} reads"
        )
    check_length(config, tokens, past)
    if config.weights.source:
        builder.note(f"weights are {config.weights.words}; --weights FORMAT gives another")
    return _Step(builder, config, tokens, past, batch, source).graph(head)


def check_length(config: TransformerConfig, tokens: int, past: int) -> None:
    """Raise GraphError for a step with more tokens than the model has positions, or softmax takes scores."""
    check_positions(config, tokens, past)
    scores = tokens + max(in_window(past, window) for window in config.windows or (0,))
    if scores > MOST_SCORES:
        raise GraphError(
            f"{past} + {tokens} tokens: a token attends to {scores}, softmax with 8 bits takes {MOST_SCORES} at most"
        )


def check_positions(config: TransformerConfig, tokens: int, past: int) -> None:
    """Raise GraphError for more tokens, new and past, than the model has positions."""
    if 0 < config.positions < past + tokens:
        raise GraphError(f"{past} + {tokens} tokens are more than {config.positions_key}, {config.positions}")


def in_window(past: int, window: int) -> int:
    """Return the past tokens that the first new token attends to. The window includes the token itself."""
    return min(past, window - 1) if window else past


def recognises(path: Path, head: bytes) -> bool:
    """Return whether a file is a `config.json`."""
    return head.lstrip()[:1] == b"{" and is_config(path)


def read(path: Path, builder: GraphBuilder) -> Graph:
    """Return the network of the `config.json` at `path` for the sizes `tokens`, `past` and `batch` of the builder."""
    return of_sizes(read_config(path, builder.name), builder)


def of_sizes(config: TransformerConfig, builder: GraphBuilder) -> Graph:
    """Return the network for the sizes that the user gave the builder: `tokens`, `past`, `batch` and `source`."""
    default, source = DEFAULT_TOKENS, config.read
    if config.encoder is not None:
        default, source = 1, source or builder.size("source", DEFAULT_TOKENS)
    tokens = config.patches + 1 if config.patch else builder.size("tokens", default)
    past = builder.size("past", 0) if config.causal else 0
    batch = builder.size("batch", 1)
    return build(builder, config, tokens=tokens, past=past, batch=batch, head="last", source=source)


class _Step(Layers):
    """The network of one step under construction. `x` in its methods is a matrix [batch * tokens, elements]."""

    def __init__(
        self,
        builder: GraphBuilder,
        config: TransformerConfig,
        tokens: int,
        past: int,
        batch: int,
        source: int,
        decoder: _Step | None = None,
    ) -> None:
        """Begin a step; `source` tokens are read by the encoder. decoder: that of the encoder to build."""
        super().__init__(builder, config.weights, config.norm == "layer", decoder, config.floats)
        self._config, self._decoder, self._prefix = config, decoder, "encoder/" if decoder else ""
        self._tokens, self._past, self._batch, self._source = tokens, past, batch, source
        self._encoded = -1
        """The tensor number of the encoder's vectors."""
        self._new: list[int] = []
        """Tensor numbers of the new tokens' keys and values, layer by layer."""

    def graph(self, head: str) -> Graph:
        """Add all layers and return the graph."""
        config = self._config
        if config.encoder is not None and not self._past:
            encoder = replace(config.encoder, weights=config.weights, floats=config.floats)
            step = _Step(self.builder, encoder, self._source, 0, self._batch, 0, self)
            self._encoded = step.norm("encoder/norm", step._vectors())
            if not self._tokens:
                return self.builder.graph([self._encoded])
        x = self._vectors()
        outputs = [] if config.causal else [x]
        if config.norms_last:
            outputs += [self._pooled(x)] if config.pooler and head != "none" else []
        elif head != "none":
            outputs = [self._head(x, head)]
        return self.builder.graph([*outputs, *self._new])

    def _vectors(self) -> int:
        """Return the vectors of all tokens after the last layer."""
        config = self._config
        x = self._images() if config.patch else self._sound() if config.mels else self._words()
        for layer in range(config.layers):
            x = self._layer(f"{self._prefix}layer{layer}", x, config.windows[layer] if config.windows else 0)
        return x

    # Ends

    def _words(self) -> int:
        """Return the embeddings of token numbers, with those of positions if the model has them."""
        config, builder, prefix = self._config, self.builder, self._prefix
        ids = builder.input(f"{prefix}token_ids", TensorType("int32", (self._batch, self._tokens)))
        rows = (self._decoder or self)._config.vocabulary
        self._embedding = self.constant("token_embedding", (rows, config.hidden))
        x = self.node("gather", (self._embedding, ids), f"{prefix}embedding", axis=0)
        x = self.shaped(x, self._rows, config.hidden)
        if not config.positions or config.rotary:
            return x
        x = self._placed(x)
        return self.norm("embedding/norm", x) if config.norms_last else x

    def _placed(self, x: int) -> int:
        """Add the position embeddings. They include those of segments: both are constants, so their sum is one, too."""
        prefix, hidden = self._prefix, self._config.hidden
        positions = self.constant(f"{prefix}positions", (self._tokens, hidden))
        x = self.shaped(x, self._batch, self._tokens, hidden)
        return self.shaped(
            self.node("add", (x, positions), f"{prefix}embedding/positions"), self._rows, hidden
        )

    def _sound(self) -> int:
        """Return the vectors of a spectrogram: two convolutions over time, the second of stride 2 (Whisper)."""
        config = self._config
        x = self.input("sound", self._batch, 1, 2 * self._tokens, config.mels)
        for number, stride in ((1, 1), (2, 2)):
            name = f"encoder/embedding/conv{number}"
            x = self.convolution(
                name, x, config.hidden, (1, 3), padding=((0, 0), (1, 1)), strides=(1, stride)
            )
            x = self.node(config.activation, (x,), f"{name}/activation")
        return self._placed(self.shaped(x, self._rows, config.hidden))

    def _images(self) -> int:
        """Return the embeddings of the class token and of the images' patches (ViT)."""
        config = self._config
        patches, features = config.patches, config.patch**2 * config.channels
        if self._tokens != patches + 1:
            raise GraphError(
                f"tokens is {self._tokens}, must be {patches + 1}: the patches of an image, and the class token"
            )
        image = self.input("patches", self._batch * patches, features)
        x = self.product("embedding", image, config.hidden, biased=True)
        x = self.shaped(x, self._batch, patches, config.hidden)
        first = self.constant("class", (self._batch, 1, config.hidden))
        x = self.node("concatenation", (first, x), "embedding/class", axis=1)
        return self._placed(x)

    def _head(self, x: int, head: str) -> int:
        """Return the scores of the vocabulary for the tokens in `head`; of an image those of its classes."""
        config = self._config
        if config.patch:
            x = self._token(x, 0)
        elif head == "last":
            x = self._token(x, self._tokens - 1)
        x = self.norm("head/norm", x)
        if config.pooler:
            return self._pooled(x)
        if config.patch:
            return self.product("head", x, config.classes, biased=True)
        x = (
            self.multiplied("head", x, self._embedding)
            if config.tied and self.stored_whole
            else self.product("head", x, config.vocabulary)
        )
        return self.node("tanh", (x,), "head/cap", TANH) if config.head_cap else x

    def _pooled(self, x: int) -> int:
        """Return the product and tanh of each sequence's first token."""
        if self.builder.shape(x)[0] != self._batch:
            x = self._token(x, 0)
        x = self.product("pooler", x, self._config.hidden, biased=True)
        return self.node("tanh", (x,), "pooler/tanh", TANH)

    def _token(self, x: int, number: int) -> int:
        """Return the vectors of one token of each sequence, [batch, elements]."""
        hidden = self._config.hidden
        whole = self.shaped(x, self._batch, self._tokens, hidden)
        x = self.node("slice", (whole,), "head/token", begin=(0, number, 0), size=(self._batch, 1, hidden))
        return self.shaped(x, self._batch, hidden)

    # Layers

    def _layer(self, name: str, x: int, window: int) -> int:
        config = self._config
        parts: dict[str, Callable[[str, int], int]] = {"attention": partial(self._attention, window=window)}
        if config.encoder is not None:
            parts["cross_attention"] = self._cross_attention
        parts["feed_forward"] = self._feed_forward
        for part, add in parts.items():
            inner = x if config.norms_last else self.norm(f"{name}/{part}/norm", x)
            result = add(f"{name}/{part}", inner)
            if config.post_norms:
                result = self.norm(f"{name}/{part}/post_norm", result)
            x = self.node("add", (x, result), f"{name}/{part}/sum")
            if config.norms_last:
                x = self.norm(f"{name}/{part}/norm", x)
        return x

    def _attention(self, name: str, x: int, window: int) -> int:
        """Return each token's sum of the values that it attends to, after the output product.

        Queries of heads that share keys are rows of one product. The scores of past tokens and of new ones are
        concatenated instead of their keys, so that the keys and values of the past are not copied.
        """
        config, size = self._config, self._config.head_size
        groups = config.heads // config.kv_heads
        queries, keys, values = (
            self.heads(
                f"{name}/{part}/heads", self._projected(f"{name}/{part}", x, heads), self._batch, heads
            )
            for part, heads in (("query", config.heads), ("key", config.kv_heads), ("value", config.kv_heads))
        )
        if config.query_norms == "head":
            queries, keys = (
                self.norm(f"{name}/{n}/norm", each) for n, each in (("query", queries), ("key", keys))
            )
        if config.rotary:
            queries, keys = (
                self._rotated(f"{name}/{n}/rotation", each) for n, each in (("query", queries), ("key", keys))
            )
        if config.causal:
            self._new += [keys, values]
        rows = (self._batch, config.kv_heads, groups * self._tokens)
        queries = self.shaped(queries, *rows, size)
        seen = in_window(self._past, window)
        scores = self._scores(f"{name}/scores", queries, keys, masked=config.causal)
        if seen:
            kept = (self._batch, config.kv_heads, seen, size)
            past_keys, past_values = (self.input(f"{name}/past_{what}", *kept) for what in ("keys", "values"))
            # Later tokens see less of the past than the first one if the window cuts it.
            cut = bool(window) and self._past + self._tokens > window
            before = self._scores(f"{name}/past_scores", queries, past_keys, masked=cut)
            scores = self.node("concatenation", (before, scores), f"{name}/all_scores", axis=3)
        weights = self.softmax(name, scores)
        if seen:
            before, weights = self.nodes("split", (weights,), f"{name}/weights", 2, PROBABILITIES,
                                         axis=3, sizes=(seen, self._tokens))  # fmt: skip
            taken = self.matrices(f"{name}/past_sum", before, past_values)
            taken = self.node(
                "add", (taken, self.matrices(f"{name}/new_sum", weights, values)), f"{name}/sums"
            )
        else:
            taken = self.matrices(f"{name}/sums", weights, values)
        return self._put_out(name, taken)

    def _cross_attention(self, name: str, x: int) -> int:
        """Return each token's sum of the values of the encoder's tokens, whose keys and values are computed once."""
        config = self._config

        def heads(part: str, of: int) -> int:
            made = self._projected(f"{name}/{part}", of, config.heads)
            return self.heads(f"{name}/{part}/heads", made, self._batch, config.heads)

        queries = heads("query", x)
        if self._past:
            shape = (self._batch, config.heads, self._source, config.head_size)
            keys, values = (self.input(f"{name}/{what}", *shape) for what in ("keys", "values"))
        else:
            keys, values = (heads(part, self._encoded) for part in ("key", "value"))
            self._new += [keys, values]
        scores = self.matrices(f"{name}/scores", queries, keys, adj_y=True)
        return self._put_out(name, self.matrices(f"{name}/sums", self.softmax(name, scores), values))

    def _put_out(self, name: str, taken: int) -> int:
        """Return the product that projects the results of all heads to the model's width."""
        config = self._config
        taken = self.shaped(taken, self._batch, config.heads, self._tokens, config.head_size)
        joined = self.joined(f"{name}/joined", taken)
        return self.product(f"{name}/output", joined, config.hidden, config.output_bias)

    def _projected(self, name: str, x: int, heads: int) -> int:
        """Return the queries, keys or values of all heads side by side, [batch * tokens, heads * head_size]."""
        config = self._config
        biased = config.qkv_bias and (config.key_bias or not name.endswith("key"))
        x = self.product(name, x, heads * config.head_size, biased)
        whole = config.query_norms == "whole" and not name.endswith("value")
        return self.norm(f"{name}/norm", x) if whole else x

    def _scores(self, name: str, queries: int, keys: int, masked: bool) -> int:
        """Return the products of queries and keys, bounded by a tanh and masked if the model does so."""
        scores = self.matrices(name, queries, keys, adj_y=True)
        if self._config.score_cap:
            scores = self.node("tanh", (scores,), f"{name}/cap", TANH)
        if self._config.distances:
            # The numbers by distance are the same in all layers. Those of tokens that are not seen are a mask.
            name_of_all = f"{self._prefix}{name.rpartition('/')[2]}/distances"
            distances = self.constant(name_of_all, (1, *self.builder.shape(scores)[1:]))
            scores = self.node("add", (scores, distances), f"{name}/placed")
        elif masked and self._tokens > 1:
            # The mask is the same for all heads; its rows are the tokens of the heads that share keys.
            mask = self.constant(f"{name.rpartition('/')[2]}/mask", self.builder.shape(scores)[2:])
            scores = self.node("add", (scores, mask), f"{name}/masked")
        return scores

    def _rotated(self, name: str, x: int) -> int:
        """Return x * cosines + (halves of x swapped) * sines; the sines of the first half are negative.

        Elements behind the rotated ones, if any, have a cosine of 1 and a sine of 0.
        """
        size, half = self._config.head_size, self._config.rotary // 2
        sizes = (half, half, size - 2 * half) if size > 2 * half else (half, half)
        low, high, *rest = self.nodes("split", (x,), f"{name}/halves", len(sizes), axis=3, sizes=sizes)
        swapped = self.node("concatenation", (high, low, *rest), f"{name}/swapped", axis=3)
        parts = [
            self.node("mul", (each, self.constant(what, (self._tokens, size))), f"{name}/{what}")
            for each, what in ((x, "cosines"), (swapped, "sines"))
        ]
        return self.node("add", tuple(parts), name)

    def _feed_forward(self, name: str, x: int) -> int:
        """Return the feed-forward network of all tokens, or the weighted sum of each token's experts."""
        experts, used = self._config.experts, self._config.experts_used
        if not experts:
            return self._network(name, x)
        router = self.product(f"{name}/router", x, experts)
        weights = self.node("softmax", (router,), f"{name}/router/softmax", PROBABILITIES, axis=1)
        rows, hidden = self._rows, self._config.hidden
        # Experts take equal shares of the tokens: which ones a token really takes depends on weights.
        sent = self.node("tile", (x,), f"{name}/sent", multiples=(used, 1)) if used > 1 else x
        taking = min(experts, used * rows)
        sizes = tuple((used * rows * (i + 1)) // taking - (used * rows * i) // taking for i in range(taking))
        parts = (
            self.nodes("split", (sent,), f"{name}/parts", taking, axis=0, sizes=sizes)
            if taking > 1
            else (sent,)
        )
        made = [self._network(f"{name}/expert{i}", part) for i, part in enumerate(parts)]
        joined = self.node("concatenation", made, f"{name}/joined", axis=0) if taking > 1 else made[0]
        largest = self.node(
            "reduce_max", (weights,), f"{name}/weights", PROBABILITIES, axes=(1,), keep_dims=True
        )
        joined = self.shaped(joined, used, rows, hidden)
        joined = self.node("mul", (joined, largest), f"{name}/weighted")
        if used == 1:
            return self.shaped(joined, rows, hidden)
        return self.node("sum", (joined,), f"{name}/sum", axes=(0,), keep_dims=False)

    def _network(self, name: str, x: int) -> int:
        """Return one feed-forward network of x: two products, or three if it is gated."""
        config, biased = self._config, self._config.inner_bias
        opened = self.product(f"{name}/gate" if config.gated else f"{name}/up", x, config.inner, biased)
        opened = self.node(config.activation, (opened,), f"{name}/activation")
        if config.gated:
            opened = self.node(
                "mul", (opened, self.product(f"{name}/up", x, config.inner, biased)), f"{name}/gated"
            )
        return self.product(f"{name}/down", opened, config.hidden, biased)

    @property
    def _rows(self) -> int:
        return self._batch * self._tokens
