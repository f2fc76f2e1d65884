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

_ROOM = "npusim.frontends.nn_hal"
_HOMES = {
    f"{_ROOM}.enumerations": (
        *("DeviceStatus", "ErrorStatus", "FusedActivationFunc", "HalVersion", "LoopTimeoutDurationNs"),
        *("OperandLifeTime", "OperandType", "OperationType"),
    ),
    f"{_ROOM}.file": ("load", "save"),
    f"{_ROOM}.fault": ("HalError", "Result"),
    f"{_ROOM}.structs": (
        *(
            "Capabilities",
            "DataLocation",
            "ExtensionNameAndPrefix",
            "Model",
            "Operand",
            "Operation",
            "OutputShape",
        ),
        "PerformanceInfo",
        *("Request", "RequestArgument", "Subgraph", "SymmPerChannelQuantParams", "Timing"),
    ),
    "npusim.hal.device": ("Device",),
    "npusim.hal.launches": ("Execution",),
    "npusim.hal.prepared": ("PreparedModel",),
}
"""The modules that the names come from."""


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(module), name)
            return value
    raise AttributeError(f"module 'npusim.hal' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
