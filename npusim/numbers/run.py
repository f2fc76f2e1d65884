"""The result of a run: the outputs and every number about it, typed and as the JSON of `--json`.

The numbers are defined in the docstrings here and in `npusim.numbers.layers`; `npusim.numbers.measure` computes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

from npusim.isa.base.lazy_dataclass import dataclass
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
from npusim.numbers.layers import LayerResult, Piece, layer_results, pieces, share
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
    """The total cycles of a run, an int whose attributes are the busy cycles of each unit.

    `npusim.numbers.timeline.BusyCycles` defines the attributes: total, dma, mac, vector, host, stall. Units work at the
    same time, so the attributes do not add up to the total.
    """

    def __getattr__(self, name: str) -> int:
        """Raise AttributeError for an unknown name; known ones are in `vars`. It lets type checkers accept them."""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @classmethod
    def of(cls, busy: BusyCycles) -> RunCycles:
        """Return the total of `busy` with its parts as attributes."""
        number = cls(busy.total)
        vars(number).update(busy.named())
        return number


class RunEnergy(float):
    """The total energy of a run in microjoules, a float whose attributes are its parts.

    `npusim.numbers.energy.Energy` defines the attributes. total = dynamic + static + dram + host; the values of
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
        """Return the total of `energy` with its parts as attributes."""
        number = cls(energy.total)
        vars(number).update(total=energy.total, **asdict(energy))
        return number


@dataclass(frozen=True, slots=True)
class Power:
    """Average and peak power in milliwatts, of everything that `RunEnergy` counts.

    average:   energy over latency.
    peak_10us: highest average over any 10 us of inferences back to back; what supply rails must carry.
    peak_1ms:  highest average over any 1 ms; what a battery or a regulator must carry.

    The windows do not depend on the run, so runs can be compared. No peak is below the average. A peak whose window is
    at least as long as the run is the average. See `npusim.numbers.power`.
    """

    average: float
    peak_10us: float
    peak_1ms: float

    @property
    def peak(self) -> float:
        """The peak power over 10 us, in mW."""
        return self.peak_10us

    def to_dict(self) -> dict[str, float]:
        """Return the power as in the JSON."""
        return {"average": self.average, "peak": self.peak} | asdict(self)


@dataclass(frozen=True, slots=True)
class Tops:
    """Throughput in 10^12 operations per second; a multiply-accumulate counts as two operations.

    peak:    of the fully used MAC array, independent of the model.
    reached: operations of the layers on the MAC array, over the latency of the run.
    """

    peak: float
    reached: float


@dataclass(frozen=True, slots=True)
class DramBytes:
    """Bytes through the DRAM port in whole bursts: data read, data written, instructions fetched."""

    read: int
    write: int
    instructions: int

    @property
    def total(self) -> int:
        """All bytes through the port."""
        return self.read + self.write + self.instructions

    @classmethod
    def of(cls, executions: Sequence[Execution]) -> DramBytes:
        """Return the sums over executions."""
        return cls(
            sum(execution.dram_read_bytes for execution in executions),
            sum(execution.dram_write_bytes for execution in executions),
            sum(execution.instruction_bytes for execution in executions),
        )


@dataclass(frozen=True, slots=True)
class WallTimes:
    """The seconds that npusim itself took for each step; None for a step that was skipped.

    restore: time to read a compiled model from the cache; `compile` is then the time that its compilation took before.
    """

    load: float | None = None
    compile: float | None = None
    simulate: float | None = None
    restore: float | None = None

    def to_dict(self) -> dict[str, float | None]:
        """Return the block of the JSON; `restore` is left out if nothing was restored."""
        steps = asdict(self)
        if self.restore is None:
            del steps["restore"]
        return steps


@dataclass(frozen=True, slots=True)
class DeviceResult:
    """A device of a context, and its part of a run.

    name:     name of the device in the context.
    core:     its number in the system.
    is_cpu:   True if it is the host of the machine `hardware`, whose NPU is idle meanwhile; else it is an NPU.
    launches: number of launches of its programs.
    layers:   number of layers of these programs.
    cycles, time_us, energy_uj, macs: sums over its launches. A device draws no power while none of its programs runs.
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
        """Return the device as in the JSON."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        return plain | {"hardware": self.hardware.model_dump(mode="json")}


