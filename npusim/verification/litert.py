"""Runs a TFLite file with LiteRT's reference kernels, whose bytes npusim reproduces.

LiteRT is the package ai-edge-litert, an extra. Its kernels trust the file, so a damaged one may crash the process.
`Session` runs a model in this process, and `Apart` in another one.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from mmap import mmap
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from npusim.isa.base.errors import NpusimError, one_line
from npusim.isa.base.tensor import Array

PACKAGE = "ai-edge-litert==2.3.0"
"""The version that npusim's arithmetic was checked against."""


WHEELS = "Python 3.11 to 3.14 on Linux (x86-64, aarch64), Windows (x86-64) and macOS (arm64)"


class LiteRTError(NpusimError):
    """LiteRT is not installed, or refuses a model."""


def installed() -> bool:
    """Return True if LiteRT can be imported."""
    return find_spec("ai_edge_litert") is not None


def require() -> None:
    """Raise LiteRTError with the package to install, if LiteRT is missing."""
    if not installed():
        raise LiteRTError(f"needs LiteRT: pip install {PACKAGE}; it has wheels for {WHEELS}")


class Session:
    """A model, a file or its bytes, in LiteRT with its reference kernels (BUILTIN_REF), ready to run.

    every_tensor: keep what every operator computes, for `tensors`; takes the memory of all of them.
    optimized:    use optimized kernels, for the few operators without a reference kernel.

    Raises LiteRTError for a model that LiteRT refuses, in its own words.
    """

    def __init__(self, model: bytes | Path, every_tensor: bool = False, optimized: bool = False) -> None:
        require()
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        kernels = (
            OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES if optimized else OpResolverType.BUILTIN_REF
        )
        source = {"model_path": str(model)} if isinstance(model, Path) else {"model_content": model}
        try:
            self._interpreter: Any = Interpreter(
                **source,
                num_threads=1,
                experimental_op_resolver_type=kernels,
                experimental_preserve_all_tensors=every_tensor,
            )
            self._interpreter.allocate_tensors()
            self._inputs = [detail["index"] for detail in self._interpreter.get_input_details()]
            self._outputs = [detail["index"] for detail in self._interpreter.get_output_details()]
        except (RuntimeError, ValueError) as fault:  # a name that is not UTF-8 is a ValueError
            raise LiteRTError(f"LiteRT refuses the model: {one_line(fault)}") from None

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Return the outputs by position, each an array of its own. States are zero at the beginning.

        Inputs may have other sizes than the file says. Raises LiteRTError for inputs that do not fit and for a kernel
        that fails.
        """
        try:
            self._resize(inputs)
            self._interpreter.reset_all_variables()
            for index, value in zip(self._inputs, inputs, strict=True):
                self._interpreter.set_tensor(index, value)
            self._interpreter.invoke()
        except (RuntimeError, ValueError) as fault:
            raise LiteRTError(f"LiteRT cannot run the model: {one_line(fault)}") from None
        return [np.asarray(self._interpreter.get_tensor(index)) for index in self._outputs]

    def _resize(self, inputs: Sequence[Array]) -> None:
        shapes = [tuple(detail["shape"]) for detail in self._interpreter.get_input_details()]
        if shapes != [value.shape for value in inputs]:
            for index, value in zip(self._inputs, inputs, strict=True):
                self._interpreter.resize_tensor_input(index, value.shape)
            self._interpreter.allocate_tensors()

    def tensors(self, count: int) -> dict[str, Array]:
        """Return, after a run, those of the first `count` tensors that LiteRT keeps, by their number as text."""
        tensors = {}
        for index in range(count):
            try:
                tensors[str(index)] = np.asarray(self._interpreter.get_tensor(index))
            except (RuntimeError, ValueError):  # a tensor without memory
                continue
        return tensors


class Apart:
    """A model in LiteRT in another process, which keeps every tensor."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process, self._folder = process, folder

    def run(self, inputs: Sequence[Array]) -> Mapping[int, Array]:
        """Return every tensor of the file that LiteRT keeps, by its number. States are zero at the beginning.

        Raises LiteRTError for a model that LiteRT refuses, cannot run, or dies of.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        np.savez(self._folder / _INPUTS, *inputs)
        try:
            self._process.stdin.write("run\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline().rstrip("\n")
        except BrokenPipeError:
            answer = ""
        if answer != _DONE:
            raise LiteRTError(answer or self._end())
        with np.load(self._folder / _TENSORS) as file:
            return {int(name): file[name] for name in file.files}

    def _end(self) -> str:
        status = self._process.wait()
        reason = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        return f"LiteRT does not survive the model: its process ended with {reason}"


_COMMAND = ("-m", "npusim.verification.litert")
_MODEL, _INPUTS, _TENSORS, _DONE = "model.tflite", "inputs.npz", "tensors.npz", "done"


@contextmanager
def apart(data: bytes | mmap, tensors: int) -> Iterator[Apart]:
    """Open the bytes of a model file in LiteRT in another process, which ends with the block."""
    require()
    with TemporaryDirectory(prefix="npusim-litert-") as name:
        folder = Path(name)
        (folder / _MODEL).write_bytes(data)
        process = subprocess.Popen(
            [sys.executable, *_COMMAND, name, str(tensors)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            yield Apart(process, folder)
        finally:
            process.kill()
            process.communicate()


def serve(folder: Path, tensors: int) -> Iterator[str]:
    """Run the model of a folder once for every line that comes in; what to answer to each."""
    session = Session(folder / _MODEL, every_tensor=True)
    for _ in sys.stdin:
        with np.load(folder / _INPUTS) as file:
            session.run([file[f"arr_{i}"] for i in range(len(file.files))])
        np.savez(folder / _TENSORS, **session.tensors(tensors))  # type: ignore[arg-type]
        yield _DONE


if __name__ == "__main__":
    try:
        for _answer in serve(Path(sys.argv[1]), int(sys.argv[2])):
            print(_answer, flush=True)
    except LiteRTError as _fault:
        print(_fault, flush=True)
