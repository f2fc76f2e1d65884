"""Turns Ctrl-C during a delegate's work into a KeyboardInterrupt of the interpreter's call.

No exception passes through a callback, so LiteRT only learns of a failure and raises RuntimeError. Therefore the class
of the interpreter is replaced by a subclass, whose methods that call the delegate look up the cause. Other ways to call
the interpreter, such as a signature's runner, still raise the RuntimeError.
"""

from __future__ import annotations

from functools import cache
from typing import Any
from weakref import ref

from npusim.litert.session import Session

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
