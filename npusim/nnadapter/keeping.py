"""Compiled models that are kept: from a compilation to a container, and back on the devices of a context."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from npusim.frontends.nnadapter.errors import FeatureNotSupported, InvalidParameter, NNAdapterError
from npusim.frontends.nnadapter.model import Model
from npusim.isa.base.errors import NpusimError
from npusim.isa.base.version import npusim_version
from npusim.isa.program.program import Program
from npusim.nnadapter.cache import checks, folder, record
from npusim.nnadapter.cache.expectation import DeviceFacts, Expectation
from npusim.nnadapter.cache.record import KeptGear, KeptPiece, Record
from npusim.nnadapter.cache.refusals import BadContent, CacheRefused, WrongMachine
from npusim.nnadapter.cache.tokens import token_of
from npusim.nnadapter.compiled import CompiledGear, CompiledPiece, Crossing, Types
from npusim.nnadapter.context import Context, Member
from npusim.nnadapter.hal.driver import Cache
from npusim.nnadapter.partition import Plan


class CacheWarning(UserWarning):
    """A kept compiled model that is not taken, or a compiled model that cannot be kept."""


@dataclass(frozen=True, slots=True)
class Store:
    """Where a compilation looks for its compiled model, and leaves it.

    token:  the name that it is kept under.
    folder: of the files; None where nothing is written.
    buffer: the container itself, which goes before a file.
    """

    token: str
    folder: Path | None
    buffer: bytes | None

    @property
    def path(self) -> Path | None:
        """The file; None where none is written."""
        return None if self.folder is None else folder.path_of(self.folder, self.token)

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"the cache buffer of token {self.token}" if self.buffer is not None else str(self.path)

    def found(self) -> Record | None:
        """The compiled model that is kept here; None if there is none.

        Raises CacheRefused for one that is damaged, and for a file that cannot be read.
        """
        data = self.buffer
        if data is None and self.folder is not None:
            try:
                data = folder.read(self.folder, self.token)
            except NpusimError as fault:
                raise CacheRefused(str(fault).removeprefix(f"{self.path}: ")) from None
        return None if data is None else checks.load(data)

    def keep(self, kept: Record) -> None:
        """Writes a compiled model. Raises NpusimError for a folder or file that cannot be written, or a model that
        could not be restored.
        """
        if self.folder is not None:
            folder.write(self.folder, self.token, checks.save(kept))


def asked(token: object, cache_dir: object, buffer: object) -> tuple[str | None, Path | None, bytes | None]:
    """What a caller says of the cache, as values of the right kinds. Raises InvalidParameter."""
    name = None if token is None else folder.checked_token(token)
    place = None if cache_dir is None else folder.checked_folder(cache_dir)
    if buffer is None:
        return name, place, None
    if name is None:
        raise InvalidParameter("token: is missing, a buffer needs the token that it was kept under")
    try:
        return name, place, bytes(memoryview(buffer))  # type: ignore[arg-type]
    except (TypeError, ValueError, BufferError):
        raise InvalidParameter(
            f"buffer: is {type(buffer).__name__}, must be the bytes of a .nnc file"
        ) from None


def expectation(token: str, context: Context) -> Expectation:
    """What a kept model must be for a context to take it."""
    return Expectation(token, [_facts(member) for member in context.members], context.settings)


def _facts(member: Member) -> DeviceFacts:
    return DeviceFacts(member.name, int(member.driver.version), member.machine)


def computed_token(model: Model, context: Context, plan: Plan) -> str:
    """The token of a model on the devices of a context, cut by a plan."""
    forced, in_float = (
        [(line.kind, line.inputs, line.outputs) for line in lines] for lines in (plan.forced, plan.in_float)
    )
    settings = {"properties": context.settings, "mode": plan.mode, "forced": forced, "in_float": in_float}
    return token_of(model, [_facts(member) for member in context.members], settings)


def kept(
    name: str, expected: Expectation, types: Types, gears: Sequence[CompiledGear], seconds: float
) -> Record:
    """The record of a compiled model. Raises FeatureNotSupported where a driver left nothing to keep."""
    for gear in gears:
        for piece in gear.pieces:
            if not piece.buffer:
                raise FeatureNotSupported(f"the driver of {piece.device} leaves nothing to keep")
    return Record(
        expected.token,
        npusim_version(),
        expected.machine_digest,
        expected.properties,
        name,
        tuple(types.inputs),
        tuple(types.outputs),
        tuple(_kept_gear(gear) for gear in gears),
        seconds,
    )


def _kept_gear(gear: CompiledGear) -> KeptGear:
    pieces = [
        KeptPiece(
            piece.device,
            piece.kinds,
            piece.operations,
            _kept_ends(piece.inputs),
            _kept_ends(piece.outputs),
            piece.buffer,
        )
        for piece in gear.pieces
    ]
    constants = {number: array.tobytes() for number, array in gear.constants.items()}
    return KeptGear(_kept_ends(gear.inputs), _kept_ends(gear.outputs), tuple(pieces), constants, gear.tries)


def _kept_ends(ends: Sequence[Crossing]) -> tuple[record.Crossing, ...]:
    return tuple(record.Crossing(end.number, end.name, end.type, end.counted) for end in ends)


def restored(found: Record, context: Context, store: Store) -> tuple[CompiledGear, ...]:
    """The gears of a kept model, with all programs made again. Raises CacheRefused."""
    pieces: list[CompiledPiece] = []
    gears: list[CompiledGear] = []
    try:
        for gear in found.gears:
            begin = len(pieces)
            for piece in gear.pieces:
                member = context.member(piece.device)
                pieces.append(_restored_piece(piece, member, store, f"piece {len(pieces)}"))
            gears.append(_restored_gear(gear, pieces[begin:]))
    except Exception:
        destroy(context, pieces)
        raise
    return tuple(gears)


def _restored_gear(gear: KeptGear, pieces: Sequence[CompiledPiece]) -> CompiledGear:
    constants = {
        end.number: np.frombuffer(gear.constants[end.number], end.type.numpy_dtype).reshape(end.type.shape)
        for end in gear.outputs
        if end.number in gear.constants
    }
    shapes = tuple(end.type.shape for end in gear.inputs)
    return CompiledGear(shapes, _ends(gear.inputs), _ends(gear.outputs), tuple(pieces), constants, gear.tries)


def _restored_piece(piece: KeptPiece, member: Member, store: Store, where: str) -> CompiledPiece:
    inputs, outputs = _ends(piece.inputs), _ends(piece.outputs)
    told = Cache(store.token, str(store.folder or ""))
    given = telling(told, inputs, outputs, piece.buffer)
    try:
        program = member.call("create_program", member.context, None, given)
    except NNAdapterError as fault:
        raise BadContent(f"{where}: {fault}") from None
    made = CompiledPiece(piece.device, piece.kinds, piece.operations, inputs, outputs, program, piece.buffer)
    if made.simulated is not None:
        _require_fitting(made, made.simulated, member, where)
    return made


def telling(
    told: Cache, inputs: Sequence[Crossing], outputs: Sequence[Crossing], buffer: bytes = b""
) -> Cache:
    """What drivers are told of the cache, for one piece."""
    input_types, output_types = (tuple(end.type for end in ends) for ends in (inputs, outputs))
    return Cache(told.token, told.dir, input_types, output_types, buffer)


def _require_fitting(piece: CompiledPiece, program: Program, member: Member, where: str) -> None:
    """Raises WrongMachine, or BadContent, for a program that is not what its piece says."""
    if program.hardware != member.machine:
        raise WrongMachine(f"{where}: its program is not for the machine of {piece.device}")
    for word, ends, places in (
        ("inputs", piece.inputs, program.inputs),
        ("outputs", piece.outputs, program.outputs),
    ):
        said = [(end.type.dtype, end.type.shape) for end in ends]
        if said != [(place.type.dtype, place.type.shape) for place in places]:
            raise BadContent(f"{where}: the {word} of its program are not its own")


def _ends(ends: Sequence[record.Crossing]) -> tuple[Crossing, ...]:
    return tuple(Crossing(end.number, end.name, end.type, end.counted) for end in ends)


def destroy(context: Context, pieces: Iterable[CompiledPiece]) -> None:
    """The programs of pieces are no more."""
    for piece in pieces:
        context.member(piece.device).call("destroy_program", piece.program)
