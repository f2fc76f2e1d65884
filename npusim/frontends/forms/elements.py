"""Element types of ONNX, and as which of npusim's they are held."""

from __future__ import annotations

NARROW = {"int4": ("int8", 4), "uint4": ("uint8", 4), "int2": ("int8", 2), "uint2": ("uint8", 2)}
"""How codes of less than a byte are held, one a byte, and how many bits they have."""


def type_name(code: int) -> str:
    """What npusim or numpy calls the element type of a number of TensorProto.DataType."""
    import onnx

    if code not in onnx.TensorProto.DataType.values():
        return f"number {code}"
    name: str = onnx.TensorProto.DataType.Name(code).lower()
    return {"float": "float32", "double": "float64"}.get(name, name)


def held_type(code: int) -> tuple[str, int]:
    """The element type as which one is held, and how many bits of it its elements have (0: all)."""
    name = type_name(code)
    return NARROW.get(name, (name, 0))
