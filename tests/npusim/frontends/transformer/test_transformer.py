"""Transformers without weights: sizes of published models, their work in closed form, and bounds that hold anywhere."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import npusim
from npusim.frontends.transformer.config import config_of, read_config
from npusim.frontends.transformer.families import FAMILIES
from npusim.frontends.transformer.network import transformer
from npusim.frontends.transformer.published import BY_NAME
from npusim.frontends.transformer.sizes import TransformerConfig
from npusim.isa.base.errors import FormatError, GraphError, NpusimError
from npusim.kernels.graph.check import check
from npusim.numbers.run import RunResult

from ....command_line import command
from ....examples import examples

LLAMA: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 160, "num_attention_heads": 4,
    "num_hidden_layers": 2, "num_key_value_heads": 2, "vocab_size": 512, "max_position_embeddings": 256,
}  # fmt: skip


def _published(
    kind: str, hidden: int, inner: int, heads: int, layers: int, vocabulary: int, **more: Any
) -> Any:
    return {
        "model_type": kind, "hidden_size": hidden, "intermediate_size": inner, "num_attention_heads": heads,
        "num_hidden_layers": layers, "vocab_size": vocabulary, "max_position_embeddings": 4096, **more,
    }  # fmt: skip


# Parameters as their publishers state them, counted from the weights.
PUBLISHED = [
    ("Llama 3.2 1B", 1_235_814_400,
     _published("llama", 2048, 8192, 32, 16, 128256, num_key_value_heads=8, tie_word_embeddings=True)),
    ("Llama 3 8B", 8_030_261_248, _published("llama", 4096, 14336, 32, 32, 128256, num_key_value_heads=8)),
    ("Llama 3 70B", 70_553_706_496,
     _published("llama", 8192, 28672, 64, 80, 128256, num_key_value_heads=8)),
    ("Mistral 7B", 7_241_732_096, _published("mistral", 4096, 14336, 32, 32, 32000, num_key_value_heads=8)),
    ("Mixtral 8x7B", 46_702_792_704, _published("mixtral", 4096, 14336, 32, 32, 32000, num_key_value_heads=8)),
    ("Qwen2 0.5B", 494_032_768,
     _published("qwen2", 896, 4864, 14, 24, 151936, num_key_value_heads=2, tie_word_embeddings=True)),
    ("Qwen2.5 1.5B", 1_543_714_304, BY_NAME["qwen2.5_1.5b"].values),
    ("InternLM2 1.8B", 1_889_110_016, BY_NAME["internlm2_1.8b"].values),
    ("ChatGLM3 6B", 6_243_584_000, BY_NAME["chatglm3_6b"].values),
    ("Gemma 2B", 2_506_172_416, _published("gemma", 2048, 16384, 8, 18, 256000, num_key_value_heads=1)),
    ("Gemma 2 2B", 2_614_341_888, _published("gemma2", 2304, 9216, 8, 26, 256000, num_key_value_heads=4)),
    ("Gemma 3 1B", 999_885_952,
     _published("gemma3_text", 1152, 6912, 4, 26, 262144, num_key_value_heads=1, head_dim=256)),
    ("Phi-3 mini", 3_821_079_552, _published("phi3", 3072, 8192, 32, 32, 32064)),
    ("Mistral 7B v0.3", 7_248_023_552,
     _published("mistral", 4096, 14336, 32, 32, 32768, num_key_value_heads=8, sliding_window=None, head_dim=None)),
    ("Mistral NeMo", 12_247_782_400,
     _published("mistral", 5120, 14336, 32, 40, 131072, head_dim=128, sliding_window=None)),
    ("Qwen2.5 7B", 7_615_616_512, _published("qwen2", 3584, 18944, 28, 28, 152064, num_key_value_heads=4)),
    ("Qwen3 8B", 8_190_735_360, _published("qwen3", 4096, 12288, 32, 36, 151936, num_key_value_heads=8)),
    ("Gemma 2 9B", 9_241_705_984, _published("gemma2", 3584, 14336, 16, 42, 256000, num_key_value_heads=8)),
    # 4,300,079,472 with the images' tower of 416,866,032 and its projection of 2,950,272.
    ("Gemma 3 4B, text", 3_880_263_168,
     {"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "hidden_size": 2560,
      "intermediate_size": 10240, "num_hidden_layers": 34, "sliding_window": 1024}}),
    ("Phi-4 mini", 3_836_021_760,
     _published("phi3", 3072, 8192, 24, 32, 200064, num_key_value_heads=8, partial_rotary_factor=0.75,
                tie_word_embeddings=True)),
    ("OLMoE 1B-7B", 6_919_161_856, _published("olmoe", 2048, 1024, 16, 16, 50304)),
    ("BERT base", 109_482_240, {**_published("bert", 768, 3072, 12, 12, 30522), "max_position_embeddings": 512}),
    ("ViT-B/16 without classes", 86_389_248, _published("vit", 768, 3072, 12, 12, 0)),
    ("ViT-B/16", 86_567_656,
     {**_published("vit", 768, 3072, 12, 12, 0), "id2label": {str(number): "" for number in range(1000)}}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "parameters", "given"), PUBLISHED, ids=[row[0] for row in PUBLISHED])
def test_parameters_are_those_of_published_models(name: str, parameters: int, given: dict[str, Any]) -> None:
    assert config_of(given).parameters == parameters


def macs(config: TransformerConfig, tokens: int, past: int, batch: int) -> int:
    """Multiply-accumulates of one step on the array: products of all tokens, scores and sums, the head of one token."""
    hidden, size = config.hidden, config.head_size
    heads = config.heads + 2 * config.kv_heads
    products = (
        hidden * heads * size + config.heads * size * hidden + (2 + config.gated) * hidden * config.inner
    )
    attention = 2 * config.heads * size * (past + tokens)
    return batch * (tokens * config.layers * (products + attention) + hidden * config.vocabulary)


def timed(config: TransformerConfig, hw: str, **step: int) -> RunResult:
    graph = check(transformer(config, **step))  # type: ignore[arg-type]
    return npusim.simulate(npusim.compile(graph, hw), timing_only=True)


@examples(6)
@given(
    tokens=st.integers(1, 40),
    past=st.integers(0, 90),
    batch=st.integers(1, 2),
    kv_heads=st.sampled_from([1, 2, 4]),
    kind=st.sampled_from(["llama", "qwen2", "qwen3", "gemma2"]),
    hw=st.sampled_from(["edge-128", "mobile-1024", "mobile-4096"]),
)
def test_work_is_the_closed_form_and_time_keeps_the_bounds(
    tokens: int, past: int, batch: int, kv_heads: int, kind: str, hw: str
) -> None:
    config = config_of({**LLAMA, "model_type": kind, "num_key_value_heads": kv_heads, "head_dim": 16})
    result = timed(config, hw, tokens=tokens, past=past, batch=batch)
    wanted = macs(config, tokens, past, batch)
    on_array = sum(layer.macs for layer in result.layers if layer.unit == "mac")
    assert on_array == wanted
    machine = result.hardware
    assert result.cycles.total >= wanted / machine.macs_per_cycle
    weights = config.layers * (
        (config.heads + 2 * kv_heads + config.heads) * 16 * config.hidden + 3 * config.hidden * config.inner
    )
    least = weights + 2 * config.layers * kv_heads * 16 * past * batch
    assert result.dram_bytes.read >= least
    assert result.cycles.total >= least / machine.dram_bytes_per_cycle


@pytest.mark.parametrize("kind", sorted(set(FAMILIES) - {"vit", "t5", "whisper"}))
def test_every_family_compiles_and_nothing_of_it_is_the_hosts(kind: str) -> None:
    given = {**LLAMA, "model_type": kind, "num_key_value_heads": 4}
    if kind == "mixtral":
        given["num_local_experts"] = 4
    if kind == "olmoe":
        given |= {"num_experts": 4, "num_experts_per_tok": 2}
    config = config_of(given)
    for past in (0, 20) if config.causal else (0,):
        result = timed(config, "mobile-1024", tokens=3, past=past, batch=1)
        assert [layer.name for layer in result.layers if layer.unit == "host"] == []


def test_a_mixture_reads_the_experts_that_its_tokens_are_sent_to() -> None:
    config = config_of({**LLAMA, "model_type": "mixtral", "intermediate_size": 1024, "num_local_experts": 8})
    dense = replace(config, experts=0, experts_used=0)
    feed_forward = 3 * config.hidden * config.inner
    rescaled = 12 * (
        2 * config.inner + config.hidden
    )  # bytes of bias, multiplier and shift of each unit, and some
    more = [
        timed(config, "mobile-1024", tokens=tokens, past=8, batch=1).dram_bytes.read
        - timed(dense, "mobile-1024", tokens=tokens, past=8, batch=1).dram_bytes.read
        for tokens in (1, 2, 4)
    ]
    for tokens, extra in zip((1, 2, 4), more, strict=True):
        experts = config.layers * (2 * tokens - 1)
        assert experts * feed_forward <= extra < experts * (feed_forward + rescaled)


def test_images_are_read_as_patches() -> None:
    given = {
        **LLAMA,
        "model_type": "vit",
        "image_size": 32,
        "patch_size": 8,
        "id2label": {"0": "cat", "1": "dog"},
    }
    config = config_of(given)
    graph = transformer(config, tokens=17)
    assert [graph.tensors[i].type.shape for i in graph.inputs] == [(16, 192)]
    assert [graph.tensors[i].type.shape for i in graph.outputs] == [(1, 2)]
    with pytest.raises(
        GraphError, match="tokens is 5, must be 17: the patches of an image, and the class token"
    ):
        transformer(config, tokens=5)


def test_a_sliding_window_bounds_what_a_layer_reads() -> None:
    config = config_of({**LLAMA, "model_type": "gemma2", "sliding_window": 32})
    graph = transformer(config, tokens=1, past=100)
    past = [graph.tensors[i].type.shape[2] for i in graph.inputs if "past" in graph.tensors[i].name]
    assert past == [31, 31, 100, 100]  # the first layer sees 32 tokens, the second all


@pytest.mark.parametrize(
    ("more", "windows"),
    [
        ({"model_type": "mistral", "sliding_window": 8}, (8, 8, 8, 8)),
        ({"model_type": "mistral"}, (4096,) * 4),
        ({"model_type": "mistral", "sliding_window": None}, ()),
        ({"model_type": "llama", "sliding_window": 8}, ()),
        ({"model_type": "qwen2", "sliding_window": 8}, ()),
        ({"model_type": "qwen2", "sliding_window": 8, "use_sliding_window": True}, ()),
        (
            {"model_type": "qwen3", "sliding_window": 8, "use_sliding_window": True, "max_window_layers": 2},
            (0, 0, 8, 8),
        ),
        ({"model_type": "gemma2", "sliding_window": 8}, (8, 0, 8, 0)),
        ({"model_type": "gemma3_text", "sliding_window": 8}, (8, 8, 8, 8)),
        ({"model_type": "gemma3_text", "sliding_window": 8, "sliding_window_pattern": 3}, (8, 8, 0, 8)),
        (
            {"model_type": "gemma3_text", "sliding_window": 8,
             "layer_types": ["full_attention"] * 3 + ["sliding_attention"]},
            (0, 0, 0, 8),
        ),
    ],
)  # fmt: skip
def test_windows_are_those_of_the_library(more: dict[str, Any], windows: tuple[int, ...]) -> None:
    assert config_of({**LLAMA, "num_hidden_layers": 4, **more}).windows == windows


def test_the_first_of_several_tokens_sees_the_whole_window() -> None:
    config = config_of({**LLAMA, "model_type": "mistral", "sliding_window": 32})
    graph = transformer(config, tokens=40, past=100)
    shapes = {t.name: t.type.shape for t in graph.tensors}
    assert [t.type.shape[2] for t in (graph.tensors[i] for i in graph.inputs) if "past" in t.name] == [31] * 4
    assert shapes["past_scores/mask"] == (2 * 40, 31)  # the second token sees 30 of them
    assert "past_scores/mask" not in {t.name for t in transformer(config, tokens=2, past=30).tensors}


def changed(kind: str, **more: Any) -> TransformerConfig:
    return config_of({**LLAMA, "model_type": kind, **more})


def test_biases_are_those_of_the_library() -> None:
    plain = changed("llama").parameters
    # Queries, keys, values and the output product; of the feed-forward network gate, up and down.
    assert changed("llama", attention_bias=True).parameters - plain == 2 * (64 + 32 + 32 + 64)
    assert changed("llama", mlp_bias=True).parameters - plain == 2 * (160 + 160 + 64)
    assert changed("llama", mlp_bias=None, attention_bias=None, tie_word_embeddings=None).parameters == plain
    assert changed("mistral", attention_bias=True) == changed("mistral")
    biased = transformer(changed("llama", attention_bias=True, mlp_bias=True), tokens=2)
    assert sum(t.name.endswith("/bias") for t in biased.tensors) == 2 * 7


def _names(config: TransformerConfig, tokens: int = 2, head: str = "last") -> set[str]:
    return {node.name for node in transformer(config, tokens=tokens, head=head).nodes}


def test_gemma_2_bounds_scores_and_results() -> None:
    caps = {"layer0/attention/scores/cap", "head/cap"}
    assert caps <= _names(changed("gemma2"))
    off = {"attn_logit_softcapping": None, "final_logit_softcapping": None}
    assert not caps & (_names(changed("gemma2", **off)) | _names(changed("gemma3_text")))


def test_a_part_of_each_head_is_rotated() -> None:
    graph = transformer(changed("phi3", partial_rotary_factor=0.5), tokens=2)
    halves = next(node for node in graph.nodes if node.name == "layer0/attention/query/rotation/halves")
    assert [graph.tensors[i].type.shape[3] for i in halves.outputs] == [4, 4, 8]


def test_olmoe_normalizes_queries_and_keys_as_a_whole() -> None:
    graph = transformer(changed("olmoe", num_experts=4, num_experts_per_tok=2), tokens=2)
    shapes = {t.name: t.type.shape for t in graph.tensors}
    assert shapes["layer0/attention/query/norm/scale"] == (64,)
    assert shapes["layer0/attention/key/norm/scale"] == (32,)
    assert "layer0/attention/value/norm/scale" not in shapes


def test_bert_gives_the_vectors_of_all_tokens_and_the_pooled_first() -> None:
    config = changed("bert")
    graph = transformer(config, tokens=5, batch=2)
    assert [graph.tensors[i].type.shape for i in graph.outputs] == [(10, 64), (2, 64)]
    graph = transformer(config, tokens=5, batch=2, head="none")
    assert [graph.tensors[i].type.shape for i in graph.outputs] == [(10, 64)]


def test_a_text_config_is_stored_as_its_difference_from_the_defaults() -> None:
    text = {"model_type": "llama", "vocab_size": 32064, "max_position_embeddings": 4096}  # LLaVA 1.5
    config = config_of({"model_type": "llava", "text_config": text})
    assert (config.hidden, config.inner, config.layers, config.kv_heads) == (4096, 11008, 32, 32)


FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"model_type": "lama"}, 'model_type is "lama", did you mean llama? npusim builds llama, mistral, '),
    ({"model_type": None}, "model_type is null; npusim builds llama, "),
    ({"hidden_size": None}, "hidden_size is missing"),
    ({"num_hidden_layers": 0}, "num_hidden_layers is 0, must be an integer, 1 to 1024"),
    ({"vocab_size": "many"}, 'vocab_size is "many", must be an integer, 0 to 16777216'),
    ({"intermediate_size": 1e300}, "intermediate_size is 1e+300, must be an integer"),
    ({"num_key_value_heads": 3}, "num_key_value_heads is 3, must divide num_attention_heads, 4"),
    ({"num_attention_heads": 3, "num_key_value_heads": 3}, "num_attention_heads is 3, must divide hidden_size, 64"),
    ({"tie_word_embeddings": "yes"}, 'tie_word_embeddings is "yes", must be true or false'),
    ({"model_type": "mixtral", "num_local_experts": 2, "num_experts_per_tok": 3},
     "num_experts_per_tok is 3, must be at most num_local_experts, 2"),
    ({"num_local_experts": 4}, "num_local_experts is 4: npusim cannot build this part of llama"),
    ({"model_type": "olmoe", "n_shared_experts": 1}, "n_shared_experts is 1: npusim cannot build this part of olmoe"),
    ({"hidden_act": "relu2"}, 'hidden_act is "relu2"; npusim knows silu, '),
    ({"hidden_act": ["silu"]}, 'hidden_act is ["silu"]; npusim knows silu, '),
    ({"head_dim": 5}, "head_dim is 5, of which 5 are rotated: must be even, 2 or more"),
    ({"model_type": "phi3", "partial_rotary_factor": "half"}, 'partial_rotary_factor is "half", must be a number'),
    ({"model_type": "bert", "position_embedding_type": "relative_key"},
     'position_embedding_type is "relative_key", must be "absolute"'),
    ({"model_type": "bert", "is_decoder": True}, "is_decoder is true: npusim builds bert as an encoder only"),
    ({"model_type": "gemma2", "layer_types": ["full_attention"]}, "layer_types must be a list of 2, each one of "),
    ({"model_type": "gemma2", "layer_types": ["full_attention", "linear"]}, "layer_types must be a list of 2, "),
    ({"num_hidden_layers": 16777216}, "num_hidden_layers is 16777216, must be an integer, 1 to 1024"),
    ({"model_type": ["llama"]}, 'model_type is ["llama"]'),
    ({"model_type": "gemma3"}, "text_config is missing; in a file of gemma3 it has the language model's sizes"),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "said"), FAULTS)
def test_a_fault_of_a_configuration_is_one_line(changed: dict[str, Any], said: str, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(LLAMA | changed))
    done = command("run", file, "--timing-only")
    assert done.status == 2
    assert done.err.startswith(f"npusim: {file}: {said}")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"model": 1}', "null", '"model_type"', "{" * 5000])
def test_what_is_no_configuration_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(text)
    with pytest.raises(FormatError):
        read_config(file)
    done = command("run", file, "--timing-only")
    assert (done.status, done.err.count("\n")) == (2, 1)


def test_sizes_of_a_step_are_shapes_that_the_file_leaves_open(tmp_path: Path) -> None:
    file = tmp_path / "tiny.json"
    file.write_text(json.dumps(LLAMA))
    with pytest.warns(
        UserWarning, match="tokens = 128, past = 0, batch = 1, which the file leaves open; --shape"
    ):
        npusim.load(file)
    sized = npusim.load(file, {"tokens": 2, "past": 3, "batch": 4})
    assert sized.tensors[sized.inputs[0]].type.shape == (4, 2)
    for sizes, said in (
        ({"tokens": 200, "past": 57}, "57 + 200 tokens are more than max_position_embeddings, 256"),
        ({"tokens": 0}, "tokens is 0, must be 1 or more"),
        ({"token": 3}, "did you mean"),
    ):
        with pytest.raises(NpusimError, match=said.replace("+", r"\+")):
            npusim.load(file, sizes)


def test_a_step_from_python_is_that_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "tiny.json"
    file.write_text(json.dumps(LLAMA))
    sizes = {"tokens": 2, "past": 3, "batch": 4}
    graphs = [
        npusim.models.transformer(config, **sizes, weights="int4-32") for config in (LLAMA, file, str(file))
    ]
    loaded = npusim.load(f"{file}:int4-32", sizes)
    assert [(graph.nodes, graph.tensors, graph.notes) for graph in graphs] == [
        (loaded.nodes, loaded.tensors, ())
    ] * 3
    image = npusim.models.transformer("vit_b_16")
    assert image.tensors[image.inputs[0]].type.shape == (196, 768)
    for other, said in (
        ("llama3_8", "llama3_8: no such file or transformer, did you mean llama3_8b"),
        (__file__, "is no configuration of a transformer"),
        ({"model_type": "lama"}, 'model_type is "lama"'),
    ):
        with pytest.raises(NpusimError, match=said):
            npusim.models.transformer(other)


def test_other_json_files_are_no_models_of_a_folder(tmp_path: Path) -> None:
    from npusim.frontends.frontend import models_below

    (tmp_path / "result.json").write_text('{"cycles": 3}')
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    assert models_below(tmp_path) == [tmp_path / "config.json"]
