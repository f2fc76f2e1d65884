"""Sizes of inputs that a model leaves open, as the command line gives them: NAME=1,3,224,224, or NAME=1."""

from __future__ import annotations

from collections.abc import Sequence

from npusim.isa.base.errors import NpusimError
from npusim.kernels.graph.bind import Sizes

OPTION = "--shape"

LARGEST = (1 << 31) - 1
_MAY_BE = (
    "may be the shape of an input, such as image=1,3,224,224, or a size by its own name, such as batch=1"
)


def parse(texts: Sequence[str]) -> dict[str, int | tuple[int, ...]]:
    """The sizes of texts such as "image=1,3,224,224". Raises NpusimError for one that is not such a text."""
    sizes: dict[str, int | tuple[int, ...]] = {}
    for text in texts:
        name, equals, numbers = text.rpartition("=")
        if not equals or not name:
            raise NpusimError(f"{OPTION} {text}: {_MAY_BE}")
        if name in sizes:
            raise NpusimError(f"{OPTION} {text}: {name} is given twice")
        shape = tuple(_number(text, number.strip()) for number in numbers.split(","))
        sizes[name] = shape[0] if len(shape) == 1 else shape
    return sizes


def texts(sizes: Sizes | None) -> list[str]:
    """What `parse` takes for these sizes."""
    return [
        f"{name}={','.join(map(str, [size] if isinstance(size, int) else size))}"
        for name, size in (sizes or {}).items()
    ]


def _number(text: str, number: str) -> int:
    if not (number.isascii() and number.isdigit()):
        raise NpusimError(f'{OPTION} {text}: "{number}" is no whole number; {_MAY_BE}')
    if int(number[:LONGEST]) > LARGEST or len(number) > LONGEST:
        raise NpusimError(f"{OPTION} {text}: {number[:LONGEST]} is more than a size may be, {LARGEST}")
    return int(number)


LONGEST = len(str(LARGEST))
