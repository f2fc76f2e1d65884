"""Compilation of a model for the devices of a context, or restoring it from the cache."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from npusim.frontends.nnadapter.model_building import Model
from npusim.frontends.nnadapter.nnadapter_codes import (
    MAX_SIZE_OF_DYNAMIC_DIMENSIONS,
    DeviceInternalError,
    InvalidDimensions,
    InvalidParameter,
    faults_as,
    text_of,
)
from npusim.frontends.nnadapter.operand_type import OperandType, Shape, operand_type_of
from npusim.frontends.nnadapter.operation_graphs import Network
from npusim.isa.base.errors import NpusimError
from npusim.isa.base.tensor import Array
from npusim.nnadapter import cache_store, device_partition
from npusim.nnadapter.cache.cache_folder import path_of
from npusim.nnadapter.cache.compiled import CompiledGear, CompiledPiece, Crossing, Types
from npusim.nnadapter.cache.nnc_container import BadContent, CacheRefused
from npusim.nnadapter.cache_store import CacheWarning, Store
from npusim.nnadapter.device_context import Context
from npusim.nnadapter.device_partition import Asked, Partition, floating, plan_of
from npusim.nnadapter.device_result import Piece, Result
from npusim.nnadapter.gears import network_for, networks, shapes_come_with_runs
from npusim.nnadapter.hal import events
from npusim.nnadapter.hal.driver import Cache
from npusim.nnadapter.piece_programs import programs_of
from npusim.nnadapter.running import Runner
from npusim.numbers.run import RunResult


class Compilation:
    """A model that `finish` compiles for the devices of a context.

    compile_s: the seconds that compiling took, for a restored model those when it was compiled.
    restore_s: the seconds that restoring took; None for a model that was compiled.
    """

    def __init__(
        self,
        model: Model | None,
        context: Context,
        *,
        cache_dir: str | Path | None = None,
        token: str | None = None,
        buffer: Any = None,
        partition: Asked = None,
        in_float: Partition | None = None,
    ) -> None:
        """Prepare the compilation of a finished model. If the cache has it, the model is ignored and may be None.

        cache_dir: the cache folder; `finish` restores `<token>.nnc` from it, or else compiles and writes it.
        token:     the name of the compiled model in the cache; if None, computed from the model and the context.
        buffer:    the bytes of a `.nnc` file that was cached under the token; it takes precedence over the folder.
        partition: how to partition the model: "order", "cost", "single", a partition file, a `Partition`, or several of
                   these; if None, as the context's properties say. In any case the operations are forced to the CPU
                   that the environment lists: SUBGRAPH_PARTITION_CONFIG_FILE names a file, or else _BUFFER holds text.
        in_float:  operations on quantized values that are computed in floating point, between a dequantization and a
                   quantization. None: those of MIXED_PRECISION_QUANTIZATION_CONFIG_FILE or else _BUFFER.

        Raises InvalidParameter.
        """
        if not isinstance(context, Context):
            raise InvalidParameter(f"context: is {text_of(context)}, must be a Context")
        context.require_open()
        if model is not None and not isinstance(model, Model):
            raise InvalidParameter(f"model: is {text_of(model)}, must be a Model")
        if model is not None and not model.finished:
            raise InvalidParameter(f"{model.name}: is not finished")
        self.context = context
        self.compile_s = 0.0
        self.restore_s: float | None = None
        self._token, self._folder, self._buffer = cache_store.cache_arguments(token, cache_dir, buffer)
        self._model = model
        self._plan = plan_of(partition, context.mode, in_float)
        self._gears: tuple[CompiledGear, ...] = ()
        self._types: Types | None = None
        self._runners: dict[CompiledGear, Runner] = {}
        self._name = "model" if model is None else model.name
        self._destroyed = False
        context.holds(self)

    def finish(self) -> None:
        """Restore the model from the cache, or compile it: one program per piece and gear.

        A model whose inputs have open sizes and no gears is compiled by `gear_for`, when a run gives its shapes.

        A CacheWarning says why a cached model does not fit, or why the compiled one cannot be cached. If there is no
        model to compile instead, a cached model that does not fit is an error.

        Raises InvalidParameter the second time and without model and cache, CacheRefused, InvalidDimensions for sizes
        that stay open, FeatureNotSupported for operations that no device can do, and what a driver raises.
        """
        with faults_as(DeviceInternalError):
            self._finish()

    def _finish(self) -> None:
        self._require_open()
        if self._types is not None:
            raise InvalidParameter("compilation: is finished already")
        if self._model is None and self._token is None:
            raise InvalidParameter("compilation: has neither a model nor a cache")
        store = self._store()
        if store is not None and self._restore(store):
            return
        if self._model is None:
            raise InvalidParameter(f"compilation: has no model, and there is no {self.cache_path or 'cache'}")
        self._compile(self._model, "" if store is None or store.folder is None else store.token)
        if store is not None and self._gears:
            self._keep(store)

    def _store(self) -> Store | None:
        """Return where the compiled model is cached; None for a compilation without a cache."""
        if self._folder is None and self._buffer is None:
            return None
        assert self.token is not None
        return Store(self.token, self._folder, self._buffer)

    def _restore(self, store: Store) -> bool:
        """Restore the model from the cache, and return whether that succeeded.

        Without a model to compile instead, a cached model that does not fit raises CacheRefused.
        """
        begin = time.perf_counter()
        try:
            record = store.read()
            if record is None:
                return False
            cache_store.expectation(store.token, self.context).require(record)
            self._name = record.name
            self._gears = cache_store.restored(record, self.context, store)
            self._require_linked()
        except CacheRefused as refused:
            if self._model is None:
                raise type(refused)(f"{store.name}: {refused}") from None
            _warn(f"{store.name}: {refused}; the model is compiled anew")
            self._name = self._model.name
            return False
        self._types = Types(list(record.inputs), list(record.outputs))
        self.compile_s, self.restore_s = record.compile_seconds, time.perf_counter() - begin
        return True

    def _require_linked(self) -> None:
        """Raise BadContent if the programs of a gear cannot be linked."""
        try:
            for gear in self._gears:
                self._runner(gear)
        except NpusimError as fault:
            _destroy(self.context, self._gears)
            self._gears = ()
            raise BadContent(str(fault)) from None

    def _compile(self, model: Model, token: str) -> None:
        """Compile a model; `token` is the name under which programs will be cached, "" if they will not."""
        begin = time.perf_counter()
        gears: list[CompiledGear] = []
        try:
            for network in networks(model):
                gears.append(self._programs(network, token))
        except Exception:
            _destroy(self.context, gears)
            raise
        self._gears = tuple(gears)
        self._types = _types(model, self._gears)
        if gears:
            self._log(model, gears[0].pieces)
        self.compile_s = time.perf_counter() - begin

    def _programs(self, network: Network, token: str) -> CompiledGear:
        cache = Cache(token, str(self._folder or ""))
        return programs_of(floating(network, self._plan), self.context, self._plan, cache)

    def _log(self, model: Model, pieces: Sequence[CompiledPiece]) -> None:
        """Log the pieces and the operations of the model, if events are asked for."""
        events.log(
            events.PIECES,
            lambda: f"{model.name}: {', '.join(f'{one.device} {len(one.operations)}' for one in pieces)}",
        )
        events.log(events.MODELS, lambda: device_partition.log_text(networks(model)[0], pieces))
        events.log(events.MODELS, model.dot)

    def _keep(self, store: Store) -> None:
        """Write the compiled model to the cache, or warn that this failed."""
        if store.folder is None:
            return
        assert self._types is not None
        expected = cache_store.expectation(store.token, self.context)
        try:
            store.write(cache_store.record_of(self._name, expected, self._types, self._gears, self.compile_s))
        except NpusimError as fault:
            _warn(f"the compiled model is not cached: {fault}")

    @property
    def restored(self) -> bool:
        """Whether the model was restored from a cache instead of compiled."""
        return self.restore_s is not None

    @property
    def token(self) -> str | None:
        """The name of the compiled model in the cache, computed if none was given; None without a model."""
        if self._token is None and self._model is not None:
            self._token = cache_store.computed_token(self._model, self.context, self._plan)
        return self._token

    @property
    def cache_path(self) -> Path | None:
        """The cache file of the compiled model; None without a folder."""
        if self._folder is None or self.token is None:
            return None
        return path_of(self._folder, self.token)

    @property
    def finished(self) -> bool:
        """Whether `finish` succeeded."""
        return self._types is not None

    @property
    def destroyed(self) -> bool:
        """Whether `destroy` was called, or its context destroyed."""
        return self._destroyed

    @property
    def gears(self) -> tuple[CompiledGear, ...]:
        """The programs, one gear per combination of input shapes. Raises InvalidParameter before `finish`."""
        self._require_finished()
        return self._gears

    @property
    def pieces(self) -> list[Piece]:
        """The pieces of the first gear with cycles and energy. Raises InvalidParameter before `finish`."""
        with faults_as(DeviceInternalError):
            return [one for gear in self.gears[:1] for one in self._runner(gear).pieces()]

    @property
    def inputs(self) -> list[OperandType]:
        """The types of the model's inputs. Raises InvalidParameter before `finish`."""
        return self.query_inputs_and_outputs().inputs

    @property
    def outputs(self) -> list[OperandType]:
        """The types of the model's outputs. Raises InvalidParameter before `finish`."""
        return self.query_inputs_and_outputs().outputs

    def query_inputs_and_outputs(self) -> Types:
        """Return copies of the types of inputs and outputs. Raises InvalidParameter before `finish`."""
        types = self._require_finished()
        return Types(*([type_.copy() for type_ in side] for side in types))

    def gear_for(self, shapes: tuple[Shape, ...]) -> CompiledGear:
        """Return the programs for shapes of the inputs; compile them now if inputs have open sizes and no gears.

        Raises InvalidDimensions for shapes that no program has or may have, and what `finish` raises.
        """
        for gear in self.gears:
            if gear.shapes == shapes:
                return gear
        if self._model is None or not shapes_come_with_runs(self._model):
            raise InvalidDimensions(_other_shapes(self._gears, shapes))
        begin = time.perf_counter()
        store = self._store()
        with faults_as(DeviceInternalError):
            network = network_for(self._model, shapes)
            gear = self._programs(network, "" if store is None or store.folder is None else store.token)
        if len(self._gears) == MAX_SIZE_OF_DYNAMIC_DIMENSIONS:  # keep as many as a model may have gears
            _destroy(self.context, self._gears[:1])
            self._runners.pop(self._gears[0], None)
            self._gears = self._gears[1:]
        self._gears += (gear,)
        self.compile_s += time.perf_counter() - begin
        if store is not None:
            self._keep(store)
        return gear

    def run(self, gear: CompiledGear, inputs: Sequence[Array]) -> Result:
        """Run a gear with data. Raises what a device raises."""
        self._require_finished()
        with faults_as(DeviceInternalError):
            return _with_times(self._runner(gear).run(inputs), self.compile_s, self.restore_s)

    def timed(self, gear: CompiledGear) -> RunResult | None:
        """Return the measurements of a run of a gear without data; None if no device of it is simulated."""
        self._require_finished()
        with faults_as(DeviceInternalError):
            return self._runner(gear).timed()

    def _runner(self, gear: CompiledGear) -> Runner:
        if gear not in self._runners:
            self._runners[gear] = Runner(gear, self.context, self._name)
        return self._runners[gear]

    def destroy(self) -> None:
        """Tell every driver to free its programs; the compilation cannot be used afterwards."""
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


