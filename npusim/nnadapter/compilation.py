"""A compilation: a model made ready for the devices of a context."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from npusim.frontends.nnadapter.errors import InvalidParameter
from npusim.frontends.nnadapter.model import Model
from npusim.frontends.nnadapter.network import Network
from npusim.frontends.nnadapter.operand_type import OperandType, Shape
from npusim.isa.base.tensor import Array
from npusim.kernels.graph.graph import Tensor
from npusim.nnadapter.compiled import CompiledGear, CompiledPiece, Crossing
from npusim.nnadapter.context import Context
from npusim.nnadapter.gears import networks
from npusim.nnadapter.hal.driver import Cache, Submodel
from npusim.nnadapter.hal.types import operand_type_of
from npusim.nnadapter.partition import Asked, Plan, asked, cut
from npusim.nnadapter.result import Piece, Result
from npusim.nnadapter.running import Runner
from npusim.nnadapter.segment import machines_of, part_of
from npusim.numbers.run import RunResult
from npusim.scheduler.partition.linked import Part
from npusim.scheduler.partition.pieces import Piece as Stretch
from npusim.session.devices import Bench


class Types(NamedTuple):
    """The inputs and outputs of a compiled model."""

    inputs: list[OperandType]
    outputs: list[OperandType]


class Compilation:
    """A model on its way to the devices of a context; `finish` gets it there.

    compile_s: the seconds that `finish` took.
    """

    def __init__(self, model: Model | None, context: Context, *, partition: Asked = None) -> None:
        """A compilation of a finished model.

        partition: how it is cut: "order", "cost", "single", a partition file, a `Partition`, or several of these; what
                   the context's properties say if None.

        Raises InvalidParameter.
        """
        if not isinstance(context, Context):
            raise InvalidParameter(f"context: is {context!r}, must be a Context")
        context.require_open()
        if model is not None and not isinstance(model, Model):
            raise InvalidParameter(f"model: is {model!r}, must be a Model")
        if model is not None and not model.finished:
            raise InvalidParameter(f"{model.name}: is not finished")
        self.context = context
        self.compile_s = 0.0
        self._model = model
        self._plan = asked(partition, context.mode)
        self._gears: tuple[CompiledGear, ...] = ()
        self._types: Types | None = None
        self._runners: dict[CompiledGear, Runner] = {}
        self._name = "model" if model is None else model.name
        self._destroyed = False
        context.holds(self)

    def finish(self) -> None:
        """Compiles the model: a program per piece and gear.

        Raises InvalidParameter the second time and without a model, InvalidDimensions for sizes that stay open,
        FeatureNotSupported for operations that no device can do, and what a driver raises.
        """
        self._require_open()
        if self._types is not None:
            raise InvalidParameter("compilation: is finished already")
        if self._model is None:
            raise InvalidParameter("compilation: has neither a model nor a cache")
        begin = time.perf_counter()
        made: list[CompiledGear] = []
        try:
            for network in networks(self._model):
                made.append(_compiled(network, self.context, self._plan))
        except Exception:
            _destroy(self.context, made)
            raise
        self._gears = tuple(made)
        self._types = _types(self._model, self._gears)
        self.compile_s = time.perf_counter() - begin

    @property
    def finished(self) -> bool:
        """Whether it is compiled."""
        return self._types is not None

    @property
    def destroyed(self) -> bool:
        """Whether `destroy` was called, or its context destroyed."""
        return self._destroyed

    @property
    def gears(self) -> tuple[CompiledGear, ...]:
        """The programs, per choice of the inputs' shapes. Raises InvalidParameter before `finish`."""
        self._require_finished()
        return self._gears

    @property
    def pieces(self) -> list[Piece]:
        """The pieces of the first gear, with what they take. Raises InvalidParameter before `finish`."""
        return list(self._runner(self.gears[0]).pieces())

    @property
    def inputs(self) -> list[OperandType]:
        """The types of the model's inputs. Raises InvalidParameter before `finish`."""
        return self.query_inputs_and_outputs().inputs

    @property
    def outputs(self) -> list[OperandType]:
        """The types of the model's outputs. Raises InvalidParameter before `finish`."""
        return self.query_inputs_and_outputs().outputs

    def query_inputs_and_outputs(self) -> Types:
        """The types of the model's inputs and outputs; copies. Raises InvalidParameter before `finish`."""
        types = self._require_finished()
        return Types(*([type_.copy() for type_ in side] for side in types))

    def run(self, gear: CompiledGear, inputs: Sequence[Array]) -> Result:
        """One run of a gear with data. Raises what a device raises."""
        self._require_finished()
        return self._runner(gear).run(inputs)

    def timed(self, gear: CompiledGear) -> RunResult | None:
        """Every number of a run of a gear that npusim simulates, without data; None where it simulates nothing."""
        self._require_finished()
        return self._runner(gear).timed()

    def _runner(self, gear: CompiledGear) -> Runner:
        if gear not in self._runners:
            self._runners[gear] = Runner(gear, self.context, self._name)
        return self._runners[gear]

    def destroy(self) -> None:
        """Ends it: every driver destroys its programs."""
        if self._destroyed:
            return
        self._destroyed = True
        _destroy(self.context, self._gears)

    def _require_open(self) -> None:
        if self._destroyed:
            raise InvalidParameter("compilation: is destroyed")
        self.context.require_open()

    def _require_finished(self) -> Types:
        self._require_open()
        if self._types is None:
            raise InvalidParameter("compilation: is not finished")
        return self._types

    def __repr__(self) -> str:
        state = "destroyed" if self._destroyed else "finished" if self.finished else "not finished"
        return f"<Compilation on {', '.join(self.context.devices)}: {state}>"


