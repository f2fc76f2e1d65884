"""Samples of a network's inputs: an npz file with an array per input, whose first axis counts the samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from npusim.base import npz
from npusim.isa.base import user_file
from npusim.isa.base.errors import SimulationError
from npusim.isa.base.tensor import Array, Placement
from npusim.session.inputs import keys_of

Samples = list[list[Array]]
"""The inputs of each sample, in their order."""

Data = str | Path | Mapping[str, ArrayLike]
"""A file of samples, or the arrays by the names of the inputs."""

MOST_BYTES = 1 << 30
"""Maximum bytes of all samples together, decompressed."""


def read(data: Data, inputs: Sequence[Placement]) -> Samples:
    """Return the samples of a file, or of arrays.

    The samples of an input of shape [1, 8, 8, 1] are [n, 8, 8, 1], or [n, 1, 8, 8, 1]; of any shape S they are
    [n, *S]. Floating-point samples may have any width; other element types are those of the input.

    Raises NpusimError, with the path of a file, for arrays that do not fit, and where there is no sample.
    """
    if isinstance(data, Mapping):
        keys = keys_of(inputs, list(data))
        return _apart(
            inputs,
            [_checked(place, key, np.asarray(data[key])) for place, key in zip(inputs, keys, strict=True)],
        )
    with npz.opened_as(Path(data), user_file.SAMPLES) as archive:
        keys = keys_of(inputs, archive.keys)
        arrays = [
            archive.array(key, partial(_require, place, key)) for place, key in zip(inputs, keys, strict=True)
        ]
        return _apart(inputs, [_as_of(place, array) for place, array in zip(inputs, arrays, strict=True)])


def _apart(inputs: Sequence[Placement], arrays: Sequence[Array]) -> Samples:
    """Split arrays of samples into one list of inputs per sample."""
    counts = {place.name: len(array) for place, array in zip(inputs, arrays, strict=True)}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f'"{name}" {count}' for name, count in counts.items())
        raise SimulationError(f"samples: inputs have as many; here are {listed}")
    return [list(sample) for sample in zip(*arrays, strict=True)]


def _checked(place: Placement, key: str, array: Array) -> Array:
    _require(place, key, array.dtype, array.shape)
    return _as_of(place, array)


def _as_of(place: Placement, array: Array) -> Array:
    """Return samples in the element type and shape of an input."""
    batch: Array = np.ascontiguousarray(array, place.type.numpy_dtype).reshape(-1, *place.type.shape)
    return batch


def _require(place: Placement, key: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    """Raise SimulationError unless an array holds samples of an input."""
    wanted, where = place.type, f'samples of "{place.name}"' + (f" ({key})" if key != place.name else "")
    reals = dtype.kind == "f" and wanted.real
    if not reals and dtype.newbyteorder("=") != wanted.numpy_dtype:
        raise SimulationError(f"{where}: values of {dtype}, the model takes {wanted.dtype}")
    one, rest = wanted.shape[:1] == (1,), list(wanted.shape[1:])
    whole = len(shape) == len(wanted.shape) + 1 and shape[1:] == wanted.shape
    if not whole and not (one and shape[1:] == wanted.shape[1:] and len(shape) == len(wanted.shape)):
        may_be = " or ".join(
            f"[{', '.join(map(str, sizes))}]" for sizes in (["n", *wanted.shape], ["n", *rest])[: 1 + one]
        )
        raise SimulationError(
            f"{where}: shape {list(shape)}, n samples are {may_be}: the first axis counts the samples"
        )
    if not shape[0]:
        raise SimulationError(f"{where}: there is none")
    size_bytes = int(np.prod(shape, dtype=object)) * dtype.itemsize
    if size_bytes > MOST_BYTES:
        raise SimulationError(f"{where}: {size_bytes} bytes, may have {MOST_BYTES}; take fewer samples")
