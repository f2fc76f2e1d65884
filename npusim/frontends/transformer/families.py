"""The table of the families of transformers: the keys of their `config.json` with defaults, and their traits.

Keys and their defaults are those of the configuration classes of the library `transformers`, version 4.56.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Family(NamedTuple):
    """What the models of one `model_type` have in common.

    sizes:    defaults of the keys in `SIZES`.
    defaults: further keys with their defaults. A key that is missing here does not exist in the family's files.
    traits:   fields of `TransformerConfig` that no key changes.
    """

    sizes: tuple[int, int, int, int, int]
    defaults: Mapping[str, Any]
    traits: Mapping[str, Any] = {}


SIZES = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size")

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
    "t5": Family(
        (512, 2048, 6, 8, 32128),
        {
            "is_encoder_decoder": True,
            "relative_attention_num_buckets": 32,
            "feed_forward_proj": "relu",
            "tie_word_embeddings": True,
        },
    ),
    "whisper": Family(
        (384, 1536, 4, 6, 51865),
        {
            "is_encoder_decoder": True,
            "max_source_positions": 1500,
            "max_target_positions": 448,
            "num_mel_bins": 80,
            "activation_function": "gelu",
            "tie_word_embeddings": True,
        },
    ),
}
"""The families that npusim builds, by the `model_type` of their files."""

IMAGES_AND_TEXT = {"gemma3": "gemma3_text", "llava": "llama", "mistral3": "mistral"}
"""Models of images and text, with the default `model_type` of the language model in their `text_config`."""
