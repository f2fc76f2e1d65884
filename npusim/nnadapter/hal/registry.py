"""The registry of devices: those that ship with npusim, hardware presets, and drivers of users."""

from __future__ import annotations

import atexit
import re
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from npusim.frontends.nnadapter.nnadapter_codes import (
    DeviceInternalError,
    DeviceNotFound,
    DeviceType,
    InvalidParameter,
    NNAdapterError,
    OutOfMemory,
    faults_as,
    text_of,
)
from npusim.isa.base.errors import NpusimError, nearest
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.plain_values import printable
from npusim.isa.hardware import file as hardware_file
from npusim.isa.hardware.hardware import Hardware
from npusim.nnadapter.hal.events import DEVICES, log
from npusim.session import api

DriverClass = TypeVar("DriverClass", bound=type)

MEMBERS = (
    *("open", "close", "create_context", "destroy_context", "create_program", "destroy_program"),
    "execute_program",
)
"""The methods that a driver must have; `validate_program` is optional."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def _shipped(module: str, name: str) -> Callable[[], type]:
    return lambda: getattr(import_module(f"npusim.nnadapter.hal.{module}"), name)


def _simulated(device: str, machine: Callable[[], Hardware]) -> Callable[[], type]:
    return lambda: _shipped("simulated", "accelerator")()(device, machine)


_SHIPPED: Mapping[str, Callable[[], type]] = {
    "npusim": _simulated("npusim", lambda: api.hardware(api.DEFAULT_HARDWARE)),
    "npusim_host": _shipped("simulated", "Host"),
    **{name: _simulated(name, partial(api.hardware, name)) for name in hardware_file.list_presets()},
    "builtin_device": _shipped("simulated", "Builtin"),
    "fake_device": _shipped("fake", "Fake"),
}
"""The driver of each device that ships with npusim; it is imported when the device is first acquired."""

_REGISTERED: dict[str, Callable[[], type]] = {}


@dataclass(frozen=True, eq=False)
class Opened:
    """An open driver, which stays open until the process ends."""

    driver: Any
    device: object


_OPENED: dict[str, Opened] = {}


def devices() -> list[str]:
    """Return the names of all devices, user-registered ones at the end."""
    return [*_SHIPPED, *_REGISTERED]


def register(driver: DriverClass) -> DriverClass:
    """Register a driver under its name and return the class, so that this can be used as a decorator.

    Raises InvalidParameter for a class that lacks a member, and for a name that another driver has.
    """
    if not isinstance(driver, type):
        raise InvalidParameter(f"register: is {text_of(driver)}, must be a class such as nna.Driver")
    name = getattr(driver, "name", None)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidParameter(
            f"{driver.__name__}.name: is {text_of(name)}, must be up to 64 letters, digits, '_' and '-'"
        )
    for fault in _faults(driver):
        raise InvalidParameter(f"{driver.__name__} ({name}): {fault}")
    _take(name, lambda: driver)
    return driver


def _faults(driver: type) -> list[str]:
    faults = []
    if not isinstance(getattr(driver, "vendor", None), str):
        faults.append("vendor must be a text")
    kind, version = getattr(driver, "type", None), getattr(driver, "version", None)
    if isinstance(kind, bool) or kind not in tuple(DeviceType):
        faults.append(f"type is {text_of(kind)}, must be CPU, GPU or ACCELERATOR")
    if isinstance(version, bool) or not isinstance(version, int):
        faults.append(f"version is {text_of(version)}, must be a whole number")
    keys = getattr(driver, "keys", {})
    if not isinstance(keys, Mapping) or not all(
        isinstance(key, str) and callable(parser) for key, parser in keys.items()
    ):
        faults.append("keys must map names of properties to what makes values of their texts")
    from npusim.nnadapter.hal.driver import Driver

    for member in MEMBERS:
        method = getattr(driver, member, None)
        left = method is getattr(Driver, member) and member in ("create_program", "execute_program")
        if not callable(method) or left:
            faults.append(f"has no {member}")
    return faults


def register_preset(name: str, hardware: str | Path | Hardware) -> None:
    """Register a simulated NPU under a name: a preset, a hardware file, or a `Hardware`.

    Raises InvalidParameter for a name that another device has, and for a file with faults.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidParameter(f"name {text_of(name)}: must be up to 64 letters, digits, '_' and '-'")
    if not isinstance(hardware, str | Path | Hardware):
        raise InvalidParameter(
            f"{name}: hardware is {text_of(hardware)}, must be a preset, a file or a Hardware"
        )
    with faults_as(InvalidParameter):
        machine = hardware if isinstance(hardware, Hardware) else api.hardware(hardware)
    _take(name, _simulated(name, lambda: machine))


def _take(name: str, driver: Callable[[], type]) -> None:
    if name in devices():
        raise InvalidParameter(f"{name}: a device of this name is registered already")
    _REGISTERED[name] = driver


def unregister(name: str) -> None:
    """Remove a registered device; acquired ones stay usable.

    Raises DeviceNotFound for a device that was not registered.
    """
    if not isinstance(name, str) or name not in _REGISTERED:
        raise DeviceNotFound(f"{text_of(name)}: is no device that was registered")
    del _REGISTERED[name]
    opened = _OPENED.pop(name, None)
    if opened is not None:
        atexit.register(_close, name, opened)


def opened(name: object) -> Opened:
    """Return the open driver of a device, opening it at the first call of the process.

    Raises InvalidParameter for anything but a name, DeviceNotFound for a name that no device has, with the most similar
    one, and for a device that cannot be opened.
    """
    if not isinstance(name, str) or not name:
        raise InvalidParameter(f"device: is {text_of(name)}, must be a name, such as {devices()[0]!r}")
    if name not in _OPENED:
        _OPENED[name] = _open(name)
    return _OPENED[name]


def _open(name: str) -> Opened:
    load = _SHIPPED.get(name) or _REGISTERED.get(name)
    if load is None:
        near = nearest(name, devices())
        hint = f"did you mean {near}? There" if near else "there"
        raise DeviceNotFound(f"device {printable(name)!r}: does not exist, {hint} are {', '.join(devices())}")
    try:
        driver = load()()
        device = driver.open()
    except NNAdapterError as fault:
        raise DeviceNotFound(f"device {text_of(name)}: cannot be opened: {fault}") from fault
    except Exception as fault:
        text = str(fault) if isinstance(fault, NpusimError) else f"{type(fault).__name__}: {fault}"
        raise DeviceNotFound(f"device {text_of(name)}: cannot be opened: {text}") from fault
    log(DEVICES, lambda: f"device {name}: opened")
    return Opened(driver, device)


def called(device: str, method: str, call: Callable[[], Any]) -> Any:
    """Call a method of a driver and return its result. Raises DeviceInternalError if it fails."""
    try:
        return call()
    except NNAdapterError:
        raise
    except MemoryError:
        raise OutOfMemory(f"{device}: {method}: there is no memory left") from None
    except NpusimError as fault:
        raise DeviceInternalError(f"{device}: {fault}") from fault
    except Exception as fault:
        raise DeviceInternalError(f"{device}: {method}: {type(fault).__name__}: {fault}") from fault


def _close(name: str, one: Opened) -> None:
    try:
        one.driver.close(one.device)
    except Exception as fault:  # nobody could catch it while the process ends
        import warnings

        warnings.warn(f"{name}: close: {type(fault).__name__}: {fault}", stacklevel=1)


@atexit.register
def _close_all() -> None:
    for name, one in _OPENED.items():
        _close(name, one)
