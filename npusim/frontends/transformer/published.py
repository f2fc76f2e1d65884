"""The table of published transformers that can be named instead of a file, and transformers by name or file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from npusim.frontends.frontend import HEAD_BYTES, name_and_format
from npusim.frontends.transformer.config import config_of, read_config
from npusim.frontends.transformer.sizes import TransformerConfig
from npusim.frontends.transformer.unet_block import sd15_block
from npusim.frontends.transformer.weights import parse
from npusim.isa.base import user_file
from npusim.isa.base.errors import FormatError, NpusimError, nearest
from npusim.kernels.graph.builder import GraphBuilder
from npusim.kernels.graph.graph import Graph


class Published(NamedTuple):
    """A published transformer: its name, what it is, and the values of its `config.json` that matter here."""

    name: str
    description: str
    values: Mapping[str, Any]

    @property
    def config(self) -> TransformerConfig:
        """The sizes of the transformer."""
        return _config(self.name)


def _row(
    name: str,
    description: str,
    model_type: str,
    sizes: tuple[int, int, int, int, int],
    vocab_size: int,
    positions: int,
    **more: Any,
) -> Published:
    """Return a row; `sizes` are layers, hidden_size, intermediate_size, attention heads, and heads of keys."""
    keys = (
        "num_hidden_layers",
        "hidden_size",
        "intermediate_size",
        "num_attention_heads",
        "num_key_value_heads",
    )
    values = dict(zip(keys, sizes, strict=True)) | {
        "model_type": model_type,
        "vocab_size": vocab_size,
        "max_position_embeddings": positions,
    }
    return Published(name, description, values | more)


def _halves(
    name: str, description: str, model_type: str, sizes: tuple[int, int, int, int], **more: Any
) -> Published:
    """Return a row of a model with encoder and decoder; `sizes` are layers of each, d_model, inner elements, heads."""
    layers, hidden, inner, heads = sizes
    values: dict[str, Any] = {"model_type": model_type, "d_model": hidden} | more
    if model_type == "t5":
        values |= {"num_layers": layers, "d_ff": inner, "num_heads": heads, "d_kv": 64, "vocab_size": 32128}
    for part in ("encoder", "decoder") if model_type == "whisper" else ():
        values |= {f"{part}_layers": layers, f"{part}_ffn_dim": inner, f"{part}_attention_heads": heads}
    return Published(name, description, values)


PUBLISHED = (
    _row("bert_base", "BERT base, encoder of 512 tokens", "bert", (12, 768, 3072, 12, 12), 30522, 512),
    _row("vit_b_16", "ViT-B/16, 224x224x3", "vit", (12, 768, 3072, 12, 12), 0, 0,
         id2label=dict.fromkeys(map(str, range(1000)), "")),
    _row("qwen2_0.5b", "Qwen2 0.5B", "qwen2", (24, 896, 4864, 14, 2), 151936, 131072, tie_word_embeddings=True),
    _row("qwen3_0.6b", "Qwen3 0.6B", "qwen3", (28, 1024, 3072, 16, 8), 151936, 40960,
         head_dim=128, tie_word_embeddings=True),
    _row("qwen2.5_1.5b", "Qwen2.5 1.5B", "qwen2", (28, 1536, 8960, 12, 2), 151936, 131072, tie_word_embeddings=True),
    _row("internlm2_1.8b", "InternLM2 1.8B, built as a Llama", "llama", (24, 2048, 8192, 16, 8), 92544, 32768),
    _row("chatglm3_6b", "ChatGLM3 6B, built as a Qwen2 that rotates half of each head", "qwen2",
         (28, 4096, 13696, 32, 2), 65024, 8192, partial_rotary_factor=0.5),
    _row("gemma3_1b", "Gemma 3 1B, a window of 512 tokens in 5 of 6 layers", "gemma3_text",
         (26, 1152, 6912, 4, 1), 262144, 32768, head_dim=256, sliding_window=512, sliding_window_pattern=6),
    _row("tinyllama_1.1b", "TinyLlama 1.1B", "llama", (22, 2048, 5632, 32, 4), 32000, 2048),
    _row("llama3.2_1b", "Llama 3.2 1B", "llama", (16, 2048, 8192, 32, 8), 128256, 131072,
         head_dim=64, tie_word_embeddings=True),
    _row("phi3_mini", "Phi-3 mini, a window of 2047 tokens", "phi3", (32, 3072, 8192, 32, 32), 32064, 4096,
         sliding_window=2047),
    _row("mistral_7b", "Mistral 7B, a window of 4096 tokens", "mistral", (32, 4096, 14336, 32, 8), 32000, 32768),
    _row("llama3_8b", "Llama 3 8B", "llama", (32, 4096, 14336, 32, 8), 128256, 8192),
    _row("llama3_70b", "Llama 3 70B", "llama", (80, 8192, 28672, 64, 8), 128256, 8192),
    _row("mixtral_8x7b", "Mixtral 8x7B, 2 of 8 experts", "mixtral", (32, 4096, 14336, 32, 8), 32000, 32768,
         num_local_experts=8, num_experts_per_tok=2),
    _halves("t5_small", "T5 small, encoder and decoder", "t5", (6, 512, 2048, 8)),
    _halves("flan_t5_base", "FLAN-T5 base, encoder and decoder", "t5", (12, 768, 2048, 12),
            feed_forward_proj="gated-gelu", tie_word_embeddings=False),
    _halves("whisper_tiny", "Whisper tiny, 30 s of sound", "whisper", (4, 384, 1536, 6), vocab_size=51865),
    _halves("whisper_small", "Whisper small, 30 s of sound", "whisper", (12, 768, 3072, 12), vocab_size=51865),
)  # fmt: skip


class Block(NamedTuple):
    """A part of a published network: its name, what it is, its weights and biases, and what adds it to a builder."""

    name: str
    description: str
    parameters: int
    build: Callable[[GraphBuilder], Graph]


BLOCKS = (
    Block(
        "sd15_block",
        "block of Stable Diffusion 1.5's UNet, 64x64x320, with 77 vectors of a text",
        4_801_280,
        sd15_block,
    ),
)

BY_NAME = {row.name: row for row in PUBLISHED}
BLOCK_BY_NAME = {block.name: block for block in BLOCKS}


def configured(
    model: Mapping[str, Any] | str | Path | TransformerConfig,
    weights: str | None = None,
    activations: str | None = None,
) -> TransformerConfig:
    """Return the sizes of a transformer: of the values of a `config.json`, a file (`config.json`, GGUF), or a name.

    weights, activations: the formats to take instead of the model's own. Raises NpusimError for what is no transformer.
    """
    if isinstance(model, TransformerConfig):
        config: TransformerConfig | None = model
    else:
        config = config_of(model) if isinstance(model, Mapping) else configuration(model)
    if config is None:
        if Path(str(model)).exists():
            raise NpusimError(
                f"{model}: is no configuration of a transformer; it may be a config.json of Hugging Face or a GGUF file"
            )
        near = nearest(str(model), BY_NAME)
        hint = f", did you mean {near}?" if near else ";"
        raise NpusimError(f"{model}: no such file or transformer{hint} known are {', '.join(BY_NAME)}")
    if not weights and not activations:
        return config
    return config.stored_as(parse(weights) if weights else config.weights, activations)


@cache
def _config(name: str) -> TransformerConfig:
    return config_of(BY_NAME[name].values, name)


def configuration(model: str | Path) -> TransformerConfig | None:
    """Return the sizes of a `config.json`, a GGUF file, or a published model by its name; None for anything else.

    A format of weights may follow, as in "llama3_8b:int4-32". Raises NpusimError with the name of the model.
    """
    name, form = name_and_format(model)
    path = Path(name)
    try:
        if path.is_file():
            config = _in_file(path)
        else:
            config = BY_NAME[name].config if name in BY_NAME and not path.exists() else None
        return config.stored_as(parse(form)) if config and form else config
    except NpusimError as fault:
        raise type(fault)(f"{name}: {fault}") from None


def _in_file(path: Path) -> TransformerConfig | None:
    """Return the sizes in a file; None if its content is neither a `config.json` nor GGUF."""
    from npusim.frontends.transformer import gguf, network  # a model by its name needs no reader

    with user_file.opened(path, user_file.GGUF, FormatError, "") as file:
        head = file.read(HEAD_BYTES)
    if gguf.recognises(path, head):
        return gguf.read_sizes(path)
    return read_config(path) if network.recognises(path, head) else None
