"""The provenance of a run: command, settings, versions and digests that reproduce it, without time, folder or host."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Literal

from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.version import npusim_version, sources_digest
from npusim.isa.hardware import file as hardware_file
from npusim.isa.hardware.agreement import (
    UNSTATED,
    Agreement,
    Quantity,
    Standing,
    claim_to_dict,
    percent,
    standing,
)
from npusim.isa.hardware.hardware import Hardware

Inputs = Literal["random", "given", "none"]


@dataclass(frozen=True, slots=True)
class Provenance:
    """How a result came about: the command, compiler settings and digests that reproduce it.

    command:      a command that gives the same numbers, with file names without folders; None for objects made in
                  Python.
    effort:       optimization level of the compiler, as `npusim run --effort`; None for a program compiled before.
    seed:         seed of the random inputs; None for given inputs, and if no data was executed.
    inputs:       "random", "given", or "none" if no data was executed.
    model_sha256: digest of the file of the model or program, or of a built-in model; None for objects made in Python.
    shapes:       sizes that the model leaves open, as `npusim run --shape`; None if none were given.
    """

    command: str | None = None
    effort: str | int | None = None
    seed: int | None = None
    inputs: Inputs = "none"
    model_sha256: str | None = None
    shapes: str | None = None

    def to_dict(self, hardware: Hardware) -> dict[str, Any]:
        """Return the block of the JSON: versions, these fields, and the digest of the hardware without its name."""
        return versions() | asdict(self) | {"hardware_sha256": digest_of_hardware(hardware)}


def versions() -> dict[str, Any]:
    """Return the versions of npusim, Python, and the packages that numbers pass through."""
    import platform

    import numpy
    import simpy

    return {
        "npusim": npusim_version(),
        "sources_sha256": sources_digest(),
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "simpy": simpy.__version__,
    }


def digest_of_hardware(hardware: Hardware) -> str:
    """Return the SHA-256 of all parameters but name and description."""
    import json
    from hashlib import sha256

    plain = hardware_file.to_dict(hardware)
    numbers = {key: value for key, value in plain.items() if key not in ("name", "description")}
    return sha256(json.dumps(numbers, sort_keys=True).encode()).hexdigest()


MOST_HOST_SHARE = 0.1
"""Largest share of host time for which errors are stated: they were measured on runs dominated by the NPU."""


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """The known error of the latency and the energy of a run.

    standing: relation of its hardware to the presets with a measured error.
    unlike:   why the run is not comparable with the measured ones; empty if it is.
    """

    standing: Standing
    unlike: str = ""

    def claim(self, quantity: Quantity) -> Agreement | None:
        """Return the measured agreement that holds for a number of the run; None if none does."""
        return None if self.unlike else self.standing.claim(quantity)

    def error(self, quantity: Quantity) -> float | None:
        """Return the typical error as a share, which is no upper limit; None if none is known."""
        claim = self.claim(quantity)
        return None if claim is None else claim.error

    def words(self, quantity: Quantity) -> str:
        """Return the claim, or why none holds."""
        if self.unlike and self.standing.claim(quantity) is not None:
            return f"{UNSTATED}: {self.unlike}"
        return self.standing.words(quantity)

    def short(self, quantity: Quantity) -> str:
        """Return the claim in few words: "typical error 2.7 %"."""
        claim = self.claim(quantity)
        if claim is not None:
            return f"typical error {percent(claim.error)}"
        return "idealised array" if self.standing.idealised else UNSTATED

    def to_dict(self) -> dict[str, Any]:
        """Return the block `agreement` of the JSON."""
        return self.standing.to_dict() | {
            "latency": claim_to_dict(self.claim("latency"), self.words("latency")),
            "energy": claim_to_dict(self.claim("energy"), self.words("energy")),
        }


def uncertainty(
    hardware: Hardware, host_share: float = 0.0, devices: int = 1, estimate: str = ""
) -> Uncertainty:
    """Return the known error of a run.

    host_share: share of the time that the host takes, 0 to 1.
    devices:    number of NPUs and hosts that ran a part of it.
    estimate:   what is unknown about its program, such as operators; empty if nothing is.
    """
    unlike = estimate
    if not unlike and devices > 1:
        unlike = f"{devices} devices, every row has one"
    elif not unlike and host_share > MOST_HOST_SHARE and not hardware.is_host_alone:
        unlike = f"the host takes {100 * host_share:.0f} % of the time"
    return Uncertainty(standing(hardware), unlike)
