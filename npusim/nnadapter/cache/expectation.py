"""What a compilation expects of a kept model: its token, the devices of its context, and what these are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from npusim.isa.base.plain_values import printable
from npusim.isa.base.version import npusim_version
from npusim.isa.hardware.hardware import Hardware
from npusim.nnadapter.cache.record import Record
from npusim.nnadapter.cache.refusals import WrongDevice, WrongMachine, WrongToken
from npusim.numbers.provenance import digest_of_hardware


class DeviceFacts(NamedTuple):
    """What of a device of a context a compiled model depends on.

    version:  of its driver.
    hardware: of a simulated device, the core of the context's system, with the memories that it shares.
    """

    name: str
    version: int
    hardware: Hardware | None = None


def machine_digest(devices: Iterable[DeviceFacts]) -> str:
    """Return the devices of a context in order as text: name, driver version and SHA-256 of the hardware of each."""
    return ", ".join(
        f"{device.name} {device.version} {'-' if device.hardware is None else digest_of_hardware(device.hardware)}"
        for device in devices
    )


def _by_device(digest: str) -> dict[str, str]:
    """Split a machine digest into version and hardware hash by device name."""
    parts = (part.partition(" ") for part in digest.split(", "))
    return {name: rest for name, _, rest in parts}


@dataclass(frozen=True, slots=True)
class Expectation:
    """What must hold of a kept model before a context takes it.

    properties: those that the context was made with, as one text.
    """

    token: str
    devices: Sequence[DeviceFacts]
    properties: str

    @property
    def machine_digest(self) -> str:
        """Of the context's devices."""
        return machine_digest(self.devices)

    def require(self, record: Record) -> None:
        """Raises WrongToken, WrongDevice or WrongMachine for a compiled model of something else."""
        if record.token != self.token:
            raise WrongToken(
                f'kept under token "{printable(record.token)}", must be "{printable(self.token)}"'
            )
        names = [device.name for device in self.devices]
        for name in record.devices:
            if name not in names:
                raise WrongDevice(
                    f'compiled for device "{printable(name)}", the context has {", ".join(map(printable, names))}'
                )
        digests, wanted = _by_device(record.machine_digest), _by_device(self.machine_digest)
        if list(digests) != names:
            listed = ", ".join(map(printable, digests))
            raise WrongDevice(
                f'compiled for the devices "{listed}", the context has {", ".join(map(printable, names))}'
            )
        for what, kept, here in (
            ("npusim", record.npusim_version, npusim_version()),
            *((f"another {name}: version and machine digest", digests[name], wanted[name]) for name in names),
            ("properties", record.properties, self.properties),
        ):
            if kept != here:
                raise WrongMachine(f'compiled with {what} "{printable(kept)}", must be "{printable(here)}"')
