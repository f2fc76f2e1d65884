"""Devices of an application, and contexts: devices that compute models together, with common properties."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol, Self

from npusim.frontends.nnadapter.model_building import Model
from npusim.frontends.nnadapter.nnadapter_codes import (
    DeviceInternalError,
    DeviceType,
    Event,
    FeatureNotSupported,
    InvalidDimensions,
    InvalidParameter,
    text_of,
)
from npusim.frontends.nnadapter.operation_graphs import Network
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.hardware.hardware import Hardware
from npusim.nnadapter.gears import networks
from npusim.nnadapter.hal import device_machines, events, properties, registry
from npusim.nnadapter.hal.driver import Parser, Properties, Submodel
from npusim.nnadapter.hal.registry import Opened, called
from npusim.nnadapter.hal.simulated import Simulated, SimulatedContext

_OWN_KEYS: Mapping[str, Parser] = {device_machines.PARTITION: device_machines.mode}
"""Properties of the context itself, with their parsers."""


class Device:
    """A device that the application acquired with `Device.acquire`."""

    def __init__(self, name: str) -> None:
        """Raises DeviceNotFound if no device has the name, or if it cannot be opened."""
        self._opened = registry.opened(name)
        self._name = name
        self._released = False

    @classmethod
    def acquire(cls, name: str) -> Device:
        """Return the device of a name; the first call in a process opens its driver.

        Raises InvalidParameter for anything but a name, DeviceNotFound with the existing names.
        """
        return cls(name)

    def release(self) -> None:
        """Release the device, which contexts that have it keep; its driver stays open."""
        self._released = True

    @property
    def released(self) -> bool:
        """Whether `release` was called."""
        return self._released

    @property
    def name(self) -> str:
        """The name of the device."""
        return str(self._held("name"))

    @property
    def vendor(self) -> str:
        """The vendor of the device."""
        return str(self._held("vendor"))

    @property
    def type(self) -> DeviceType:
        """CPU, GPU or ACCELERATOR."""
        return DeviceType(self._held("type"))

    @property
    def version(self) -> int:
        """The version of the driver."""
        return int(self._held("version"))

    @property
    def opened(self) -> registry.Opened:
        """The open driver. Raises InvalidParameter for a released device."""
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


class Holder(Protocol):
    """An owner of programs of a context: a compilation."""

    def destroy(self) -> None:
        """Free the programs."""


@dataclass(frozen=True, eq=False)
class Member:
    """A device in a context; `context` is the object that its driver created for it."""

    name: str
    type: DeviceType
    opened: Opened
    context: Any

    @property
    def driver(self) -> Any:
        """The driver of the device."""
        return self.opened.driver

    @property
    def machine(self) -> Hardware | None:
        """The hardware in the system of the context; None for a device that npusim does not simulate."""
        return self.context.machine if isinstance(self.context, SimulatedContext) else None

    @property
    def is_cpu(self) -> bool:
        """Whether the device is a CPU, which gets forced operations and those that no NPU supports."""
        return self.type is DeviceType.CPU

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of the driver. Raises DeviceInternalError if it fails."""
        return called(self.name, method, lambda: getattr(self.driver, method)(*arguments))

    def reasons(self, submodel: Submodel) -> list[str | None]:
        """Return why the device cannot compute each operation, or None. Raises FeatureNotSupported if it cannot say."""
        if getattr(self.driver, "validate_program", None) is None:
            raise FeatureNotSupported(
                f"{self.name}: its driver has no validate_program, so nobody can ask it"
            )
        answers = list(self.call("validate_program", self.context, submodel))
        if len(answers) != len(submodel.places):
            raise FeatureNotSupported(
                f"{self.name}: validate_program answers for {len(answers)} of {len(submodel.places)} operations"
            )
        return [
            None if answer is None or answer is True else str(answer or "is not supported")
            for answer in answers
        ]


