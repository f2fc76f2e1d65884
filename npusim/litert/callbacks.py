"""The functions that LiteRT calls. They are made once, and live as long as the process.

LiteRT knows delegates and partitions by numbers, so nothing that it holds can be a dead object: an interpreter that
outlives its delegate, or the other way round, finds a number that stands for nothing. No exception leaves a function.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from itertools import count
from weakref import WeakValueDictionary

from npusim.litert.session import Session
from npusim.litert.structs import (
    ALLOW_DYNAMIC_TENSORS,
    DELEGATE_CODE,
    ERROR,
    FREE,
    INIT,
    KERNEL,
    OK,
    PREPARE_GRAPH,
    DelegateParams,
    NativeDelegate,
    Node,
    Registration,
)

_SESSIONS: WeakValueDictionary[int, Session] = WeakValueDictionary()
"""Of each delegate that LiteRT was given; a delegate holds its own."""

_PARTITIONS: dict[int, Session] = {}
"""The session of each partition that LiteRT has; this is what keeps it while LiteRT can call."""

_NATIVE: list[NativeDelegate] = []
"""All that LiteRT was ever given: it may look at a delegate until its interpreter ends, which nobody tells."""

_NUMBERS = count(1)
_NAME = ctypes.create_string_buffer(b"npusim")


def native_delegate(session: Session) -> int:
    """The address of a TfLiteDelegate for a session."""
    number = next(_NUMBERS)
    _SESSIONS[number] = session
    native = NativeDelegate(data=number, Prepare=_PREPARE_GRAPH, flags=ALLOW_DYNAMIC_TENSORS)
    _NATIVE.append(native)
    return ctypes.addressof(native)


def _guarded(session: Session | None, context: int, call: Callable[[Session], None]) -> int:
    """The status of a call that may raise whatever it likes."""
    if session is None:
        return ERROR
    try:
        call(session)
    except BaseException as error:  # even an interrupt: what leaves a callback is lost, and LiteRT goes on
        session.failed(error, context)
        return ERROR
    return OK


def _prepare_graph(context: int, delegate: int) -> int:
    session = _SESSIONS.get(NativeDelegate.from_address(delegate).data or 0)
    return _guarded(session, context, lambda one: one.prepare_graph(context, delegate, _KERNEL))


def _init(context: int, buffer: int, length: int) -> int | None:
    params = DelegateParams.from_address(buffer)
    session = _SESSIONS.get(NativeDelegate.from_address(params.delegate).data or 0)
    key = next(_NUMBERS)
    if _guarded(session, context, lambda one: one.begin(key, context, params)) != OK or session is None:
        return None
    _PARTITIONS[key] = session
    return key


def _free(context: int, key: int | None) -> None:
    session = _PARTITIONS.pop(key or 0, None)
    if session is not None:
        session.end(key or 0)


def _prepare(context: int, node: int) -> int:
    key = Node.from_address(node).user_data or 0
    return _guarded(_PARTITIONS.get(key), context, lambda one: one.prepare(key, context))


def _invoke(context: int, node: int) -> int:
    key = Node.from_address(node).user_data or 0
    return _guarded(_PARTITIONS.get(key), context, lambda one: one.invoke(key, context))


_PREPARE_GRAPH = PREPARE_GRAPH(_prepare_graph)
_KERNEL = Registration(
    init=INIT(_init),
    free=FREE(_free),
    prepare=KERNEL(_prepare),
    invoke=KERNEL(_invoke),
    profiling_string=None,
    builtin_code=DELEGATE_CODE,
    custom_name=ctypes.cast(_NAME, ctypes.c_char_p),
    version=1,
)
