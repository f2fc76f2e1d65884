"""`npusim run --device`: a model over several devices, by way of NNAdapter."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from npusim.base.console import say
from npusim.cli.base import Progress, hardware_inputs, names, partition_inputs
from npusim.isa.base.errors import NpusimError

if TYPE_CHECKING:
    from npusim.kernels.graph.bind import Sizes
    from npusim.nnadapter.device_context import Device
    from npusim.nnadapter.model_run import Prepared
    from npusim.numbers.provenance import Provenance
    from npusim.numbers.run import RunResult
    from npusim.session.inputs import Inputs

OPTION, PRINT_OPTION, CACHE_OPTION = "--device", "--print-partition", "--cache"

DeviceOption = Annotated[
    list[str] | None,
    typer.Option(
        OPTION,
        metavar="NAME|FILE",
        help="Instead of --hw: a device of NNAdapter (npusim, npusim_host, a preset, ...) or a TOML file; several "
        "share one system.",
        show_default=False,
    ),
]

PrintOption = Annotated[
    bool,
    typer.Option(
        PRINT_OPTION, help="Also print the operators, as a partition file has them, and the pieces."
    ),
]

CacheOption = Annotated[
    Path | None,
    typer.Option(
        CACHE_OPTION,
        metavar="DIR",
        help="Keep the compiled model in this folder, and take it from there the next time.",
        show_default=False,
    ),
]


class How(NamedTuple):
    """How a model is to be cut, compiled and executed."""

    partition: Sequence[str]
    host: Sequence[str]
    effort: str
    timing_only: bool
    seed: int
    sizes: Sizes


@dataclass(frozen=True, slots=True)
class Asked:
    """What a run over devices was asked for, as it was written."""

    model: str
    devices: Sequence[str]
    how: How
    input: Path | None
    output: Path | None
    dot: Path | None
    cache: Path | None = None


def require_cacheable(partition: Sequence[str], others: Mapping[str, object]) -> None:
    """Raises NpusimError for the first option that does not go with a cache, of those with what they were given."""
    for option, value in others.items():
        if value:
            raise NpusimError(f"{option}: does not go with {CACHE_OPTION}")
    if "cost" in partition:
        raise NpusimError(f"--partition cost: does not go with {CACHE_OPTION} without {OPTION}")


def require_no_choice(partition: Sequence[str]) -> None:
    """Raises NpusimError for a way to choose among devices where there are none."""
    for mode in ("order", "single"):
        if mode in partition:
            raise NpusimError(f"--partition {mode}: chooses among devices; give some with {OPTION}")


def require_alone(others: Mapping[str, object]) -> None:
    """Raises NpusimError for the first option that does not go with devices, of those with what they were given."""
    for option, value in others.items():
        if value:
            raise NpusimError(f"{option}: does not go with {OPTION}; {_INSTEAD[option]}")


_INSTEAD = {
    "--hw": f"a preset or hardware file is a device itself, so give {OPTION} once more",
    "--set": "give a hardware file with the change as a device",
    "--what-if": "it changes one machine",
    "--unknown": "each operator must be one that a device has",
    "--decide": "a model that decides is several programs already, of one machine",
    "MODEL": "it takes one model",
}
"""What there is instead of an option, or why there is nothing."""


def inputs_of(asked: Asked) -> dict[str, Path | None]:
    """The files that are read, for `files.check_outputs`."""
    sources: dict[str, Path | None] = {"MODEL": Path(asked.model), "--input": asked.input}
    for device in asked.devices:
        if Path(device).suffix == ".toml":
            sources |= hardware_inputs(device, f"{OPTION} {device}")
    return sources | partition_inputs(asked.how.partition)


def run(asked: Asked, print_partition: bool) -> RunResult:
    """Compile, print and draw the partition if that is asked for, and simulate. Raises NpusimError."""
    from npusim.nnadapter import model_run

    with model_run.acquired(asked.devices) as devices, Progress(f"scheduling {asked.model}"):
        prepared = _prepared(asked, devices)
    result = _simulated(asked, prepared)
    if print_partition:
        say(prepared.subgraphs())
    if searched := prepared.search():
        say(searched)
    if asked.dot:
        prepared.save_dot(asked.dot)
    source = str(Path(asked.model).resolve() if Path(asked.model).is_file() else asked.model)
    return replace(result, source=source, provenance=_provenance(asked, result))


def print_subgraphs(asked: Asked, hw: str, settings: Sequence[str]) -> None:
    """Print how a model is cut for a machine and its host: what `--print-partition` says without devices."""
    from npusim.kernels.graph.placing import PartitionWarning
    from npusim.nnadapter import model_run
    from npusim.session import api

    if settings or "cost" in asked.how.partition:
        option = "--set" if settings else "--partition cost"
        raise NpusimError(f"{PRINT_OPTION}: does not go with {option} without {OPTION}")
    api.hardware(hw)
    with warnings.catch_warnings(), model_run.acquired([hw, "npusim_host"]) as devices:
        warnings.simplefilter("ignore", PartitionWarning)  # the run says it
        say(
            _prepared(asked, devices, environment=False).subgraphs()
        )  # the environment is left out, because a run without devices does not read it


def _prepared(asked: Asked, devices: Sequence[Device], environment: bool = True) -> Prepared:
    from npusim.kernels.graph.placing import Forced
    from npusim.nnadapter import model_run

    how = asked.how
    forced = [Forced(name) for name in how.host]
    return model_run.prepare(
        asked.model,
        devices,
        partition=how.partition,
        forced=forced,
        effort=how.effort,
        sizes=how.sizes,
        cache_dir=asked.cache,
        environment=environment,
    )


def _simulated(asked: Asked, prepared: Prepared) -> RunResult:
    """What cannot be read or written is found before the work."""
    values: Inputs | None = None
    if asked.output:
        from npusim.base import npz

        npz.check_repeated(asked.output, prepared.outputs)
    if asked.input:
        from npusim.session.inputs import read_npz

        values = read_npz(asked.input, prepared.inputs)
    with Progress(f"simulating {prepared.model.name}"):
        return prepared.simulate(values, timing_only=asked.how.timing_only, seed=asked.how.seed)


def _provenance(asked: Asked, result: RunResult) -> Provenance:
    """The command that gives the result again."""
    from npusim.session.provenance import of_run

    return of_run(
        asked.model,
        None,
        effort=asked.how.effort,
        host=asked.how.host,
        partition=asked.how.partition,
        seed=asked.how.seed,
        inputs=result.provenance.inputs,
        devices=asked.devices,
        sizes=asked.how.sizes,
    )


def host_names(host: Sequence[str] | None) -> list[str]:
    """The operators of --host. Raises NpusimError for one without a name."""
    found = [name.strip() for name in names(host)]
    if "" in found:
        raise NpusimError("--host: an operator has no name; give some such as softmax,pad")
    return found