class Supported(list[bool]):
    """Whether some device of the context can compute each operation, in the order in which operations were added.

    reasons: per operation, why devices cannot, by device name.
    """

    def __init__(self, reasons: Sequence[Mapping[str, str]], devices: int) -> None:
        super().__init__(len(row) < devices for row in reasons)
        self.reasons = [dict(row) for row in reasons]


class Context:
    """Devices that compute models together; by default each operation runs on the first device that can compute it.

    members: the devices in order.
    """

    def __init__(
        self,
        devices: Iterable[Device],
        properties: str | None = "",
        callback: Callable[..., Any] | None = None,
    ) -> None:
        """Create a context for devices.

        properties: `KEY=VALUE;KEY=VALUE;`, passed to every device; the environment may set keys that are not in them.
        callback:   (event_id, user_data), passed to the drivers. Simulated devices call it when a run begins and ends,
                    with an `Event` and the name of the device. It must return 0 or None; anything else ends the run.

        Raises InvalidParameter if there are no devices, and for properties that are malformed or that a device refuses.
        """
        listed = _listed(devices)
        if callback is not None and not callable(callback):
            raise InvalidParameter(f"callback: is {text_of(callback)}, must be a function or None")
        self._callback = callback
        self._text = properties or ""
        self._settings = ""
        self._values: dict[str, Any] = {}
        self._destroyed = False
        self._compilations: weakref.WeakSet[Holder] = weakref.WeakSet()
        self.members: tuple[Member, ...] = ()
        self._open(listed, properties, callback)

    def _open(self, devices: Sequence[Device], text: str | None, callback: Any) -> None:
        stated = properties.parse(text)
        keys = [dict(getattr(device.opened.driver, "keys", {})) for device in devices]
        known = {*_OWN_KEYS, *(key for own in keys for key in own)}
        properties.warn_of_unknown(stated, known)
        self._settings = properties.settled(known, stated)
        self._values = properties.values(_OWN_KEYS, stated)
        members: list[Member] = []
        try:
            for device, own in zip(devices, keys, strict=True):
                given = Properties(self._text, properties.values(own, stated))
                members.append(_member(device, given, callback))
            _share(members)
        except Exception:
            for member in reversed(members):
                with suppress(Exception):
                    member.call("destroy_context", member.context)
            raise
        self.members = tuple(members)
        events.log(
            events.DEVICES, lambda: f"context: {', '.join(self.devices)}; {self._text or 'no properties'}"
        )

    @property
    def devices(self) -> list[str]:
        """The names of the devices."""
        return [member.name for member in self.members]

    @property
    def properties(self) -> str:
        """The properties as given."""
        return self._text

    @property
    def settings(self) -> str:
        """The properties, completed from the environment and sorted by key."""
        return self._settings

    @property
    def mode(self) -> str:
        """The default partition mode: the property NPUSIM_PARTITION, or "order"."""
        return str(self._values.get(device_machines.PARTITION, device_machines.ORDER))

    @property
    def destroyed(self) -> bool:
        """Whether `destroy` was called."""
        return self._destroyed

    @property
    def cores(self) -> tuple[Member, ...]:
        """The simulated devices as cores of one system; the first one owns memories, host and clock."""
        simulated = [member for member in self.members if member.machine is not None]
        return tuple(sorted(simulated, key=lambda member: member.type is DeviceType.CPU))

    def member(self, name: str) -> Member:
        """Return the device of a name. Raises KeyError if the context lacks it."""
        return {member.name: member for member in self.members}[name]

    def require_open(self) -> None:
        """Raise InvalidParameter for a destroyed context."""
        if self._destroyed:
            raise InvalidParameter("context: is destroyed")

    def supported_operations(self, model: Model) -> Supported:
        """Return which operations of a finished model the devices can compute.

        Raises InvalidParameter for anything but a finished model, FeatureNotSupported if no driver can say.
        """
        self.require_open()
        if not isinstance(model, Model):
            raise InvalidParameter(f"model: is {text_of(model)}, must be a Model")
        several = networks(model)
        if not several:
            raise InvalidDimensions(
                f"{model.name}: sizes of inputs are open; give shapes that they may take (dynamic)"
            )
        network = several[0]
        rows = reasons(self.members, network)
        ordered: list[dict[str, str]] = [{} for _ in rows]
        for operation, row in zip(model.sorted_operations or (), rows, strict=False):
            ordered[operation.index] = row
        return Supported(ordered if model.sorted_operations else rows, len(self.members))

    def tell(self, device: str, event: Event) -> None:
        """Call the callback with a device's event. Raises DeviceInternalError if it fails or returns an error code."""
        callback = self._callback
        if callback is None:
            return
        answer = called(device, "callback", lambda: callback(int(event), device))
        if answer is not None and not (isinstance(answer, int) and answer == 0):
            raise DeviceInternalError(
                f"{device}: callback returns {text_of(answer)} for {event.name}, must be 0"
            )

    def holds(self, compilation: Holder) -> None:
        """Register a compilation, whose programs are freed before the context is destroyed."""
        self._compilations.add(compilation)

    def destroy(self) -> None:
        """Destroy the programs of the context's compilations, then the context of each driver."""
        if self._destroyed:
            return
        for compilation in list(self._compilations):
            compilation.destroy()
        self._destroyed = True
        for member in reversed(self.members):
            member.call("destroy_context", member.context)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.destroy()

    def __repr__(self) -> str:
        return f"<Context {', '.join(self.devices)}{', destroyed' if self._destroyed else ''}>"