def _other_shapes(gears: Sequence[CompiledGear], shapes: tuple[Shape, ...]) -> str:
    """Return why no program fits these shapes of the inputs."""
    for index, shape in enumerate(shapes):
        may = list(dict.fromkeys(gear.shapes[index] for gear in gears))
        if shape not in may:
            wanted = " or ".join(str(list(one)) for one in may)
            return f"input {index}: has shape {list(shape)}, must have {wanted}"
    given = ", ".join(str(list(shape)) for shape in shapes)
    wanted = " or ".join(" with ".join(str(list(one)) for one in gear.shapes) for gear in gears)
    return f"inputs: have shapes {given}, must have {wanted}"


def _with_times(result: Result, compile_s: float, restore_s: float | None) -> Result:
    """Return a result with the times of compiling and restoring added."""
    if result.run is None:
        return result
    wall_s = replace(result.run.wall_s, compile=compile_s, restore=restore_s)
    return replace(result, run=replace(result.run, wall_s=wall_s))


def _destroy(context: Context, gears: Sequence[CompiledGear]) -> None:
    for gear in gears:
        cache_store.destroy(context, gear.pieces)


def _types(model: Model, gears: Sequence[CompiledGear]) -> Types:
    """Return the types of inputs and outputs as the model declares them, outputs with inferred shapes."""
    if model.output_operands:
        inputs = [operand.type.copy() for operand in model.input_operands]
        outputs = [operand.type.copy() for operand in model.output_operands]
        for index, type_ in enumerate(outputs):
            shapes = list(dict.fromkeys(gear.outputs[index].type.shape for gear in gears))
            if len(shapes) == 1:
                type_.dimensions = list(shapes[0])
        return Types(inputs, outputs)
    return Types(
        *(
            [_type_in_gears(row) for row in zip(*sides, strict=True)]
            for sides in ([gear.inputs for gear in gears], [gear.outputs for gear in gears])
        )
    )


def _type_in_gears(ends: Sequence[Crossing]) -> OperandType:
    """Return the type of an input or output from its shapes in the gears."""
    type_ = operand_type_of(ends[0].type, ends[0].name)
    type_.take_shapes([end.type.shape for end in ends])
    return type_


def _warn(text: str) -> None:
    warnings.warn(CacheWarning(text), stacklevel=4)
