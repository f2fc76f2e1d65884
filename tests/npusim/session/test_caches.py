"""Caches of keys and values: generation with a cache gives the bytes of a prefill of the whole, and writes new rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import npusim
from npusim.isa.base.tensor import Quantization, TensorType
from npusim.kernels.graph.builder import unshaped
from npusim.kernels.graph.graph import Graph

from ...graphs import Sketch
from ...llm import LLM, Decoder, steps_of, stored

WIDTH, PLACES = 16, 12
PROBABILITIES = Quantization((1 / 256,), (-128,))


def decoder(tokens: int) -> Graph:
    """One int8 attention over a cache of 12 places; the network writes keys and values of its tokens into it."""
    sketch = Sketch("decoder", seed=3)
    x = sketch.input(tokens, WIDTH)
    query, key, value = (sketch.fully_connected(x, WIDTH) for _ in range(3))
    places = sketch.builder.input("places", TensorType("int64", (tokens, 1)))
    seen = sketch.builder.input("seen", TensorType("bool", (tokens, PLACES)))
    caches = []
    for name, new in (("keys", key), ("values", value)):
        kind = sketch.type_of(new)
        cache = sketch.builder.input(name, TensorType("int8", (PLACES, WIDTH), kind.quantization))
        caches.append(sketch.node("scatter_nd", (cache, places, new), unshaped("int8", kind.quantization)))
    scores = sketch.node(
        "batch_matmul", (query, caches[0]), unshaped("int8", Quantization((0.05,), (0,))), adj_y=True
    )
    lowest = sketch.add_tensor(
        TensorType("int8", (), sketch.type_of(scores).quantization), np.array(-128, np.int8)
    )
    masked = sketch.node("select_v2", (seen, scores, lowest), unshaped("int8", Quantization((0.05,), (0,))))
    shares = sketch.node("softmax", (masked,), unshaped("int8", PROBABILITIES))
    kind = unshaped("int8", sketch.type_of(value).quantization)
    return sketch.graph([sketch.node("batch_matmul", (shares, caches[1]), kind), *caches])


@pytest.mark.parametrize("hw", ["edge-128", "mobile-1024"])
def test_tokens_one_by_one_are_the_prefill_of_all(hw: str) -> None:
    """Nine tokens at once, and six tokens and three more through states: the same bytes, in results and in caches."""
    rng = np.random.default_rng(0)
    x = rng.integers(-128, 128, (9, WIDTH)).astype(np.int8)
    seen = np.arange(PLACES) <= np.arange(9)[:, None]
    places = np.arange(9)[:, None]
    empty = np.zeros((PLACES, WIDTH), np.int8)
    whole = npusim.simulate(npusim.compile(decoder(9), hw), [x, places, seen, empty, empty]).outputs
    programs = {tokens: npusim.compile(npusim.caches_in_place(decoder(tokens)), hw) for tokens in (6, 1)}
    states: dict[str, Any] = {"keys": empty, "values": empty}
    for first, tokens in ((0, 6), (6, 1), (7, 1), (8, 1)):
        rows = slice(first, first + tokens)
        run = npusim.simulate(programs[tokens], [x[rows], places[rows], seen[rows]], states=states)
        states = run.states
        assert run.outputs[0].tobytes() == whole[0][rows].tobytes()
    assert [states[name].tobytes() for name in ("keys", "values")] == [each.tobytes() for each in whole[1:]]


def test_a_cache_as_a_state_is_not_copied() -> None:
    """Of 384 bytes of keys and values a run writes the new 32, in whole bursts; copied, it writes all of them first."""
    graph = decoder(1)
    copied, in_place = (
        npusim.simulate(npusim.compile(each, "edge-128"), timing_only=True)
        for each in (graph, npusim.caches_in_place(graph))
    )
    assert in_place.dram_bytes.write + 384 <= copied.dram_bytes.write
    assert in_place.cycles < copied.cycles


def plain(updates: bool, reads: int, results: int) -> Graph:
    """An int8 input that a scatter updates (or a sum does not), with further readers and outputs."""
    sketch = Sketch("plain")
    cache, row = sketch.input(8, 4), sketch.input(1, 4)
    kind = sketch.type_of(cache)
    place = sketch.builder.input("place", TensorType("int64", (1, 1)))
    new = unshaped("int8", kind.quantization)
    after = (
        sketch.node("scatter_nd", (cache, place, row), new) if updates else sketch.node("relu", (cache,), new)
    )
    others = [sketch.node("relu", (cache,), new) for _ in range(reads)]
    others += [sketch.node("relu", (after,), new) for _ in range(results)]
    return sketch.graph([after, *others])


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (
            plain(False, 0, 1),
            "plain: has no cache: no input that one operator updates and an output gives back",
        ),
        (
            plain(True, 1, 1),
            "plain: has no cache: no input that one operator updates and an output gives back",
        ),
        (plain(True, 0, 0), "plain: gives nothing but caches; a model needs another output"),
    ],
)
def test_what_is_no_cache_is_refused(graph: Graph, message: str) -> None:
    with pytest.raises(npusim.NpusimError) as fault:
        npusim.caches_in_place(graph)
    assert str(fault.value) == message


@pytest.mark.slow
def test_a_decoder_with_a_fixed_cache_keeps_it_as_states() -> None:
    """Ten tokens of ../shared/llm through states: the logits and the caches that the definition gives."""
    name = "llama_static_cache_s8"
    expected = stored(name)
    graph = npusim.caches_in_place(npusim.load(LLM / f"{name}.onnx"))
    program = npusim.compile(graph, "edge-128-float")
    assert not program.host_calls
    for step, given in enumerate(steps_of(name)):
        run = npusim.simulate(program, given)
        assert run.outputs[0].tobytes() == expected[f"s{step}_out_logits"].tobytes()
    last = {key.replace("cache", f"s{step}_out_next"): value for key, value in run.states.items()}
    assert len(last) == 4
    assert {key: value.tobytes() for key, value in last.items()} == {
        key: expected[key].tobytes() for key in last
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", ["opset23_attention_int4", "genai_gqa_int4"])
def test_the_steps_of_a_decoder_are_its_prefill_of_the_whole(name: str) -> None:
    """The past grows from step to step; logits and keys of all steps have the bytes of one run over all tokens."""
    decoder, steps = Decoder(name), steps_of(name)
    present: dict[str, Any] = {}
    logits = []
    for step in steps:
        present = decoder.run(step, present)
        logits.append(present["logits"])
    tokens = np.concatenate([step["input_ids"] for step in steps], 1)
    count = tokens.shape[1]
    whole = dict(steps[0], input_ids=tokens)
    if "position_ids" in whole:
        whole["position_ids"] = np.arange(count)[None]
        causal = np.where(np.tril(np.ones((count, count))) > 0, 0, -10000).astype(np.float32)
        whole["attention_mask"] = causal
    else:
        whole["seqlens_k"] = np.array([count - 1], np.int32)
        whole["total_sequence_length"] = np.array(count, np.int32)
    at_once = decoder.run(whole, {})
    assert np.concatenate(logits, 1).tobytes() == at_once["logits"].tobytes()
    assert {key: value.tobytes() for key, value in present.items() if key != "logits"} == {
        key: value.tobytes() for key, value in at_once.items() if key != "logits"
    }
