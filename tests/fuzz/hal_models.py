"""HAL models and requests: legal ones, with a rule broken, with garbage, changed anyhow, and damaged files.

A legal model must be prepared, run, and give outputs of the right shapes, the same bytes as the graph of its file; an
illegal one must be refused with INVALID_ARGUMENT and a place. Nothing may raise. Where the NNAPI examples are at hand,
changes begin with them, too.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np

import npusim.hal as hal
from npusim.frontends.nn_hal.hal_file import loads
from npusim.hal import ErrorStatus
from npusim.isa.base.errors import FormatError

from ..damage import DAMAGES
from ..npusim.hal import examples
from ..npusim.hal.breaking import MODEL_BREAKS, REQUEST_BREAKS
from ..npusim.hal.garbage import GARBAGE, places
from ..npusim.hal.mutants import CHANGES, request_for
from ..npusim.hal.random_models import Drawn, Pick, draw
from .child import Report
from .command import attempt
from .harness import Kind

MODEL = "model.hal"
BREAKS, PIECES, MUTANTS, DAMAGED = 12, 12, 12, 6
"""Of each legal model: so many with a broken rule, with garbage, changed anyhow, and damaged files."""

EXAMPLES = Path(__file__).parents[3] / "shared" / "nnapi_examples"
MOST_TURNS = 200
"""Of a loop that never ends."""

PLACES = (
    *(
        "model",
        "operands",
        "operations",
        "inputIndexes",
        "outputIndexes",
        "operandValues",
        "pools",
        "version",
    ),
    *(
        "relaxComputationFloat32toFloat16",
        "extensionNameToPrefix",
        "referenced",
        "request",
        "inputs",
        "outputs",
    ),
)
"""What a message may begin with."""

INSIDE = "npusim itself fails"
"""How the message of a fault of npusim's own reads, which no model may bring about."""


def run(seed: int, folder: Path, report: Report) -> None:
    """One legal model and request, and what becomes of changed ones."""
    rng = random.Random(f"hal {seed}")
    device = hal.Device(max_loop_iterations=MOST_TURNS)
    _legal(device, drawn_by(seed), folder, report)
    for number in range(BREAKS):
        _broken(device, seed, rng, number % 2 == 0, report)
    for _ in range(PIECES):
        _garbage(device, seed, rng, report)
    for number in range(MUTANTS):
        _mutant(
            device, _example(rng) if number % 2 and EXAMPLES.exists() else drawn_by(seed).model, rng, report
        )
    if (folder / MODEL).exists():
        data = (folder / MODEL).read_bytes()
        for _ in range(DAMAGED):
            _damaged(data, rng, report)


def drawn_by(seed: int) -> Drawn:
    """The model and the request of a seed, made anew."""
    generator = np.random.default_rng([seed, 9])
    return draw(lambda low, high: int(generator.integers(low, high + 1)))


def _legal(device: hal.Device, drawn: Drawn, folder: Path, report: Report) -> None:
    prepared = device.prepareModel(drawn.model)
    if prepared.value is None:
        report.note("broken invariant", f"a legal model: {prepared.status.name} {prepared.message}")
        return
    supported = device.getSupportedOperations(drawn.model)
    if supported.value != [True] * len(drawn.model.operations):
        report.note("broken invariant", f"prepared, and supported are {supported}")
    execution = prepared.value.execute(drawn.request)
    if execution.value is None:
        report.note("broken invariant", f"a legal request: {execution.status.name} {execution.message}")
        return
    report.note("run")
    shapes = [tuple(shape.dimensions) for shape in execution.value.outputShapes]
    if shapes != drawn.shapes:
        report.note("wrong bytes", f"outputs have shapes {shapes}, must have {drawn.shapes}")
    hal.save(drawn.model, folder / MODEL)
    _same_as_file(drawn, folder, report)


def _same_as_file(drawn: Drawn, folder: Path, report: Report) -> None:
    """The file as `npusim run` executes it, where it says all sizes: the same bytes."""
    operands = [drawn.model.operands[index] for index in drawn.model.inputIndexes]
    if any(not operand.dimensions or 0 in operand.dimensions for operand in operands):
        return
    graph = hal.load(folder / MODEL)
    assert graph.version == drawn.model.version
    inputs, results = folder / "inputs.npz", folder / "outputs.npz"
    arguments = zip(drawn.request.inputs, operands, strict=True)
    arrays = [_array(drawn, argument, operand, list(operand.dimensions)) for argument, operand in arguments]
    with inputs.open("wb") as file:
        np.savez(file, **{f"in{number}": array for number, array in enumerate(arrays)})
    if attempt(report, ["run", str(folder / MODEL), "--input", str(inputs), "--output", str(results)]):
        return
    with np.load(results) as file:
        found = [file[f"out{number}"] for number in range(len(file.files))]
    for number, (argument, shape) in enumerate(zip(drawn.request.outputs, drawn.shapes, strict=True)):
        operand = drawn.model.operands[drawn.model.outputIndexes[number]]
        expected = _array(drawn, argument, operand, shape)
        if expected.tobytes() != found[number].tobytes():
            report.note("wrong bytes", f"output {number} of the file is not that of the request")
    report.note("compared")


