"""Exit statuses, messages and progress of long steps, for all commands."""

from __future__ import annotations

import gc
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from npusim.base.console import cleaned_streams, data_stream, say, uncleaned
from npusim.isa.base.errors import NpusimError, printable, within

EXIT_OUR_FAULT = 1
EXIT_USER_FAULT = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
"""Exit statuses as a shell reports them for a command that SIGINT or SIGPIPE ends: 128 plus the signal."""

DEBUG_VARIABLE = "NPUSIM_DEBUG"


@contextmanager
def cleaned() -> Iterator[None]:
    """Clean everything that is written to a terminal, and print equal warnings once."""
    with cleaned_streams(), warnings.catch_warnings():
        warnings.showwarning = _WarningsOnce()
        yield


@contextmanager
def guarded() -> Iterator[None]:
    """Turn every fault into a line on stderr and an exit status.

    Status 2 is a mistake of the user; its line names the place, the value and the allowed values. Status 1 is a fault
    of npusim. A traceback is shown only with NPUSIM_DEBUG=1.
    """
    try:
        yield
    except NpusimError as fault:
        raise _exit(EXIT_USER_FAULT, str(fault)) from None
    except KeyboardInterrupt:
        raise _exit(EXIT_INTERRUPTED, "interrupted") from None
    except MemoryError:
        raise _exit(EXIT_USER_FAULT, "not enough memory for this model on this computer") from None
    except BrokenPipeError:  # the reader of the output has closed it, such as `head`
        _drop_output()
        raise SystemExit(EXIT_BROKEN_PIPE) from None
    except OSError as fault:
        if fault.filename is None:  # files that we write have one
            _drop_output()
        where = fault.filename or "standard output"
        raise _exit(EXIT_USER_FAULT, f"{where}: {fault.strerror or fault}") from None
    except Exception as fault:
        # Usage errors and exits of typer (which has its own copy of click, or not) carry a status.
        if type(fault).__name__ == "Abort" or hasattr(fault, "exit_code"):
            raise
        raise _internal(fault) from fault


class _WarningsOnce:
    """A printer of warnings, one line each, that prints equal ones once: a command may read a file repeatedly."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def __call__(self, message: Warning | str, *_: object, **__: object) -> None:
        text = within(printable(str(message)))
        if text not in self._said:
            say(f"npusim: warning: {text}", err=True)
        self._said.add(text)


def _drop_output() -> None:
    """Discard buffered output of a stdout that is closed, so that Python does not report it again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), (data_stream() or sys.stdout).fileno())


def _exit(status: int, message: str) -> SystemExit:
    if os.environ.get(DEBUG_VARIABLE) == "1":
        import traceback

        traceback.print_exc()
    say(f"npusim: {within(printable(message))}", err=True)
    return SystemExit(status)


def _internal(fault: BaseException) -> SystemExit:
    return _exit(
        EXIT_OUR_FAULT,
        f"{type(fault).__name__}: {fault}. This is a fault of npusim, not of your input: please report it "
        f"with the command; {DEBUG_VARIABLE}=1 shows where it happened",
    )


def start_lightly() -> None:
    """Collect garbage rarely and disable pydantic's plugins; both took a tenth of a short run.

    Objects made by imports and compilation live to the end of the process, so collecting garbage frees nothing.
    pydantic would search all installed packages for plugins.
    """
    gc.set_threshold(50_000)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")


def ascii_only(file: TextIO) -> bool:
    """Return whether bars must be drawn with ASCII characters."""
    return not (getattr(file, "encoding", None) or "ascii").lower().startswith("utf")


class Progress:
    """A progress display in percent for a step of more than half a second, on stderr if that is a terminal.

    with Progress("simulating") as progress:
        progress(done, total)
    """

    DELAY_S = 0.5
    INTERVAL_S = 0.1

    def __init__(self, what: str, file: TextIO | None = None, clock: Callable[[], float] = time.monotonic):
        self._what, self._clock = printable(what), clock
        self._file = uncleaned(sys.stderr if file is None else file)
        self._shown = False
        self._next = clock() + self.DELAY_S

    def __enter__(self) -> Callable[[int, int], None] | None:
        """Return the function to call with (done, total); None if stderr is no terminal."""
        return self._step if self._file.isatty() else None

    def __exit__(self, *_: object) -> None:
        if self._shown:
            self._file.write("\r\x1b[K")
            self._file.flush()

    def _step(self, done: int, total: int) -> None:
        now = self._clock()
        if now >= self._next:
            self._next = now + self.INTERVAL_S
            self._shown = True
            self._file.write(f"\r{self._what} {100 * done // max(total, 1):3d} %")
            self._file.flush()
