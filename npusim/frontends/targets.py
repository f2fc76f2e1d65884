"""The table of formats that models are written in; the command, its help and its refusals derive from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from npusim.isa.base.errors import NpusimError
from npusim.isa.base.lazy_dataclass import dataclass

if TYPE_CHECKING:  # Imported for types only: the command's help needs this table, and no numpy.
    from npusim.kernels.graph.graph import Graph


@dataclass(frozen=True, slots=True)
class Target:
    """A format that models are written in, with the module that writes it, imported when it is used.

    The module's functions are `written(graph) -> bytes`, whose GraphError names the layers that the format cannot
    express, and `operators() -> frozenset[str]`.

    name, title: as the command line and messages call the format.
    suffixes: of its files.
    by_suffix: functions to use in place of `written`, by suffix.
    caveat: name of the function graph -> what to know of its file, "" for nothing.
    extra: the extra of the installation with the packages that the module needs.
    dynamic_range: whether the format has int8 weights beside float32 activations.
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    module: str
    by_suffix: Mapping[str, str] = field(default_factory=dict)
    caveat: str = ""
    extra: str = ""
    dynamic_range: bool = False

    def written(self, graph: Graph, name: str) -> bytes:
        """Return the file of a graph, named `name`. Raises GraphError for what the format cannot express."""
        if not self.dynamic_range:
            self._refuse_dynamic_range(graph)
        from npusim.kernels.graph.rewrite import without

        graph = without(graph, "block_product")  # no format is written with weights in blocks
        names = (word for suffix, word in self.by_suffix.items() if name.lower().endswith(suffix))
        content: bytes = getattr(import_module(self.module), next(names, "written"))(graph)
        return content

    def _refuse_dynamic_range(self, graph: Graph) -> None:
        from npusim.frontends.inexpressible import Refusals
        from npusim.kernels.operator.parameters import DYNAMIC_RANGE

        refusals, graphs = Refusals(), [graph]
        while graphs:
            for node in graphs.pop().nodes:
                graphs += node.bodies
                if node.parameters.rescale in DYNAMIC_RANGE:
                    why = f"{self.title} has no int8 weights beside float32 activations (dynamic range); write .tflite"
                    refusals.add(node.name, why)
        refusals.check()

    @property
    def operators(self) -> frozenset[str]:
        """The operators that the format has, if their parameters and types allow it."""
        names: frozenset[str] = import_module(self.module).operators()
        return names

    def caveats(self, graph: Graph) -> str:
        """Return what to know of the file of a graph; "" for nothing."""
        return str(getattr(import_module(self.module), self.caveat)(graph)) if self.caveat else ""


TARGETS: tuple[Target, ...] = (
    Target(
        *("nnef", "NNEF", (".tgz", ".tar.gz", ".tar"), "npusim.frontends.nnef.export"),
        by_suffix={".tar": "unpacked"},
    ),
    Target("onnx", "ONNX", (".onnx",), "npusim.frontends.onnx.export", caveat="caveat", extra="onnx"),
    Target(
        *("tflite", "TensorFlow Lite", (".tflite", ".lite"), "npusim.frontends.tflite.export"),
        dynamic_range=True,
    ),
    Target("hal", "NN HAL", (".hal",), "npusim.frontends.nn_hal.export"),
)


def target_of(name: str, path: Path) -> Target:
    """Return the format of a name; with an empty name, that of the file's suffix, and NNEF if no format has it.

    Raises NpusimError for a name that no format has.
    """
    if name:
        for target in TARGETS:
            if target.name == name:
                return target
        raise NpusimError(f"--to {name}: may be {', '.join(target.name for target in TARGETS)}")
    by_suffix = (target for target in TARGETS if path.name.lower().endswith(target.suffixes))
    return next(by_suffix, TARGETS[0])


def summary() -> str:
    """Return all formats as one line of help."""
    return "; ".join(f"{target.name}: {target.title} ({target.suffixes[0]})" for target in TARGETS)