def _array(drawn: Drawn, argument: hal.RequestArgument, operand: hal.Operand, shape: Any) -> Any:
    from npusim.frontends.nn_hal.enumerations import row_of

    name = row_of(hal.OperandType(operand.type)).element
    dtype = np.dtype("bool" if name is None else name)
    pool = drawn.request.pools[0]
    data = pool.tobytes() if isinstance(pool, np.ndarray) else bytes(memoryview(pool).cast("B"))
    begin = argument.location.offset
    return np.frombuffer(data[begin : begin + int(np.prod(shape)) * dtype.itemsize], dtype).reshape(shape)


def _broken(device: hal.Device, seed: int, rng: random.Random, of_model: bool, report: Report) -> None:
    drawn, pick = drawn_by(seed), _pick(rng)
    prepared = None if of_model else device.prepareModel(drawn.model).value
    change = rng.choice(MODEL_BREAKS if of_model else REQUEST_BREAKS)
    if (not of_model and prepared is None) or not change(pick, drawn):
        return
    found: Any = device.prepareModel(drawn.model) if prepared is None else prepared.execute(drawn.request)
    if found.status is not ErrorStatus.INVALID_ARGUMENT or found.value is not None:
        report.note("broken invariant", f"{change.__name__}: {found.status.name} {found.message}")
    elif _message(found.message, report):
        report.note("refused", change.__name__)


def _garbage(device: hal.Device, seed: int, rng: random.Random, report: Report) -> None:
    """Anything anywhere: any status, but nothing raises."""
    drawn = drawn_by(seed)
    for struct in (drawn.model, drawn.request):
        setters = [setter for _, setter in places(struct)]
        for setter in rng.sample(setters, rng.choice((1, 1, 2, 5))):
            setter(rng.choice(GARBAGE)())
    prepared = device.prepareModel(drawn.model)
    if prepared.value is not None:
        _message(prepared.value.execute(drawn.request).message, report)
    _message(prepared.message, report)


def _example(rng: random.Random) -> hal.Model:
    """The model of an NNAPI example."""
    return examples.model(rng.choice(examples.load(rng.choice(examples.files(EXAMPLES)))))


def _mutant(device: hal.Device, model: hal.Model, rng: random.Random, report: Report) -> None:
    """A model that is legal or not: what is said of it must agree."""
    for change in rng.choices(CHANGES, k=rng.choice((1, 1, 2, 2, 3))):
        change(model, rng)
    prepared, supported = device.prepareModel(model), device.getSupportedOperations(model)
    _message(prepared.message, report)
    refused = prepared.status is ErrorStatus.INVALID_ARGUMENT
    if refused != (supported.status is ErrorStatus.INVALID_ARGUMENT):
        report.note(
            "broken invariant", f"{prepared.status.name} {prepared.message!r}, supported: {supported}"
        )
    # Operations are looked at one by one: only preparing the whole tells that it does not fit the memories.
    elif (
        all(supported.value)
        and not refused
        and prepared.value is None
        and "all memories of" not in prepared.message
    ):
        report.note("broken invariant", f"supported, but {prepared.status.name} {prepared.message}")
    elif prepared.value is not None:
        _message(prepared.value.execute(request_for(model, rng)).message, report)


def _damaged(data: bytes, rng: random.Random, report: Report) -> None:
    changed = bytearray(data)
    rng.choice(DAMAGES)(changed, rng)
    try:
        loads(bytes(changed))
    except FormatError as fault:
        if not str(fault).isprintable():
            report.note("bad message", f"{fault!r}")
    else:
        if changed != data:
            report.note("broken invariant", "a damaged file is read")


def _message(text: str, report: Report) -> bool:
    """Whether a message is one printable line that begins with a place; notes what it is not."""
    good = not text or (
        text.isprintable() and len(text) < 600 and text.startswith(PLACES) and INSIDE not in text
    )
    if not good:
        report.note("bad message", text)
    return good


def _pick(rng: random.Random) -> Pick:
    return rng.randint


KIND = Kind("random legal and illegal HAL models, requests and files", run)
