"""What a run gives back: the outputs, and every number about it, typed and as the JSON of `--json`.

Numbers are defined where they are held, here and in `npusim.numbers.layers`; `npusim.numbers.measure` computes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

from npusim.isa.base.tensor import Array
from npusim.isa.base.version import npusim_version
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.memories import Space
from npusim.isa.instructions.actions import port_actions
from npusim.isa.program.program import Program
from npusim.machine.trace import Execution
from npusim.numbers import answer as answers
from npusim.numbers import power, timeline
from npusim.numbers.area import Area, area
from npusim.numbers.bounds import LowerBound
from npusim.numbers.energy import Energy
from npusim.numbers.layers import LayerResult, Piece, layer_results, pieces
from npusim.numbers.losses import Accounts, accounts
from npusim.numbers.performance import PerformanceInfo
from npusim.numbers.power import Amounts, MovingPower, PowerOverTime
from npusim.numbers.provenance import Provenance, Uncertainty, uncertainty
from npusim.numbers.stage import Stage
from npusim.numbers.timeline import BusyCycles, Occupancy

if TYPE_CHECKING:
    import pandas

    from npusim.numbers.variants import WhatIf

SCHEMA_VERSION = 1
"""Version of the JSON; raised when a key changes its meaning or goes away, not when one is added."""


class RunCycles(int):
    """Cycles of a run: a number, the total, whose attributes say how long each unit works.

    `npusim.numbers.timeline.BusyCycles` defines the attributes: total, dma, mac, vector, host, stall. Units overlap,
    so they do not add up.
    """

    def __getattr__(self, name: str) -> int:
        """The cycles of a kind of unit; all of them are in `vars`."""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @classmethod
    def of(cls, busy: BusyCycles) -> RunCycles:
        """The total of `busy`, with its parts."""
        number = cls(busy.total)
        vars(number).update(busy.named())
        return number


class RunEnergy(float):
    """Energy of a run in microjoules: a number, the total, whose attributes say where it went.

    `npusim.numbers.energy.Energy` defines the attributes; total = dynamic + static + dram + host, and the values of
    by_component add up to the total too.
    """

    total: float
    dynamic: float
    static: float
    dram: float
    host: float
    by_component: Mapping[str, float]

    @classmethod
    def of(cls, energy: Energy) -> RunEnergy:
        """The total of `energy`, with its parts."""
        number = cls(energy.total)
        vars(number).update(total=energy.total, **asdict(energy))
        return number


@dataclass(frozen=True, slots=True)
class Power:
    """Power in milliwatts of everything that `RunEnergy` counts.

    average:   energy over latency.
    peak_10us: the highest average over any 10 us, inferences one after the other; what supply rails must carry.
    peak_1ms:  likewise over 1 ms; what a battery or a regulator must carry.

    The window does not depend on the run, so runs can be compared. No peak is below the average; where the window is
    as long as the run or longer, it is the average. See `npusim.numbers.power`.
    """

    average: float
    peak_10us: float
    peak_1ms: float

    @property
    def peak(self) -> float:
        """The peak that is meant where none is named: over 10 us."""
        return self.peak_10us

    def to_dict(self) -> dict[str, float]:
        """The power in the JSON."""
        return {"average": self.average, "peak": self.peak} | asdict(self)


@dataclass(frozen=True, slots=True)
class Tops:
    """Operations per second in 10^12; a multiply-accumulate is two.

    peak:    of the full MAC array, whatever the model.
    reached: of the layers on the MAC array, over the latency of the run.
    """

    peak: float
    reached: float


@dataclass(frozen=True, slots=True)
class DramBytes:
    """Bytes through the DRAM port in whole bursts: data read, data written, instructions fetched."""

    read: int
    write: int
    instructions: int


@dataclass(frozen=True, slots=True)
class WallTimes:
    """Seconds that npusim itself took on the computer it ran on; None for a step that was not taken.

    restore: of a compiled model that was kept; `compile` is then what compiling it had taken.
    """

    load: float | None = None
    compile: float | None = None
    simulate: float | None = None
    restore: float | None = None

    def to_dict(self) -> dict[str, float | None]:
        """The block of the JSON; `restore` is in it where something was restored."""
        steps = asdict(self)
        if self.restore is None:
            del steps["restore"]
        return steps


@dataclass(frozen=True, slots=True)
class DeviceResult:
    """A device of a context, and its part of a run.

    name:     in the context; core: its number in the system.
    is_cpu:   it is the host of the machine `hardware`, which stands by while it computes; else an NPU.
    launches: of its programs; layers: of these.
    cycles, time_us, energy_uj, macs: likewise; a device without a program at work draws no power.
    """

    name: str
    core: int
    is_cpu: bool
    hardware: Hardware
    launches: int
    layers: int
    cycles: int
    time_us: float
    energy_uj: float
    macs: int

    def to_dict(self) -> dict[str, Any]:
        """The device in the JSON."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        return plain | {"hardware": self.hardware.model_dump(mode="json")}


