"""Rules of sizes by name: operands that share a size name it alike.

    dimensions({
        "input": "batch inputs",
        "weights": "units inputs",
        "bias": "units",
        "deltas": "boxes 4*classes",
        "sizes": "images 2",
    })

The first argument that has a name says the size; each argument is a rule of its own. "4*classes" is four times that
size, a number itself. `sequences` are [steps, batch, depth] with a true scalar `time_major`, else batch comes first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from npusim.frontends.nn_hal.operations.call import Call, Size
from npusim.frontends.nn_hal.operations.row import Rule


class _Source(NamedTuple):
    """Where a named size stands: an argument and the place of the name in its text."""

    argument: str
    place: int


class _Sizes(NamedTuple):
    """What texts say of arguments, and where each name stands first."""

    texts: Mapping[str, tuple[str, ...]]
    sources: Mapping[str, _Source]
    sequences: Sequence[str]

    def size(self, call: Call, argument: str, place: int) -> Size:
        """The size at a place of the text of an argument; None while it is not known."""
        if argument not in self.sequences or place > 1:
            return call.size(argument, place)
        time_major = call.whole("time_major")
        return None if time_major is None else call.size(argument, place if time_major else 1 - place)

    def wanted(self, call: Call, symbol: str, argument: str, place: int) -> tuple[Size, int]:
        """What a size must be, None for anything, and what it must be a multiple of."""
        *factors, name = symbol.split("*")
        factor = int(factors[0]) if factors else 1
        if name.isdigit():
            return int(name), 1
        source = self.sources[name]
        if source == (argument, place):
            return None, factor
        size = self.size(call, *source)
        if "*" in self.texts[source.argument][source.place] and size is not None:
            size //= int(self.texts[source.argument][source.place].split("*")[0])
        return None if size is None else size * factor, factor


def dimensions(said: Mapping[str, str], sequences: Sequence[str] = ()) -> tuple[Rule, ...]:
    """A rule per argument: it has as many dimensions as its text has words, of the sizes that these name."""
    texts = {name: tuple(text.split()) for name, text in said.items()}
    sources: dict[str, _Source] = {}
    for name, symbols in texts.items():
        for place, symbol in enumerate(symbols):
            sources.setdefault(symbol.split("*")[-1], _Source(name, place))
    sizes = _Sizes(texts, sources, sequences)
    return tuple(_rule(sizes, name) for name in said)


def _rule(sizes: _Sizes, name: str) -> Rule:
    symbols = sizes.texts[name]

    def rule(call: Call) -> str | None:
        argument, shape = call.get(name), call.shape(name)
        if argument is None or shape is None or (argument.undecided and None in shape):
            return None
        if len(shape) != len(symbols):
            return name
        for place, symbol in enumerate(symbols):
            size = sizes.size(call, name, place)
            wanted, factor = sizes.wanted(call, symbol, name, place)
            if size is not None and (size % factor or wanted not in (None, size)):
                return name
        return None

    rule.__doc__ = _text(sizes, name)
    return rule


def _text(sizes: _Sizes, name: str) -> str:
    symbols = sizes.texts[name]
    shown = f"[{', '.join(symbols)}]"
    if name in sizes.sequences:
        shown = f"{shown} ([{', '.join((symbols[1], symbols[0], *symbols[2:]))}] unless time_major)"
    borrowed = {
        word: sizes.sources[word]
        for symbol in symbols
        if not (word := symbol.split("*")[-1]).isdigit() and sizes.sources[word].argument != name
    }
    origins = [f"{word} as {source.argument} has it" for word, source in borrowed.items()]
    return f"{name} has dimensions {shown}{', ' if origins else ''}{', '.join(origins)}"
