"""Reads the sizes of models with an encoder and a decoder, T5 and Whisper, from the values of a `config.json`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from npusim.frontends.transformer.keys import MOST_LAYERS, Keys, shown
from npusim.frontends.transformer.sizes import TransformerConfig
from npusim.isa.base.errors import FormatError


def t5(keys: Keys, name: str) -> TransformerConfig:
    """Return the sizes of a T5. Encoder and decoder share the token embedding; scores add relative position biases."""
    form = keys.values["feed_forward_proj"]
    parts = form.split("-") if isinstance(form, str) else []
    if not parts or len(parts) > 2 or parts[:-1] not in ([], ["gated"]):
        raise FormatError(
            f"feed_forward_proj is {shown(form)}, must be an activation, or gated- and an activation"
        )
    keys.values["feed_forward_proj"] = parts[-1]
    layers, heads = keys.count("num_layers", most=MOST_LAYERS), keys.count("num_heads")
    common: dict[str, Any] = {
        "family": keys.kind,
        "hidden": keys.count("d_model"),
        "inner": keys.count("d_ff"),
        "heads": heads,
        "kv_heads": heads,
        "head_size": keys.count("d_kv"),
        "positions": 0,
        "activation": keys.activation("feed_forward_proj"),
        "gated": len(parts) > 1,
        "distances": keys.count("relative_attention_num_buckets"),
    }
    encoder = TransformerConfig(name=name, layers=layers, vocabulary=0, causal=False, **common)
    return TransformerConfig(
        name=name,
        layers=keys.count("num_decoder_layers", layers, MOST_LAYERS),
        vocabulary=keys.count("vocab_size"),
        tied=keys.flag("tie_word_embeddings"),
        encoder=encoder,
        **common,
    )


def whisper(keys: Keys, name: str) -> TransformerConfig:
    """Return the sizes of a Whisper. The encoder reads a spectrogram of fixed length."""
    hidden = keys.count("d_model")
    common: dict[str, Any] = {
        "family": keys.kind,
        "hidden": hidden,
        "activation": keys.activation("activation_function"),
        "norm": "layer",
        "gated": False,
        "qkv_bias": True,
        "key_bias": False,
        "output_bias": True,
        "inner_bias": True,
    }
    encoder, decoder = (_half(keys, part, hidden) for part in ("encoder", "decoder"))
    return TransformerConfig(
        name=name,
        vocabulary=keys.count("vocab_size"),
        positions=keys.count("max_target_positions"),
        tied=keys.flag("tie_word_embeddings"),
        encoder=TransformerConfig(
            name=name,
            vocabulary=0,
            positions=keys.count("max_source_positions"),
            causal=False,
            mels=keys.count("num_mel_bins"),
            **encoder,
            **common,
        ),
        **decoder,
        **common,
    )


def _half(keys: Keys, part: str, hidden: int) -> dict[str, Any]:
    """Return the number of layers, inner elements and heads of the encoder or the decoder, which `part` names."""
    heads = keys.count(f"{part}_attention_heads")
    if hidden % heads:
        raise FormatError(f"{part}_attention_heads is {heads}, must divide d_model, {hidden}")
    return {
        "layers": keys.count(f"{part}_layers", most=MOST_LAYERS),
        "inner": keys.count(f"{part}_ffn_dim"),
        "heads": heads,
        "kv_heads": heads,
        "head_size": hidden // heads,
    }


READERS: Mapping[str, Callable[[Keys, str], TransformerConfig]] = {"t5": t5, "whisper": whisper}
"""The functions that read the sizes of a family."""
