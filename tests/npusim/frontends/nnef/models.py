"""Models as folders, for tests of operations: a body and what stands around it, variables by their label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import npusim
from npusim.frontends.nnef import tensor_file


def folder(
    path: Path,
    body: str,
    shape: Sequence[int] = (1, 4, 8, 8),
    variables: Mapping[str, Any] | None = None,
    quant: str = "",
) -> Path:
    """A model x -> y; variables are arrays by label, which is their name, too."""
    path.mkdir(parents=True, exist_ok=True)
    declared = ""
    for name, array in (variables or {}).items():
        item = {"f": "", "i": "", "u": "", "b": "<logical>"}[array.dtype.kind]
        declared += f"{name} = variable{item}(shape = {list(array.shape)}, label = '{name}');\n"
        (path / f"{name}.dat").write_bytes(tensor_file.dump(array, quantized=array.dtype.kind in "iu"))
    text = f"version 1.0;\ngraph net( x ) -> ( y )\n{{\nx = external(shape = {list(shape)});\n{declared}{body}\n}}\n"
    (path / "graph.nnef").write_text(text)
    if quant:
        (path / "graph.quant").write_text(quant)
    return path


def entry(name: str, scale: float, zero_point: int = 0, bits: int = 8, **how: bool) -> str:
    """A line of a quantization file."""
    signed, symmetric = (str(how.get(key, key == "signed")).lower() for key in ("signed", "symmetric"))
    return (
        f'"{name}": zero_point_linear_quantize(zero_point = {zero_point}, scale = {scale!r}, bits = {bits}, '
        f"signed = {signed}, symmetric = {symmetric});\n"
    )


def result(path: Path, *inputs: Any, **how: Any) -> Any:
    """The first output of a run."""
    outputs = npusim.run(path, inputs=list(inputs), **how).outputs
    assert outputs is not None
    return np.asarray(outputs[0])
