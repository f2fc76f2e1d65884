"""Loading, compilation and simulation of a model over devices, for `npusim run --device`."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from pathlib import Path

from npusim.frontends.nnadapter.nnadapter_codes import FeatureNotSupported, InvalidParameter
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import Placement
from npusim.kernels.graph.bind import Sizes
from npusim.kernels.graph.placing import Forced
from npusim.nnadapter import device_partition
from npusim.nnadapter.cache.compiled import CompiledGear
from npusim.nnadapter.compilation import Compilation
from npusim.nnadapter.device_context import Context, Device
from npusim.nnadapter.device_partition import Partition
from npusim.nnadapter.hal import device_machines, registry
from npusim.nnadapter.model_execution import Execution
from npusim.nnadapter.models import Model, from_file
from npusim.numbers.provenance import Provenance
from npusim.numbers.run import RunResult
from npusim.session import inputs as values
from npusim.session.host import kind_of_inputs


@dataclass(frozen=True)
class Prepared:
    """A compiled model, ready to run.

    wall_s: the seconds that loading, compiling and restoring took.
    """

    model: Model
    compilation: Compilation
    wall_s: dict[str, float | None] = field(default_factory=dict)

    @property
    def gear(self) -> CompiledGear:
        """The programs for the only combination of input shapes."""
        return self.compilation.gears[0]

    @property
    def inputs(self) -> list[Placement]:
        """The inputs, with the numbers of tensors in place of addresses."""
        return [Placement(tensor.name, tensor.type, tensor.number) for tensor in self.gear.inputs]

    @property
    def outputs(self) -> list[Placement]:
        """The outputs, with the numbers of tensors in place of addresses."""
        return [Placement(tensor.name, tensor.type, tensor.number) for tensor in self.gear.outputs]

    def search_note(self) -> str:
        """Return a sentence about the search for the fastest partition; empty if there was none."""
        gear = self.gear
        if not gear.by_order_cycles:
            return ""
        return f"Partition by cost: {gear.tries} others were timed; by order it takes {gear.by_order_cycles} cycles."

    def save_dot(self, path: Path) -> None:
        """Draw the model with the device of each operation. Raises NpusimError if the file cannot be written."""
        network = self.model.network()
        piece_of = device_partition.piece_of(network, self.gear.pieces)
        devices = {place: self.gear.pieces[number].device for place, number in piece_of.items()}
        self.model.save_dot(path, devices)

    def subgraphs(self) -> str:
        """Return operators and pieces in the format of NNAdapter's log."""
        return device_partition.log_text(self.model.network(), self.gear.pieces)

    def simulate(
        self, given: values.Inputs | None = None, *, timing_only: bool = False, seed: int = 0
    ) -> RunResult:
        """Simulate one run, with random data from `seed` if none is given.

        Raises SimulationError for inputs that do not fit, FeatureNotSupported if no device is simulated, and what a
        device raises.
        """
        begin = time.perf_counter()
        kind = kind_of_inputs(given, timing_only)
        if timing_only:
            result = self.compilation.timed(self.gear)
        else:
            arrays = values.draw(self.inputs, seed) if given is None else values.bind(self.inputs, given)
            execution = Execution(self.compilation)
            for index, array in enumerate(arrays):
                execution.set_input(index, array)
            result = execution.compute().run
        if result is None:
            names = ", ".join(self.compilation.context.devices)
            raise FeatureNotSupported(f"{self.model.name}: npusim simulates none of its pieces on {names}")
        program = replace(result.program, notes=self.model.graph.notes)
        wall_s = replace(result.wall_s, simulate=time.perf_counter() - begin, **self.wall_s)
        provenance = Provenance(seed=seed if kind == "random" else None, inputs=kind)
        return replace(result, program=program, wall_s=wall_s, provenance=provenance)


@contextmanager
def acquired(names: Sequence[str]) -> Iterator[list[Device]]:
    """Acquire devices by name. A hardware file is a device with the name of the file, until the block ends.

    Raises DeviceNotFound for a name that no device has, HardwareError for a file with faults, InvalidParameter for a
    file with the name of a device.
    """
    registered: list[str] = []
    try:
        yield [Device.acquire(_name(name, registered)) for name in names]
    finally:
        for name in registered:
            registry.unregister(name)


def _name(text: str, registered: list[str]) -> str:
    """Return the name of a device; a hardware file is registered as one first, and its name appended to `made`."""
    if text in registry.devices() or not (Path(text).suffix == ".toml" or "/" in text or "\\" in text):
        return text
    name = re.sub(r"[^A-Za-z0-9_-]", "_", Path(text).stem)[:64].lstrip("_-") or "device"
    if name in registry.devices():
        raise InvalidParameter(f"{text}: {name} is the name of another device; give the file another one")
    registry.register_preset(name, text)
    registered.append(name)
    return name


def prepare(
    path: str | Path,
    devices: Sequence[Device],
    *,
    partition: Sequence[str | Path] = (),
    forced: Sequence[Forced] = (),
    effort: str = "fast",
    sizes: Sizes | None = None,
    cache_dir: Path | None = None,
    environment: bool = True,
) -> Prepared:
    """Read a model of any format and compile it for devices, or restore it from a cache.

    partition:   modes ("order", "cost", "single") and partition files.
    forced:      further operators that must run on a CPU.
    sizes:       sizes that the model leaves open, as for `npusim.load`.
    cache_dir:   the cache folder of compiled models; None: no cache.
    environment: whether the operators that the environment lists are forced to the CPU as well.

    Raises NNAdapterError, and NpusimError for an invalid partition file.
    """
    modes = [part for part in partition if part in device_machines.MODES]
    if len(set(modes)) > 1:
        raise InvalidParameter(f"partition: {', '.join(map(str, modes))}: may be one of them, beside files")
    begin = time.perf_counter()
    model = from_file(path, sizes)
    loaded = time.perf_counter()
    context = Context(devices, "" if effort == "fast" else f"{device_machines.COMMON}_EFFORT={effort}")
    plan = [*partition, Partition(tuple(forced), alone=not environment)]
    compilation = Compilation(model, context, partition=plan, cache_dir=cache_dir)
    compilation.finish()
    wall_s = {"load": loaded - begin, "compile": compilation.compile_s, "restore": compilation.restore_s}
    return Prepared(model, compilation, wall_s)


def run(
    path: str | Path,
    devices: Sequence[str],
    inputs: values.Inputs | None = None,
    timing_only: bool = False,
    *,
    seed: int = 0,
    effort: str = "fast",
    host: Sequence[str] = (),
    partition: str | Path | Sequence[str | Path] = (),
    sizes: Sizes | None = None,
    cache_dir: str | Path | None = None,
) -> RunResult:
    """Load, compile and simulate a model of any format over devices in one call, as `npusim.run` does on one machine.

    devices:   names of devices, or hardware files.
    host:      kinds of operators that must run on a CPU.
    partition: "order", "cost" or "single", a partition file, or several of these.
    sizes:     sizes that the model leaves open, as for `npusim.load`.
    cache_dir: the cache folder of compiled models.

    The other arguments are those of `npusim.run`. Raises NpusimError.
    """
    parts = (partition,) if isinstance(partition, str | Path) else partition
    folder = None if cache_dir is None else Path(cache_dir)
    forced = [Forced(name) for name in host]
    with acquired(devices) as used:
        prepared = prepare(
            path, used, partition=parts, forced=forced, effort=effort, sizes=sizes, cache_dir=folder
        )
    return prepared.simulate(inputs, timing_only=timing_only, seed=seed)
