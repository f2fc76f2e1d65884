"""The output to the terminal, in which control characters of names and messages are shown instead of executed.

Escape sequences, carriage returns, marks without width and marks that turn the direction of writing are written as
their escapes, to stdout and stderr alike. Only npusim's own colours and progress pass unchanged. Line ends pass too: a
caller that puts a name into one line removes them itself (`npusim.isa.base.errors`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO, cast

from npusim.isa.base.errors import printable_lines

if TYPE_CHECKING:
    from rich.console import Console


class Cleaned:
    """A stream that lets only visible text and line ends pass. All other attributes are those of the wrapped stream."""

    def __init__(self, stream: TextIO | BinaryIO) -> None:
        self.stream = stream

    def write(self, content: str | bytes) -> int:
        """Write text, or UTF-8 bytes to a binary stream. Raises TypeError for the wrong one of the two."""
        stream = cast(Any, self.stream)
        if isinstance(content, str):
            stream.write(printable_lines(content))
        else:
            text = content.decode("utf-8", "backslashreplace")
            stream.write(printable_lines(text).encode("utf-8", "backslashreplace"))
        return len(content)

    def writelines(self, lines: Iterable[str | bytes]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":  # it would lead past the cleaning
            raise AttributeError(name)
        return getattr(self.stream, name)


@contextmanager
def cleaned_streams() -> Iterator[None]:
    """Replace control characters in everything that is written to stdout and stderr."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = cast(TextIO, Cleaned(before[0])), cast(TextIO, Cleaned(before[1]))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        _for_data.clear()


STANDARD_OUTPUT = Path("-")
"""The path that means standard output where a command line asks for a file."""

_for_data: list[TextIO] = []
"""Standard output, while it is reserved for the content of a file given as "-"."""


def keep_for_data() -> None:
    """Reserve standard output for the content of a file given as "-": tables and summaries are discarded.

    It lasts until `cleaned_streams` ends.
    """
    _for_data.append(sys.stdout)
    sys.stdout = StringIO()


def data_stream() -> TextIO | None:
    """Return standard output if it is reserved for data, else None."""
    return _for_data[-1] if _for_data else None


def open_standard_streams() -> None:
    """Open the null device in place of closed standard streams, which `>&-` in a shell leaves.

    Otherwise sys.stdout is None, and the next opened file gets the stream's file descriptor: whatever a library writes
    to standard error would go into a user's file.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, number)  # inherited by workers, unlike what os.open returns
            if null != number:
                os.close(null)
            else:
                os.set_inheritable(number, True)
        if getattr(sys, name) is None:
            stream = open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)


def uncleaned(file: TextIO) -> TextIO:
    """Return the unwrapped stream, for npusim's own colours and movements of the cursor."""
    return cast(TextIO, file.stream) if isinstance(file, Cleaned) else file


def say(text: str, end: str = "\n", *, err: bool = False) -> None:
    """Print a text on stdout, or on stderr."""
    file = Cleaned(uncleaned(sys.stderr if err else sys.stdout))
    file.write(text + end)
    file.flush()


def plain_width() -> int | None:
    """Return the width of stdout if it is no terminal, as rich finds it; None if rich may print colours."""
    if (
        os.name == "nt"
        or "TTY_COMPATIBLE" in os.environ
        or "FORCE_COLOR" in os.environ
        or sys.stdout.isatty()
    ):
        return None
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit():
        return int(columns) or 80
    for descriptor in range(3):
        with suppress(OSError):
            return os.get_terminal_size(descriptor).columns or 80
    return 80


def console(file: TextIO | None = None, **settings: Any) -> Console:
    """Return a console that prints tables of rich, on stdout if there is no `file`.

    Text is never interpreted as markup, and only styles have colours.
    """
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class Clean(Console):
        """A console that cleans every text segment; only control codes of rich itself pass."""

        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterable[Segment]:
            for segment in super().render(renderable, options):
                if segment.control:
                    yield segment
                else:
                    yield Segment(printable_lines(segment.text), segment.style)

    target = uncleaned(sys.stdout if file is None else file)
    return Clean(file=target, highlight=False, markup=False, emoji=False, **settings)
