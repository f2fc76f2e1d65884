"""A device, as the application has it."""

from __future__ import annotations

from typing import Any, Self

from npusim.frontends.nnadapter.codes import DeviceType
from npusim.frontends.nnadapter.errors import InvalidParameter
from npusim.nnadapter.hal import registry


class Device:
    """A device; `Device.acquire` gives one."""

    def __init__(self, name: str) -> None:
        """Raises DeviceNotFound for a name that no device has, or one that cannot be opened."""
        self._opened = registry.opened(name)
        self._name = name
        self._released = False

    @classmethod
    def acquire(cls, name: str) -> Device:
        """The device of a name; its driver is opened at the first call of the process.

        Raises InvalidParameter for what is no name, DeviceNotFound with the names that exist.
        """
        return cls(name)

    def release(self) -> None:
        """The application does not need it any more; contexts that have it keep it. The driver stays open."""
        self._released = True

    @property
    def released(self) -> bool:
        """Whether `release` was called."""
        return self._released

    @property
    def name(self) -> str:
        """Its name."""
        return str(self._held("name"))

    @property
    def vendor(self) -> str:
        """Who makes it."""
        return str(self._held("vendor"))

    @property
    def type(self) -> DeviceType:
        """CPU, GPU or ACCELERATOR."""
        return DeviceType(self._held("type"))

    @property
    def version(self) -> int:
        """Of its driver."""
        return int(self._held("version"))

    @property
    def opened(self) -> registry.Opened:
        """Its driver. Raises InvalidParameter for a device that is released."""
        self._held("name")
        return self._opened

    def _held(self, name: str) -> Any:
        if self._released:
            raise InvalidParameter(f"device {self._name}: is released")
        return self._name if name == "name" else getattr(self._opened.driver, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"<Device {self._name}{', released' if self._released else ''}>"
