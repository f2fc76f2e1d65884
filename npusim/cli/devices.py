"""Runs of several programs: a model on several devices through NNAdapter, or a model with IF or WHILE."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from npusim.base.console import console, say
from npusim.cli.base import Progress
from npusim.cli.options import (
    DECIDE,
    DECIDES,
    DEVICES,
    JSON,
    Request,
    hardware_inputs,
    names,
    partition_inputs,
)
from npusim.isa.base.errors import NpusimError
from npusim.session.options import operator_names

if TYPE_CHECKING:
    from npusim.base.files import Writer
    from npusim.isa.program.executable import Executable
    from npusim.nnadapter.device_context import Device
    from npusim.nnadapter.model_run import Prepared
    from npusim.numbers.run import RunResult


def inputs_of(model: str, request: Request, over: Sequence[str]) -> dict[str, Path | None]:
    """Return the files that a run over devices reads, for `files.check_outputs`."""
    from npusim.frontends.frontend import model_file

    sources: dict[str, Path | None] = {"MODEL": model_file(model), "--input": request.input}
    for device in over:
        if Path(device).suffix == ".toml":
            sources |= hardware_inputs(device, f"{DEVICES} {device}")
    return sources | partition_inputs(request.partition)


def run(model: str, request: Request, over: Sequence[str]) -> RunResult:
    """Compile a model for devices, print and draw the partition if asked for, and simulate. Raises NpusimError."""
    from npusim.nnadapter import model_run
    from npusim.session.opening import resolved
    from npusim.session.provenance import of_run

    with model_run.acquired(over) as devices, Progress(f"scheduling {model}"):
        prepared = _prepared(model, request, devices, cache=request.cache)
    result = _simulated(request, prepared)
    if request.print_partition:
        say(prepared.subgraphs())
    if searched := prepared.search_note():
        say(searched)
    if request.dot:
        prepared.save_dot(request.dot)
    provenance = of_run(
        model,
        None,
        replace(request.options, host=operator_names(names(request.host))),
        seed=request.seed,
        inputs=result.provenance.inputs,
        devices=over,
    )
    return replace(result, source=resolved(model), provenance=provenance)


def print_subgraphs(model: str, request: Request, hw: str) -> None:
    """Print the partition of a model between a machine and its host, for `--print-partition` without --device."""
    from npusim.kernels.graph.placing import PartitionWarning
    from npusim.nnadapter import model_run
    from npusim.session import api

    if request.set_ or "cost" in (request.partition or ()):
        option = "--set" if request.set_ else "--partition cost"
        raise NpusimError(f"--print-partition: does not go with {option} without {DEVICES}")
    api.hardware(hw)
    with warnings.catch_warnings(), model_run.acquired([hw, "npusim_host"]) as devices:
        warnings.simplefilter("ignore", PartitionWarning)  # the run prints the partition itself
        # The environment is left out, because a run without devices does not read it.
        say(_prepared(model, request, devices, environment=False).subgraphs())


def _prepared(
    model: str,
    request: Request,
    devices: Sequence[Device],
    environment: bool = True,
    cache: Path | None = None,
) -> Prepared:
    from npusim.kernels.graph.placing import Forced
    from npusim.nnadapter import model_run

    return model_run.prepare(
        model,
        devices,
        partition=request.partition or (),
        forced=[Forced(name) for name in operator_names(names(request.host))],
        effort=request.effort,
        sizes=request.options.sizes,
        cache_dir=cache,
        environment=environment,
    )


def _simulated(request: Request, prepared: Prepared) -> RunResult:
    """Simulate the partitioned model. Files are checked first, so that an unusable path fails at once."""
    if request.output:
        from npusim.base import npz

        npz.check_repeated(request.output, prepared.outputs)
    values = request.values(prepared.inputs)
    with Progress(f"simulating {prepared.model.name}"):
        return prepared.simulate(values, timing_only=request.timing_only, seed=request.seed)


def run_executable(executable: Executable, request: Request, wall: Mapping[str, float]) -> None:
    """Run a model with IF or WHILE, print its summary, and write its files.

    Raises NpusimError for an option that does not apply to such a model.
    """
    from npusim.base import files
    from npusim.session import api

    several = f"{executable.name} decides ({', '.join(executable.decisions)}), so it is several programs"
    escaped = several.replace("{", "{{").replace("}", "}}")
    request.require(DECIDES, f"{{option}}: {escaped}; {{option}} takes one")
    values = request.values([place.tensor for place in executable.inputs])
    with Progress(f"simulating {executable.name}") as progress:
        result = api.simulate(
            executable,
            values,
            timing_only=request.timing_only,
            seed=request.seed,
            decisions=decisions(request.decide or ()),
            progress=progress,
        )
    result = replace(result, wall_s=replace(result.wall_s, **wall))
    from npusim.reports.run import pieces, result_json

    console().print(pieces.summary(result))
    targets: dict[Path, Writer] = {}
    if JSON in request.reports:
        targets[request.reports[JSON]] = files.text(result_json.render(result))
    if request.output:
        from npusim.base import npz

        if request.timing_only or not result.outputs:
            raise NpusimError(
                f"{request.output}: {executable.name}: no data was executed, there are no outputs"
            )
        targets[request.output] = lambda file: npz.write(file, result.outputs)
    files.write_all(targets)


def decisions(texts: Sequence[str]) -> dict[str, int]:
    """Return the decisions of texts such as "net/loop=10". Raises NpusimError for one that is not such a text."""
    numbers = {}
    for text in texts:
        name, _, number = text.rpartition("=")
        if not name or not number.isascii() or not number.isdigit():
            raise NpusimError(f"{DECIDE} {text}: may be NAME=N, such as model/loop=10")
        if name in numbers:
            raise NpusimError(f"{DECIDE} {text}: {name} is decided twice")
        numbers[name] = int(number)
    return numbers
