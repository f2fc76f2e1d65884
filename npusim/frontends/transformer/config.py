"""Reads the sizes of a transformer from the `config.json` that Hugging Face stores beside a model's weights.

The five sizes in `SIZES` must be in a file, because hardly any model has the ones that the library falls back to. Only
the `text_config` of a model of images and text may leave them out: it is stored as its difference from the defaults.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from npusim.frontends.transformer.encoder_decoder import READERS
from npusim.frontends.transformer.families import FAMILIES, IMAGES_AND_TEXT
from npusim.frontends.transformer.keys import MOST_LAYERS, Keys, shown
from npusim.frontends.transformer.sizes import TransformerConfig
from npusim.frontends.transformer.weights import of_configuration
from npusim.isa.base import user_file
from npusim.isa.base.errors import FormatError, nearest


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
    stored = given.get("quantization_config")
    if isinstance(kind, str) and kind in IMAGES_AND_TEXT:
        given, inside = given.get("text_config"), True  # type: ignore[assignment]
        if not isinstance(given, Mapping):
            raise FormatError(
                f"text_config is missing; in a file of {kind} it has the language model's sizes"
            )
        kind = given.get("model_type", IMAGES_AND_TEXT[kind])
    family = FAMILIES.get(kind) if isinstance(kind, str) else None
    if family is None or not isinstance(kind, str):
        near = nearest(str(kind), FAMILIES)
        hint = f", did you mean {near}?" if near else ";"
        raise FormatError(
            f"model_type is {shown(kind)}{hint} npusim builds {', '.join((*FAMILIES, *IMAGES_AND_TEXT))}"
        )
    sizes = READERS.get(kind, _sizes)(Keys(kind, given, family, inside), name)
    return replace(sizes, weights=of_configuration(given.get("quantization_config", stored)))


def _sizes(keys: Keys, name: str) -> TransformerConfig:
    """Return the sizes of a model that is either a decoder or an encoder. Raises FormatError with the key at fault."""
    causal = keys.family.traits.get("causal", True)
    heads, hidden = keys.count("num_attention_heads"), keys.count("hidden_size")
    kv_heads = keys.count("num_key_value_heads", heads) if causal else heads
    if kv_heads > heads or heads % kv_heads:
        raise FormatError(f"num_key_value_heads is {kv_heads}, must divide num_attention_heads, {heads}")
    if keys.values.get("head_dim") is None and hidden % heads:
        raise FormatError(f"num_attention_heads is {heads}, must divide hidden_size, {hidden}")
    head_size = keys.count("head_dim", hidden // heads or 1)
    layers = keys.count("num_hidden_layers", most=MOST_LAYERS)
    further = dict(keys.family.traits) | (_of_text(keys, head_size) if causal else _of_encoder(keys))
    return TransformerConfig(
        name,
        keys.kind,
        layers,
        hidden,
        keys.count("intermediate_size"),
        heads,
        kv_heads,
        head_size,
        vocabulary=keys.size("vocab_size"),
        positions=keys.size("max_position_embeddings"),
        activation=keys.activation(
            "hidden_activation" if "hidden_activation" in keys.family.defaults else "hidden_act"
        ),
        windows=_windows(keys, layers),
        **further,
    )


def _of_text(keys: Keys, head_size: int) -> dict[str, Any]:
    """Return the fields of `TransformerConfig` that only language models (decoders) set."""
    share = keys.number("partial_rotary_factor") if "partial_rotary_factor" in keys.values else 1.0
    rotary = int(head_size * share)
    if not 2 <= rotary <= head_size or rotary % 2:
        raise FormatError(f"head_dim is {head_size}, of which {rotary} are rotated: must be even, 2 or more")
    key = "num_experts" if "num_experts" in keys.family.defaults else "num_local_experts"
    experts = keys.count(key, most=MOST_LAYERS) if key in keys.family.defaults else 0
    used = keys.count("num_experts_per_tok") if experts else 0
    if used > experts:
        raise FormatError(f"num_experts_per_tok is {used}, must be at most {key}, {experts}")
    biased = keys.flag("attention_bias")
    return {
        "rotary": rotary,
        "experts": experts,
        "experts_used": used,
        "tied": keys.flag("tie_word_embeddings", follow=True),
        "qkv_bias": biased or keys.family.traits.get("qkv_bias", False),
        "output_bias": biased,
        "inner_bias": keys.flag("mlp_bias"),
        "score_cap": keys.positive("attn_logit_softcapping"),
        "head_cap": keys.positive("final_logit_softcapping"),
    }


def _of_encoder(keys: Keys) -> dict[str, Any]:
    """Return the fields of `TransformerConfig` that only encoders of text (BERT) or images (ViT) set."""
    if keys.values.get("is_decoder"):
        raise FormatError(f"is_decoder is true: npusim builds {keys.kind} as an encoder only")
    if (positions := keys.values.get("position_embedding_type", "absolute")) != "absolute":
        raise FormatError(f'position_embedding_type is {shown(positions)}, must be "absolute"')
    if "patch_size" not in keys.family.defaults:
        return {"segments": keys.size("type_vocab_size")}
    patch, image = keys.count("patch_size"), keys.count("image_size")
    if image % patch:
        raise FormatError(f"patch_size is {patch}, must divide image_size, {image}")
    names = keys.values.get("id2label")
    classes = len(names) if isinstance(names, Mapping) else 0
    return {
        "qkv_bias": keys.flag("qkv_bias"),
        "patch": patch,
        "image": image,
        "channels": keys.count("num_channels"),
        "classes": classes,
        "pooler": not classes,
    }


def _windows(keys: Keys, layers: int) -> tuple[int, ...]:
    """Return the sliding window of each layer in tokens, 0 for full attention; () if no layer has a window."""
    if "sliding_window" not in keys.family.defaults:
        return ()
    window = keys.size("sliding_window", 0)
    if "use_sliding_window" in keys.family.defaults and not keys.flag("use_sliding_window"):
        window = 0
    sliding = [True] * layers
    if (kinds := keys.values.get("layer_types")) is not None:
        known = {"sliding_attention": True, "full_attention": False}
        if not isinstance(kinds, list) or len(kinds) != layers or any(str(k) not in known for k in kinds):
            raise FormatError(f"layer_types must be a list of {layers}, each one of {', '.join(known)}")
        sliding = [known[each] for each in kinds]
        if any(sliding) and not window:
            raise FormatError("layer_types has sliding_attention, but there is no sliding_window")
    elif "sliding_window_pattern" in keys.family.defaults:
        period = keys.count("sliding_window_pattern")
        sliding = [(layer + 1) % period > 0 for layer in range(layers)]
    elif "max_window_layers" in keys.family.defaults:
        first = keys.size("max_window_layers")
        sliding = [layer >= first for layer in range(layers)]
    return tuple(window * each for each in sliding) if window and any(sliding) else ()
