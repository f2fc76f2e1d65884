"""T5 and Whisper: the parameters of published models, their work in closed form, and generation behind an encoder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import npusim
from npusim.frontends.transformer.config import config_of
from npusim.frontends.transformer.network import transformer
from npusim.isa.base.errors import FormatError, GraphError, NpusimError
from npusim.reports.words import quantities

from ....command_line import command
from .test_transformer import timed


def _t5(hidden: int, inner: int, layers: int, heads: int, **more: Any) -> dict[str, Any]:
    return {
        "model_type": "t5", "d_model": hidden, "d_ff": inner, "num_layers": layers, "num_heads": heads, "d_kv": 64,
        "vocab_size": 32128, **more,
    }  # fmt: skip


_FLAN = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}


def _whisper(hidden: int, layers: int, heads: int, **more: Any) -> dict[str, Any]:
    each = {"layers": layers, "attention_heads": heads, "ffn_dim": 4 * hidden}
    halves = {f"{half}_{key}": value for half in ("encoder", "decoder") for key, value in each.items()}
    return {"model_type": "whisper", "d_model": hidden, "vocab_size": 51865, **halves, **more}


_V3 = {"vocab_size": 51866, "num_mel_bins": 128}

# Parameters of the published models, counted from their weights.
PUBLISHED = [
    ("T5 small", 60_506_624, _t5(512, 2048, 6, 8)),
    ("T5 base", 222_903_552, _t5(768, 3072, 12, 12)),
    ("T5 large", 737_668_096, _t5(1024, 4096, 24, 16)),
    ("FLAN-T5 small", 76_961_152, _t5(512, 1024, 8, 6, **_FLAN)),
    ("FLAN-T5 base", 247_577_856, _t5(768, 2048, 12, 12, **_FLAN)),
    ("FLAN-T5 large", 783_150_080, _t5(1024, 2816, 24, 16, **_FLAN)),
    ("Whisper tiny", 37_760_640, _whisper(384, 4, 6)),
    ("Whisper base", 72_593_920, _whisper(512, 6, 8)),
    ("Whisper small", 241_734_912, _whisper(768, 12, 12)),
    ("Whisper medium", 763_857_920, _whisper(1024, 24, 16)),
    ("Whisper large-v2", 1_543_304_960, _whisper(1280, 32, 20)),
    ("Whisper large-v3", 1_543_490_560, _whisper(1280, 32, 20, **_V3)),
    ("Whisper large-v3-turbo", 808_878_080, _whisper(1280, 32, 20, decoder_layers=4, **_V3)),
]


@pytest.mark.parametrize(("name", "parameters", "given"), PUBLISHED, ids=[row[0] for row in PUBLISHED])
def test_parameters_are_those_of_published_models(name: str, parameters: int, given: dict[str, Any]) -> None:
    assert config_of(given).parameters == parameters


SMALL = _t5(64, 160, 2, 4, d_kv=16, num_decoder_layers=3, vocab_size=512)
SOUND = _whisper(64, 2, 4, decoder_layers=3, vocab_size=512, max_source_positions=30, num_mel_bins=8)


@pytest.mark.parametrize("given", [SMALL, SOUND], ids=["t5", "whisper"])
@pytest.mark.parametrize(("tokens", "past"), [(0, 0), (3, 0), (1, 20)])
def test_work_is_the_closed_form(given: dict[str, Any], tokens: int, past: int) -> None:
    """The encoder and the keys and values of its results are computed in the first step only."""
    source, hidden, width, network = 30, 64, 64, 2 * 64 * (160 if given is SMALL else 256)
    attention = 4 * hidden * width
    convolutions = 0 if given is SMALL else 3 * hidden * source * (2 * 8 + hidden)
    encoder = 2 * source * (attention + 2 * width * source + network) + convolutions
    own = tokens * (attention + 2 * width * (past + tokens))
    cross = tokens * (2 * hidden * width + 2 * width * source)
    shared = 2 * hidden * width * source if not past else 0
    decoder = 3 * (own + cross + shared + tokens * network) + hidden * 512 if tokens else 0
    result = timed(config_of(given), "mobile-1024", tokens=tokens, past=past, batch=1, source=source)
    assert sum(layer.macs for layer in result.layers if layer.unit == "mac") == decoder + encoder * (not past)
    assert {layer.unit for layer in result.layers} <= {"mac", "vector", "dma", "none"}


@pytest.mark.slow
@pytest.mark.parametrize("given", [SMALL, SOUND], ids=["t5", "whisper"])
def test_an_encoder_runs_once_and_a_decoder_goes_on(given: dict[str, Any]) -> None:
    made = npusim.generate(
        config_of(given), prompt=30 if given is SMALL else 4, new=5, hw="mobile-1024", bucket=1
    )
    started = 1 if given is SMALL else 4
    assert [(group.tokens, group.past) for group in made.groups] == [(1, started + n) for n in range(4)]
    assert (made.source, made.started) == (30, started)
    assert made.kept_bytes == 2 * 3 * 64 * (started + 4 + 30)
    assert [row["position"] for row in made.tokens()] == [started + 2 + n for n in range(4)]
    runs = [made.first, *(group.result for group in made.groups)]
    parts = [{layer.name.partition("/")[0] for layer in run.layers} for run in runs]
    assert ["encoder" in each for each in parts] == [True, False, False, False, False]


@pytest.mark.parametrize(
    ("given", "prompt", "after"),
    [
        (SMALL, 30, "after a prompt of 30 tokens: {rate} tokens/s idealised"),
        (SOUND, 4, "after 30 vectors of the encoder and a prompt of 4 tokens idealised"),
    ],
    ids=["t5", "whisper"],
)
def test_a_rate_counts_the_tokens_of_the_prompt(
    given: dict[str, Any], prompt: int, after: str, tmp_path: Path
) -> None:
    """The vectors of sound are no tokens, so the time to the first token gives no rate behind them."""
    file = tmp_path / "config.json"
    file.write_text(json.dumps(given))
    done = command("run", file, "--prompt", str(prompt), "--new", "2", "--hw", "mobile-1024")
    made = npusim.generate(file, prompt, 2, "mobile-1024")
    rate = quantities.digits(prompt / made.first.latency_ms * 1e3)
    text = " ".join(done.out.split())
    assert after.format(rate=rate) in text
    assert "on average over 1 further token: " in text


@pytest.mark.parametrize(
    ("given", "sizes", "said"),
    [
        (SMALL, {"tokens": 1, "past": 3}, "source is 0, must be 1 or more"),
        (SMALL, {"tokens": 0, "past": 3, "source": 9}, "tokens is 0, must be 1 or more"),
        (SOUND, {"tokens": 1, "source": 9}, "source is 9, must be 30: what the encoder of whisper reads"),
        (
            SOUND,
            {"tokens": 400, "past": 49, "source": 30},
            "49 \\+ 400 tokens are more than max_target_positions, 448",
        ),
    ],
)
def test_sizes_that_do_not_fit_are_refused(given: dict[str, Any], sizes: dict[str, int], said: str) -> None:
    with pytest.raises(GraphError, match=said):
        transformer(config_of(given), **sizes)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (SMALL | {"d_model": None}, "d_model is missing"),
        (SMALL | {"feed_forward_proj": "gated-relu-gelu"}, "feed_forward_proj is .*, must be an activation"),
        (SMALL | {"feed_forward_proj": 3}, "feed_forward_proj is 3, must be an activation"),
        (SMALL | {"feed_forward_proj": "gated-tan"}, 'feed_forward_proj is "tan"; npusim knows silu'),
        (SOUND | {"decoder_attention_heads": 5}, "decoder_attention_heads is 5, must divide d_model, 64"),
        (SOUND | {"num_mel_bins": "all"}, 'num_mel_bins is "all", must be an integer'),
    ],
)
def test_a_fault_is_named_with_its_key(given: dict[str, Any], said: str) -> None:
    with pytest.raises(FormatError, match=said):
        config_of(given)


def test_names_have_the_sizes_that_the_model_leaves_open() -> None:
    step = npusim.models.transformer("whisper_tiny", tokens=1, past=8)
    shapes = {tensor.name: tensor.type.shape for tensor in (step.tensors[i] for i in step.inputs)}
    assert shapes["layer0/cross_attention/keys"] == (1, 6, 1500, 64)
    step = npusim.models.transformer("t5_small", tokens=1, source=9)
    shapes = {tensor.name: tensor.type.shape for tensor in (step.tensors[i] for i in step.inputs)}
    assert shapes == {"encoder/token_ids": (1, 9), "token_ids": (1, 1)}
    with pytest.raises(NpusimError, match='no size is named "source"'):
        npusim.models.transformer("whisper_tiny", source=9)
