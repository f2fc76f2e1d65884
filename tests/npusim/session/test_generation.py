"""A prompt and the tokens after it: what programs run, their sums, and what the command says."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

import npusim
from npusim.frontends.transformer.config import config_of
from npusim.frontends.transformer.network import transformer
from npusim.frontends.transformer.published import BY_NAME
from npusim.frontends.transformer.weights import parse
from npusim.isa.base.errors import NpusimError
from npusim.kernels.graph.check import check
from npusim.session.generation import _steps

from ...command_line import command
from ...json_documents import faults
from ..frontends.transformer.test_transformer import LLAMA

CONFIG = config_of(LLAMA, "tiny")
HW = "mobile-1024"


def _step(tokens: int, past: int) -> float:
    program = npusim.compile(check(transformer(CONFIG, tokens=tokens, past=past)), HW)
    return npusim.simulate(program, timing_only=True).latency_ms


def test_tokens_are_those_of_programs_for_their_buckets() -> None:
    # The prompt has 20 tokens. Tokens 2 to 4 meet 20, 21, 22 of them and fit in 24; tokens 5 to 9 need 32.
    made = npusim.generate(CONFIG, 20, 8, HW, bucket=8)
    assert [(each.tokens, each.past) for each in made.groups] == [(5, 24), (2, 32)]
    rows = made.tokens()
    assert [row["position"] for row in rows] == [22, 23, 24, 25, 26, 27, 28]
    assert [row["latency_ms"] for row in rows] == [_step(1, 24)] * 5 + [_step(1, 32)] * 2
    assert made.first.latency_ms == _step(20, 0)
    assert made.latency_ms == pytest.approx(made.first.latency_ms + sum(row["latency_ms"] for row in rows))
    assert made.energy_uj == pytest.approx(made.first.energy_uj.total + sum(row["energy_uj"] for row in rows))
    assert made.tokens_per_s == pytest.approx(7e3 / sum(row["latency_ms"] for row in rows))


def test_a_bucket_of_one_reads_what_is_there() -> None:
    made = npusim.generate(CONFIG, 3, 4, HW, bucket=1)
    assert [(each.tokens, each.past) for each in made.groups] == [(1, 3), (1, 4), (1, 5)]


def test_the_last_bucket_ends_with_the_positions() -> None:
    made = npusim.generate(CONFIG, 200, 56, HW, bucket=100)
    assert [(each.tokens, each.past) for each in made.groups] == [(1, 200), (54, 255)]


def test_softmax_bounds_the_last_bucket_and_the_length() -> None:
    long, most = config_of({**LLAMA, "max_position_embeddings": 1 << 21}, "long"), 1 << 20
    made = npusim.generate(long, 1, 1, HW)
    assert made.latency_ms > 0
    assert list(_steps(long, most - 6, 7, 128)) == [
        (6, most - 1)
    ]  # with the token's own score as many as there may be
    for prompt, new in ((most + 1, 1), (most, 2), (10, most - 8)):
        with pytest.raises(NpusimError, match=r"long: .* softmax with 8 bits takes 1048576 at most"):
            npusim.generate(long, prompt, new, HW)
    windows = replace(long, windows=(100, most))
    assert list(_steps(windows, most + 1000, 3, 128)) == [(2, most + 1024)]


@pytest.mark.parametrize(
    ("name", "weights", "said"),
    [
        (
            "llama3_8b",
            None,
            "llama3_8b: weights of 8030261248 bytes (int8), and 8454144 of keys and values, are 3743748096 bytes more "
            "than the memories have, 4294967296; --weights int2-64 would fit, 2636288000 bytes, or give more with "
            "dram.size_mib",
        ),
        (
            "llama3_70b",
            "int4-32",
            "llama3_70b: weights of 40146706432 bytes (int4-32), and 21135360 of keys and values, are 35872874496 "
            "bytes more than the memories have, 4294967296; take a smaller model, or give more with dram.size_mib",
        ),
    ],
)
def test_weights_beyond_the_memory_are_refused_before_a_compilation(
    name: str, weights: str | None, said: str
) -> None:
    with pytest.raises(NpusimError, match=f"^{re.escape(said)}$"):
        npusim.generate(name, 128, 3, HW, weights=weights)


def test_a_proposed_format_of_weights_keeps_the_activations() -> None:
    """Embeddings and caches of float16 activations take twice the bytes, also beside the proposed weights."""
    config = BY_NAME["llama3_8b"].config
    for weights, activations in (("int8", "float16"), ("fp8", None)):  # fp8 alone needs float16
        fits = config.stored_as(parse("int2-64"), activations).stored_bytes
        with pytest.raises(NpusimError, match=f"--weights int2-64 would fit, {fits} bytes, "):
            npusim.generate("llama3_8b", 128, 3, HW, weights=weights, activations=activations)


def test_tokens_are_faster_with_fewer_bits() -> None:
    config = config_of({**LLAMA, "hidden_size": 512, "intermediate_size": 1024}, "tiny")
    plain, blocks = (npusim.generate(config, 16, 3, HW, weights=text) for text in ("int8", "int4-32"))
    assert (plain.weights, blocks.weights) == ("int8", "int4-32")
    ratio = 4.5 / 8  # of the bytes, and of the time up to what does not depend on them
    assert ratio < blocks.token_ms / plain.token_ms < 1.15 * ratio
    assert blocks.token_uj < plain.token_uj


def test_one_token_is_the_prompts() -> None:
    made = npusim.generate(CONFIG, 5, 1, HW)
    assert (made.groups, made.tokens_per_s, made.token_uj) == ((), 0.0, 0.0)
    assert made.latency_ms == made.first.latency_ms


def test_sequences_share_the_weights() -> None:
    alone, four = (npusim.generate(CONFIG, 16, 3, HW, batch=batch) for batch in (1, 4))
    assert four.tokens_per_s > 2 * alone.tokens_per_s
    assert four.token_ms < 2 * alone.token_ms


@pytest.mark.slow
def test_the_command_says_what_python_gives(tmp_path: Path) -> None:
    file, numbers = tmp_path / "tiny.json", tmp_path / "numbers.json"
    file.write_text(json.dumps(LLAMA))
    done = command(
        "run", file, "--hw", HW, "--prompt", "20", "--new", "8", "--bucket", "8", "--json", numbers
    )
    assert (done.status, done.err) == (0, "")
    plain = json.loads(numbers.read_text())
    assert plain == npusim.generate(file, 20, 8, HW, bucket=8).to_dict()
    assert faults("generation", plain) == []
    assert "First token" in done.out
    assert "with the keys and values of 24 tokens: 5 tokens" in done.out
    assert f"{plain['generation']['tokens_per_s']:.0f}"[:2] in done.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--prompt", "250", "--new", "7"), "250 + 7 tokens are more than max_position_embeddings, 256"),
        (("--new", "3"), "--new 3: comes after a prompt; give one with --prompt"),
        (("--bucket", "128"), "--bucket 128: is for the tokens after a prompt; give one with --prompt"),
        (("--prompt", "3", "--report", "out"), "--report: does not go with --prompt"),
        (("--prompt", "3", "--shape", "tokens=4"), "--shape: with --prompt it may be batch=N"),
        (("--prompt", "3", "--hw", HW, "--hw", "edge-128"), "--prompt: takes one model and one machine"),
    ],
)
def test_what_does_not_go_together_is_one_line(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    file = tmp_path / "tiny.json"
    file.write_text(json.dumps(LLAMA))
    done = command("run", file, *words)
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert said in done.err


def test_models_that_generate_nothing_are_refused(tmp_path: Path) -> None:
    bert = config_of({**LLAMA, "model_type": "bert"}, "bert")
    with pytest.raises(NpusimError, match="bert generates no tokens; run it without a prompt"):
        npusim.generate(bert, 3, 2, HW)
    for name, said in (
        ("ds_cnn", "ds_cnn: generates no tokens; models that do are qwen2_0.5b, qwen3_0.6b, "),
        ("sd15_block", "sd15_block: generates no tokens; models that do are qwen2_0.5b, qwen3_0.6b, "),
        ("bert_base", "bert_base: bert generates no tokens; run it without a prompt\n"),
        ("qwen2_0.5", "qwen2_0.5: no such file, did you mean qwen2_0.5b? "),
        (
            "nothing.json",
            "nothing.json: no such file; a prompt is for the config.json or GGUF file of a language model, or for "
            "qwen2",
        ),
        (
            __file__,
            f"{__file__}: is no configuration of a language model; a prompt is for its config.json or GGUF file\n",
        ),
    ):
        done = command("run", name, "--prompt", "3")
        assert done.status == 2
        assert done.err.startswith(f"npusim: {said}")
        assert done.err.count("\n") == 1
    with pytest.raises(NpusimError, match="is no configuration of a language model"):
        npusim.generate(tmp_path, 3, 2, HW)
