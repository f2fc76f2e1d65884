"""The NN HAL in Python: npusim as a driver that prepares and executes models.

    import npusim.hal as hal
    with hal.Device("edge-128") as device:
        prepared = device.prepareModel(model).unwrap()
        execution = prepared.execute(request).unwrap()

Names are imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from npusim.frontends.nn_hal.enumerations import (
        DeviceStatus,
        ErrorStatus,
        FusedActivationFunc,
        HalVersion,
        LoopTimeoutDurationNs,
        OperandLifeTime,
        OperandType,
        OperationType,
    )
    from npusim.frontends.nn_hal.fault import HalError, Result
    from npusim.frontends.nn_hal.hal_file import load, save
    from npusim.frontends.nn_hal.structs import (
        Capabilities,
        DataLocation,
        ExtensionNameAndPrefix,
        Model,
        Operand,
        Operation,
        OutputShape,
        PerformanceInfo,
        Request,
        RequestArgument,
        Subgraph,
        SymmPerChannelQuantParams,
        Timing,
    )
    from npusim.hal.device import Device
    from npusim.hal.launches import Execution
    from npusim.hal.prepared import PreparedModel

__all__ = [
    "Capabilities",
    "DataLocation",
    "Device",
    "DeviceStatus",
    "ErrorStatus",
    "Execution",
    "ExtensionNameAndPrefix",
    "FusedActivationFunc",
    "HalError",
    "HalVersion",
    "LoopTimeoutDurationNs",
    "Model",
    "Operand",
    "OperandLifeTime",
    "OperandType",
    "Operation",
    "OperationType",
    "OutputShape",
    "PerformanceInfo",
    "PreparedModel",
    "Request",
    "RequestArgument",
    "Result",
    "Subgraph",
    "SymmPerChannelQuantParams",
    "Timing",
    "load",
    "save",
]

_MODULES = (
    "npusim.frontends.nn_hal.enumerations",
    "npusim.frontends.nn_hal.structs",
    "npusim.frontends.nn_hal.fault",
    "npusim.frontends.nn_hal.hal_file",
    "npusim.hal.launches",
    "npusim.hal.prepared",
    "npusim.hal.device",
)
"""The modules that define these names, those that import least first."""


def __getattr__(name: str) -> Any:
    if name in __all__:
        for module in map(import_module, _MODULES):
            if hasattr(module, name):
                value = globals()[name] = getattr(module, name)
                return value
    raise AttributeError(f"module 'npusim.hal' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