@dataclass(frozen=True, kw_only=True, repr=False)
class RunResult:
    """The result of one execution of a program: outputs, cycles, latency, energy, power, and its breakdowns.

    outputs:    one array per model output, by position; empty when no data was executed (timing only). Outputs that
                are the same bytes, such as a tensor named twice, share them and are read-only.
    states:     content of the model's state tensors after the run, by name; empty when no data was executed.
    latency_ms: cycles / clock.
    macs:       multiply-accumulates of the network on all units.
    mac_utilization: multiply-accumulates of layers on the MAC array / (cycles * multipliers), 0 to 1.
    scratchpad_peak_bytes: most bytes of the scratchpad that are allocated to buffers at the same time.
    program, execution: the program and its timeline, for reports.
    devices:     devices of the context that it ran on, in order; empty outside of a context.
    source:      the model as given to `npusim.run`; None if a compiled program was simulated.
    provenance:  how to repeat the run: command, optimization level, seed, digest of the model.
    variants:    effect of a change of each hardware parameter; None unless what-if was asked for.
    tried:       hardware changes that were simulated for its answer; None unless levers were asked for.
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
        """The name of the model."""
        return self.program.name

    @property
    def hardware(self) -> Hardware:
        """The hardware that the program ran on."""
        return self.program.hardware

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks of the model's front end, such as simplifications, a line each."""
        return self.program.notes

    @cached_property
    def accounts(self) -> Accounts:
        """Lower bound and cycle breakdown of the network and its layers.

        They are computed at the first access, because sweeps over hardware do not need them.
        """
        return accounts(self.program, self.execution)

    @property
    def lower_bound(self) -> LowerBound:
        """Cycles that no schedule can beat on this hardware, by resource."""
        return self.accounts.network.bound

    @property
    def lost_cycles(self) -> Mapping[str, int]:
        """Cycles beyond the lower bound, by cause (`npusim.numbers.causes.CAUSES`); gains are negative."""
        return self.accounts.network.lost

    @property
    def answer(self) -> answers.Answer | None:
        """The bottleneck, and the hardware changes that relieve it; None for a run without cycles."""
        return self._answer()

    def _answer(self) -> answers.Answer | None:
        """Return the answer from the changes in `tried`, without further simulation."""
        return answers.answer(self.accounts.network, self.layers, self.tried, bool(self.devices))

    @cached_property
    def layers(self) -> tuple[LayerResult, ...]:
        """The results of the layers, in the order of the model."""
        return layer_results(self.program, self.execution, self.accounts)

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """The groups of consecutive layers on an NPU or the host, in order, with the boundaries between them."""
        device = self.devices[0].name if self.devices else self.hardware.name
        return pieces(self.program, self.execution, self.layers, device, self.hardware.clock_mhz)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The programs that ran one after the other, each with its timeline."""
        return (Stage(self.program, self.execution, 0, int(self.cycles)),)

    @property
    def at_work(self) -> tuple[DeviceResult, ...]:
        """The devices that run a part of the model."""
        return tuple(device for device in self.devices if device.launches)

    @property
    def npus(self) -> tuple[tuple[str, Hardware], ...]:
        """The NPUs that run a part of the model, each with the name of its device.

        If only a CPU runs the model, it is the machine of that CPU, so there is at least one.
        """
        npus = tuple((device.name, device.hardware) for device in self.at_work if not device.is_cpu)
        return npus or ((self.machine_name, self.hardware),)

    @property
    def several_devices(self) -> bool:
        """Whether more than one device runs a part of the model."""
        return len(self.at_work) > 1

    def layer_energy_uj(self) -> dict[str, Amounts]:
        """Return the energy by component and layer in uJ, float64 [layers] each; it adds up to the run's energy."""
        return power.layer_energy_uj(self.program, self.execution)

    def power_over_time(self, windows: int = power.WINDOWS) -> PowerOverTime:
        """Return the average power in `windows` equal windows, fewer if the run has fewer cycles."""
        return self._charges.over_time(windows)

    def moving_power(self, bins: int = power.WINDOWS) -> MovingPower:
        """Return the power averaged over a moving window, in `bins` equal bins, fewer if the run has fewer cycles."""
        return self._charges.moving(bins, power.window_cycles(self.hardware))

    @cached_property
    def _charges(self) -> power.Charges:
        return power.charges(self.program, self.execution)

    def scratchpad_use(self) -> Occupancy:
        """Return the scratchpad bytes in use over time."""
        return timeline.scratchpad_use(self.program, self.execution.trace)

    @cached_property
    def uncertainty(self) -> Uncertainty:
        """The known error of latency and energy."""
        ((_, hardware), *_) = self.npus
        host_share = share(self.cycles.host, self.cycles)
        estimate = (
            "operators are not known"
            if self.program.unknown_operators
            else "constants are known by their size only"
            if self.program.timing_only
            else ""
        )
        return uncertainty(hardware, host_share, len(self.at_work), estimate)

    @property
    def latency_error(self) -> float | None:
        """The typical error of the latency as a share, from the chips of docs/silicon.md; None if none is known."""
        return self.uncertainty.error("latency")

    @property
    def energy_error(self) -> float | None:
        """The typical error of the energy as a share, from the chips of docs/silicon.md; None if none is known."""
        return self.uncertainty.error("energy")

    @property
    def area(self) -> Area:
        """The silicon area of the NPU in mm2, without the host."""
        return area(self.hardware)

    @property
    def machine_name(self) -> str:
        """The name of the hardware, or the names of the devices that run a part of the model."""
        return ", ".join(device.name for device in self.at_work) or self.hardware.name

    @property
    def inferences_per_s(self) -> float:
        """Inferences per second if each starts when the one before has ended."""
        return 1e3 / self.latency_ms if self.latency_ms else 0.0

    @cached_property
    def memory_bytes(self) -> Mapping[str, Mapping[str, int]]:
        """Bytes read (including instructions) and written at the port of each memory, in whole bursts.

        Keys are "dram", if the machine has one, and the names of the further memories of the hardware file.
        """
        traffic = {}
        for space in self.hardware.outer_spaces:
            if space != Space.DRAM or self.hardware.has_dram:
                read, write, _ = port_actions(self.hardware, space)
                moved = [
                    sum(int(actions.get(name, 0)) for actions in self.execution.layer_actions)
                    for name in (read, write)
                ]
                traffic[self.hardware.memory_name(space)] = {"read": moved[0], "write": moved[1]}
        return traffic

    @property
    def tops(self) -> Tops:
        """Peak throughput of the MAC array and throughput reached in this run."""
        return Tops(self.hardware.tops, self.hardware.tops * self.mac_utilization)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of `npusim run --json` as plain values; equal runs differ in `wall_s` only."""
        answer = self._answer()
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
            "answer": answer.to_dict(tuple(layer.name for layer in self.layers)) if answer else None,
            "lost_cycles": dict(self.lost_cycles),
            "dram_bytes": asdict(self.dram_bytes),
            "memory_bytes": dict(self.memory_bytes),
            "scratchpad_peak_bytes": self.scratchpad_peak_bytes,
            "instructions": self.program.instructions,
            "performance_info": asdict(self.performance_info),
            "unknown_operators": self.program.unknown_operators,
            **({"constants": "known by their size only"} if self.program.timing_only else {}),
            **({"equal_layers": self.execution.equal_layers} if self.execution.equal_layers else {}),
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
        """Return the layers as a table, a row per layer."""
        import pandas

        table = pandas.DataFrame([layer.to_row() for layer in self.layers])
        return table.astype({"start_cycle": "Int64", "end_cycle": "Int64"})

    def __repr__(self) -> str:
        return (
            f"<RunResult: {self.model} on {self.machine_name}, "
            f"{self.latency_ms:.4g} ms, {self.energy_uj:.4g} uJ, {len(self.program.layers)} layers>"
        )
