"""The result of quantizing a network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from npusim.isa.base.lazy_dataclass import dataclass
from npusim.kernels.graph.graph import Graph
from npusim.quantization.conversion import InFloats
from npusim.quantization.loss import Loss

Progress = Callable[[int, int], None]
"""Called with (steps done, all steps)."""


@dataclass(frozen=True)
class Quantized:
    """The result of quantizing a network.

    form:      format of the written file; empty if none is written.
    samples:   number of samples from which ranges and losses come.
    layers:    number of layers of the network; `in_floats` lists those that stayed in floats, with reasons.
    constant_bytes: bytes of weights and other constants before and after.
    file_bytes: size of the written file; None if none is written.
    graph:     the quantized graph; None for ONNX, whose file ONNX Runtime writes.
    """

    model: str
    form: str
    samples: int
    layers: int
    in_floats: tuple[InFloats, ...]
    losses: tuple[Loss, ...]
    constant_bytes: tuple[int, int]
    file_bytes: int | None = None
    graph: Graph | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        before, after = self.constant_bytes
        return {
            "model": self.model,
            "form": self.form,
            "samples": self.samples,
            "layers": self.layers,
            "in_floats": [layer._asdict() for layer in self.in_floats],
            "losses": [loss.to_dict() for loss in self.losses],
            "constant_bytes": {"before": before, "after": after},
            "file_bytes": self.file_bytes,
        }
