"""QMoE of com.microsoft: what the machine computes, beside ONNX Runtime or the formulas of its documentation."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import npusim
from npusim.frontends.frontend import ModelWarning
from tests.npusim.frontends.onnx.models import Fixed, Single, model_of, written

pytest.importorskip("onnx", reason="onnx is not installed")

pytestmark = pytest.mark.filterwarnings("ignore::npusim.frontends.frontend.ModelWarning")

EXPERTS, HIDDEN, INNER, TOKENS = 5, 32, 48, 4


class Case(NamedTuple):
    """A QMoE.

    given: the inputs that may be left out: "bias", "zeros", "fc3" and "router_weights".
    live:  whether ONNX Runtime computes it on a processor in float32.
    """

    bits: int = 4
    block: int = 0
    given: str = ""
    live: bool = True
    k: int = 2
    scales: str = "float32"
    attributes: dict[str, Any] = {}  # noqa: RUF012


GATED = {"activation_type": "swiglu", "activation_alpha": 1.702, "activation_beta": 1.0, "swiglu_limit": 2.0}

CASES = {
    "rows": Case(attributes={"activation_type": "silu"}),
    "rows with zero points": Case(given="zeros bias", attributes={"activation_type": "gelu"}),
    "8 bits": Case(8, given="zeros", k=1),
    "all experts": Case(8, given="bias", k=EXPERTS, attributes={"activation_type": "identity"}),
    "blocks": Case(block=16, given="zeros bias", k=3),
    "gpt-oss": Case(block=16, given="bias", attributes={**GATED, "swiglu_fusion": 1}),
    "weights apart": Case(given="router_weights", k=3),
    "weights apart, their sum 1": Case(given="router_weights", attributes={"normalize_routing_weights": 1}),
    # ONNX Runtime quantizes activations of 8-bit blocks, and has neither fc3 nor halves side by side.
    "8 bits in blocks": Case(8, 16, "zeros", live=False, scales="float16"),
    "halves": Case(block=16, live=False, attributes={**GATED, "swiglu_fusion": 2}),
    "fc3": Case(block=16, given="fc3 bias zeros", live=False, attributes={"activation_type": "swiglu"}),
    "Mixtral": Case(2, given="fc3", live=False, attributes={"activation_type": "silu"}),
}


def _packed(values: Any, bits: int) -> Any:
    """Integers of a few bits, the first in the lowest bits of a byte; each row fills whole bytes."""
    per_byte = 8 // bits
    whole = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, -values.shape[-1] % per_byte)])
    places = whole.reshape(*whole.shape[:-1], -1, per_byte) << (np.arange(per_byte) * bits)
    return places.sum(-1).astype(np.uint8)


def _built(case: Case) -> tuple[Single, Any]:
    """The node, and its result by the formulas of the documentation in float64."""
    draw = np.random.default_rng(7)
    fused = 2 if case.attributes.get("swiglu_fusion") else 1
    operands: dict[str, Any] = {}
    weights: dict[str, Any] = {}
    for name, rows, inner in (("fc1", fused * INNER, HIDDEN), ("fc2", HIDDEN, INNER), ("fc3", INNER, HIDDEN)):
        if name == "fc3" and "fc3" not in case.given:
            continue
        blocks = inner // case.block if case.block else 1
        values = draw.integers(0, 1 << case.bits, (EXPERTS, rows, inner))
        scales = draw.uniform(0.2, 0.6, (EXPERTS, rows, blocks)).astype(case.scales) / (1 << case.bits - 1)
        zeros = np.full(scales.shape, 1 << case.bits - 1)
        if "zeros" in case.given:
            zeros = draw.integers(0, 1 << case.bits, scales.shape)
            operands[f"{name}_zero_points"] = _packed(zeros if case.block else zeros[..., 0], case.bits)
        scales = scales.astype(case.scales)
        operands[f"{name}_experts_weights"] = _packed(values, case.bits)
        operands[f"{name}_scales"] = scales if case.block else scales[..., 0]
        bias = np.zeros((EXPERTS, rows), np.float32)
        if "bias" in case.given:
            bias = operands[f"{name}_experts_bias"] = draw.normal(size=bias.shape).astype(np.float32)
        spread = [np.repeat(part.astype(np.float64), inner // blocks, 2) for part in (zeros, scales)]
        weights[name] = (values - spread[0]) * spread[1], bias
    x = draw.normal(size=(2, TOKENS // 2, HIDDEN)).astype(np.float32)
    # Whole numbers, so that logits are often equal.
    logits = draw.integers(-2, 3, (TOKENS, EXPERTS)).astype(np.float32)
    shares = draw.uniform(0.1, 1, logits.shape).astype(np.float32) if "router_w" in case.given else None
    names = (
        *("fc1_experts_weights", "fc1_scales", "fc1_experts_bias"),
        *("fc2_experts_weights", "fc2_scales", "fc2_experts_bias"),
        *("fc3_experts_weights", "fc3_scales", "fc3_experts_bias"),
        *("fc1_zero_points", "fc2_zero_points", "fc3_zero_points"),
    )
    constants = [Fixed(operands[name]) if name in operands else None for name in names]
    attributes = {"k": case.k, "expert_weight_bits": case.bits, **case.attributes}
    attributes |= {"block_size": case.block} if case.block else {}
    node = Single("com.microsoft::QMoE", (x, logits, *constants, shares), attributes)
    result = np.zeros((TOKENS, HIDDEN))
    for token, row in enumerate(x.reshape(TOKENS, HIDDEN)):
        chosen = sorted(range(EXPERTS), key=lambda expert: (logits[token, expert], expert))[-case.k :]
        own = np.exp(logits[token].astype(np.float64)) if shares is None else shares[token].astype(np.float64)
        if shares is None or case.attributes.get("normalize_routing_weights"):
            own /= own[chosen].sum()
        for expert in chosen:
            result[token] += own[expert] * _network(case, weights, expert, row)
    return node, result.reshape(x.shape)


def _network(case: Case, weights: Any, expert: int, row: Any) -> Any:
    """One expert's network of one token."""

    def product(name: str, values: Any) -> Any:
        matrix, bias = weights[name]
        return matrix[expert] @ values + bias[expert]

    says = case.attributes.get
    opened, kind = product("fc1", row), says("activation_type", "relu")
    linear = product("fc3", row) if "fc3" in weights else 1.0
    if says("swiglu_fusion") == 1:
        opened, linear = opened[::2], opened[1::2]
    elif says("swiglu_fusion") == 2:
        opened, linear = opened[:INNER], opened[INNER:]
    if kind == "swiglu":
        limit = says("swiglu_limit", np.inf)
        opened, linear = (
            np.minimum(opened, limit),
            np.clip(linear, -limit, limit) + says("activation_beta", 0.0),
        )
    alpha = says("activation_alpha", 1.0)
    cube = opened + 0.044715 * opened**3
    activated = {
        "identity": opened,
        "relu": np.maximum(opened, 0),
        "gelu": opened * (1 + np.tanh(np.sqrt(2 / np.pi) * cube)) / 2,
        "silu": opened / (1 + np.exp(-opened)),
        "swiglu": opened / (1 + np.exp(-alpha * opened)),
    }[kind]
    return product("fc2", activated * linear)


