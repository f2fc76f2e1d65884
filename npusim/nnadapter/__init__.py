"""NNAdapter in Python: one model on several simulated devices.

    from npusim import nnadapter as nna

    model = nna.Model()
    x = model.add_operand(nna.OperandType(nna.FLOAT32, [1, 3, 32, 32]))
    y = model.relu(x)
    model.identify(inputs=[x], outputs=[y])
    model.finish()
    context = nna.Context([nna.Device.acquire("npusim"), nna.Device.acquire("npusim_host")])
    compilation = nna.Compilation(model, context)
    compilation.finish()
    execution = nna.Execution(compilation)
    execution.set_input(0, array)
    result = execution.compute()

Names are imported when they are first used: besides those of `__all__`, every name of the codes, such as
`nna.CONV_2D`, `nna.FUSED_RELU`, `nna.NCHW`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from npusim.frontends.nnadapter.nnadapter_codes import (
        AutoPad,
        DeviceInternalError,
        DeviceNotFound,
        DeviceType,
        FeatureNotSupported,
        FuseCode,
        InterpolateMode,
        InvalidDimensions,
        InvalidParameter,
        Layout,
        Lifetime,
        NNAdapterError,
        OperationType,
        OutOfMemory,
        PadMode,
        Precision,
        ResultCode,
    )
    from npusim.frontends.nnadapter.operand import Operand, Operation
    from npusim.frontends.nnadapter.operand_type import OperandType
    from npusim.nnadapter.cache.nnc_container import (
        BadChecksum,
        BadContent,
        BadMagic,
        BadVersion,
        CacheRefused,
        Truncated,
        WrongDevice,
        WrongMachine,
        WrongToken,
        read_cache,
        write_cache,
    )
    from npusim.nnadapter.cache_store import CacheWarning
    from npusim.nnadapter.compilation import Compilation
    from npusim.nnadapter.config import Config, check_nnadapter_device_name
    from npusim.nnadapter.device_context import Context, Device
    from npusim.nnadapter.device_partition import Partition
    from npusim.nnadapter.device_result import Result
    from npusim.nnadapter.hal.driver import Argument, Cache, Driver, Properties, Submodel
    from npusim.nnadapter.hal.properties import PropertyWarning
    from npusim.nnadapter.hal.registry import devices, register, register_preset, unregister
    from npusim.nnadapter.model_execution import Execution
    from npusim.nnadapter.model_run import run
    from npusim.nnadapter.models import (
        Model,
        from_file,
        from_graph,
        from_nn_hal,
        from_nnef,
        from_onnx,
        from_tflite,
    )

_FRONT_END = "npusim.frontends.nnadapter"
_HOMES = {
    f"{_FRONT_END}.nnadapter_codes": "AutoPad DeviceType FuseCode InterpolateMode Layout Lifetime OperationType PadMode"
    " Precision ResultCode DeviceInternalError DeviceNotFound FeatureNotSupported InvalidDimensions InvalidParameter"
    " NNAdapterError OutOfMemory",
    f"{_FRONT_END}.operand": "Operand Operation",
    f"{_FRONT_END}.operand_type": "OperandType",
    "npusim.nnadapter.cache.nnc_container": "BadChecksum BadContent BadMagic BadVersion CacheRefused Truncated"
    " WrongDevice WrongMachine WrongToken read_cache write_cache",
    "npusim.nnadapter.cache_store": "CacheWarning",
    "npusim.nnadapter.compilation": "Compilation",
    "npusim.nnadapter.config": "Config check_nnadapter_device_name",
    "npusim.nnadapter.device_context": "Context Device",
    "npusim.nnadapter.device_partition": "Partition",
    "npusim.nnadapter.device_result": "Result",
    "npusim.nnadapter.hal.driver": "Argument Cache Driver Properties Submodel",
    "npusim.nnadapter.hal.properties": "PropertyWarning",
    "npusim.nnadapter.hal.registry": "devices register register_preset unregister",
    "npusim.nnadapter.model_execution": "Execution",
    "npusim.nnadapter.model_run": "run",
    "npusim.nnadapter.models": "Model from_file from_graph from_nn_hal from_nnef from_onnx from_tflite",
}
"""The public names of each module; importing one imports its module only."""

__all__ = [
    "Argument", "AutoPad", "BadChecksum", "BadContent", "BadMagic", "BadVersion", "Cache", "CacheRefused",
    "CacheWarning", "Compilation", "Config", "Context", "Device", "DeviceInternalError", "DeviceNotFound",
    "DeviceType", "Driver", "Execution", "FeatureNotSupported", "FuseCode", "InterpolateMode", "InvalidDimensions",
    "InvalidParameter", "Layout", "Lifetime", "Model", "NNAdapterError", "Operand", "OperandType", "Operation",
    "OperationType", "OutOfMemory", "PadMode", "Partition", "Precision", "Properties", "PropertyWarning", "Result",
    "ResultCode", "Submodel", "Truncated", "WrongDevice", "WrongMachine", "WrongToken",
    "check_nnadapter_device_name", "devices", "from_file", "from_graph", "from_nn_hal", "from_nnef", "from_onnx",
    "from_tflite", "read_cache", "register", "register_preset", "run", "unregister", "write_cache",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names.split():
            value = globals()[name] = getattr(import_module(module), name)
            return value
    from npusim.frontends.nnadapter.nnadapter_codes import ENUMERATIONS

    for kind in ENUMERATIONS:
        if name in kind.__members__:
            value = globals()[name] = kind[name]
            return value
    raise AttributeError(f"module 'npusim.nnadapter' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
