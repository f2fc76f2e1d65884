"""The functions of the C interface, one row each, as calls of the objects of `npusim.nnadapter`."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from npusim.frontends.nnadapter.nnadapter_codes import VERSION, InvalidParameter, OperationType
from npusim.frontends.nnadapter.operand import Operand
from npusim.frontends.nnadapter.operand_type import OperandType
from npusim.nnadapter.c import calling
from npusim.nnadapter.c.c_structs import NNAdapterOperandType, operand_type_of
from npusim.nnadapter.c.calling import KINDS, MISSING, Ref, Row
from npusim.nnadapter.compilation import Compilation
from npusim.nnadapter.device_context import Context, Device
from npusim.nnadapter.hal.registry import devices
from npusim.nnadapter.model_execution import Execution
from npusim.nnadapter.models import Model


def _get(name: str) -> Callable[[Any, Ref], None]:
    """Return a function that writes an attribute of a handle to a place."""

    def call(handle: Any, place: Ref) -> None:
        value = getattr(handle, name)
        place.value = int(value) if isinstance(value, int) else value

    return call


def _set(place: Ref, value: Any) -> None:
    place.value = value


def _first(array: Sequence[Any] | None, count: int, what: str) -> Sequence[Any]:
    """Return the first `count` elements. Raises InvalidParameter for an array with fewer."""
    if count and (array is None or len(array) < count):
        has = "null" if array is None else f"{len(array)} elements"
        raise InvalidParameter(f"{what}: is {has}, {count} are said")
    return (array or ())[:count]


def _operands(array: Sequence[Any] | None, count: int, what: str, null: bool = False) -> list[Operand | None]:
    return [
        None if null and operand is None else KINDS["operand"](operand, f"{what}[{number}]")
        for number, operand in enumerate(_first(array, count, what))
    ]


def _create_context(
    devices_: Sequence[Any], count: int, properties: str | None, callback: Any, place: Ref
) -> None:
    chosen = [KINDS["device"](one, "devices") for one in _first(devices_, count, "devices")]
    place.value = Context(chosen, properties, None if callback is MISSING else callback)


def _set_value(operand: Operand, buffer: Any, length: int, copy: Any) -> None:
    model = operand.model
    assert isinstance(model, Model)
    model.set_operand_value(operand, buffer, length, bool(copy))


def _add_operation(
    model: Model,
    type_: Any,
    input_count: int,
    inputs: Sequence[Any] | None,
    output_count: int,
    outputs: Sequence[Any] | None,
    place: Ref,
) -> None:
    if isinstance(type_, str):
        type_ = OperationType.__members__.get(type_.removeprefix("NNADAPTER_"), type_)
    model.add_operation(
        type_,
        _operands(inputs, input_count, "input_operands", null=True),
        _operands(outputs, output_count, "output_operands"),  # type: ignore[arg-type]
    )
    place.value = model.operations[-1]


def _identify(model: Model, input_count: int, inputs: Any, output_count: int, outputs: Any) -> None:
    model.identify(
        _operands(inputs, input_count, "input_operands"),  # type: ignore[arg-type]
        _operands(outputs, output_count, "output_operands"),  # type: ignore[arg-type]
    )


def _fill(place: Ref | list[Any], values: list[Any]) -> None:
    if isinstance(place, Ref):
        place.value = values
    else:
        place[:] = values


def _create_compilation(
    model: Model | None,
    token: str | None,
    buffer: Any,
    length: int,
    folder: str | None,
    context: Context,
    place: Ref,
) -> None:
    if (buffer is None) != (length == 0):
        raise InvalidParameter("cache_buffer and cache_length: must be given both or not at all")
    data = None if buffer is None else _taken(buffer, length)
    place.value = Compilation(model, context, token=token, buffer=data, cache_dir=folder)
    _MODELS[place.value] = model


def _taken(buffer: Any, length: int) -> bytes:
    """Return the first `length` bytes of a buffer."""
    try:
        data = bytes(memoryview(buffer).cast("B"))
    except (TypeError, ValueError, BufferError):
        raise InvalidParameter(f"cache_buffer: is {type(buffer).__name__}, must be bytes") from None
    if length > len(data):
        raise InvalidParameter(f"cache_length: is {length}, the buffer has {len(data)} bytes")
    return data[:length]


_MODELS: weakref.WeakKeyDictionary[Compilation, Model | None] = weakref.WeakKeyDictionary()
"""The model of each compilation, which must not be destroyed before the compilation is finished."""


def _finish(compilation: Compilation) -> None:
    calling.require_there(_MODELS.get(compilation))
    compilation.finish()


def _query(compilation: Compilation, input_count: Ref, inputs: Any, output_count: Ref, outputs: Any) -> None:
    types = compilation.query_inputs_and_outputs()
    for count, place, side in ((input_count, inputs, types.inputs), (output_count, outputs, types.outputs)):
        count.value = len(side)
        if place is not None:
            _fill(place, [NNAdapterOperandType.copy_of(type_) for type_ in side])


def _access(access: Callable[..., Any]) -> Callable[..., Any]:
    """Return an access function of Python that calls one of C, which gets the type as a struct."""
    try:
        wants = len(inspect.signature(access).parameters)
    except (TypeError, ValueError):
        wants = 2

    def call(memory: Any, type_: OperandType) -> Any:
        struct = NNAdapterOperandType.copy_of(type_)
        buffer = access(memory, struct, *([None] if wants == 3 else []))
        type_.dimensions = struct.operand_type().dimensions
        return buffer

    return call


def _bind(method: str) -> Callable[[Execution, Any, Any, Any], None]:
    def call(execution: Execution, index: Any, memory: Any, access: Any) -> None:
        if access is MISSING:
            getattr(execution, method)(index, memory)
        else:
            getattr(execution, method)(index, memory=memory, access=_access(access))

    return call


def _compute(execution: Execution) -> None:
    execution.require_outputs()
    execution.compute()


# fmt: off
ROWS: tuple[Row, ...] = (
    Row("NNAdapter_getVersion", "version:ref", lambda version: _set(version, VERSION), "2.1",
        "The version of the interface."),
    Row("NNAdapter_getDeviceCount", "num_devices:ref", lambda count: _set(count, len(devices())), "2.2",
        "How many devices there are."),
    Row("NNAdapterDevice_acquire", "name:text device:ref", lambda name, device: _set(device, Device.acquire(name)),
        "2.3", "A device by its name."),
    Row("NNAdapterDevice_release", "device:device", lambda device: device.release(), "2.4",
        "The device is not needed any more.", void=True),
    Row("NNAdapterDevice_getName", "device:device name:ref", _get("name"), "2.5", "The name of a device."),
    Row("NNAdapterDevice_getVendor", "device:device vendor:ref", _get("vendor"), "2.6", "Who makes a device."),
    Row("NNAdapterDevice_getType", "device:device type:ref", _get("type"), "2.7", "CPU, GPU or ACCELERATOR."),
    Row("NNAdapterDevice_getVersion", "device:device version:ref", _get("version"), "2.8",
        "The version of a device's driver."),
    Row("NNAdapterContext_create",
        "devices:array num_devices:count properties:text? callback:function?~ context:ref", _create_context, "2.9",
        "A context for devices; callback may be left out."),
    Row("NNAdapterContext_destroy", "context:context", lambda context: context.destroy(), "2.10",
        "Ends a context.", void=True),
    Row("NNAdapterModel_create", "model:ref", lambda model: _set(model, Model()), "2.11", "An empty model."),
    Row("NNAdapterModel_destroy", "model:model", calling.destroy, "2.12", "Ends a model.", void=True),
    Row("NNAdapterModel_finish", "model:model", lambda model: model.finish(), "2.13", "Ends building."),
    Row("NNAdapterModel_addOperand", "model:model type operand:ref",
        lambda model, type_, operand: _set(operand, model.add_operand(operand_type_of(type_))), "2.14",
        "Adds an operand."),
    Row("NNAdapterModel_setOperandValue", "operand:operand buffer length:count copy:flag", _set_value, "2.15",
        "Makes an operand a constant."),
    Row("NNAdapterModel_getOperandType", "operand:operand type:ref",
        lambda operand, type_: _set(type_, NNAdapterOperandType.live(operand)), "2.16", "The type of an operand."),
    Row("NNAdapterModel_addOperation",
        "model:model type input_count:count input_operands:array? output_count:count output_operands:array? "
        "operation:ref", _add_operation, "2.17", "Adds an operation."),
    Row("NNAdapterModel_identifyInputsAndOutputs",
        "model:model input_count:count input_operands:array? output_count:count output_operands:array?",
        _identify, "2.18", "Says what the caller gives and gets."),
    Row("NNAdapterModel_getSupportedOperations", "model:model context:context supported_operations:places",
        lambda model, context, flags: _fill(flags, list(context.supported_operations(model))), "2.19",
        "Per operation, whether a device of the context can do it."),
    Row("NNAdapterCompilation_create",
        "model:model? cache_token:text? cache_buffer? cache_length:count cache_dir:text? context:context "
        "compilation:ref", _create_compilation, "2.20", "A compilation of a model, or of a cache."),
    Row("NNAdapterCompilation_destroy", "compilation:compilation", lambda compilation: compilation.destroy(), "2.21",
        "Ends a compilation.", void=True),
    Row("NNAdapterCompilation_finish", "compilation:compilation", _finish, "2.22",
        "Compiles."),
    Row("NNAdapterCompilation_queryInputsAndOutputs",
        "compilation:compilation input_count:ref input_types:places? output_count:ref output_types:places?", _query,
        "2.23", "How many inputs and outputs there are, and where there are places for them, their types."),
    Row("NNAdapterExecution_create", "compilation:compilation execution:ref",
        lambda compilation, execution: _set(execution, Execution(compilation)), "2.24",
        "A way to run a compilation."),
    Row("NNAdapterExecution_destroy", "execution:execution", lambda execution: execution.destroy(), "2.25",
        "Ends an execution.", void=True),
    Row("NNAdapterExecution_setInput", "execution:execution index memory access:function~", _bind("set_input"), "2.26",
        "Says what an input is; an array needs no access function."),
    Row("NNAdapterExecution_setOutput", "execution:execution index memory access:function~", _bind("set_output"),
        "2.27", "Says where an output goes; an array needs no access function."),
    Row("NNAdapterExecution_compute", "execution:execution", _compute, "2.28", "Runs a model."),
)
# fmt: on

FUNCTIONS = tuple(calling.function(row) for row in ROWS)
