"""Helpers for the rows of Paddle's operators, and for arguments that many of them have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from npusim.frontends.forms.networks import PADDLE
from npusim.frontends.forms.node_conversion import NodeConversion
from npusim.frontends.forms.node_rows import Convert, Role, Row
from npusim.frontends.onnx.operations.onnx_table import row as of_onnx
from npusim.frontends.paddle.paddle_file import ELEMENTS
from npusim.isa.base.elements import is_element

WITH_SCALARS = 2005000
"""The version since which tensors without axes exist; before it they had one axis of one element."""


def op(
    names: str,
    inputs: str,
    convert: Convert,
    operators: str,
    out: str = "Out",
    role: str | Role = "",
    groups: bool = True,
    **attributes: Any,
) -> list[Row]:
    """Return rows of Paddle operators that differ in name only; `operators` are npusim's.

    attributes: of the ONNX operation `role`, as in `renamed`.
    """
    if isinstance(role, str) and attributes:
        operation, role = role, lambda stated: (operation, _in_onnx(stated, attributes))
    return [Row(name, inputs, convert, operators, PADDLE, groups, out, role) for name in names.split()]


def renamed(
    names: str, operation: str, inputs: str = "X=X", out: str = "Out", **attributes: Any
) -> list[Row]:
    """Return rows of operators that equal an ONNX operation, with other names.

    inputs: as `ONNX's name=Paddle's name`, with "?" or "*" behind it as in a row.
    attributes: by ONNX's name: Paddle's name and the default, or a constant value.
    """
    entry = of_onnx("", operation)
    assert entry is not None
    pairs = [pair.rstrip("?*").split("=") for pair in inputs.split()]

    def convert(c: NodeConversion) -> Sequence[int | None]:
        channels_first(c)
        node = c.source
        slots = {ours: node.slots[theirs] for ours, theirs in pairs if node.slots.get(theirs)}
        node = replace(node, attributes=_in_onnx(node.attributes, attributes), slots=slots)
        return entry.convert(c.as_node(node, entry.inputs, entry.operators))

    shown = " ".join(pair.split("=")[1] for pair in inputs.split())
    return op(names, shown, convert, entry.ops, out, operation, entry.groups, **attributes)


def _in_onnx(stated: Mapping[str, Any], attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stated attributes under ONNX's names; those without a value are left out."""
    values = {
        name: stated.get(*value) if isinstance(value, tuple) else value for name, value in attributes.items()
    }
    return {name: value for name, value in values.items() if value is not None}


def either(attribute: str, value: str, operation: str, other: str) -> Role:
    """Return the role of an operator that equals an ONNX operation if an attribute has a value, otherwise another."""
    return lambda stated: (operation if stated.get(attribute) == value else other, {})


def numbers(c: NodeConversion, attribute: str, tensor: str = "", tensors: str = "") -> list[int]:
    """Return integers from a list of tensors if given, else from a tensor, else from an attribute."""
    if tensors and c.has(tensors):
        arrays = [c.builder.tensors[number].array for number in c.tensors(tensors)]
        known = [array for array in arrays if array is not None and array.size == 1]
        text = f"input {tensors} decides shapes, so it must be constants, or follow from constants and shapes"
        c.require(len(known) == len(arrays), text)
        return [int(array.reshape(-1)[0]) for array in known]
    return c.wholes(tensor) if tensor and c.has(tensor) else [*map(int, c.attribute(attribute, ()))]


def axis_of(c: NodeConversion, rank: int, tensor: str = "", default: int = 0) -> int:
    """Return the attribute `axis`, or the tensor that replaces it, counted from the front."""
    [axis] = c.wholes(tensor) if tensor and c.has(tensor) else [c.parameter("axis", default)]
    return c.axis(axis, rank)


def element_type(c: NodeConversion, name: str = "dtype", default: int = 5) -> str:
    """Return the element type whose number an attribute states; -1 stands for the default."""
    number = c.parameter(name, default)
    dtype = ELEMENTS.get(default if number == -1 else number, f"type {number}")
    c.require(is_element(dtype), f"{name} is {dtype}, which npusim lacks")
    return dtype


def image_shape(c: NodeConversion, name: str = "X") -> tuple[int, ...]:
    """Return the shape of an input. Raises GraphError if it is no image [N, C, H, W]."""
    shape = c.shape(name)
    c.require(len(shape) == 4, f"{name} has shape {list(shape)}, must be [N, C, H, W]")
    return shape


def channels_first(c: NodeConversion) -> None:
    """Raise GraphError for an operator on images whose channels come last."""
    for name in ("data_format", "data_layout"):
        layout = c.attribute(name, "NCHW")
        first = layout in ("NCHW", "AnyLayout", "ANYLAYOUT", "NCDHW", "NCL")
        c.require(first, f"{name} is {layout!r}; npusim has NCHW: export the model with it")


def without_axes(c: NodeConversion, shape: Sequence[int]) -> tuple[int, ...]:
    """Return a shape after axes were removed; without any left it is [1] in files of older versions."""
    return tuple(shape) if shape or c.opset >= WITH_SCALARS else (1,)
