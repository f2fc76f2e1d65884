"""The functions that LiteRT calls. They are made once, and live as long as the process.

LiteRT knows delegates and partitions by numbers, so nothing that it holds can be a dead object: an interpreter that
outlives its delegate, or the other way round, finds a number that stands for nothing. No exception leaves a function.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from itertools import count
from weakref import WeakValueDictionary

from npusim.litert import memory
from npusim.litert.memory import AbiError
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

_ADDRESSES: dict[int | None, int] = {}
"""The numbers of delegates by where these are."""

_NUMBERS = count(1)
_NAME = ctypes.create_string_buffer(b"npusim")


def native_delegate(session: Session) -> int:
    """The address of a TfLiteDelegate for a session."""
    number = next(_NUMBERS)
    _SESSIONS[number] = session
    native = NativeDelegate(data=number, Prepare=_PREPARE_GRAPH, flags=ALLOW_DYNAMIC_TENSORS)
    _NATIVE.append(native)
    _ADDRESSES[ctypes.addressof(native)] = number
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


def _session_of(delegate: int | None) -> Session | None:
    """The session of a TfLiteDelegate; None for an address of none of ours, or where Python's delegate is gone."""
    if delegate not in _ADDRESSES:
        return None
    return _SESSIONS.get(_ADDRESSES[delegate])


def _prepare_graph(context: int, delegate: int | None) -> int:
    return _guarded(
        _session_of(delegate), context, lambda one: one.prepare_graph(context, delegate or 0, _KERNEL)
    )


def _init(context: int, buffer: int | None, length: int) -> int | None:
    try:
        with memory.opened() as reading:
            params = reading.struct(DelegateParams, buffer, "a partition")
        session = _session_of(params.delegate)
    except AbiError:  # the kernel is prepared without a number, and refuses
        return None
    key = next(_NUMBERS)
    if session is None or _guarded(session, context, lambda one: one.begin(key, context, params)) != OK:
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
