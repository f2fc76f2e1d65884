"""The programs that serve requests, each compiled and simulated once, and what one run of it takes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate
from pathlib import Path

import numpy as np

from npusim.frontends.transformer.network import transformer
from npusim.frontends.transformer.sizes import TransformerConfig
from npusim.isa.base.elements import Workload
from npusim.isa.base.errors import NpusimError
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.units import COMPUTING
from npusim.isa.instructions.dma import Copy
from npusim.isa.instructions.region import Space
from npusim.isa.instructions.table import encode_all
from npusim.isa.program.program import Layer, Program
from npusim.kernels.graph.check import check
from npusim.machine.trace import Transfers
from npusim.numbers.bounds import UNBOUND
from npusim.numbers.provenance import Uncertainty
from npusim.numbers.run import RunResult
from npusim.session import api
from npusim.session.options import Options

ALIGNMENT = 64
"""Alignment in bytes of the code of a program that moves the scratchpad, which lies behind the moved bytes."""

INFERENCE, PREFILL, DECODE, PREEMPTION = "inference", "prefill", "decode", "preemption"
"""Phases of serving: an inference of any model; a language model reads a prompt, or generates a token; the scratchpad
is stored or loaded for a preemption."""


@dataclass(frozen=True, slots=True)
class Step:
    """A program, and what one run of it takes from an idle machine to its last result.

    name:     the model, or the shape of a language model's step.
    phase:    `INFERENCE`, `PREFILL`, `DECODE` or `PREEMPTION`.
    tokens, past, batch: new tokens of a sequence, tokens whose keys and values it reads, sequences; 0, 0, 1 of
              another model.
    busy:     cycles in which each unit and each memory's port is busy.
    limited_by: the unit or memory of `busy` that is busy longest.
    """

    name: str
    phase: str
    tokens: int
    past: int
    batch: int
    cycles: int
    energy_uj: float
    macs: int
    dram_bytes: int
    busy: Mapping[str, int]
    limited_by: str
    equal_layers: str = ""


@dataclass(frozen=True, slots=True)
class Stops:
    """The cycles of an inference at which another may preempt it: where layers end.

    cycle:     cycles from its start, ascending; the last is that of its end.
    energy_uj: energy of the layers that have ended by then.
    store, load: the steps that store to the DRAM what the scratchpad holds then, and load it again; at the end, and
               for an empty scratchpad, they take no time.
    """

    cycle: tuple[int, ...]
    energy_uj: tuple[float, ...]
    store: tuple[Step, ...]
    load: tuple[Step, ...]

    def next(self, cycle: int) -> int:
        """Return the index of the first stop that is not before a cycle."""
        return bisect_left(self.cycle, cycle)


def step_of(result: RunResult, name: str, phase: str, tokens: int = 0, past: int = 0, batch: int = 1) -> Step:
    """Return what a run takes as a step."""
    busy = busy_cycles(result)
    longest = max(busy, key=lambda unit: busy[unit])
    return Step(
        name,
        phase,
        tokens,
        past,
        batch,
        int(result.cycles),
        float(result.energy_uj),
        result.macs,
        result.dram_bytes.total,
        busy,
        longest if busy[longest] else UNBOUND,
        result.execution.equal_layers,
    )


def weakest(uncertainties: Iterable[Uncertainty]) -> Uncertainty:
    """Return the uncertainty of several runs on one machine: that of a run unlike the measured ones, if any is."""
    return max(uncertainties, key=lambda uncertainty: bool(uncertainty.unlike))


def busy_cycles(result: RunResult) -> dict[str, int]:
    """Return the cycles in which each unit computes, and each memory's port transfers.

    They are those of the cycle breakdown (`npusim.numbers.losses`), whose computation takes half as long as a
    simulation.
    """
    hardware, transfers = result.hardware, Transfers.of(result.execution.trace.transfers)
    spaces = np.array([source.space for source in transfers.sources], np.int64)[transfers.source]
    cycles = transfers.ended - transfers.started
    return {kind.name: vars(result.cycles)[kind.name] for kind in COMPUTING} | {
        hardware.memory_name(space): int(cycles[spaces == space].sum()) for space in hardware.outer_spaces
    }


Watch = Callable[[str], None]
"""A function that is called with the name of each program before it is compiled."""


class LanguageSteps:
    """The steps of a language model on a machine, compiled and simulated when first asked for."""

    def __init__(
        self, config: TransformerConfig, machine: Hardware, options: Options, watch: Watch | None = None
    ) -> None:
        self._config, self._machine, self._options, self._watch = config, machine, options, watch
        self.steps: dict[tuple[int, int, int], Step] = {}
        self.uncertainty: Uncertainty | None = None

    def __call__(self, tokens: int, past: int, batch: int) -> Step:
        """Return the step in which each of `batch` sequences has `tokens` new tokens behind `past`."""
        shape = tokens, past, batch
        if shape not in self.steps:
            phase = PREFILL if tokens > 1 or not past else DECODE
            name = f"{phase} {batch} x {tokens}" + (f" after {past}" if past else "")
            if self._watch:
                self._watch(name)
            graph = check(transformer(self._config, tokens=tokens, past=past, batch=batch))
            try:
                program = api.compile_program(graph, self._machine, self._options)
                result = api.simulate(program, timing_only=True)
            except NpusimError as fault:
                # Its keys may need more memory than the cache: each sequence has those of the whole bucket.
                raise NpusimError(
                    f"program {name}: {fault}; or give a smaller --max-batch, --bucket or --chunk"
                ) from None
            known = [self.uncertainty] if self.uncertainty else []
            self.uncertainty = weakest([*known, result.uncertainty])
            self.steps[shape] = step_of(result, name, phase, tokens, past, batch)
        return self.steps[shape]


def inference_of(model: str | Path, machine: Hardware, options: Options) -> RunResult:
    """Return the run of a model without data. Raises NpusimError for a model of several programs."""
    program, _ = api.prepare(model, machine, options)
    return api.simulate(program, timing_only=True)


Moves = dict[int, tuple[Step, Step]]
"""The steps that store a number of bytes of the scratchpad, and load them again."""


def stops_of(result: RunResult, moves: Moves) -> Stops:
    """Return where an inference may be preempted. What the scratchpad holds then is stored to the DRAM.

    moves: those that are known, of all models of the machine; new ones are simulated and added.
    """
    total = int(result.cycles)
    ended: dict[int, float] = {total: 0.0}
    for layer in result.layers:
        end = total if layer.end_cycle is None else layer.end_cycle
        ended[end] = ended.get(end, 0.0) + layer.energy_uj
    cycles = sorted(ended)
    use = result.scratchpad_use()
    # A stop at the end of a layer needs what is in use just behind it.
    held = use.sizes[np.searchsorted(use.cycles, cycles, side="right") - 1].tolist()
    held[-1] = 0  # nothing is moved at the end
    for size in {*held} - {*moves}:
        moves[size] = _moves(result.hardware, size)
    store, load = zip(*(moves[size] for size in held), strict=True)
    return Stops(tuple(cycles), tuple(accumulate(ended[cycle] for cycle in cycles)), store, load)


def _moves(hardware: Hardware, size: int) -> tuple[Step, Step]:
    """Simulate the store of bytes of the scratchpad to the DRAM, and their load."""
    if not size:
        nothing = Step("nothing", PREEMPTION, 0, 0, 1, 0, 0.0, 0, 0, {}, UNBOUND)
        return nothing, nothing
    copies = {
        "store": Copy(size=size, target_space=Space.DRAM),
        "load": Copy(size=size, source_space=Space.DRAM),
    }
    store, load = (
        step_of(api.simulate(_copy(hardware, copy), timing_only=True), f"{name} {size} bytes", PREEMPTION)
        for name, copy in copies.items()
    )
    return store, load


def _copy(hardware: Hardware, copy: Copy) -> Program:
    """Return a program of one copy, with its code behind the bytes in DRAM."""
    code, size = encode_all([copy]), copy.size
    return Program(
        name="preemption",
        hardware=hardware,
        code=code,
        constants=b"",
        dram_size_bytes=size + 2 * code.nbytes + ALIGNMENT,
        code_address=-(-size // ALIGNMENT) * ALIGNMENT,
        inputs=(),
        outputs=(),
        layers=(Layer("context", "identity", "dma", Workload("move")),),
        layer_of=np.zeros(1, np.uint32),
    )
