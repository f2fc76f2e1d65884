"""Every operation against the text: operands in the order of the definition, a small example, quantized values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import npusim
from npusim import nnadapter as nna
from npusim.frontends.nnadapter import operation_table
from npusim.nnadapter import c

from .text_operations import CASES

NAMES = sorted(CASES)
CODED = [name for name in NAMES if CASES[name].coded]
SCALE = 1 / 32
FLOAT_BESIDE_CODES = (("GRID_SAMPLE", 1), ("ROI_ALIGN", 1))
"""Tensors that are FLOAT32 whatever the first is."""


def flat(values: Any) -> list[Any]:
    """Tensors, those of an argument of several one by one."""
    return [one for value in values for one in (value if isinstance(value, list) else [value])]


def outputs_of(name: str, kinds: list[nna.OperandType], arrays: list[Any]) -> list[Any]:
    """What an operation gives on the default machine."""
    case, model = CASES[name], nna.Model()
    operands = iter([model.add_operand(kind) for kind in kinds])
    tensors = [
        [next(operands) for _ in value] if isinstance(value, list) else next(operands) for value in case.given
    ]
    results = getattr(model, name.lower())(*tensors, **case.arguments)
    listed = results if isinstance(results, tuple) else (results,)
    model.identify(model.operands[: len(kinds)], listed)
    model.finish()
    with nna.Context([nna.Device.acquire("npusim")]) as context:
        compilation = nna.Compilation(model, context)
        compilation.finish()
        execution = nna.Execution(compilation)
        for index, array in enumerate(arrays):
            execution.set_input(index, array)
        return list(execution.compute().outputs)


def test_every_operation_has_an_example() -> None:
    assert sorted(kind.name for kind in nna.OperationType) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_operands_stand_in_the_order_of_the_definition(name: str) -> None:
    """Whatever order they are given in: one too few, one too many and one that is omitted are refused."""
    inputs, outputs = (side.split() for side in CASES[name].operands.split(">"))
    row = operation_table.row(nna.OperationType[name]).signature
    assert [f"{one.name}{'?' * one.optional}{one.repeats}" for one in row.inputs] == inputs
    assert [f"{one.name}{'?' * one.optional}{one.repeats}" for one in row.outputs] == outputs
    place = c.Ref()
    for count in (len(inputs) - 1, len(inputs) + 1):
        model = nna.Model()
        x, y = (
            model.add_operand(nna.OperandType(nna.FLOAT32, [1])),
            model.add_operand(nna.OperandType(nna.FLOAT32)),
        )
        if "+" not in "".join(inputs) or count < len(inputs):
            code = c.NNAdapterModel_addOperation(
                model, nna.OperationType[name], count, [x] * count, 1, [y], place
            )
            assert code == c.NNADAPTER_INVALID_PARAMETER
    for number, word in enumerate(inputs):
        if "?" not in word:
            model = nna.Model()
            given = [model.add_operand(nna.OperandType(nna.FLOAT32, [1])) for _ in inputs]
            results = [model.add_operand(nna.OperandType(nna.FLOAT32)) for _ in outputs]
            with pytest.raises(nna.InvalidParameter):
                model.add_operation(
                    nna.OperationType[name], [*given[:number], None, *given[number + 1 :]], results
                )


@pytest.mark.cases(48)
@pytest.mark.parametrize("name", NAMES)
def test_the_example_gives_what_the_text_says(name: str) -> None:
    case = CASES[name]
    arrays = flat(case.given)
    kinds = [nna.OperandType(nna.Precision[_PLAIN[array.dtype.name]], array.shape) for array in arrays]
    if name == "DEQUANTIZE":
        kinds = [nna.OperandType(nna.QUANT_INT8_SYMM_PER_LAYER, arrays[0].shape, scale=0.5)]
    found = outputs_of(name, kinds, arrays)
    wanted = case.wanted(*arrays)
    wanted = list(wanted) if isinstance(wanted, tuple) else [wanted]
    assert len(found) == len(wanted)
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.shape == np.shape(theirs)
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


_PLAIN = {"bool": "BOOL8", "int8": "INT8", "int32": "INT32", "int64": "INT64", "float32": "FLOAT32"}


@pytest.mark.cases(32)
@pytest.mark.parametrize("name", CODED)
def test_quantized_values_give_what_they_stand_for(name: str) -> None:
    """Within a step of the output: LiteRT's rules round twice."""
    case = CASES[name]
    arrays = flat(case.given)
    codes, kinds = [], []
    for number, array in enumerate(arrays):
        if array.dtype == np.float32 and (name, number) not in FLOAT_BESIDE_CODES:
            codes.append(np.clip(np.round(array / SCALE), -128, 127).astype(np.int8))
            kinds.append(nna.OperandType(nna.QUANT_INT8_SYMM_PER_LAYER, array.shape, scale=SCALE))
        else:
            codes.append(array)
            kinds.append(nna.OperandType(nna.Precision[_PLAIN[array.dtype.name]], array.shape))
    stand_for = [
        code.astype(np.float32) * np.float32(SCALE) if code.dtype == np.int8 else code for code in codes
    ]
    wanted = case.wanted(*stand_for)
    wanted = list(wanted) if isinstance(wanted, tuple) else [wanted]
    found = outputs_of(name, kinds, codes)
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.dtype == np.int8
        assert ours.shape == np.shape(theirs)
        steps = np.clip(np.asarray(theirs) / SCALE, -128, 127)
        assert np.abs(ours - steps).max() <= 1.01


