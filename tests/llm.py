"""The decoders and encoders of ../shared/llm, step by step: what goes in, and what the definition gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx

import npusim

LLM = Path(__file__).resolve().parents[2] / "shared" / "llm"

Values = dict[str, Any]


def stored(name: str) -> Values:
    """The stored values of a file: of its definition (`.def.npz`) where that exists, else ONNX Runtime's."""
    values = dict(np.load(LLM / f"{name}.npz"))
    definition = LLM / f"{name}.def.npz"
    return values | (dict(np.load(definition)) if definition.exists() else {})


def steps_of(name: str) -> list[Values]:
    """The inputs of each step, but for caches and pasts."""
    values = stored(name)
    count = 1 + max(int(key[1 : key.index("_")]) for key in values)
    return [
        {key.partition("_in_")[2]: data for key, data in values.items() if key.startswith(f"s{step}_in_")}
        for step in range(count)
    ]


class Decoder:
    """A file whose cache or past is what the step before gave; each step is compiled for its sizes."""

    def __init__(self, name: str, hardware: str = "edge-128-float") -> None:
        self.file, self.hardware = LLM / f"{name}.onnx", hardware
        graph = onnx.load(self.file).graph
        self._inputs = {each.name: each.type.tensor_type for each in graph.input}
        self._outputs = [each.name for each in graph.output]
        self.host_layers: set[str] = set()

    def run(self, given: Values, before: Values) -> Values:
        """Return the outputs by name; `before` are those of the step before, empty for the first."""
        feed = dict(given)
        for name, kind in self._inputs.items():
            if name not in feed:
                after = name.replace("past_key_values", "present").replace("cache.", "next.")
                shape = [size.dim_value for size in kind.shape.dim]
                dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
                feed[name] = before[after] if before else np.zeros(shape, dtype)
        open_ = {
            name: feed[name].shape
            for name, kind in self._inputs.items()
            if any(size.dim_param for size in kind.shape.dim)
        }
        program = npusim.compile(npusim.load(self.file, sizes=open_), self.hardware)
        self.host_layers.update([call.name for call in program.host_calls])
        return dict(zip(self._outputs, npusim.simulate(program, feed).outputs, strict=True))
