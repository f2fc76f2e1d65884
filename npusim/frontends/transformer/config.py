"""Reads the sizes of a transformer from the `config.json` that Hugging Face stores beside a model's weights.

Formula and defaults of each key are those of the library `transformers`: where a file leaves a key out, the model's
own configuration class has the default that is written here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from npusim.isa.base import user_file
from npusim.isa.base.errors import FormatError, nearest
from npusim.isa.base.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class TransformerConfig:
    """The sizes of a transformer, and what its layers consist of.

    layers:     number of layers; each has attention and a feed-forward network.
    hidden:     elements of the vector of a token.
    inner:      elements between the two products of a feed-forward network.
    heads:      attention heads of queries; kv_heads: of keys and values; head_size: elements of one.
    vocabulary: rows of the table of words, and results of the head; 0 for a model of images.
    positions:  maximum number of tokens in a sequence.
    norm:       "rms" or "layer" normalization.
    activation: the function in the feed-forward network; gated: it multiplies a second product.
    rotary:     queries and keys are rotated by their positions.
    causal:     a token attends to itself and to tokens before it.
    norms_behind: attention and feed-forward network are normalized before they are added, as well as their inputs.
    norms_last: inputs are not normalized, sums are (BERT).
    head_norms: queries and keys are normalized head by head.
    biases:     which products add a vector: "none", "qkv" or "all".
    tied:       the head multiplies with the table of words.
    window:     number of tokens that a token attends to, 0 for all; every `window_period`-th layer attends to all.
    experts:    feed-forward networks of a layer, of which a token takes `experts_used`; 0 for one that all take.
    patch:      height and width of the squares of an image that become tokens, 0 for words; image: its height and
                width; channels: its colours; classes: results of the head.
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
    rotary: bool = True
    causal: bool = True
    norms_behind: bool = False
    norms_last: bool = False
    head_norms: bool = False
    biases: str = "none"
    tied: bool = False
    window: int = 0
    window_period: int = 0
    experts: int = 0
    experts_used: int = 0
    patch: int = 0
    image: int = 0
    channels: int = 0
    classes: int = 0

    def window_of(self, layer: int) -> int:
        """Return the number of tokens that a layer's tokens attend to; 0 for all."""
        if self.window_period and (layer + 1) % self.window_period == 0:
            return 0
        return self.window

    @property
    def squares(self) -> int:
        """The number of squares in an image."""
        return (self.image // self.patch) ** 2

    @property
    def parameters(self) -> int:
        """The number of weights, biases and scales of normalizations."""
        hidden, width, kv = self.hidden, self.heads * self.head_size, self.kv_heads * self.head_size
        products = [(hidden, width), (hidden, kv), (hidden, kv), (width, hidden)]
        feed = [(hidden, self.inner)] * (1 + self.gated) + [(self.inner, hidden)]
        experts = max(self.experts, 1)
        biased = {"none": 0, "qkv": 3, "all": len(products)}[self.biases]
        layer = sum(a * b for a, b in products) + sum(b for _, b in products[:biased])
        layer += experts * sum(a * b + (b if self.biases == "all" else 0) for a, b in feed)
        layer += self.experts * hidden
        vector = hidden * (2 if self.norm == "layer" else 1)
        layer += vector * (2 + 2 * self.norms_behind) + 2 * self.head_size * self.head_norms
        total = self.layers * layer
        if self.patch:
            tokens = self.squares + 1
            total += (self.patch**2 * self.channels + 1) * hidden + tokens * hidden + hidden
            return total + vector + (hidden + 1) * self.classes
        total += self.vocabulary * hidden * (1 if self.tied or not self.causal else 2)
        if not self.rotary:
            total += (self.positions + 2) * hidden  # with BERT's two kinds of segments
        return total + vector


class Family(NamedTuple):
    """What the models of one `model_type` have in common.

    traits:   fields of `TransformerConfig`.
    defaults: values of keys that a file may leave out.
    keys:     keys that are called otherwise than in most files, by their usual names.
    """

    traits: Mapping[str, Any] = {}
    defaults: Mapping[str, Any] = {}
    keys: Mapping[str, str] = {}


_GELU = {
    "norm": "layer",
    "activation": "gelu",
    "gated": False,
    "rotary": False,
    "causal": False,
    "biases": "all",
}
_GEMMA = {"activation": "gelu", "norms_behind": True, "tied": True}

FAMILIES: Mapping[str, Family] = {
    "llama": Family(),
    "mistral": Family({}, {"sliding_window": 4096}),
    "qwen2": Family({"biases": "qkv"}, {"sliding_window": 0}),
    "qwen3": Family({"head_norms": True}, {"sliding_window": 0, "head_dim": 128}),
    "gemma": Family({"activation": "gelu", "tied": True}, {"head_dim": 256}),
    "gemma2": Family({**_GEMMA, "window_period": 2}, {"head_dim": 256, "sliding_window": 4096}),
    "gemma3_text": Family(
        {**_GEMMA, "head_norms": True, "window_period": 6}, {"head_dim": 256, "sliding_window": 4096}
    ),
    "phi3": Family({}, {"sliding_window": 0}),
    "mixtral": Family({}, {"sliding_window": 0, "num_local_experts": 8, "num_experts_per_tok": 2}),
    "olmoe": Family(
        {"head_norms": True},
        {"num_experts": 64, "num_experts_per_tok": 8},
        {"num_local_experts": "num_experts"},
    ),
    "bert": Family({**_GELU, "norms_last": True}),
    "vit": Family(
        _GELU,
        {
            "vocab_size": 0,
            "max_position_embeddings": 0,
            "image_size": 224,
            "patch_size": 16,
            "num_channels": 3,
        },
    ),
}
"""The families that `npusim.frontends.transformer.network` builds, by the `model_type` of their files."""

_PARTS = {"gemma3": "text_config", "llava": "text_config", "mistral3": "text_config"}
"""Models of images and words, with the key of the language model within."""


def read_config(path: str | Path, name: str = "") -> TransformerConfig:
    """Read a `config.json`; `name` is that of the file by default. Raises FormatError with the key at fault."""
    with user_file.opened(path, user_file.CONFIG, FormatError, "") as file:
        data = file.read()
    try:
        given = json.loads(data)
    except (ValueError, RecursionError) as fault:
        raise FormatError(f"is no JSON: {fault}") from None
    if not isinstance(given, dict) or "model_type" not in given:
        raise FormatError("is no configuration of a transformer: it must be a JSON object with model_type")
    return config_of(given, name or Path(path).stem)


def is_config(path: Path) -> bool:
    """Return whether a file is a JSON object with the key model_type."""
    with user_file.opened(path, user_file.CONFIG, FormatError, "") as file:
        data = file.read()
    return data.lstrip()[:1] == b"{" and b'"model_type"' in data


def config_of(given: Mapping[str, Any], name: str = "transformer") -> TransformerConfig:
    """Return the sizes in the values of a `config.json`. Raises FormatError with the key at fault."""
    kind = given.get("model_type")
    if (inside := _PARTS.get(str(kind))) and isinstance(given.get(inside), Mapping):
        return config_of({"model_type": f"{kind}_text", **given[inside]}, name)
    family = FAMILIES.get(str(kind))
    if family is None:
        near = nearest(str(kind), FAMILIES)
        hint = f", did you mean {near}?" if near else ";"
        raise FormatError(f"model_type is {json.dumps(kind)}{hint} npusim builds {', '.join(FAMILIES)}")
    read = _Keys(given, family)
    heads, hidden = read.count("num_attention_heads"), read.count("hidden_size")
    kv_heads = read.count("num_key_value_heads", heads)
    head_size = read.count("head_dim", hidden // heads or 1)
    if kv_heads > heads or heads % kv_heads:
        raise FormatError(f"num_key_value_heads is {kv_heads}, must divide num_attention_heads, {heads}")
    if "head_dim" not in read.values and hidden % heads:
        raise FormatError(f"num_attention_heads is {heads}, must divide hidden_size, {hidden}")
    experts = read.size("num_local_experts", 0)
    used = read.count("num_experts_per_tok", 2) if experts else 0
    if used > experts:
        raise FormatError(f"num_experts_per_tok is {used}, must be at most {experts}, the experts")
    traits = dict(family.traits)
    if "tie_word_embeddings" in given:
        traits["tied"] = read.flag("tie_word_embeddings")
    if "attention_bias" in given and read.flag("attention_bias"):
        traits["biases"] = "qkv"
    if "sliding_window_pattern" in given:
        traits["window_period"] = read.count("sliding_window_pattern")
    window = read.size("sliding_window", 0)
    if given.get("use_sliding_window") is False:
        window = 0
    images: dict[str, Any] = {}
    if family.traits is _GELU:
        images = {
            "patch": read.count("patch_size"),
            "image": read.count("image_size"),
            "channels": read.count("num_channels"),
            "classes": len(given["id2label"]) if isinstance(given.get("id2label"), Mapping) else 0,
        }
        if images["image"] % images["patch"]:
            raise FormatError(f"patch_size is {images['patch']}, must divide image_size, {images['image']}")
    return TransformerConfig(
        name,
        str(kind),
        layers=read.count("num_hidden_layers"),
        hidden=hidden,
        inner=read.count("intermediate_size"),
        heads=heads,
        kv_heads=kv_heads,
        head_size=head_size,
        vocabulary=read.size("vocab_size"),
        positions=read.size("max_position_embeddings", 0),
        window=window,
        experts=experts,
        experts_used=used,
        **traits,
        **images,
    )


_MOST = 1 << 24
"""Largest size in a configuration: no model that exists has one of a tenth of it."""


class _Keys:
    """The values of a file, with the defaults of its family."""

    def __init__(self, given: Mapping[str, Any], family: Family) -> None:
        self.values = {**family.defaults, **{key: value for key, value in given.items() if value is not None}}
        self._names = family.keys

    def size(self, key: str, default: int | None = None) -> int:
        """Return an integer from 0 on."""
        return self._integer(key, default, 0)

    def count(self, key: str, default: int | None = None) -> int:
        """Return an integer from 1 on."""
        return self._integer(key, default, 1)

    def _integer(self, key: str, default: int | None, least: int) -> int:
        name = self._names.get(key, key)
        value = self.values.get(name, default)
        if value is None:
            raise FormatError(f"{name} is missing")
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= _MOST:
            raise FormatError(f"{name} is {json.dumps(value)[:60]}, must be an integer, {least} to {_MOST}")
        return value

    def flag(self, key: str) -> bool:
        """Return true or false."""
        value = self.values[key]
        if not isinstance(value, bool):
            raise FormatError(f"{key} is {json.dumps(value)[:60]}, must be true or false")
        return value
