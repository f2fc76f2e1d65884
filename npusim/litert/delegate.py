"""The delegate that a program gives its LiteRT interpreter to run a model on the simulated NPU."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from weakref import ref

from npusim.base import files
from npusim.base.extras import missing
from npusim.isa.base.errors import NpusimError
from npusim.litert import callbacks, source
from npusim.litert.engines import Where, compiler
from npusim.litert.session import Session
from npusim.litert.subgraph import kinds_of
from npusim.numbers import run as numbers
from npusim.reports.folder import PAGE, writers
from npusim.reports.folder import files as report_files
from npusim.session import api
from npusim.views.run import RunResult
from npusim.views.shown import viewed


class Delegate:
    """The simulated NPU for one interpreter of LiteRT:

        Interpreter(model_path="model.tflite", experimental_delegates=[npusim.litert.Delegate(hw="edge-128")])

    LiteRT hands over the operators that npusim has, and each connected part of the model becomes a program. Results
    have the bytes of LiteRT's reference kernels (BUILTIN_REF).
    """

    def __init__(
        self,
        hw: Where = api.DEFAULT_HARDWARE,
        operators: Iterable[str] | None = None,
        *,
        model: str | Path | bytes | None = None,
    ) -> None:
        """Create a delegate for one interpreter.

        hw:        a preset, a file, a Hardware, an `npusim.hal.Device`, or an `npusim.nnadapter.Context`.
        operators: the operators to take, by TFLite's names, such as ["CONV_2D"]; None for all that npusim has.
        model:     the path or the bytes of the model, for an interpreter that does not show what it was given.

        Raises NpusimError for unknown hardware and operators, and if LiteRT is not installed.
        """
        if find_spec("ai_edge_litert") is None:
            raise missing("npusim.litert", "litert")
        self._compiler = compiler(hw)
        self._kinds = kinds_of(operators)
        self._model = model
        self._session: Session | None = None
        self._asked = False

    @property
    def runs(self) -> list[numbers.RunResult]:
        """The results of the last `invoke`, one per partition in the order of the model; none before the first.

        A partition in a loop has one result for all iterations. Raises NpusimError if the last call failed.
        """
        return [] if self._session is None else [_viewed(run) for run in self._session.runs()]

    def check(self) -> None:
        """Raise the NpusimError that made LiteRT's last call fail, if it was ours."""
        if self._session is not None:
            self._session.check()

    def report(self, folder: str | Path) -> Path:
        """Write the report of the last `invoke` as `npusim run --report` does, and return the path of its page.

        On devices of NNAdapter each of several partitions has a folder of its own, and the first page is returned.
        Raises NpusimError before the first invoke.
        """
        runs = [] if self._session is None else self._session.run()
        if not runs:
            raise NpusimError("report: no partition has run yet; call invoke() of the interpreter before")
        target = Path(folder)
        folders = [target] if len(runs) == 1 else [target / f"partition_{i}" for i in range(len(runs))]
        for run, place in zip(runs, folders, strict=True):
            files.make_folder(place)
            pages = {place / one.name: one for one in report_files()}
            files.write_all(writers(run, pages), follow=False)
        return folders[0] / PAGE

    def _get_native_delegate_pointer(self) -> int:
        """Return the address of the TfLiteDelegate; an interpreter under construction asks for it.

        Raises NpusimError for a second interpreter, a LiteRT that is not known, and a model that cannot be read.
        """
        if self._asked:
            raise NpusimError(
                "npusim.litert: a delegate serves one interpreter, and this one has one; make another"
            )
        source.require_version()
        given = source.given_to_interpreter()
        model = given.model if self._model is None else self._model
        if model is None:
            raise NpusimError(
                "npusim.litert: cannot see the model of the interpreter; give it: Delegate(model=PATH)"
            )
        own = self._model is not None
        self._session = Session(source.read(model), self._kinds, self._compiler, given.apart, own)
        if given.interpreter is not None:
            reach(given.interpreter, self._session)
        self._asked = True
        return callbacks.native_delegate(self._session)


def _viewed(run: numbers.RunResult) -> numbers.RunResult:
    """Return a run of one program as the type with figures and tables; a run of several programs unchanged."""
    return viewed(RunResult, run) if type(run) is numbers.RunResult else run


# Interrupts

_SESSION = "_npusim_session"
"""Attribute of an interpreter with a weak reference to the session of its delegate."""


def reach(interpreter: Any, session: Session) -> None:
    """Make an interrupt during a session end the interpreter's call with a KeyboardInterrupt."""
    setattr(interpreter, _SESSION, ref(session))
    kind: Any = type(interpreter)
    interpreter.__class__ = _interruptible(kind)


@cache
def _interruptible(kind: Any) -> type[Any]:
    def method(name: str) -> Any:
        def call(self: Any, *arguments: Any, **named: Any) -> Any:
            try:
                return getattr(kind, name)(self, *arguments, **named)
            except RuntimeError:
                session = getattr(self, _SESSION)()
                if session is None or not session.interrupted:
                    raise
                session.interrupted = False
                raise KeyboardInterrupt from None

        return call

    methods = {name: method(name) for name in ("allocate_tensors", "invoke") if hasattr(kind, name)}
    return type(kind.__name__, (kind,), methods | {"__module__": kind.__module__})
