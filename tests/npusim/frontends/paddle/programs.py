"""Small Paddle programs for the tests: operators as lines of text, parameters as arrays, written as Paddle writes them.

A line is `y:Output = conv2d(Input=x, Filter=w) strides=[2, 2]`; a slot with several variables is `X=a+b`, and without
a name of its own a result is the slot `Out`.
"""

from __future__ import annotations

import re
import struct
from ast import literal_eval
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from npusim.frontends.paddle.paddle_file import ATTRIBUTES, ELEMENTS, messages

_LINE = re.compile(r"^\s*(?P<outputs>[^=]*?)\s*=\s*(?P<type>\w+)\((?P<inputs>[^)]*)\)\s*(?P<attributes>.*)$")
_ATTRIBUTE = re.compile(r"(\w+)=(\[[^\]]*\]|'[^']*'|\S+)")
_TYPES = {name: number for number, name in ATTRIBUTES.items()}
_NUMBERS = {name: number for number, name in ELEMENTS.items()}
_FEED, _FETCH, _TENSOR = 9, 10, 7
VERSION = 2006002

Sizes = Mapping[str, tuple[str, Sequence[int]]]


def program(
    text: str,
    parameters: Mapping[str, Any],
    inputs: Sizes,
    outputs: Sequence[str],
    *,
    types: Sizes | None = None,
    version: int = VERSION,
) -> Any:
    """The ProgramDesc of lines. types: of results, where a test asks for them; others are float32 of unknown sizes."""
    made = messages()["ProgramDesc"]()
    made.version.version = version
    block = made.blocks.add(idx=0, parent_idx=-1)
    said: dict[str, tuple[str, Sequence[int]]] = dict(inputs)
    said |= {name: (data.dtype.name, data.shape) for name, data in arrays(parameters).items()}
    for name, kind in (("feed", _FEED), ("fetch", _FETCH)):
        variable = block.vars.add(name=name, persistable=True)
        variable.type.type = kind
    for place, name in enumerate(inputs):
        _operator(block, "feed", {"X": ["feed"]}, {"Out": [name]}, {"col": place})
    for line in filter(str.strip, text.splitlines()):
        found = _LINE.match(line)
        assert found, line
        results = _slots(found["outputs"], flip=True)
        attributes = {name: literal_eval(value) for name, value in _ATTRIBUTE.findall(found["attributes"])}
        _operator(block, found["type"], _slots(found["inputs"]), results, attributes)
        for name in chain.from_iterable(results.values()):
            said.setdefault(name, (types or {}).get(name, ("float32", [-1])))
    for place, name in enumerate(outputs):
        _operator(block, "fetch", {"X": [name]}, {"Out": ["fetch"]}, {"col": place})
    for name, (dtype, sizes) in said.items():
        variable = block.vars.add(name=name, persistable=name in parameters)
        variable.type.type = _TENSOR
        variable.type.dense_tensor.tensor.data_type = _NUMBERS[dtype]
        variable.type.dense_tensor.tensor.dims.extend(sizes)
    return made


def arrays(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as arrays; Python's numbers are float32."""
    found = {name: np.asarray(value) for name, value in parameters.items()}
    return {
        name: each.astype(np.float32) if each.dtype == np.float64 else each for name, each in found.items()
    }


def tensor(data: Any) -> bytes:
    """A tensor as a stream has it."""
    data = np.asarray(data)
    description = messages()["TensorDesc"](
        data_type=_NUMBERS[data.dtype.name], dims=data.shape
    ).SerializeToString()
    return struct.pack("<IQIi", 0, 0, 0, len(description)) + description + data.tobytes()


def saved(path: Path, made: Any, parameters: Mapping[str, Any], *, apart: bool = False) -> Path:
    """Write a program with its parameters: `model.pdmodel` and one file, or a folder with a file for each."""
    if apart:
        path.mkdir()
        (path / "__model__").write_bytes(made.SerializeToString())
        for name, data in arrays(parameters).items():
            (path / name).write_bytes(tensor(data))
        return path
    file = path / "model.pdmodel"
    file.write_bytes(made.SerializeToString())
    if parameters:
        streams = [tensor(data) for _, data in sorted(arrays(parameters).items())]
        file.with_suffix(".pdiparams").write_bytes(b"".join(streams))
    return file


def model(
    path: Path, text: str, parameters: Mapping[str, Any], inputs: Sizes, outputs: Sequence[str]
) -> Path:
    """Write the program of lines, and return its file."""
    return saved(path, program(text, parameters, inputs, outputs), parameters)


def _slots(text: str, *, flip: bool = False) -> dict[str, list[str]]:
    """`X=a+b, Y=c` by slot; of results `a+b:Out, c:Mask`, `c` alone being `Out`."""
    found: dict[str, list[str]] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        slot, names = part.partition(":")[::-2] if flip else part.partition("=")[::2]
        found[slot or "Out"] = names.split("+")
    return found


def _operator(block: Any, type: str, inputs: Any, outputs: Any, attributes: Mapping[str, Any]) -> None:
    operator = block.ops.add(type=type)
    for slots, said in ((operator.inputs, inputs), (operator.outputs, outputs)):
        for slot, names in said.items():
            slots.add(parameter=slot, arguments=names)
    for name, value in attributes.items():
        field = _field(value)
        added = operator.attrs.add(name=name, type=_TYPES[field])
        encoded = value.encode() if isinstance(value, str) else value
        if isinstance(value, list):
            getattr(added, field).extend(encoded)
        else:
            setattr(added, field, encoded)


def _field(value: Any) -> str:
    kinds = {bool: "b", int: "i", float: "f", str: "s"}
    if isinstance(value, list):
        return "floats" if any(isinstance(each, float) for each in value) else "ints"
    return kinds[type(value)]