@pytest.mark.parametrize("name", CASES)
def test_experts_have_the_results_of_the_definition_and_of_onnxruntime(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    node, wanted = _built(case)
    model = model_of(node)
    result = npusim.run(written(tmp_path, model), "edge-128-float", inputs=node.inputs)
    assert result.outputs is not None
    # Router, activations and sums too: float lanes compute all of them.
    assert not [layer.op for layer in result.layers if layer.unit == "host"]
    close = 1e-5 * np.abs(wanted).max()
    assert np.abs(result.outputs[0] - wanted).max() < close
    products = [layer for layer in result.layers if layer.op == "block_product"]
    gate = "fc3" in case.given or "swiglu_fusion" in case.attributes
    assert len(products) == EXPERTS * (3 if gate else 2)
    if case.live:
        runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
        session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        [theirs] = session.run(
            None, dict(zip((i.name for i in session.get_inputs()), node.inputs, strict=True))
        )
        assert np.abs(theirs - result.outputs[0]).max() < close


def test_a_note_says_that_all_experts_compute(tmp_path: Path) -> None:
    path = written(tmp_path, model_of(_built(CASES["gpt-oss"])[0]))
    with pytest.warns(ModelWarning, match=r"computes all 5 experts of QMoE for each token, .* uses 2$"):
        npusim.load(path)


REFUSED = {
    "quant_type is 'fp8', npusim has 'int'": {"quant_type": "fp8"},
    "use_sparse_mixer is 1, npusim has 0": {"use_sparse_mixer": 1},
    "weights_prepacked is 1, npusim has -1 or 0": {"weights_prepacked": 1},
    "swiglu_fusion is 1, must be 0 unless activation_type is 'swiglu'": {"swiglu_fusion": 1},
    "swiglu needs fc3_experts_weights, or swiglu_fusion 1 or 2": {"activation_type": "swiglu"},
    "k is 6, must be 1..5, the experts": {"k": 6},
    "expert_weight_bits is 3, npusim has 2, 4 and 8": {"expert_weight_bits": 3},
    "fc1_scales has shape [5, 48], must be [5, 48, 2]": {"block_size": 16},
    "fc1_experts_weights has rows of 16 bytes, must be 32 weights of 8 bits in blocks of 32": {
        "expert_weight_bits": 8
    },
    "activation_type is 'tanh', npusim has 'gelu' or 'identity' or 'relu' or 'silu' or 'swiglu'": {
        "activation_type": "tanh"
    },
}


@pytest.mark.parametrize("text", REFUSED)
def test_refusals_are_one_line(text: str, tmp_path: Path) -> None:
    node, _ = _built(Case())
    path = written(tmp_path, model_of(node._replace(attributes={**node.attributes, **REFUSED[text]})))
    with pytest.raises(npusim.NpusimError) as fault:
        npusim.load(path)
    assert str(fault.value).endswith(text)
    assert "\n" not in str(fault.value)
