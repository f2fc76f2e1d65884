"""What LiteRT's reference kernels compute for a TFLite file: the bytes that npusim means by "exact".

LiteRT is the package ai-edge-litert, an extra. Its kernels trust the file: one that is damaged may end the process,
so `npusim.verification` calls this in a process of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from npusim.isa.errors import NpusimError
from npusim.isa.tensor import Array

PACKAGE = "ai-edge-litert==2.3.0"
"""The version that npusim's arithmetic was checked against."""

WHEELS = "Python 3.11 to 3.14 on Linux (x86-64, aarch64), Windows (x86-64) and macOS (arm64)"


class LiteRTError(NpusimError):
    """LiteRT is not there, or does not take a model."""


def installed() -> bool:
    """Whether LiteRT can be imported."""
    return find_spec("ai_edge_litert") is not None


def require() -> None:
    """Raise LiteRTError that says what to install, if LiteRT is not there."""
    if not installed():
        raise LiteRTError(f"needs LiteRT: pip install {PACKAGE}; it has wheels for {WHEELS}")


class Session:
    """A model in LiteRT with its reference kernels (BUILTIN_REF), ready to run.

    every_tensor: keep what every operator computes, for `tensor`; takes the memory of all tensors.

    Raises LiteRTError for a model that LiteRT refuses, in its own words.
    """

    def __init__(self, data: bytes, every_tensor: bool = False) -> None:
        require()
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        try:
            self._interpreter: Any = Interpreter(
                model_content=data,
                num_threads=1,
                experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
                experimental_preserve_all_tensors=every_tensor,
            )
            self._interpreter.allocate_tensors()
        except (RuntimeError, ValueError) as fault:
            raise LiteRTError(f"LiteRT refuses the model: {one_line(fault)}") from None
        self._inputs = [each["index"] for each in self._interpreter.get_input_details()]
        self._outputs = [each["index"] for each in self._interpreter.get_output_details()]

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs by position, each an array of its own. States are zero at the beginning.

        Raises LiteRTError for inputs that do not fit and for a kernel that fails.
        """
        try:
            self._interpreter.reset_all_variables()
            for index, value in zip(self._inputs, inputs, strict=True):
                self._interpreter.set_tensor(index, value)
            self._interpreter.invoke()
        except (RuntimeError, ValueError) as fault:
            raise LiteRTError(f"LiteRT cannot run the model: {one_line(fault)}") from None
        return [np.asarray(self._interpreter.get_tensor(index)) for index in self._outputs]

    def tensor(self, index: int) -> Array | None:
        """The value of a tensor of the file after a run; None if LiteRT keeps none."""
        try:
            return np.asarray(self._interpreter.get_tensor(index))
        except (RuntimeError, ValueError):
            return None


def one_line(fault: BaseException) -> str:
    """A fault's text on one line."""
    return " ".join(str(fault).split()) or type(fault).__name__
