"""Reads the sizes of a transformer from the `config.json` that Hugging Face stores beside a model's weights.

Keys and their defaults are those of the configuration classes of the library `transformers`, version 4.56. The five
sizes in `_SIZES` must be in a file, because hardly any model has the ones that the library falls back to. Only the
`text_config` of a model of images and text may leave them out: it is stored as its difference from the defaults.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from npusim.frontends.transformer.weights import INT8, WeightFormat, of_configuration
from npusim.isa.base import user_file
from npusim.isa.base.errors import FormatError, nearest
from npusim.isa.base.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class TransformerConfig:
    """The sizes of a transformer, and what its layers consist of.

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
    norms_last: sums are normalized instead of the inputs of attention and feed-forward network (BERT).
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
    weights:    how the weights of products are stored.
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
    weights: WeightFormat = INT8

    @property
    def patches(self) -> int:
        """The number of patches in an image."""
        return (self.image // self.patch) ** 2

    @property
    def products(self) -> list[tuple[int, int, int]]:
        """The products with weights by size: (output channels, elements of a dot product, number of products)."""
        hidden, width, kv = self.hidden, self.heads * self.head_size, self.kv_heads * self.head_size
        networks = self.layers * max(self.experts, 1)
        return [
            (width, hidden, self.layers),
            (kv, hidden, 2 * self.layers),
            (hidden, width, self.layers),
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
        layer = vector * (2 + 2 * self.post_norms)
        layer += (width + 2 * kv) * self.qkv_bias + hidden * self.output_bias
        layer += max(self.experts, 1) * ((1 + self.gated) * self.inner + hidden) * self.inner_bias
        layer += {"": 0, "head": 2 * self.head_size, "whole": width + kv}[self.query_norms]
        total = sum(map(prod, self.products)) + self.layers * layer + vector + hidden * self.pooler
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
        return rest + self.weights.product_bytes(self.products)


class Family(NamedTuple):
    """What the models of one `model_type` have in common.

    sizes:    defaults of the keys in `_SIZES`.
    defaults: defaults of further keys. A key that is in no family's file is not in the table of the family.
    traits:   fields of `TransformerConfig` that no key changes.
    """

    sizes: tuple[int, int, int, int, int]
    defaults: Mapping[str, Any]
    traits: Mapping[str, Any] = {}


_SIZES = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size")

_QWEN = {
    "num_key_value_heads": 32, "max_position_embeddings": 32768,
    "use_sliding_window": False, "sliding_window": 4096, "max_window_layers": 28,
}  # fmt: skip
_GEMMA = {
    "head_dim": 256, "max_position_embeddings": 8192, "hidden_act": "gelu", "tie_word_embeddings": True,
    "attention_bias": False,
}  # fmt: skip
_GEMMA2 = _GEMMA | {
    "num_key_value_heads": 4, "hidden_activation": "gelu", "sliding_window": 4096, "sliding_window_pattern": 2,
    "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
}  # fmt: skip
_ENCODER = {"norm": "layer", "gated": False, "causal": False, "output_bias": True, "inner_bias": True}

FAMILIES: Mapping[str, Family] = {
    "llama": Family(
        (4096, 11008, 32, 32, 32000),
        {"max_position_embeddings": 2048, "attention_bias": False, "mlp_bias": False},
    ),
    "mistral": Family(
        (4096, 14336, 32, 32, 32000),
        {"num_key_value_heads": 8, "max_position_embeddings": 131072, "sliding_window": 4096},
    ),
    "qwen2": Family((4096, 22016, 32, 32, 151936), _QWEN, {"qkv_bias": True}),
    "qwen3": Family(
        (4096, 22016, 32, 32, 151936),
        _QWEN | {"head_dim": 128, "attention_bias": False},
        {"query_norms": "head"},
    ),
    "gemma": Family((3072, 24576, 28, 16, 256000), _GEMMA | {"num_key_value_heads": 16}),
    "gemma2": Family((2304, 9216, 26, 8, 256000), _GEMMA2, {"post_norms": True}),
    "gemma3_text": Family(
        (2304, 9216, 26, 8, 262208),
        _GEMMA2
        | {
            "max_position_embeddings": 131072,
            "sliding_window_pattern": 6,
            "attn_logit_softcapping": None,
            "final_logit_softcapping": None,
        },
        {"post_norms": True, "query_norms": "head"},
    ),
    "phi3": Family(
        (3072, 8192, 32, 32, 32064),
        {"max_position_embeddings": 4096, "sliding_window": None, "partial_rotary_factor": 1.0},
    ),
    "mixtral": Family(
        (4096, 14336, 32, 32, 32000),
        {
            "num_key_value_heads": 8,
            "max_position_embeddings": 131072,
            "sliding_window": None,
            "num_local_experts": 8,
            "num_experts_per_tok": 2,
        },
    ),
    "olmoe": Family(
        (2048, 2048, 16, 16, 50304),
        {
            "max_position_embeddings": 4096,
            "attention_bias": False,
            "num_experts": 64,
            "num_experts_per_tok": 8,
        },
        {"query_norms": "whole"},
    ),
    "bert": Family(
        (768, 3072, 12, 12, 30522),
        {"hidden_act": "gelu", "max_position_embeddings": 512, "type_vocab_size": 2},
        {**_ENCODER, "norms_last": True, "qkv_bias": True, "pooler": True},
    ),
    "vit": Family(
        (768, 3072, 12, 12, 0),
        {
            "hidden_act": "gelu",
            "vocab_size": 0,
            "max_position_embeddings": 0,
            "qkv_bias": True,
            "image_size": 224,
            "patch_size": 16,
            "num_channels": 3,
        },
        _ENCODER,
    ),
}
"""The families that `npusim.frontends.transformer.network` builds, by the `model_type` of their files."""

_IMAGES_AND_TEXT = {"gemma3": "gemma3_text", "llava": "llama", "mistral3": "mistral"}
"""Models of images and text, with the default `model_type` of the language model in their `text_config`."""

_ACTIVATIONS = {
    "silu": "swish", "swish": "swish", "relu": "relu", "gelu": "gelu", "gelu_new": "gelu", "gelu_fast": "gelu",
    "gelu_python": "gelu", "gelu_pytorch_tanh": "gelu",
}  # fmt: skip
"""Operators by the names of activations. All forms of GELU are the same here: a table of 256 values."""

_UNKNOWN_PARTS = (
    "num_local_experts", "num_experts", "n_routed_experts", "num_shared_experts", "n_shared_experts",
    "shared_expert_intermediate_size", "add_cross_attention", "is_encoder_decoder",
)  # fmt: skip
"""Keys that add parts to a network. A family that does not have the key cannot be built with the part."""

_MOST = 1 << 24
"""Largest size in a configuration: no published model has one of a tenth of it."""
_MOST_LAYERS = 1024
"""Most layers, and most experts of a layer; published models have at most 126 and 512."""


def read_config(path: str | Path, name: str = "") -> TransformerConfig:
    """Read a `config.json`; `name` is that of the file by default. Raises FormatError with the key at fault."""
    try:
        given = json.loads(user_file.contents(path, user_file.CONFIG, FormatError, ""))
    except UnicodeDecodeError:
        raise FormatError("is no configuration of a transformer: it must be JSON text") from None
    except (ValueError, RecursionError) as fault:
        raise FormatError(f"is no JSON: {fault}") from None
    if not isinstance(given, dict) or "model_type" not in given:
        raise FormatError("is no configuration of a transformer: it must be a JSON object with model_type")
    return config_of(given, name or Path(path).stem)


def is_config(path: Path) -> bool:
    """Return whether a file is a JSON object with the key model_type."""
    data = user_file.contents(path, user_file.CONFIG, FormatError, "")
    return data.lstrip()[:1] == b"{" and b'"model_type"' in data


def config_of(given: Mapping[str, Any], name: str = "transformer") -> TransformerConfig:
    """Return the sizes in the values of a `config.json`. Raises FormatError with the key at fault."""
    kind, inside = given.get("model_type"), False
    if isinstance(kind, str) and kind in _IMAGES_AND_TEXT:
        given, inside = given.get("text_config"), True  # type: ignore[assignment]
        if not isinstance(given, Mapping):
            raise FormatError(
                f"text_config is missing; in a file of {kind} it has the language model's sizes"
            )
        kind = given.get("model_type", _IMAGES_AND_TEXT[kind])
    family = FAMILIES.get(kind) if isinstance(kind, str) else None
    if family is None or not isinstance(kind, str):
        near = nearest(str(kind), FAMILIES)
        hint = f", did you mean {near}?" if near else ";"
        raise FormatError(
            f"model_type is {_shown(kind)}{hint} npusim builds {', '.join((*FAMILIES, *_IMAGES_AND_TEXT))}"
        )
    return _Keys(kind, given, family, inside).config(name)


class _Keys:
    """The values of a file over the defaults of its family. null overrides a default: a null window means no window."""

    def __init__(self, kind: str, given: Mapping[str, Any], family: Family, inside: bool) -> None:
        self.kind, self.family = kind, family
        sizes = dict(zip(_SIZES, family.sizes, strict=True)) if inside else {}
        self.values = {**sizes, **family.defaults, **given}
        for key in _UNKNOWN_PARTS:
            if given.get(key) and key not in family.defaults:
                raise FormatError(f"{key} is {_shown(given[key])}: npusim cannot build this part of {kind}")

    def config(self, name: str) -> TransformerConfig:
        """Return the sizes. Raises FormatError with the key at fault."""
        causal = self.family.traits.get("causal", True)
        heads, hidden = self.count("num_attention_heads"), self.count("hidden_size")
        kv_heads = self.count("num_key_value_heads", heads) if causal else heads
        if kv_heads > heads or heads % kv_heads:
            raise FormatError(f"num_key_value_heads is {kv_heads}, must divide num_attention_heads, {heads}")
        if self.values.get("head_dim") is None and hidden % heads:
            raise FormatError(f"num_attention_heads is {heads}, must divide hidden_size, {hidden}")
        head_size = self.count("head_dim", hidden // heads or 1)
        layers = self.count("num_hidden_layers", most=_MOST_LAYERS)
        more = dict(self.family.traits) | (self._of_text(head_size) if causal else self._of_encoder())
        return TransformerConfig(
            name,
            self.kind,
            layers,
            hidden,
            self.count("intermediate_size"),
            heads,
            kv_heads,
            head_size,
            vocabulary=self.size("vocab_size"),
            positions=self.size("max_position_embeddings"),
            activation=self._activation(),
            windows=self._windows(layers),
            weights=of_configuration(self.values.get("quantization_config")),
            **more,
        )

    def _of_text(self, head_size: int) -> dict[str, Any]:
        """Return the fields that language models have."""
        part = self.number("partial_rotary_factor") if "partial_rotary_factor" in self.values else 1.0
        rotary = int(head_size * part)
        if not 2 <= rotary <= head_size or rotary % 2:
            raise FormatError(
                f"head_dim is {head_size}, of which {rotary} are rotated: must be even, 2 or more"
            )
        key = "num_experts" if "num_experts" in self.family.defaults else "num_local_experts"
        experts = self.count(key, most=_MOST_LAYERS) if key in self.family.defaults else 0
        used = self.count("num_experts_per_tok") if experts else 0
        if used > experts:
            raise FormatError(f"num_experts_per_tok is {used}, must be at most {key}, {experts}")
        biased = self.flag("attention_bias")
        return {
            "rotary": rotary,
            "experts": experts,
            "experts_used": used,
            "tied": self.flag("tie_word_embeddings", follow=True),
            "qkv_bias": biased or self.family.traits.get("qkv_bias", False),
            "output_bias": biased,
            "inner_bias": self.flag("mlp_bias"),
            "score_cap": self._capped("attn_logit_softcapping"),
            "head_cap": self._capped("final_logit_softcapping"),
        }

    def _of_encoder(self) -> dict[str, Any]:
        """Return the fields that encoders of text or of images have."""
        if self.values.get("is_decoder"):
            raise FormatError(f"is_decoder is true: npusim builds {self.kind} as an encoder only")
        if (places := self.values.get("position_embedding_type", "absolute")) != "absolute":
            raise FormatError(f'position_embedding_type is {_shown(places)}, must be "absolute"')
        if "patch_size" not in self.family.defaults:
            return {"segments": self.size("type_vocab_size")}
        patch, image = self.count("patch_size"), self.count("image_size")
        if image % patch:
            raise FormatError(f"patch_size is {patch}, must divide image_size, {image}")
        names = self.values.get("id2label")
        classes = len(names) if isinstance(names, Mapping) else 0
        return {
            "qkv_bias": self.flag("qkv_bias"),
            "patch": patch,
            "image": image,
            "channels": self.count("num_channels"),
            "classes": classes,
            "pooler": not classes,
        }

    def _activation(self) -> str:
        key = "hidden_activation" if "hidden_activation" in self.family.defaults else "hidden_act"
        name = self.values.get(key, "silu")
        if not isinstance(name, str) or name not in _ACTIVATIONS:
            raise FormatError(f"{key} is {_shown(name)}; npusim knows {', '.join(_ACTIVATIONS)}")
        return _ACTIVATIONS[name]

    def _windows(self, layers: int) -> tuple[int, ...]:
        """Return the window of each layer; () if no layer has one. Families without the key have none."""
        if "sliding_window" not in self.family.defaults:
            return ()
        window = self.size("sliding_window", 0)
        if "use_sliding_window" in self.family.defaults and not self.flag("use_sliding_window"):
            window = 0
        sliding = [True] * layers
        if (kinds := self.values.get("layer_types")) is not None:
            known = {"sliding_attention": True, "full_attention": False}
            if not isinstance(kinds, list) or len(kinds) != layers or any(str(k) not in known for k in kinds):
                raise FormatError(f"layer_types must be a list of {layers}, each one of {', '.join(known)}")
            sliding = [known[each] for each in kinds]
            if any(sliding) and not window:
                raise FormatError("layer_types has sliding_attention, but there is no sliding_window")
        elif "sliding_window_pattern" in self.family.defaults:
            period = self.count("sliding_window_pattern")
            sliding = [(layer + 1) % period > 0 for layer in range(layers)]
        elif "max_window_layers" in self.family.defaults:
            first = self.size("max_window_layers")
            sliding = [layer >= first for layer in range(layers)]
        return tuple(window * each for each in sliding) if window and any(sliding) else ()

    def _capped(self, key: str) -> bool:
        return key in self.family.defaults and self.values[key] is not None and self.number(key) > 0

    def size(self, key: str, default: int | None = None) -> int:
        """Return the integer of a key, 0 or more; the default if the value is null or missing."""
        return self._integer(key, default, 0, _MOST)

    def count(self, key: str, default: int | None = None, most: int = _MOST) -> int:
        """Return the integer of a key, 1 or more; the default if the value is null or missing."""
        return self._integer(key, default, 1, most)

    def _integer(self, key: str, default: int | None, least: int, most: int) -> int:
        value = self.values.get(key)
        if value is None:
            value = default
        if value is None:
            raise FormatError(f"{key} is missing")
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise FormatError(f"{key} is {_shown(value)}, must be an integer, {least} to {most}")
        return value

    def number(self, key: str) -> float:
        """Return the number of a key."""
        value = self.values.get(key)
        if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) < _MOST:
            raise FormatError(f"{key} is {_shown(value)}, must be a number")
        return float(value)

    def flag(self, key: str, follow: bool = False) -> bool:
        """Return the truth value of a key, false for null. Keys that the family lacks are false, unless `follow`."""
        value = self.values.get(key) if follow or key in self.family.defaults else None
        if value is not None and not isinstance(value, bool):
            raise FormatError(f"{key} is {_shown(value)}, must be true or false")
        return bool(value)


def _shown(value: Any) -> str:
    """Return a value of a file for a message, in at most 60 characters."""
    return json.dumps(value, default=str)[:60]