def _listed(devices: object) -> list[Device]:
    if not isinstance(devices, Iterable) or isinstance(devices, (str, bytes)):
        raise InvalidParameter(f"devices: is {text_of(devices)}, must be a list of devices")
    listed = list(devices)
    if not listed:
        raise InvalidParameter("devices: are none, a context must have one or more")
    names: list[str] = []
    for number, device in enumerate(listed):
        if not isinstance(device, Device):
            raise InvalidParameter(f"devices[{number}]: is {text_of(device)}, must be a Device")
        if device.name in names:
            raise InvalidParameter(f"devices[{number}]: {device.name} is there already")
        names.append(device.name)
    return listed


def _member(device: Device, given: Properties, callback: Any) -> Member:
    opened = device.opened
    context = called(
        device.name,
        "create_context",
        lambda: opened.driver.create_context(opened.device, given, callback),
    )
    return Member(device.name, device.type, opened, context)


def _share(members: Sequence[Member]) -> None:
    """Make simulated devices cores of one system with memory and host of the first NPU; a CPU device is that host."""
    simulated = [member for member in members if isinstance(member.driver, Simulated)]
    with_cpu = any(member.type is DeviceType.CPU for member in members)
    owner = next((member for member in simulated if not member.is_cpu), *simulated[:1] or (None,))
    if owner is None:
        return
    changes = {key: value for member in simulated for key, value in member.context.host_changes.items()}
    first = device_machines.with_changes(owner.context.machine, changes, owner.name)
    first = device_machines.sharing(first, first) if len(simulated) > 1 else first
    for member in simulated:
        member.context.with_cpu = with_cpu
        if member is owner or member.is_cpu:
            member.context.machine = first
        else:
            member.context.machine = device_machines.sharing(member.context.machine, first)


def reasons(members: Sequence[Member], network: Network) -> list[dict[str, str]]:
    """Return per operation of the network why devices cannot compute it, by device name.

    Raises FeatureNotSupported if no driver can say.
    """
    whole = Submodel.whole(network)
    rows: list[dict[str, str]] = [{} for _ in network.steps]
    silent = []
    for member in members:
        try:
            texts: Sequence[str | None] = member.reasons(whole)
        except FeatureNotSupported as fault:
            silent.append(str(fault))
            texts = [str(fault)] * len(rows)
        for row, reason in zip(rows, texts, strict=True):
            if reason is not None:
                row[member.name] = reason
                events.log(events.REASONS, lambda: f"{member.name}: {reason}")  # noqa: B023 - called at once
    if len(silent) == len(members):
        raise FeatureNotSupported("; ".join(silent))
    return rows
