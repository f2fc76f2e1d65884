"""Input values of a run: drawn at random, given by position or by name, or read from an npz file."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from npusim.base import npz
from npusim.isa.base.errors import SimulationError, nearest
from npusim.isa.base.tensor import Array, Placement, TensorType, distinct_names
from npusim.isa.program.executable import Executable
from npusim.isa.program.program import Program
from npusim.kernels.graph.bind import Offered

Inputs = Sequence[ArrayLike] | Mapping[str, ArrayLike]
"""Input values: a sequence by position, or a mapping by tensor name or "in0", "in1", ... ."""

_MOST_BYTES = 1 << 36
"""Size limit of an npz file of which only headers are read, before the model's inputs are known, which set it later."""


def draw(placements: Sequence[Placement], seed: int = 0) -> list[Array]:
    """Draw random values over the full range of each input's type (floats: -1 to 1), in the order of the inputs.

    Integers of 32 or 64 bits that are not quantized are 0 or 1. Most often they are indices of words or classes, and
    any table has at least two entries.

    One generator, `numpy.random.default_rng(seed)`, draws all of them, so equal seeds give equal values.
    """
    generator = np.random.default_rng(seed)
    return [_draw_one(generator, place.type) for place in placements]


def _draw_one(generator: np.random.Generator, wanted: TensorType) -> Array:
    dtype = wanted.numpy_dtype
    if dtype.kind == "b" or (dtype.kind in "iu" and dtype.itemsize >= 4 and wanted.quantization is None):
        return generator.integers(0, 2, wanted.shape, np.int64).astype(dtype)
    if dtype.kind in "iu":
        limits: Any = np.iinfo(dtype.name)
        wide = np.uint64 if dtype == np.uint64 else np.int64
        return generator.integers(limits.min, limits.max, wanted.shape, wide, endpoint=True).astype(dtype)
    return generator.uniform(-1, 1, wanted.shape).astype(dtype)


def bind(placements: Sequence[Placement], inputs: Inputs) -> list[Array]:
    """Check given values and return them in the order of the inputs. Raises SimulationError that names the input."""
    if isinstance(inputs, Mapping):
        keys = keys_of(placements, inputs)
        return [_checked(place, inputs[key], key) for place, key in zip(placements, keys, strict=True)]
    if isinstance(inputs, np.ndarray):
        raise SimulationError(
            f"inputs: one array given; it may be a list of {_count(placements)} or a mapping by name"
        )
    if len(inputs) != len(placements):
        raise SimulationError(
            f"inputs: {len(inputs)} given, the model has {_count(placements)}: {_listing(placements)}"
        )
    return [
        _checked(place, value, f"in{i}")
        for i, (place, value) in enumerate(zip(placements, inputs, strict=True))
    ]


def offered(inputs: Inputs | None) -> Offered:
    """Return the shapes of given values, which settle input sizes that a model leaves open."""
    if inputs is None or isinstance(inputs, np.ndarray):
        return Offered()
    by_key = inputs if isinstance(inputs, Mapping) else {f"in{i}": value for i, value in enumerate(inputs)}
    return Offered({key: np.shape(value) for key, value in by_key.items()})


def offered_by_npz(path: Path) -> Offered:
    """Return the shapes of the values in an npz file, reading only headers; raises NpusimError with the path."""
    with npz.opened(path, _MOST_BYTES) as archive:
        return Offered({key: archive.shape(key) for key in archive.keys})


def read_npz(path: Path, placements: Sequence[Placement]) -> list[Array]:
    """Read inputs from an npz file, by tensor name or in0, in1, ... Raises NpusimError with the path.

    Names are checked before any array is read, and no pickled object is ever loaded.
    """
    with npz.opened(path, sum(map(_most_bytes, placements))) as archive:
        keys = keys_of(placements, archive.keys)
        return [
            _checked(place, archive.array(key, partial(_require_type, place, key)), key)
            for place, key in zip(placements, keys, strict=True)
        ]


def _most_bytes(place: Placement) -> int:
    """Return the most bytes that the values of an input may have in the forms in which they can be given."""
    return 4 * place.type.elements if place.from_reals else place.type.size_bytes


def keys_of(placements: Sequence[Placement], given: Iterable[str]) -> list[str]:
    """Return the key of each input: its tensor name if only one input has it, or in<position>.

    Raises SimulationError for a key that is no input's, an input without a key, and one with two.
    """
    given = list(given)
    names = [place.name for place in placements]
    names_of = [
        ((place.name, f"in{i}") if names.count(place.name) == 1 else (f"in{i}",))
        for i, place in enumerate(placements)
    ]
    known = [key for keys in names_of for key in keys]
    for key in given:
        if key not in known:
            near = nearest(key, known)
            hint = f", did you mean {_quoted(near)}?" if near else ""
            raise SimulationError(
                f"input {_quoted(key)}: the model has no such input{hint or ';'} "
                f"it has {_count(placements)}: {_listing(placements)}"
            )
    chosen = []
    for i, keys in enumerate(names_of):
        present = [key for key in dict.fromkeys(keys) if key in given]
        if not present:
            raise SimulationError(
                f"input {_quoted(names[i])} (in{i}) is missing; the model has {_count(placements)}: "
                f"{_listing(placements)}"
            )
        if len(present) > 1:
            raise SimulationError(f"input {_quoted(names[i])} is given twice, also as in{i}; give it once")
        chosen.append(present[0])
    return chosen


