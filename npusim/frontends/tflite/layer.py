"""One operator of a TFLite file: checked access to its options and constant operands."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from npusim.frontends.tflite.records import inside_the_file
from npusim.isa.base.errors import FormatError, GraphError
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import Array, TensorType

EMPTY_TABLE = struct.pack("<HHi", 4, 4, 4)
"""A flatbuffers table at byte 4 with an empty vtable at byte 0, so that every field has its default."""


ACTIVATIONS = {0: "none", 1: "relu", 2: "relu_n1_to_1", 3: "relu6"}

Parameters = dict[str, Any]
"""Parameters of a node by name."""


@dataclass(frozen=True, slots=True)
class Layer:
    """An operator of the file.

    inputs, outputs: types in the file's order, None for absent operands.
    constants:       the values of constant operands, None for others.
    options:         an instance of the generated class of its options table, or None.
    """

    where: str
    inputs: tuple[TensorType | None, ...]
    outputs: tuple[TensorType, ...]
    constants: tuple[Array | None, ...]
    intermediates: tuple[TensorType, ...]
    options: Any
    custom_options: NDArray[np.uint8]

    def fail(self, text: str) -> NoReturn:
        """Raise GraphError with the layer in front of `text`."""
        raise GraphError(f"{self.where}: {text}")

    # Options

    def option(self, field: str) -> Any:
        """Return the value of a field of the options table."""
        with inside_the_file(f"{self.where}: option {field}"):
            return getattr(self.options, field)()

    def whole(self, field: str, least: int, most: int | None = None) -> int:
        """Return an integer option that may not be smaller than `least`, nor larger than `most` if that is given."""
        value = int(self.option(field))
        if most is not None and not least <= value <= most:
            self.fail(f"{field} is {value}, may be {least}..{most}")
        if value < least:
            self.fail(f"{field} is {value}, may be {least} or more")
        return value

    def real(self, field: str) -> float:
        """Return a float32 option, which must be finite."""
        value = float(self.option(field))
        if not isfinite(value):
            self.fail(f"{field} is {value}, must be finite")
        return value

    def flag(self, field: str) -> bool:
        """Return a true or false option."""
        return bool(self.option(field))

    def vector(self, field: str) -> list[int]:
        """Return an option that is a list of integers, empty if the file has none."""
        values = self.option(f"{field}AsNumpy")
        return [int(value) for value in values] if isinstance(values, np.ndarray) else []

    def choice(self, field: str, names: Mapping[int, str]) -> str:
        """Return the name of an enumerated option."""
        value = int(self.option(field))
        if value not in names:
            self.fail(f"{field} is {value}, may be {', '.join(f'{k} ({v})' for k, v in names.items())}")
        return names[value]

    def activation(self) -> Parameters:
        """Return the activation that is fused into the operator."""
        return {"activation": self.choice("FusedActivationFunction", ACTIVATIONS)}

    def dynamic_range(self, weights: int = 1, flag: str = "AsymmetricQuantizeInputs") -> Parameters:
        """Return how float32 activations are quantized at run time for int8 weights; nothing for other operands."""
        if (
            not self.has_operand(weights)
            or self.input(weights).dtype != "int8"
            or self.input(0).dtype != "float32"
        ):
            return {}
        return {"rescale": "dynamic_asymmetric" if flag and self.flag(flag) else "dynamic"}

    # Operands

    def input(self, position: int, rank: int | None = None) -> TensorType:
        """Return the type of an operand that must be there, and of `rank` dimensions if that is given."""
        operand = self.inputs[position] if position < len(self.inputs) else None
        if operand is None:
            self.fail(f"operand {position} is absent")
        if rank is not None and len(operand.shape) != rank:
            self.fail(f"operand {position} has shape {list(operand.shape)}, must have {rank} dimensions")
        return operand

    def output(self, rank: int) -> TensorType:
        """Return the type of the first output, which must have `rank` dimensions."""
        if len(self.outputs[0].shape) != rank:
            self.fail(f"the output has shape {list(self.outputs[0].shape)}, must have {rank} dimensions")
        return self.outputs[0]

    def has_operand(self, position: int) -> bool:
        """Return True if the operand is present."""
        return position < len(self.inputs) and self.inputs[position] is not None

    def is_constant(self, position: int) -> bool:
        """Return True if the operand is present and its data is in the file."""
        return position < len(self.constants) and self.constants[position] is not None

    def integers(self, position: int, meaning: str, count: int | None = None) -> list[int]:
        """Return the flattened values of a constant int32 or int64 operand, `count` of them if that is given."""
        data = self.constants[position] if position < len(self.constants) else None
        if data is None:
            self.fail(f"operand {position} ({meaning}) is computed while running, must be constant")
        if data.dtype not in (np.int32, np.int64):
            self.fail(f"operand {position} ({meaning}) is {data.dtype}, may be int32 or int64")
        if count is not None and data.size != count:
            self.fail(f"operand {position} ({meaning}) has {data.size} values, must have {count}")
        return [int(value) for value in data.ravel()]

    def rows(self, position: int, meaning: str, count: int) -> list[list[int]]:
        """Return a constant operand of shape [count, 2], such as paddings; no value may be negative."""
        values = self.integers(position, meaning, 2 * count)
        if any(value < 0 for value in values):
            self.fail(f"operand {position} ({meaning}) has a negative value: {values}")
        return [values[2 * i : 2 * i + 2] for i in range(count)]

    def axis(self, value: int, rank: int) -> int:
        """Return an axis counted from the front; the file may count from the back."""
        if not -rank <= value < rank:
            self.fail(f"axis {value}, may be {-rank}..{rank - 1}")
        return value % rank

    def axes(self, values: Sequence[int], rank: int) -> list[int]:
        """Return axes counted from the front, sorted, each once."""
        return sorted({self.axis(value, rank) for value in values})

    # Custom operators

    def flexbuffer(self, names: Sequence[str]) -> dict[str, int | float]:
        """Return those of the named numbers that the flexbuffer map of a custom operator has.

        Looks up the names asked for and decodes nothing else: a damaged flexbuffer may contain itself.
        """
        from flatbuffers import flexbuffers  # here because few models need it

        with inside_the_file(f"{self.where}: custom options"):
            table = flexbuffers.GetRoot(self.custom_options.tobytes()).AsMap
            options = {name: _found(table, name) for name in names}
        if wrong := [name for name, value in options.items() if isinstance(value, str)]:
            raise FormatError(
                f"{self.where}: custom option {wrong[0]} is {options[wrong[0]]}, must be a number"
            )
        return {name: value for name, value in options.items() if isinstance(value, int | float)}


def _found(table: Any, name: str) -> int | float | str | None:
    """Return the number of a name, the kind of value if it is no number, or None if it is missing."""
    try:
        value = table[name]
    except KeyError:
        return None
    if value.IsFloat:
        return float(value.AsFloat)
    if value.IsInt or value.IsBool:
        return int(value.AsInt)
    return "a string" if value.IsString else "not one value"
