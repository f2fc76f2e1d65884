"""How far the latency and the energy of a run may be off: what rows of docs/silicon.md say of its hardware, where the
run is like these rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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

MOST_HOST_SHARE = 0.1
"""Of the time of a run: rows are about NPUs, so one that waits longer for its host is not like them."""


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """What may be said of the error of a run.

    standing: how its hardware stands to the presets.
    unlike:   why the run is not like the rows that these were measured by; empty if it is.
    """

    standing: Standing
    unlike: str = ""

    def claim(self, quantity: Quantity) -> Agreement | None:
        """The agreement that holds for a number of the run; None if none does."""
        return None if self.unlike else self.standing.claim(quantity)

    def error(self, quantity: Quantity) -> float | None:
        """The typical error, a share of 1; no bound. None where none is known."""
        claim = self.claim(quantity)
        return None if claim is None else claim.error

    def words(self, quantity: Quantity) -> str:
        """The claim, or why there is none."""
        if self.unlike and self.standing.claim(quantity) is not None:
            return f"{UNSTATED}: {self.unlike}"
        return self.standing.words(quantity)

    def short(self, quantity: Quantity) -> str:
        """The claim in few words: "typical error 2.7 %"."""
        claim = self.claim(quantity)
        if claim is not None:
            return f"typical error {percent(claim.error)}"
        return "idealised array" if self.standing.idealised else UNSTATED

    def to_dict(self) -> dict[str, Any]:
        """The block `agreement` of the JSON."""
        return self.standing.to_dict() | {
            "latency": claim_to_dict(self.claim("latency"), self.words("latency")),
            "energy": claim_to_dict(self.claim("energy"), self.words("energy")),
        }


def uncertainty(
    hardware: Hardware, host_share: float = 0.0, devices: int = 1, estimate: str = ""
) -> Uncertainty:
    """Of a run on a hardware. host_share: of its time, 0 to 1; devices: how many NPUs and hosts had parts of it;
    estimate: what of its program is not known.
    """
    if estimate:
        return Uncertainty(standing(hardware), estimate)
    if devices > 1:
        return Uncertainty(standing(hardware), f"{devices} devices, every row has one")
    if host_share > MOST_HOST_SHARE and not hardware.is_host_alone:
        return Uncertainty(standing(hardware), f"the host takes {100 * host_share:.0f} % of the time")
    return Uncertainty(standing(hardware))
