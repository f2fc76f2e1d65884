"""The cache of a compilation: from compiled programs to a `.nnc` container, and back to programs on the devices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from npusim.frontends.nnadapter.model_building import Model
from npusim.frontends.nnadapter.nnadapter_codes import (
    FeatureNotSupported,
    InvalidParameter,
    NNAdapterError,
)
from npusim.isa.base.errors import NpusimError
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.version import npusim_version
from npusim.isa.program.program import Program
from npusim.nnadapter.cache import cache_folder, compiled_record
from npusim.nnadapter.cache.cache_token import DeviceFacts, Expectation, token_of
from npusim.nnadapter.cache.compiled import CompiledGear, CompiledPiece, Crossing, Types
from npusim.nnadapter.cache.compiled_record import Record
from npusim.nnadapter.cache.nnc_container import BadContent, CacheRefused, WrongMachine
from npusim.nnadapter.device_context import Context, Member
from npusim.nnadapter.device_partition import Plan
from npusim.nnadapter.hal.driver import Cache


class CacheWarning(UserWarning):
    """A cached model is not used, or a compiled model cannot be cached."""


@dataclass(frozen=True, slots=True)
class Store:
    """Where a compilation reads and writes its compiled model.

    token:  the name of the cached model.
    folder: the folder of the files; None if no file is written.
    buffer: a container in memory, which takes precedence over a file.
    """

    token: str
    folder: Path | None
    buffer: bytes | None

    @property
    def path(self) -> Path | None:
        """The file of the cached model; None without a folder."""
        return None if self.folder is None else cache_folder.path_of(self.folder, self.token)

    @property
    def name(self) -> str:
        """The source of the cached model, for messages."""
        return f"the cache buffer of token {self.token}" if self.buffer is not None else str(self.path)

    def read(self) -> Record | None:
        """Return the cached model; None if there is none. Raises CacheRefused if it is damaged or cannot be read."""
        data = self.buffer
        if data is None and self.folder is not None:
            try:
                data = cache_folder.read(self.folder, self.token)
            except NpusimError as fault:
                raise CacheRefused(str(fault).removeprefix(f"{self.path}: ")) from None
        return None if data is None else compiled_record.load(data)

    def write(self, record: Record) -> None:
        """Write a compiled model. Raises NpusimError if that fails, or if the model could not be restored."""
        if self.folder is not None:
            cache_folder.write(self.folder, self.token, compiled_record.save(record))


def cache_arguments(
    token: object, cache_dir: object, buffer: object
) -> tuple[str | None, Path | None, bytes | None]:
    """Check the caller's token, folder and buffer, and return them. Raises InvalidParameter."""
    name = None if token is None else cache_folder.checked_token(token)
    place = None if cache_dir is None else cache_folder.checked_folder(cache_dir)
    if buffer is None:
        return name, place, None
    if name is None:
        raise InvalidParameter("token: is missing, a buffer needs the token that it was cached under")
    try:
        return name, place, bytes(memoryview(buffer))  # type: ignore[arg-type]
    except (TypeError, ValueError, BufferError):
        raise InvalidParameter(
            f"buffer: is {type(buffer).__name__}, must be the bytes of a .nnc file"
        ) from None


def expectation(token: str, context: Context) -> Expectation:
    """Return the devices and settings that a cached model must have been compiled for, so that a context takes it."""
    return Expectation(token, _facts(context), context.settings)


def _facts(context: Context) -> list[DeviceFacts]:
    return [
        DeviceFacts(member.name, int(member.driver.version), member.machine) for member in context.members
    ]


def computed_token(model: Model, context: Context, plan: Plan) -> str:
    """Return the token of a model on the devices of a context, partitioned by a plan."""
    forced, in_float = (
        [(line.kind, line.inputs, line.outputs) for line in lines] for lines in (plan.forced, plan.in_float)
    )
    settings = {"properties": context.settings, "mode": plan.mode, "forced": forced, "in_float": in_float}
    return token_of(model, _facts(context), settings)


def record_of(
    name: str, expected: Expectation, types: Types, gears: Sequence[CompiledGear], seconds: float
) -> Record:
    """Return the record of a compiled model. Raises FeatureNotSupported if a driver left nothing to cache."""
    for gear in gears:
        for piece in gear.pieces:
            if not piece.buffer:
                raise FeatureNotSupported(f"the driver of {piece.device} leaves nothing to cache")
    return Record(
        expected.token,
        npusim_version(),
        expected.machine_digest,
        expected.properties,
        name,
        tuple(types.inputs),
        tuple(types.outputs),
        tuple(gears),
        seconds,
    )


def restored(record: Record, context: Context, store: Store) -> tuple[CompiledGear, ...]:
    """Return the gears of a cached model with programs that the drivers restored. Raises CacheRefused."""
    pieces: list[CompiledPiece] = []
    gears: list[CompiledGear] = []
    try:
        for gear in record.gears:
            begin = len(pieces)
            for piece in gear.pieces:
                member = context.member(piece.device)
                pieces.append(_restored_piece(piece, member, store, f"piece {len(pieces)}"))
            constants = {
                end.number: gear.constants[end.number].view(end.type.numpy_dtype).reshape(end.type.shape)
                for end in gear.outputs
                if end.number in gear.constants
            }
            gears.append(replace(gear, pieces=tuple(pieces[begin:]), constants=constants))
    except Exception:
        destroy(context, pieces)
        raise
    return tuple(gears)


def _restored_piece(piece: CompiledPiece, member: Member, store: Store, where: str) -> CompiledPiece:
    cache = driver_cache(
        Cache(store.token, str(store.folder or "")), piece.inputs, piece.outputs, piece.buffer
    )
    try:
        program = member.call("create_program", member.context, None, cache)
    except NNAdapterError as fault:
        raise BadContent(f"{where}: {fault}") from None
    result = replace(piece, program=program)
    if result.simulated is not None:
        _require_fitting(result, result.simulated, member, where)
    return result


def driver_cache(
    cache: Cache, inputs: Sequence[Crossing], outputs: Sequence[Crossing], buffer: bytes = b""
) -> Cache:
    """Return the cache information that a driver gets for one piece."""
    input_types, output_types = (tuple(end.type for end in ends) for ends in (inputs, outputs))
    return Cache(cache.token, cache.dir, input_types, output_types, buffer)


def _require_fitting(piece: CompiledPiece, program: Program, member: Member, where: str) -> None:
    """Raise WrongMachine or BadContent for a program of another machine, or with other inputs than its piece."""
    if program.hardware != member.machine:
        raise WrongMachine(f"{where}: its program is not for the machine of {piece.device}")
    for word, ends, places in (
        ("inputs", piece.inputs, program.inputs),
        ("outputs", piece.outputs, program.outputs),
    ):
        wanted = [(end.type.dtype, end.type.shape) for end in ends]
        if wanted != [(place.type.dtype, place.type.shape) for place in places]:
            raise BadContent(f"{where}: the {word} of its program are not its own")


def destroy(context: Context, pieces: Iterable[CompiledPiece]) -> None:
    """Tell each driver to free its programs."""
    for piece in pieces:
        context.member(piece.device).call("destroy_program", piece.program)
