"""The device: npusim as a driver of the NN HAL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from npusim.frontends.nn_hal.checked import CheckedModel
from npusim.frontends.nn_hal.enumerations import DeviceStatus, ErrorStatus, OperationType
from npusim.frontends.nn_hal.fault import Fault, Refused, Result, Rule
from npusim.frontends.nn_hal.model_check import FORM, RULES, check_model
from npusim.frontends.nn_hal.operations import operation_table
from npusim.frontends.nn_hal.operations.graph_parts import unsupported
from npusim.frontends.nn_hal.structs import Capabilities
from npusim.hal.launches import Target
from npusim.hal.prepared import PreparedModel, refusing
from npusim.isa.base.errors import NpusimError, nearest
from npusim.isa.hardware.hardware import Hardware
from npusim.kernels.table import known
from npusim.session import api, options


class Device:
    """A driver of the NN HAL for simulated hardware; a context manager that closes itself.

    Methods are those of `IDevice`. Each returns a `Result` instead of calling back, and never raises, whatever the
    structs hold.
    """

    def __init__(
        self,
        hw: str | Path | Hardware = api.DEFAULT_HARDWARE,
        *,
        host: Sequence[str] = (),
        partition: str | Path | None = None,
        timing_only: bool = False,
        max_loop_iterations: int = 10_000,
    ) -> None:
        """Create a device on hardware: a preset, a file, or a `Hardware`.

        host:        operations, or operators of npusim, that the host computes although the NPU could.
        partition:   a partition file, or "cost", as for `npusim.compile`. Unknown layers are ignored.
        timing_only: compute no data: outputs stay as they are. What depends on data, such as a condition that is
                     computed, ends with GENERAL_FAILURE then.
        max_loop_iterations: a WHILE that has not ended then ends with MISSED_DEADLINE_TRANSIENT.

        Raises NpusimError for a wrong argument.
        """
        if isinstance(max_loop_iterations, bool) or not isinstance(max_loop_iterations, int):
            raise NpusimError(f"max_loop_iterations {max_loop_iterations!r}: must be a whole number")
        if max_loop_iterations < 0:
            raise NpusimError(f"max_loop_iterations {max_loop_iterations}: must be 0 or more")
        if not isinstance(timing_only, bool):
            raise NpusimError(f"timing_only {timing_only!r}: must be True or False")
        names = None if isinstance(host, str) or not isinstance(host, Iterable) else list(host)
        if names is None or not all(isinstance(name, str) for name in names):
            raise NpusimError(f"host {host!r}: must be names of operations, such as ('SOFTMAX',)")
        if partition is not None and not isinstance(partition, (str, Path)):
            raise NpusimError(f"partition {partition!r}: must be the path of a file")
        machine = hw if isinstance(hw, Hardware) else api.hardware(hw)
        chosen = options.partition(_operators(names), partition)
        self._target = Target(machine, chosen, timing_only)
        self._most_turns = max_loop_iterations
        self._closed = False
        self._work: list[object] = []  # calls in progress; append and remove are atomic, so it needs no lock
        self._capabilities: Capabilities | None = None

    @property
    def target(self) -> Target:
        """The hardware and options that graphs are compiled with."""
        return self._target

    def close(self) -> None:
        """Set the device OFFLINE; it and its prepared models answer with DEVICE_UNAVAILABLE from now on."""
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def getStatus(self) -> DeviceStatus:
        """Return AVAILABLE, BUSY while another thread prepares or executes a model, or OFFLINE after `close`."""
        if self._closed:
            return DeviceStatus.OFFLINE
        return DeviceStatus.BUSY if self._work else DeviceStatus.AVAILABLE

    def getCapabilities(self) -> Result[Capabilities | None]:
        """Return the capability table of the hardware."""
        return self._answer(None, self._table)

    def getSupportedOperations(self, model: object) -> Result[list[bool]]:
        """Return for each operation of the main graph of a `Model` whether the device executes it."""
        return self._answer([], lambda: _supported(_checked(model)))

    def prepareModel(self, model: object) -> Result[PreparedModel | None]:
        """Check a `Model` and compile what is known of it."""
        with self.working():
            return self._answer(None, lambda: self._prepared(model))

    @contextmanager
    def working(self) -> Iterator[None]:
        """Make the device BUSY within a `with` block."""
        self._work.append(job := object())
        try:
            yield
        finally:
            self._work.remove(job)

    def _prepared(self, model: object) -> PreparedModel:
        checked = _checked(model, FORM)
        prepared = PreparedModel(checked, self._target, self._most_turns, self._unavailable, self.working)
        for fault in unsupported(checked, checked.main).values():
            raise Refused(fault)
        return prepared

    def _table(self) -> Capabilities:
        if self._capabilities is None:
            from npusim.hal.capabilities import capabilities  # simulates the reference workloads

            self._capabilities = capabilities(self._target.hardware)
        return self._capabilities

    def _unavailable(self) -> str:
        return "device: is closed" if self._closed else ""

    def _answer(self, otherwise: Any, value: Callable[[], Any]) -> Result[Any]:
        if self._closed:
            return Result(ErrorStatus.DEVICE_UNAVAILABLE, otherwise, self._unavailable())
        result = refusing(lambda: Result(ErrorStatus.NONE, value()))
        return result if result.status is ErrorStatus.NONE else result._replace(value=otherwise)


def _operators(names: Sequence[str]) -> list[str]:
    """Return the operators of these operations or operators. Raises NpusimError for an unknown name."""
    operators: list[str] = []
    for name in names:
        if name.upper() in OperationType.__members__:
            row = operation_table.row(OperationType[name.upper()])
            operators += row.operators if row is not None else ()
        elif known(name.lower()):
            operators.append(name)
        else:
            near = nearest(name.upper(), OperationType.__members__)
            hint = f", did you mean {near}?" if near else "; it may be such as SOFTMAX"
            raise NpusimError(f"host {name!r}: is no operation{hint}")
    return operators


def _checked(model: object, rules: Sequence[Rule] = RULES) -> CheckedModel:
    """Return the model as plain values. Raises Refused for the first of these rules that it breaks."""
    checked = check_model(model, rules)
    if isinstance(checked, Fault):
        raise Refused(checked)
    return checked


def _supported(model: CheckedModel) -> list[bool]:
    refused = unsupported(model, model.main)
    return [operation.index not in refused for operation in model.main.operations]
