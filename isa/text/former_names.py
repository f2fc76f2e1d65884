"""Former names of instructions and fields in assembly texts, accepted for one version of npusim."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Former(NamedTuple):
    """The current form of an instruction of earlier assembly texts.

    mnemonic: the current mnemonic.
    fixed:    fields that the former name implied; used unless the text sets them.
    fields:   former field name -> current name or names; empty for a field that no longer exists.
    values:   current field -> former value -> current value, as written.
    """

    mnemonic: str
    fixed: Mapping[str, str] = {}
    fields: Mapping[str, str] = {}
    values: Mapping[str, Mapping[str, str]] = {}


_INT16 = {"int16": "format", "int16_low": "low", "int16_high": "high"}
_YES = {"format": {"yes": "int16", "no": "8_bit", "1": "int16", "0": "8_bit"}}
_FLOAT = {"format": "float16"}
_ELEMENT = {"element": "format"}
_FACTORS = {f"{name}_scale": f"{name}_multiplier" for name in ("a", "b", "output")}
_IN_FLOAT32 = {"format": "as_float32"}

FORMER: Mapping[str, Former] = {
    "dma.gather": Former("dma.gather", {}, {"target_stride": "dense_stride"}),
    "vec.binary": Former("vec.binary", {}, _INT16, _YES),
    "vec.float_binary": Former("vec.binary", _IN_FLOAT32, _FACTORS),
    "vec.real_binary": Former("vec.binary", _FLOAT, _ELEMENT),
    "vec.compare": Former("vec.binary", {"function": "equal"}, {"relation": "function"}),
    "vec.pool": Former("vec.pool", {}, {**_INT16, "maximum": "function"}, _YES),
    "vec.float_pool": Former("vec.pool", _IN_FLOAT32),
    "vec.real_pool": Former("vec.pool", _FLOAT, _ELEMENT),
    "vec.mean": Former("vec.reduce", {"function": "sum", "parts": "1", "middle": "1"}, _INT16, _YES),
    "vec.float_reduce": Former("vec.reduce", {**_IN_FLOAT32, "function": "mean"}),
    "vec.real_reduce": Former(
        "vec.reduce", {**_FLOAT, "function": "sum", "parts": "1", "middle": "1"}, _ELEMENT
    ),
    "vec.softmax": Former("vec.softmax", {}, {"int16": "format"}, _YES),
    "vec.float_softmax": Former("vec.softmax", _IN_FLOAT32, {"function": "fused"}),
    "vec.log_softmax": Former("vec.softmax", {"function": "log_softmax", "signed": "int8"}),
    "vec.real_softmax": Former("vec.softmax", _FLOAT, {**_ELEMENT, "logarithm": "function"}),
    "vec.rescale": Former(
        "vec.convert",
        {},
        {
            "input_signed": "source",
            "int16_input": "source",
            "signed": "target",
            "int16": "target",
            "int16_low": "low",
            "int16_high": "high",
        },
        {"source": {"yes": "int16"}, "target": {"yes": "int16"}},
    ),
    "vec.real_convert": Former(
        "vec.convert", {"source": "int8", "target": "int8"}, {"zero": "input_zero output_zero", "element": ""}
    ),
    "vec.real_unary": Former("vec.unary", {**_FLOAT, "function": "copy"}, _ELEMENT),
}
"""Former mnemonic -> current form."""
