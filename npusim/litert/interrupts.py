"""Ctrl-C while the delegate works: LiteRT makes a RuntimeError of it, which becomes a KeyboardInterrupt again.

No exception leaves a callback: LiteRT only learns that it failed. So the interpreter becomes one of a subclass, whose
methods that call the delegate look why. What is called in another way, such as a signature's runner, keeps the
RuntimeError.
"""

from __future__ import annotations

from functools import cache
from typing import Any
from weakref import ref

from npusim.litert.session import Session

_SESSION = "_npusim_session"
"""The attribute of an interpreter that refers to the session of its delegate, without keeping it."""


def reach(interpreter: Any, session: Session) -> None:
    """Let an interrupt in a session end the calls of its interpreter as a KeyboardInterrupt."""
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