def _compiled(network: Network, context: Context, plan: Plan) -> CompiledGear:
    """A model of one gear, piece by piece. Raises NNAdapterError."""
    made = _Programs(network, context)
    try:
        found = cut(network, context.members, plan, made.bench)
        made.forced = found.forced
        gear = _gear(network, [made.piece(piece) for piece in found.pieces], found.tries)
    except Exception:
        made.destroy(())
        raise
    made.destroy(gear.pieces)
    return gear


class _Programs:
    """The programs of pieces of a model, each made once by the driver of its device.

    forced: operations that must be on a CPU, by place, and who says so.
    """

    def __init__(self, network: Network, context: Context) -> None:
        self.forced: Mapping[int, str] = {}
        self._network, self._context = network, context
        self._made: dict[Stretch, CompiledPiece] = {}

    def bench(self, forced: Mapping[int, str]) -> Bench:
        """What times partitions of the model."""
        self.forced = forced
        network, cores = self._network, self._context.cores

        def program(piece: Stretch) -> Part | None:
            member = self._context.members[piece.device]
            return part_of(self.piece(piece), cores) if member in cores else None

        inputs, outputs = (
            [(number, _tensor(network, number)) for number in side]
            for side in (network.inputs, network.outputs)
        )
        return Bench(network.name, machines_of(cores), program, inputs, outputs)

    def piece(self, piece: Stretch) -> CompiledPiece:
        """A piece with its program. Raises NNAdapterError."""
        if piece not in self._made:
            self._made[piece] = self._compiled(piece)
        return self._made[piece]

    def destroy(self, kept: Sequence[CompiledPiece]) -> None:
        """The drivers destroy all programs but those of some pieces."""
        for piece in self._made.values():
            if piece not in kept:
                member = self._context.member(piece.device)
                member.call("destroy_program", piece.program)

    def _compiled(self, piece: Stretch) -> CompiledPiece:
        network, member = self._network, self._context.members[piece.device]
        forced = {place: self.forced[place] for place in piece.operations if place in self.forced}
        submodel = Submodel(network, piece.operations, forced)
        graph = submodel.graph()
        cache = Cache()
        inputs, outputs = (tuple(_crossing(network, number) for number in side) for side in graph[1:3])
        program = member.call("create_program", member.context, submodel, cache)
        steps = submodel.operations
        return CompiledPiece(
            member.name,
            tuple(step.kind for step in steps),
            tuple(step.name for step in steps),
            inputs,
            outputs,
            program,
            cache.buffer,
        )


def _crossing(network: Network, number: int) -> Crossing:
    name, kind = network.tensor_name(number), network.tensor_type(number)
    return Crossing(number, name, kind, network.counted.get(number))


def _tensor(network: Network, number: int) -> Tensor:
    return Tensor(network.tensor_name(number), network.tensor_type(number), network.value(number))


def _gear(network: Network, pieces: Sequence[CompiledPiece], tries: int) -> CompiledGear:
    inputs, outputs = (
        tuple(_crossing(network, number) for number in side) for side in (network.inputs, network.outputs)
    )
    shapes: tuple[Shape, ...] = tuple(crossing.type.shape for crossing in inputs)
    values = {number: network.value(number) for number in network.outputs}
    constants = {number: value for number, value in values.items() if value is not None}
    return CompiledGear(shapes, inputs, outputs, tuple(pieces), constants, tries)


def _destroy(context: Context, gears: Sequence[CompiledGear]) -> None:
    for gear in gears:
        for piece in gear.pieces:
            member = context.member(piece.device)
            member.call("destroy_program", piece.program)


def _types(model: Model, gears: Sequence[CompiledGear]) -> Types:
    """The types of the inputs and outputs: as the model says, outputs with the shapes that were found."""
    if model.output_operands:
        inputs = [operand.type.copy() for operand in model.input_operands]
        outputs = [operand.type.copy() for operand in model.output_operands]
        for index, type_ in enumerate(outputs):
            shapes = list(dict.fromkeys(gear.outputs[index].type.shape for gear in gears))
            if len(shapes) == 1:
                type_.dimensions = list(shapes[0])
        return Types(inputs, outputs)
    (gear,) = gears
    return Types(
        *([operand_type_of(one.type, one.name) for one in side] for side in (gear.inputs, gear.outputs))
    )
