"""The comparison of runs with a baseline, the first one: what changed, and in which layers.

    comparison = npusim.compare("before.json", "after.json")
    comparison.value("latency_ms").change(1).percent

Layers are matched by name and operator; several with the same name and operator are matched in order. A layer that only
some of the runs have gets a row of its own. If the clocks of the runs differ, layers and lost cycles are compared in
microseconds, else in cycles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from os.path import splitext
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from npusim.comparison import result_file
from npusim.comparison.conditions import Condition, Verdict
from npusim.comparison.result_file import LayerNumbers, ResultFile
from npusim.comparison.rows import HardwareRow, Kind, LayerRow, Quantity, Row
from npusim.isa.base.errors import NpusimError
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.version import npusim_version
from npusim.numbers.causes import CAUSES
from npusim.numbers.run import RunResult

SCHEMA_VERSION = 1
"""Version of the JSON of a comparison."""

MOST_RUNS = len(ascii_uppercase)

SHARED = ("clock_mhz", "dram", "memory", "host")
"""Keys of the hardware that belong to the system of a context. Only the clock is also a key of each device."""

LOWER_BOUND = "lower_bound"
"""The key of the first row of the cycle breakdown: cycles that no schedule can beat. All other rows are causes."""


HEADLINE: tuple[Quantity, ...] = (
    Quantity("latency_ms", "Latency", "time_ms"),
    Quantity("inferences_per_s", "Inferences/s", "per_s", "more"),
    Quantity("energy_uj.total", "Energy", "energy_uj"),
    Quantity("power_mw.average", "Average power", "power_mw"),
    Quantity("power_mw.peak_10us", "Peak power, 10 us", "power_mw"),
    Quantity("power_mw.peak_1ms", "Peak power, 1 ms", "power_mw"),
    Quantity("area_mm2.total", "Area", "area_mm2"),
    Quantity("tops.peak", "Peak TOPS", "tops", "more"),
    Quantity("tops.reached", "TOPS reached", "tops", "more"),
    Quantity("cycles.total", "Cycles", "cycles"),
    Quantity("cycles.stall", "Stalled cycles", "cycles"),
    Quantity("lower_bound_cycles", "Lower bound", "cycles"),
    Quantity("mac_utilization", "MAC utilization", "share", "more"),
    Quantity("dram_bytes.read", "DRAM read", "bytes"),
    Quantity("dram_bytes.write", "DRAM written", "bytes"),
    Quantity("dram_bytes.instructions", "DRAM code", "bytes"),
    Quantity("scratchpad_peak_bytes", "Scratchpad peak", "bytes", "neither"),
    Quantity("instructions", "Instructions", "count", "neither"),
    Quantity("macs", "MACs", "count", "neither"),
    Quantity("performance_info.execTime", "execTime", "ratio"),
    Quantity("performance_info.powerUsage", "powerUsage", "ratio"),
)
"""The numbers that are compared first. Any other number of the JSON can be compared by its key."""


@dataclass(frozen=True, repr=False)
class Comparison:
    """Two or more runs; the first is the baseline."""

    runs: tuple[ResultFile, ...]

    @property
    def letters(self) -> str:
        """The letters of the runs in tables: A for the baseline, then B, C, ..."""
        return ascii_uppercase[: len(self.runs)]

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The names of the runs: those of their files, of their hardware, or of their models."""
        ways: tuple[Callable[[ResultFile], str], ...] = (
            lambda run: splitext(Path(run.source).name)[0],
            lambda run: run.source,
            lambda run: run.hardware,
            lambda run: run.model,
        )
        for way in ways:
            names = [way(run) for run in self.runs]
            if all(names) and len(set(names)) == len(names):
                return tuple(names)
        return tuple(f"run {letter}" for letter in self.letters)

    @cached_property
    def same_clock(self) -> bool:
        """Whether the NPU has one clock in all runs, so that cycles are comparable."""
        return len({run.clock_mhz for run in self.runs}) == 1

    @property
    def cost_kind(self) -> Kind:
        """The unit in which layers and lost cycles are compared: "cycles" or "time_us"."""
        return "cycles" if self.same_clock else "time_us"

    def value(self, key: str) -> Row:
        """Return any number of the JSON by its dotted key. Raises NpusimError for a key without a number."""
        known = {quantity.key: quantity for quantity in HEADLINE}
        quantity = known.get(key, Quantity(key, key, "count", "neither"))
        return Row(quantity, tuple(result_file.numbers(self.runs, key)))

    @cached_property
    def headline(self) -> tuple[Row, ...]:
        """Return the numbers of `HEADLINE` and the traffic of each memory; files of earlier versions may lack some.

        A run has no traffic of a memory that its machine lacks, and cycles at different clocks are not compared.
        """
        further = dict.fromkeys(name for run in self.runs for name in run.memories or () if name != "dram")
        traffic = [
            Quantity(f"memory_bytes.{name}.{way}", f"{name} {word}", "bytes")
            for name in further
            for way, word in (("read", "read"), ("write", "written"))
        ]
        rows = []
        for quantity in HEADLINE:
            if quantity.key == "scratchpad_peak_bytes":
                rows += [self._headline(measure) for measure in traffic]
            rows.append(self._headline(quantity))
        return tuple(rows)

    def _headline(self, quantity: Quantity) -> Row:
        values = tuple(run.flat.get(quantity.key) if run.has(quantity.key) else None for run in self.runs)
        return Row(quantity, values, comparable=self.same_clock or quantity.kind != "cycles")

    @cached_property
    def hardware(self) -> tuple[HardwareRow, ...]:
        """The hardware parameters that differ, by dotted path, without names and descriptions.

        For runs on several devices, the devices are compared, the sections that they share, and the parameters of
        devices that are in all runs.
        """
        tables = [dict(result_file.flat(run.values["hardware"])) for run in self.runs]
        if not any(run.devices for run in self.runs):
            return _differing(tables, ("name", "description"))
        shared = [
            {"devices": ", ".join(str(device["name"]) for device in run.devices) or run.hardware}
            | {path: value for path, value in table.items() if path.split(".")[0] in SHARED}
            for run, table in zip(self.runs, tables, strict=True)
        ]
        own = [
            {str(device["name"]): dict(result_file.flat(device["hardware"])) for device in run.devices}
            for run in self.runs
        ]
        everywhere = [name for name in own[0] if all(name in settings for settings in own)]
        for table, machines in zip(shared, own, strict=True):
            table.update(
                (f"{name}.{path}", value)
                for name in everywhere
                for path, value in machines[name].items()
                if path.split(".")[0] not in (*SHARED[1:], "name", "description")
            )
        return _differing(shared)

    @cached_property
    def provenance(self) -> tuple[HardwareRow, ...]:
        """The provenance that differs: versions, optimization level, seed, inputs, digest of the model.

        The command and the digest of the hardware are left out, because other rows show their differences. All values
        are None for a run of a version that wrote no provenance.
        """
        tables = [dict(result_file.flat(run.values.get("provenance", {}))) for run in self.runs]
        return _differing(tables, ("command", "hardware_sha256"))

    @cached_property
    def layers(self) -> tuple[LayerRow, ...]:
        """All layers, the one that changed most first; ties are in the order of the models."""
        by_layer: dict[tuple[str, str, int], dict[int, LayerNumbers]] = {}
        for run, file in enumerate(self.runs):
            seen: Counter[tuple[str, str]] = Counter()
            for layer in file.layers:
                alike = (layer.name, layer.op)
                by_layer.setdefault((*alike, seen[alike]), {})[run] = layer
                seen[alike] += 1
        rows = [self._layer(name, op, layers) for (name, op, _), layers in by_layer.items()]
        return tuple(sorted(rows, key=lambda row: -row.cost.largest))

    def _layer(self, name: str, op: str, by_run: Mapping[int, LayerNumbers]) -> LayerRow:
        layers = tuple(by_run.get(run) for run in range(len(self.runs)))
        causes = self._accounts(
            [None if layer is None else (layer.lower_bound_cycles, layer.lost_cycles) for layer in layers]
        )
        return LayerRow(
            name,
            op,
            layers,
            self._cost("cycles", [None if layer is None else layer.cycles for layer in layers]),
            causes,
        )

    @cached_property
    def losses(self) -> tuple[Row, ...]:
        """The cycle breakdown: the lower bound, then lost cycles by cause. It adds up to the total.

        Causes that no run has are left out.
        """
        return self._accounts(
            [(run.values["lower_bound_cycles"], run.values["lost_cycles"]) for run in self.runs]
        )

    def _accounts(self, accounts: Sequence[tuple[int, Mapping[str, int]] | None]) -> tuple[Row, ...]:
        causes = {cause for account in accounts if account for cause in account[1]}
        ordered = [cause for cause in (*CAUSES, *sorted(causes - set(CAUSES))) if cause in causes]
        bound = self._cost(LOWER_BOUND, [account and account[0] for account in accounts])
        return bound, *(
            self._cost(cause, [account and account[1].get(cause, 0) for account in accounts])
            for cause in ordered
        )

    def _cost(self, key: str, cycles: Sequence[int | None]) -> Row:
        """Return the cycles of every run as a row, in microseconds if clocks differ."""
        if self.same_clock:
            return Row(Quantity(key, key, "cycles"), tuple(cycles))
        times = (
            None if amount is None else amount / run.clock_mhz
            for amount, run in zip(cycles, self.runs, strict=True)
        )
        return Row(Quantity(key, key, "time_us"), tuple(times))

    @cached_property
    def energy(self) -> tuple[Row, ...]:
        """Energy by component in microjoules, the largest change first, without components that are 0 in all runs."""
        tables: list[Mapping[str, float]] = [run.values["energy_uj"]["by_component"] for run in self.runs]
        names = dict.fromkeys(name for table in tables for name in table if table[name])
        rows = (
            Row(Quantity(name, name, "energy_uj"), tuple(table.get(name, 0.0) for table in tables))
            for name in names
        )
        return tuple(sorted(rows, key=lambda row: -row.largest))

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Caveats about the comparison, such as different models or clocks, a sentence each."""
        notes = []
        if len({run.model for run in self.runs}) > 1:
            notes.append("The runs are of different models.")
        if len({run.npusim_version for run in self.runs}) > 1:
            versions = ", ".join(
                f"{letter} {run.npusim_version}" for letter, run in zip(self.letters, self.runs, strict=True)
            )
            notes.append(f"The runs were made by different versions of npusim: {versions}.")
        alone = sum(not row.everywhere for row in self.layers)
        if alone:
            notes.append(f"{alone} of {len(self.layers)} layers are not in every run.")
        moved = sum(row.moved for row in self.layers)
        if moved:
            notes.append(f"{moved} of {len(self.layers)} layers run on other devices.")
        if not self.same_clock:
            notes.append("Clocks differ: layers and losses are compared in microseconds, cycles not at all.")
        return tuple(notes)

    def judge(self, conditions: Sequence[Condition]) -> list[Verdict]:
        """Check every condition on every run but the baseline. Raises NpusimError for a key without a number."""
        verdicts = []
        for condition in conditions:
            before, *others = result_file.numbers(self.runs, condition.key)
            for run, after in enumerate(others, 1):
                verdicts.append(condition.verdict(self.letters[run], self.labels[run], before, after))
        return verdicts

    def to_dict(self, verdicts: Sequence[Verdict] = ()) -> dict[str, Any]:
        """Return the JSON of `npusim compare --json` as plain values."""
        return {
            "schema_version": SCHEMA_VERSION,
            "npusim_version": npusim_version(),
            "runs": [
                {
                    "letter": letter,
                    "label": label,
                    "file": run.source,
                    "model": run.model,
                    "hardware": run.hardware,
                    "npusim_version": run.npusim_version,
                    "agreement": run.values.get("agreement"),
                }
                for letter, label, run in zip(self.letters, self.labels, self.runs, strict=True)
            ],
            "notes": list(self.notes),
            "headline": [row.to_dict() for row in self.headline],
            "hardware": [asdict(row) for row in self.hardware],
            "provenance": [asdict(row) for row in self.provenance],
            "cost_unit": "cycles" if self.same_clock else "us",
            "losses": [row.to_dict() for row in self.losses],
            "energy_uj": [row.to_dict() for row in self.energy],
            "layers": [
                {
                    "name": row.name,
                    "op": row.op,
                    "cost": row.cost.to_dict(),
                    "energy_uj": row.number("energy_uj", "energy", "energy_uj").to_dict(),
                    "bytes": row.number("bytes", "bytes", "bytes").to_dict(),
                    "causes": [cause.to_dict() for cause in row.causes],
                }
                for row in self.layers
            ],
            "conditions": [verdict.to_dict() for verdict in verdicts],
        }

    def __repr__(self) -> str:
        return f"<Comparison: {', '.join(self.labels)}>"


def compare(*runs: RunResult | Mapping[str, Any] | str | Path) -> Comparison:
    """Compare runs with the first one, the baseline.

    runs: results, their `to_dict()`, or paths of files that `npusim run --json` wrote.
    Raises NpusimError for fewer than two or too many runs, and for a file that is not a result file.
    """
    if not 2 <= len(runs) <= MOST_RUNS:
        raise NpusimError(f"compare: {len(runs)} runs given; it takes 2 to {MOST_RUNS}, the baseline first")
    return Comparison(tuple(_opened(run) for run in runs))


def _opened(run: RunResult | Mapping[str, Any] | str | Path) -> ResultFile:
    if isinstance(run, RunResult):
        return result_file.check(run.to_dict(), "")
    if isinstance(run, Mapping):
        return result_file.check(dict(run), "")
    return result_file.read(run)


def _differing(tables: Sequence[Mapping[str, Any]], left_out: Sequence[str] = ()) -> tuple[HardwareRow, ...]:
    """Return the keys whose values differ between tables, each with its values."""
    paths = dict.fromkeys(path for table in tables for path in table if path not in left_out)
    rows = (HardwareRow(path, tuple(table.get(path) for table in tables)) for path in paths)
    return tuple(row for row in rows if any(value != row.values[0] for value in row.values))
