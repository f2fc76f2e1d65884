"""`fake_device`: it takes every operation and computes nothing, but keeps a trace of the calls that it gets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from npusim.frontends.nnadapter.nnadapter_codes import DeviceType
from npusim.nnadapter.hal.driver import Argument, Cache, Driver, Properties, Submodel

_BUFFER = b"fake"


@dataclass(eq=False)
class FakeProgram:
    """What `fake_device` makes of a model: its name."""

    name: str = field(default="restored")


class Fake(Driver):
    """A device that is not there: to see what a runtime does with a driver.

    trace: the calls so far, with a word on what they were about; the newest last, no more than 10 000.
    """

    name = "fake_device"
    vendor = "npusim"
    type = DeviceType.ACCELERATOR
    version = 1
    trace: ClassVar[list[str]] = []

    def _traced(self, text: str) -> None:
        self.trace.append(text)
        del self.trace[:-10_000]

    def open(self) -> object:
        """The device."""
        self._traced("open")
        return self

    def close(self, device: object) -> None:
        """The process ends."""
        self._traced("close")

    def create_context(
        self, device: object, properties: Properties, callback: Callable[..., Any] | None
    ) -> object:
        """A context."""
        self._traced(f"create_context {properties.text}".rstrip())
        return properties

    def destroy_context(self, context: object) -> None:
        """The context is no more."""
        self._traced("destroy_context")

    def validate_program(self, context: object, model: Submodel) -> Sequence[str | None]:
        """It takes everything."""
        self._traced(f"validate_program {' '.join(operation.kind for operation in model.operations)}")
        return [None] * len(model.places)

    def create_program(self, context: object, model: Submodel | None, cache: Cache) -> FakeProgram:
        """A program that does nothing."""
        if model is None:
            self._traced("create_program from a cache")
            return FakeProgram()
        self._traced(f"create_program {' '.join(operation.kind for operation in model.operations)}")
        cache.buffer = _BUFFER if cache.token else b""
        return FakeProgram(model.name)

    def destroy_program(self, program: object) -> None:
        """The program is no more."""
        self._traced("destroy_program")

    def execute_program(
        self, program: object, inputs: Sequence[Argument], outputs: Sequence[Argument]
    ) -> float | None:
        """Outputs are zeros."""
        self._traced(f"execute_program {len(inputs)} inputs {len(outputs)} outputs")
        for argument in inputs:
            argument.read()
        for argument in outputs:
            argument.write(np.zeros(argument.type.shape, argument.type.dtype))
        return None
