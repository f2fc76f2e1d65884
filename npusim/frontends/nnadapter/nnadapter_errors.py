"""The errors of NNAdapter, one class per result code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from npusim.frontends.nnadapter.nnadapter_codes import ResultCode
from npusim.isa.base.errors import NpusimError, replaced

LONGEST_VALUE = 80
"""Maximum number of characters of a value that a message quotes."""


class NNAdapterError(NpusimError):
    """A call that NNAdapter refuses, with a message of one line; `code` is the result code of its C function."""

    code: ClassVar[ResultCode] = ResultCode.INVALID_PARAMETER

    def __init__(self, text: str) -> None:
        """Join the lines of the message, because quoted values may contain line breaks."""
        super().__init__(" ".join(text.split("\n")))


@contextmanager
def faults_as(kind: type[NNAdapterError]) -> Iterator[None]:
    """Raise errors of npusim and of the file system within the block as errors of this class."""
    try:
        yield
    except NNAdapterError:
        raise
    except NpusimError as fault:
        raise kind(str(fault)) from fault
    except OSError as fault:
        raise kind(f"{said(fault.filename)}: {fault.strerror or fault}") from fault


def said(value: object) -> str:
    """Return a value of the caller for a message: its `repr`, shortened."""
    try:
        text = repr(value)
    except Exception:  # a `repr` of the caller's own, or an int with more digits than Python prints
        text = f"a {type(value).__name__}"
    return replaced(" ".join(text.split()), LONGEST_VALUE)


class OutOfMemory(NNAdapterError):
    """There is no memory left for a buffer."""

    code = ResultCode.OUT_OF_MEMORY


class InvalidDimensions(NNAdapterError):
    """A shape that the model was not compiled for, or that does not fit its buffer."""

    code = ResultCode.INVALID_DIMENSIONS


class InvalidParameter(NNAdapterError):
    """A missing or wrong argument, a broken rule of an operation, or a call in the wrong order."""

    code = ResultCode.INVALID_PARAMETER


class DeviceNotFound(NNAdapterError):
    """A device that is not registered or cannot be opened."""

    code = ResultCode.DEVICE_NOT_FOUND


class DeviceInternalError(NNAdapterError):
    """A failure of a device or of its driver."""

    code = ResultCode.DEVICE_INTERNAL_ERROR


class FeatureNotSupported(NNAdapterError):
    """A request that no device of the context can fulfil."""

    code = ResultCode.FEATURE_NOT_SUPPORTED
