"""`fake_device`, which accepts every operation, computes nothing, and records the calls of the runtime."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from npusim.frontends.nnadapter.nnadapter_codes import DeviceType
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.nnadapter.hal.driver import Argument, Cache, Driver, Properties, Submodel

_BUFFER = b"fake"


@dataclass(eq=False)
class FakeProgram:
    """A program of `fake_device`: the name of its model."""

    name: str = "restored"


class Fake(Driver):
    """A driver without a device, to observe what the runtime does with a driver.

    trace: the calls so far with their subject, the newest last, at most 10,000.
    """

    name = "fake_device"
    vendor = "npusim"
    type = DeviceType.ACCELERATOR
    version = 1
    trace: ClassVar[list[str]] = []

    def _record(self, text: str) -> None:
        self.trace.append(text)
        del self.trace[:-10_000]

    def open(self) -> object:
        """Return the device."""
        self._record("open")
        return self

    def close(self, device: object) -> None:
        """Record the end of the process."""
        self._record("close")

    def create_context(
        self, device: object, properties: Properties, callback: Callable[..., Any] | None
    ) -> object:
        """Return a context."""
        self._record(f"create_context {properties.text}".rstrip())
        return properties

    def destroy_context(self, context: object) -> None:
        """Record the end of a context."""
        self._record("destroy_context")

    def validate_program(self, context: object, model: Submodel) -> Sequence[str | None]:
        """Accept every operation."""
        self._record(f"validate_program {' '.join(operation.kind for operation in model.operations)}")
        return [None] * len(model.places)

    def create_program(self, context: object, model: Submodel | None, cache: Cache) -> FakeProgram:
        """Return a program that computes nothing."""
        if model is None:
            self._record("create_program from a cache")
            return FakeProgram()
        self._record(f"create_program {' '.join(operation.kind for operation in model.operations)}")
        cache.buffer = _BUFFER if cache.token else b""
        return FakeProgram(model.name)

    def destroy_program(self, program: object) -> None:
        """Record the end of a program."""
        self._record("destroy_program")

    def execute_program(
        self, program: object, inputs: Sequence[Argument], outputs: Sequence[Argument]
    ) -> float | None:
        """Write zeros to all outputs."""
        self._record(f"execute_program {len(inputs)} inputs {len(outputs)} outputs")
        for argument in inputs:
            argument.read()
        for argument in outputs:
            argument.write(np.zeros(argument.type.shape, argument.type.dtype))
        return None
