"""The errors of NNAdapter: one class per result code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from npusim.frontends.nnadapter.nnadapter_codes import ResultCode
from npusim.isa.base.errors import NpusimError
from npusim.isa.base.printable import replaced

LONGEST_VALUE = 80
"""Characters of an argument that it quotes."""


class NNAdapterError(NpusimError):
    """A call that NNAdapter refuses, in a sentence on one line; `code` is what its C function returns."""

    code: ClassVar[ResultCode] = ResultCode.INVALID_PARAMETER

    def __init__(self, text: str) -> None:
        """An error with one line of text, whatever is quoted in it."""
        super().__init__(" ".join(text.split("\n")))


@contextmanager
def faults_as(kind: type[NNAdapterError]) -> Iterator[None]:
    """Faults of npusim that are no NNAdapterErrors, and those of the file system, are of this kind."""
    try:
        yield
    except NNAdapterError:
        raise
    except NpusimError as fault:
        raise kind(str(fault)) from fault
    except OSError as fault:
        raise kind(f"{said(fault.filename)}: {fault.strerror or fault}") from fault


def said(value: object) -> str:
    """A value of the caller as messages show it: as Python does, shortened."""
    try:
        text = repr(value)
    except Exception:  # the caller's own, or a whole number of more digits than Python prints
        text = f"a {type(value).__name__}"
    return replaced(" ".join(text.split()), LONGEST_VALUE)


class OutOfMemory(NNAdapterError):
    """There is no room for a buffer."""

    code = ResultCode.OUT_OF_MEMORY


class InvalidDimensions(NNAdapterError):
    """A shape that was not agreed on."""

    code = ResultCode.INVALID_DIMENSIONS


class InvalidParameter(NNAdapterError):
    """An argument that is missing, of the wrong kind, or breaks a rule; a call out of its order."""

    code = ResultCode.INVALID_PARAMETER


class DeviceNotFound(NNAdapterError):
    """A device that nobody registered, or that cannot be opened."""

    code = ResultCode.DEVICE_NOT_FOUND


class DeviceInternalError(NNAdapterError):
    """A device that failed."""

    code = ResultCode.DEVICE_INTERNAL_ERROR


class FeatureNotSupported(NNAdapterError):
    """What no device of the context can do."""

    code = ResultCode.FEATURE_NOT_SUPPORTED
