"""What the state tensors of a program hold between the inferences of one program object.

A program object remembers, as an interpreter of TFLite does: `npusim.simulate` goes on from where its last inference of
the same object ended. A copy of the program, or the same file loaded again, begins anew.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from npusim.isa.base.errors import SimulationError
from npusim.isa.base.nearest import nearest
from npusim.isa.base.placement import Placement, distinct_names
from npusim.isa.base.tensor import Array
from npusim.isa.program.executable import Executable
from npusim.isa.program.program import Program

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Stateful = Program | Executable

_HELD: dict[int, tuple[Array | None, ...]] = {}
"""Values of states by the identity of the program; None for those that begin anew. Forgotten with the program."""


def names(program: Stateful) -> tuple[str, ...]:
    """The names of a program's states, all different."""
    return distinct_names(_places(program))


def states(program: Stateful) -> dict[str, Array]:
    """What each state of a program object holds now, by name: copies, in dtype and shape of the tensors."""
    values = zip(names(program), _beginnings(program), _held(program), strict=True)
    return {name: (start if value is None else value).copy() for name, start, value in values}


def _places(program: Stateful) -> tuple[Placement, ...]:
    if isinstance(program, Program):
        return program.states
    return tuple(place.tensor for place in program.states)


def _held(program: Stateful) -> tuple[Array | None, ...]:
    return _HELD.get(id(program), (None,) * len(program.states))


def _beginnings(program: Stateful) -> list[Array]:
    """The values with which the states begin, by position."""
    if isinstance(program, Program):
        return [_beginning(program, place) for place in program.states]
    return [_beginning(program.programs[place.window], place.tensor) for place in program.states]


def _beginning(program: Program, place: Placement) -> Array:
    raw = np.frombuffer(program.constants_at(place.space, place.address, place.type.size_bytes), np.uint8)
    return raw.copy().view(place.type.numpy_dtype).reshape(place.type.shape)


def reset_states(program: Stateful, *which: str) -> None:
    """Let the named states of a program object begin anew in its next inference, or all of them if none is named.

    Raises NpusimError for a name that no state has.
    """
    known = names(program)
    for name in which:
        _check_name(program, name, known)
    values = zip(known, _held(program), strict=True)
    hold(program, [None if not which or name in which else value for name, value in values])


def bound(program: Stateful, given: Mapping[str, ArrayLike] | None) -> tuple[Array | None, ...]:
    """The values with which the states of the next inference begin: those given, else those that the program holds."""
    if given is None:
        return _held(program)
    known = names(program)
    for name in given:
        _check_name(program, name, known)
    return tuple(np.asarray(given[name]) if name in given else None for name in known)


def hold(program: Stateful, values: Sequence[Array | None]) -> None:
    """Remember what the states hold; None begins anew."""
    if id(program) not in _HELD:
        weakref.finalize(program, _HELD.pop, id(program), None)
    _HELD[id(program)] = tuple(values)


def _check_name(program: Stateful, name: str, known: Sequence[str]) -> None:
    if name in known:
        return
    near = nearest(name, known)
    hint = f', did you mean "{near}"?' if near else ";"
    has = ", ".join(f'"{each}"' for each in known) or "none"
    raise SimulationError(f'state "{name}": {program.name} has no such state{hint} it has {has}')