@dataclass(frozen=True, kw_only=True, repr=False)
class RunResult:
    """One execution of a program.

    outputs:    one array per model output, by position; empty when no data was executed (timing only). Outputs that
                are the same bytes, such as a tensor named twice, share them and are read-only.
    states:     what the model's state tensors hold afterwards, by name; empty when no data was executed.
    latency_ms: cycles / clock.
    macs:       multiply-accumulates of the network on any unit.
    mac_utilization: multiply-accumulates of layers on the MAC array / (cycles * multipliers), 0 to 1.
    scratchpad_peak_bytes: most bytes of the scratchpad that are allocated to buffers at the same time.
    program, execution: the program and its timeline, for reports.
    devices:     the devices of the context that it ran on, in order; empty outside of a context.
    source:      the model as given to `npusim.run`; None for a program that was simulated alone.
    provenance:  how to repeat the run: command, optimization level, seed, digest of the model.
    variants:    effect of a change of each hardware parameter; None unless what-if was asked for.
    tried:       the changes that were simulated for its answer; None unless levers were asked for.
    """

    outputs: list[Array]
    cycles: RunCycles
    latency_ms: float
    energy_uj: RunEnergy
    power_mw: Power
    performance_info: PerformanceInfo
    macs: int
    mac_utilization: float
    dram_bytes: DramBytes
    scratchpad_peak_bytes: int
    wall_s: WallTimes
    program: Program
    execution: Execution
    source: str | None = None
    variants: WhatIf | None = None
    tried: answers.Tried | None = None
    states: Mapping[str, Array] = field(default_factory=dict)
    devices: tuple[DeviceResult, ...] = ()
    provenance: Provenance = field(default_factory=Provenance)

    @property
    def model(self) -> str:
        """Name of the model."""
        return self.program.name

    @property
    def hardware(self) -> Hardware:
        """The hardware it ran on."""
        return self.program.hardware

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader of the model had to say, a line each."""
        return self.program.notes

    @cached_property
    def accounts(self) -> Accounts:
        """Bound and losses of the network and its layers, found when first asked for: sweeps do without."""
        return accounts(self.program, self.execution)

    @property
    def lower_bound(self) -> LowerBound:
        """Cycles that no schedule can beat on this hardware, by resource."""
        return self.accounts.network.bound

    @property
    def lost_cycles(self) -> Mapping[str, int]:
        """Cycles beyond the lower bound, by cause (`npusim.numbers.causes.CAUSES`); they add up to the difference."""
        return self.accounts.network.lost

    @property
    def answer(self) -> answers.Answer | None:
        """Return reason, bound and levers; None for a run without cycles."""
        return self._answer()

    def _answer(self) -> answers.Answer | None:
        """Return the answer from `tried`; nothing is simulated here."""
        return answers.answer(self.accounts.network, self.layers, self.tried, bool(self.devices))

    @cached_property
    def layers(self) -> tuple[LayerResult, ...]:
        """The operators of the model, in its order."""
        return layer_results(self.program, self.execution, self.accounts)

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """The stretches of layers on a device's NPU and on the host, in order, and the boundaries between them."""
        device = self.devices[0].name if self.devices else self.hardware.name
        return pieces(self.program, self.execution, self.layers, device, self.hardware.clock_mhz)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The programs that ran, one after the other."""
        return (Stage(self.program, self.execution, 0, int(self.cycles)),)

    @property
    def at_work(self) -> tuple[DeviceResult, ...]:
        """The devices that run a part of the model."""
        return tuple(device for device in self.devices if device.launches)

    @property
    def npus(self) -> tuple[tuple[str, Hardware], ...]:
        """The NPUs at work, or the machine whose host is, each with the name of its device; at least one."""
        found = tuple((device.name, device.hardware) for device in self.at_work if not device.is_cpu)
        return found or ((self.machine_name, self.hardware),)

    @property
    def several_devices(self) -> bool:
        """Whether there are devices to be told apart."""
        return len(self.at_work) > 1

    def layer_energy_uj(self) -> dict[str, Amounts]:
        """Energy by component and layer in uJ, float64 [layers] each; all of it adds up to the energy."""
        return power.layer_energy_uj(self.program, self.execution)

    def power_over_time(self, windows: int = power.WINDOWS) -> PowerOverTime:
        """Power in `windows` equal windows, fewer if the run has fewer cycles."""
        return power.power_over_time(self.program, self.execution, windows)

    def moving_power(self, bins: int = power.WINDOWS) -> MovingPower:
        """Power as charts show it, in `bins` equal bins, fewer if the run has fewer cycles."""
        return power.moving_power(self.program, self.execution, bins)

    def scratchpad_use(self) -> Occupancy:
        """Bytes of the scratchpad in use."""
        return timeline.scratchpad_use(self.program, self.execution.trace)

    @cached_property
    def uncertainty(self) -> Uncertainty:
        """How far latency and energy may be off."""
        ((_, hardware), *_) = self.npus
        share = self.cycles.host / self.cycles if self.cycles else 0.0
        estimate = (
            "operators are not known"
            if self.program.unknown_operators
            else "constants are known by their size only"
            if self.program.timing_only
            else ""
        )
        return uncertainty(hardware, share, len(self.at_work), estimate)

    @property
    def latency_error(self) -> float | None:
        """The typical error of the latency, a share of 1, by the rows of docs/silicon.md; None where none is known."""
        return self.uncertainty.error("latency")

    @property
    def energy_error(self) -> float | None:
        """Likewise of the energy."""
        return self.uncertainty.error("energy")

    @property
    def area(self) -> Area:
        """Silicon of what it ran on, the host not counted."""
        return area(self.hardware)

    @property
    def machine_name(self) -> str:
        """What it ran on: the hardware, or the devices at work."""
        return ", ".join(device.name for device in self.at_work) or self.hardware.name

    @property
    def inferences_per_s(self) -> float:
        """Inferences per second, one after the other."""
        return 1e3 / self.latency_ms if self.latency_ms else 0.0

    @cached_property
    def memory_bytes(self) -> Mapping[str, Mapping[str, int]]:
        """Bytes read (including instructions) and written at the port of each memory, in whole bursts.

        Keys are "dram", if the machine has one, and the names of the further memories of the hardware file.
        """
        found = {}
        for space in self.hardware.outer_spaces:
            if space != Space.DRAM or self.hardware.has_dram:
                read, write, _ = port_actions(self.hardware, space)
                moved = [
                    sum(int(actions.get(name, 0)) for actions in self.execution.layer_actions)
                    for name in (read, write)
                ]
                found[self.hardware.memory_name(space)] = {"read": moved[0], "write": moved[1]}
        return found

    @property
    def tops(self) -> Tops:
        """Operations per second, what the array can do and what this run did."""
        return Tops(self.hardware.tops, self.hardware.tops * self.mac_utilization)

    def to_dict(self) -> dict[str, Any]:
        """The JSON of `npusim run --json`: plain values, equal for equal runs but for `wall_s`."""
        found = self._answer()
        return {
            "schema_version": SCHEMA_VERSION,
            "npusim_version": npusim_version(),
            "model": self.model,
            "hardware": self.hardware.model_dump(mode="json"),
            "cycles": dict(vars(self.cycles)),
            "latency_ms": self.latency_ms,
            "latency_error": self.latency_error,
            "inferences_per_s": self.inferences_per_s,
            "energy_uj": dict(vars(self.energy_uj)),
            "energy_error": self.energy_error,
            "agreement": self.uncertainty.to_dict(),
            "edp_uj_ms": float(self.energy_uj) * self.latency_ms,
            "power_mw": self.power_mw.to_dict(),
            "area_mm2": self.area.to_dict(),
            "tops": asdict(self.tops),
            "macs": self.macs,
            "mac_utilization": self.mac_utilization,
            "lower_bound_cycles": self.lower_bound.cycles,
            "lower_bound_limit": self.lower_bound.bound_by,
            "bound_by": self.accounts.network.busiest,
            "answer": found.to_dict(tuple(layer.name for layer in self.layers)) if found else None,
            "lost_cycles": dict(self.lost_cycles),
            "dram_bytes": asdict(self.dram_bytes),
            "memory_bytes": dict(self.memory_bytes),
            "scratchpad_peak_bytes": self.scratchpad_peak_bytes,
            "instructions": self.program.instructions,
            "performance_info": asdict(self.performance_info),
            "unknown_operators": self.program.unknown_operators,
            **({"constants": "known by their size only"} if self.program.timing_only else {}),
            **(
                {"weight_bits": self.hardware.mac_array.weight_bits}
                if self.hardware.mac_array.few_bits
                else {}
            ),
            "notes": list(self.notes),
            "layers": [layer.to_dict() for layer in self.layers],
            "pieces": [piece.to_dict() for piece in self.pieces],
            **({"devices": [device.to_dict() for device in self.devices]} if self.devices else {}),
            **({"what_if": self.variants.to_list()} if self.variants else {}),
            "provenance": self.provenance.to_dict(self.hardware),
            "wall_s": self.wall_s.to_dict(),
        }

    def to_pandas(self) -> pandas.DataFrame:
        """The layers as a table, a row per layer."""
        import pandas

        table = pandas.DataFrame([layer.to_row() for layer in self.layers])
        return table.astype({"start_cycle": "Int64", "end_cycle": "Int64"})

    def __repr__(self) -> str:
        return (
            f"<RunResult: {self.model} on {self.machine_name}, "
            f"{self.latency_ms:.4g} ms, {self.energy_uj:.4g} uJ, {len(self.program.layers)} layers>"
        )
