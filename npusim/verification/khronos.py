"""Runs an NNEF document in the Khronos runtime, the package nnef, in another process because it may crash.

The runtime executes the final dialect in float32, without quantization files. Every named tensor of the graph becomes
an output, if the runtime accepts that.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from npusim.base import extras, files
from npusim.frontends.nnef import document
from npusim.frontends.nnef.call_network import Network
from npusim.frontends.nnef.document import Document
from npusim.frontends.nnef.nnef_container import Contents, data_path
from npusim.isa.base.errors import NpusimError, one_line
from npusim.isa.base.tensor import Array

LOWERED = ("clamp", "moments", "silu", "gelu", "selu")
"""Operations that the runtime executes by their bodies only."""

_GIVEN = ("external", "variable", "constant")
_GRAPH, _INPUTS, _OUTPUTS = "graph.nnef", "inputs.npz", "outputs.npz"
_COMMAND = ("-m", "npusim.verification.khronos")
_RESULTS = re.compile(r"(->\s*\()([^)]*)(\))")


class KhronosError(NpusimError):
    """The Khronos runtime is not installed, or refuses a model."""


def require() -> None:
    """Raise NpusimError with the package to install, if the runtime is missing."""
    if find_spec("nnef") is None:
        raise extras.missing("verifying an NNEF model", "nnef")


class Apart:
    """A document in the runtime, in a process for each run."""

    def __init__(
        self,
        folder: Path,
        model: Document,
        inputs: Sequence[str],
        names: Sequence[Sequence[str]],
        lowered: Sequence[str],
    ) -> None:
        """Keep a document that has been copied to a folder.

        inputs: names of the inputs.
        names: outputs that the graph may have, the most first and its own last.
        lowered: operations that the runtime has by their bodies only.
        """
        begin = model.parsed.graph.offset
        self._before, self._graph = model.container.graph.text[:begin], model.container.graph.text[begin:]
        self._folder, self._inputs, self._names, self._lowered = folder, inputs, names, lowered

    def run(self, inputs: Sequence[Array]) -> Mapping[str, Array]:
        """Return inputs and outputs by name. Raises KhronosError for a model that the runtime refuses or crashes on."""
        files.write(self._folder / _INPUTS, lambda file: np.savez(file, *inputs))
        reason = ""
        for names in self._names:
            graph = _RESULTS.sub(rf"\g<1>{', '.join(names)}\g<3>", self._graph, count=1)
            files.write(self._folder / _GRAPH, files.text(self._before + graph))
            (self._folder / _OUTPUTS).unlink(missing_ok=True)
            done = subprocess.run(
                [sys.executable, *_COMMAND, str(self._folder), *self._lowered],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode == 0 and (self._folder / _OUTPUTS).exists():
                with np.load(self._folder / _OUTPUTS) as archive:
                    tensors = dict(zip(names, (archive[key] for key in archive.files), strict=True))
                    return dict(zip(self._inputs, inputs, strict=True)) | tensors
            reason = one_line(
                RuntimeError(done.stderr.strip().rpartition("\n")[2] or f"status {done.returncode}")
            )
        raise KhronosError(f"the Khronos runtime does not run the model: {reason}")


def has_codes(path: Path) -> bool:
    """Return True if a document has a quantization file, which the runtime does not execute. Raises DocumentError."""
    return bool(document.load(path).network().quantization)


@contextmanager
def apart(path: Path) -> Iterator[Apart]:
    """Open a document without quantization in the runtime. Raises KhronosError for one that it does not read."""
    model = document.load(path)
    network = model.network()
    for call in network.calls:
        extents = call.attributes.get("shape")
        if call.operation == "external" and isinstance(extents, list) and 0 in extents:
            raise KhronosError(
                f'{path}: input "{call.result_names()[0]}" has shape {extents}; the Khronos runtime takes whole shapes '
                "that stand in the document"
            )
    if model.parsed.is_provisional:
        raise KhronosError(f"{path}: is in the provisional dialect, which the Khronos runtime does not read")
    with TemporaryDirectory(prefix="npusim-nnef-") as name:
        folder = Path(name)
        _copy_data(model, network, folder)
        own = list(network.outputs)
        named = [
            result
            for call in network.calls
            if call.operation not in _GIVEN
            for result in call.result_names()
            if "/" not in result
        ]
        whole = list(dict.fromkeys([*own, *named]))
        lowered = [*LOWERED, *(fragment.name for fragment in model.parsed.fragments)]
        yield Apart(folder, model, network.inputs, [whole, own], lowered)


def _copy_data(model: Document, network: Network, folder: Path) -> None:
    """Copy the data files of the variables, under their labels."""
    for label in {variable.label for variable in network.variables.values()}:
        relative = data_path(label)
        content = None if relative is None else model.container.read(relative)
        if content is None or relative is None:
            raise KhronosError(f'variable "{label}" has no data, which the Khronos runtime needs')
        target = folder / relative
        files.make_folder(target.parent)
        files.write(target, _writer(content))


def _writer(content: Contents) -> files.Writer:
    return lambda file: file.write(content)


def serve(folder: Path, lowered: list[str]) -> None:
    """Run the model of a folder with its inputs, by position, and keep its outputs there."""
    import nnef

    with np.load(folder / _INPUTS) as archive:
        inputs = [archive[name] for name in archive.files]
    outputs = nnef.Session(str(folder), lowered=lowered)(*inputs)
    files.write(folder / _OUTPUTS, lambda file: np.savez(file, *outputs))


if __name__ == "__main__":
    serve(Path(sys.argv[1]), sys.argv[2:])