def test_axes_count_from_both_ends() -> None:
    """-R..R-1 of a tensor of R dimensions, wherever an operation has an axis."""
    x = np.zeros((2, 3, 4), np.float32)
    for name in (
        "arg_max",
        "softmax",
        "log_softmax",
        "cum_sum",
        "unstack",
        "split",
        "gather",
        "top_k",
        "lp_normalization",
    ):
        more = {"unstack": {"num": 4}, "split": {"split": [4]}, "gather": {"indices": [0]}, "top_k": {"k": 1}}
        model = nna.Model()
        image = model.add_operand(nna.OperandType(nna.FLOAT32, x.shape))
        arguments = more.get(name, {})
        for axis in (2, -1):
            getattr(model, name)(image, axis=axis, **arguments)
        for axis in (3, -4):
            with pytest.raises(nna.InvalidParameter, match=f"is {axis}, must be -3..2"):
                getattr(model, name)(image, axis=axis, **arguments)


@pytest.mark.parametrize(
    "name", ["add", "conv_2d", "average_pool_2d", "fully_connected", "max_pool_2d", "pow"]
)
def test_fused_activations(name: str) -> None:
    """NONE, RELU, RELU1 (-1 to 1) and RELU6, and no other code."""
    x = np.float32([-9, -0.5, 0.5, 3, 9, 20]).reshape(6, 1)
    image = name in ("conv_2d", "average_pool_2d", "max_pool_2d")
    x = x.reshape(6, 1, 1, 1) if image else x
    others: dict[str, list[Any]] = {
        "add": [np.zeros(1, np.float32)],
        "pow": [np.ones(1, np.float32)],
        "conv_2d": [np.ones((1, 1, 1, 1), np.float32)],
        "fully_connected": [np.ones((1, 1), np.float32)],
    }
    how = {"kernel_shape": [1, 1]} if "pool" in name else {}
    wanted = {
        nna.FUSED_NONE: x,
        nna.FUSED_RELU: np.maximum(x, 0),
        nna.FUSED_RELU1: np.clip(x, -1, 1),
        nna.FUSED_RELU6: np.clip(x, 0, 6),
    }
    model = nna.Model()
    given = model.add_operand(nna.OperandType(nna.FLOAT32, x.shape))
    results = [
        getattr(model, name)(given, *others.get(name, []), **how, fuse_code=int(code)) for code in wanted
    ]
    with pytest.raises(nna.InvalidParameter, match="fuse_code: is 4, must be one of FUSED_NONE 0"):
        getattr(model, name)(given, *others.get(name, []), **how, fuse_code=4)
    model.identify([given], results)
    model.finish()
    network = model.network()
    program = npusim.compile(network.piece(range(len(network.steps))).graph)
    for output, value in zip(npusim.simulate(program, [x]).outputs or (), wanted.values(), strict=True):
        np.testing.assert_allclose(output, value, rtol=1e-6)
