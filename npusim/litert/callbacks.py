"""The C callbacks that LiteRT calls. They are made once and live as long as the process.

LiteRT gets numbers for delegates and partitions instead of pointers. So an interpreter that outlives its delegate, or
the other way round, holds an unknown number and no dangling pointer. No exception leaves a callback.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from itertools import count
from weakref import WeakValueDictionary

from npusim.litert import process_memory as memory
from npusim.litert.c_structs import (
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
from npusim.litert.process_memory import AbiError
from npusim.litert.session import Session

_SESSIONS: WeakValueDictionary[int, Session] = WeakValueDictionary()
"""The session of each delegate, by number. Weak references, because the delegate holds its session."""

_PARTITIONS: dict[int, Session] = {}
"""The session of each partition. Strong references, because LiteRT may call as long as it has the partition."""

_ADDRESSES: dict[int | None, int] = {}
"""The numbers of delegates by their addresses."""

_NUMBERS = count(1)
_NAME = ctypes.create_string_buffer(b"npusim")


def _keep(value: object) -> None:
    """Keep an object alive until the process ends, because LiteRT may read it until its last interpreter ends.

    An interpreter in a reference cycle ends after Python has cleared the modules, so none of them can hold the object.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


def native_delegate(session: Session) -> int:
    """Return the address of a TfLiteDelegate for a session."""
    number = next(_NUMBERS)
    _SESSIONS[number] = session
    native = NativeDelegate(data=number, Prepare=_PREPARE_GRAPH, flags=ALLOW_DYNAMIC_TENSORS)
    _keep(native)
    _ADDRESSES[ctypes.addressof(native)] = number
    return ctypes.addressof(native)


def _guarded(session: Session | None, context: int, call: Callable[[Session], None]) -> int:
    """Return the status of a call, ERROR for any exception."""
    if session is None:
        return ERROR
    try:
        call(session)
    except BaseException as error:  # even an interrupt: what leaves a callback is lost, and LiteRT goes on
        session.failed(error, context)
        return ERROR
    return OK


def _session_of(delegate: int | None) -> Session | None:
    """Return the session of a TfLiteDelegate; None for a foreign address or if Python's delegate is gone."""
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


def _free(context: int, key: int | None, partitions: dict[int, Session] = _PARTITIONS) -> None:
    session = partitions.pop(key or 0, None)  # as an argument: Python may have cleared this module
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
_keep(_PREPARE_GRAPH)
_keep(_KERNEL)
_keep(_NAME)