def _checked(place: Placement, value: ArrayLike, key: str) -> Array:
    """Return a value as a contiguous little-endian array of the input's type and shape."""
    array: Array = np.asarray(value)
    _require_type(place, key, array.dtype, array.shape)
    if array.dtype.newbyteorder("=") != place.type.numpy_dtype:
        array = _as_codes(array, place.type)
    return np.ascontiguousarray(array, place.type.numpy_dtype).reshape(place.type.shape)


def _as_codes(array: Any, wanted: TensorType) -> Array:
    """Quantize real numbers: round half away from zero, saturate, and turn NaN into 0."""
    scheme = wanted.quantization
    assert scheme is not None
    along = [1] * array.ndim
    if scheme.axis is not None:
        along[scheme.axis] = -1
    with np.errstate(over="ignore"):
        steps: Any = array / np.array(scheme.scales, np.float32).reshape(along)
    steps = np.nan_to_num(steps.astype(np.float64))
    codes = np.copysign(np.floor(np.abs(steps) + 0.5), steps) + np.array(scheme.zero_points).reshape(along)
    converted: Array = np.clip(codes, *wanted.element.limits).astype(wanted.numpy_dtype)
    return converted


def _require_type(place: Placement, key: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    """Raise SimulationError unless values of this element type and shape are what the input takes."""
    wanted = place.type
    where = f"input {_quoted(place.name)}" + (f" ({key})" if key != place.name else "")
    becomes_codes = place.from_reals and dtype.newbyteorder("=") == np.float32
    if dtype.newbyteorder("<") != wanted.numpy_dtype.newbyteorder("<") and not becomes_codes:
        raise SimulationError(f"{where}: values of {dtype}, the model takes {wanted.dtype}{_codes(wanted)}")
    if shape != wanted.shape:
        raise SimulationError(f"{where}: shape {list(shape)}, the model takes {list(wanted.shape)}")


def _codes(wanted: TensorType) -> str:
    """Return in words how real numbers become quantized values of an input; empty for an input of another kind."""
    scheme = wanted.quantization
    if not wanted.quantized or scheme is None:
        return ""
    return f" codes: round(real / {scheme.scale:.9g}) {scheme.zero_point:+d}"


def _listing(placements: Sequence[Placement]) -> str:
    return ", ".join(
        f"in{i} = {_quoted(place.name)} {place.type.dtype} {list(place.type.shape)}"
        for i, place in enumerate(placements)
    )


def _count(placements: Sequence[Placement]) -> str:
    return f"{len(placements)} input{'' if len(placements) == 1 else 's'}"


def _quoted(name: str) -> str:
    return f'"{name}"'


Stateful = Program | Executable

_HELD: dict[int, tuple[Array | None, ...]] = {}
"""The values of states by identity of the program; None for states with initial values. Freed with the program."""


def names(program: Stateful) -> tuple[str, ...]:
    """Return the names of a program's states, made unique."""
    return distinct_names(_places(program))


def states(program: Stateful) -> dict[str, Array]:
    """Return copies of the present values of a program object's states by name, in dtype and shape of the tensors."""
    values = zip(names(program), _beginnings(program), _held(program), strict=True)
    return {name: (start if value is None else value).copy() for name, start, value in values}


def _places(program: Stateful) -> tuple[Placement, ...]:
    if isinstance(program, Program):
        return program.states
    return tuple(place.tensor for place in program.states)


def _held(program: Stateful) -> tuple[Array | None, ...]:
    return _HELD.get(id(program), (None,) * len(program.states))


def _beginnings(program: Stateful) -> list[Array]:
    """Return the initial values of the states, by position."""
    if isinstance(program, Program):
        return [_beginning(program, place) for place in program.states]
    return [_beginning(program.programs[place.window], place.tensor) for place in program.states]


def _beginning(program: Program, place: Placement) -> Array:
    raw = np.frombuffer(program.constants_at(place.space, place.address, place.type.size_bytes), np.uint8)
    return raw.copy().view(place.type.numpy_dtype).reshape(place.type.shape)


def reset_states(program: Stateful, *which: str) -> None:
    """Reset the named states of a program object to their initial values, or all of them if none is named.

    Raises NpusimError for a name that no state has.
    """
    known = names(program)
    for name in which:
        _check_name(program, name, known)
    values = zip(known, _held(program), strict=True)
    hold(program, [None if not which or name in which else value for name, value in values])


def bound(program: Stateful, given: Mapping[str, ArrayLike] | None) -> tuple[Array | None, ...]:
    """Return the values of states at the start of the next inference: given ones, else those that the program holds."""
    if given is None:
        return _held(program)
    known = names(program)
    for name in given:
        _check_name(program, name, known)
    return tuple(np.asarray(given[name]) if name in given else None for name in known)


def hold(program: Stateful, values: Sequence[Array | None]) -> None:
    """Keep the values of states for the next inference; None stands for initial values."""
    if id(program) not in _HELD:
        weakref.finalize(program, _HELD.pop, id(program), None)
    _HELD[id(program)] = tuple(values)


def _check_name(program: Stateful, name: str, known: Sequence[str]) -> None:
    if name in known:
        return
    near = nearest(name, known)
    hint = f', did you mean "{near}"?' if near else ";"
    has = ", ".join(f'"{known_name}"' for known_name in known) or "none"
    raise SimulationError(f'state "{name}": {program.name} has no such state{hint} it has {has}')
