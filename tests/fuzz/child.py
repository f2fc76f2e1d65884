"""One case in a process of its own: forked, limited in time and memory, told about through a pipe."""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

CPU_SECONDS = 10
"""What a case may compute; a process that takes more is stopped."""
WALL_SECONDS = 60
"""How long it may take, on a machine with other work: a process that waits for ever computes nothing."""
MEMORY_BYTES = 1 << 30
"""What a case may have in memory at its peak, Python and its libraries included."""
ADDRESS_BYTES = 4 << 30
"""Where the system stops it, so that the machine survives."""


@dataclass
class Outcome:
    """How a process ended: its notes, CPU seconds, peak memory, and what stopped it if something did."""

    notes: list[dict[str, Any]] = field(default_factory=list)
    cpu_s: float = 0.0
    peak_bytes: int = 0
    stopped: str = ""

    @property
    def timed_out(self) -> bool:
        return self.stopped == "time" or self.cpu_s > CPU_SECONDS

    @property
    def too_large(self) -> bool:
        return self.peak_bytes > MEMORY_BYTES


class Report:
    """What a case says of itself while it runs."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    def note(self, kind: str, text: str = "") -> None:
        """One of harness.COUNTS, and details."""
        os.write(self._pipe, json.dumps({"kind": kind, "text": text[:2000]}).encode() + b"\n")


def run(work: Callable[[Report], None], output: Path) -> Outcome:
    """Call `work` in a forked process; what it and its libraries print goes to the file `output`."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if process == 0:
        os.close(reading)
        _work(work, Report(writing), output)
    os.close(writing)
    try:
        text, stopped = _listen(reading, process)
    except BaseException:  # interrupted: nothing of ours may stay behind
        os.kill(process, signal.SIGKILL)
        os.wait4(process, 0)
        raise
    finally:
        os.close(reading)
    _, status, usage = os.wait4(process, 0)
    if not stopped and os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        stopped = "time" if number == signal.SIGXCPU else signal.Signals(number).name
    notes = [json.loads(line) for line in text.splitlines() if line.endswith(b"}")]
    return Outcome(notes, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, stopped)


def _listen(pipe: int, process: int) -> tuple[bytes, str]:
    """All that the process writes, and "time" if it had to be stopped."""
    end, text = time.monotonic() + WALL_SECONDS, b""
    while True:
        ready, _, _ = select.select([pipe], [], [], max(end - time.monotonic(), 0))
        if not ready:
            os.kill(process, signal.SIGKILL)
            return text, "time"
        piece = os.read(pipe, 1 << 16)
        if not piece:
            return text, ""
        text += piece


def _work(work: Callable[[Report], None], report: Report, output: Path) -> NoReturn:
    """The child: never returns to the code of its parent."""
    status = 1
    faulthandler.disable()  # of pytest: its reports of crashes would go to the terminal
    try:
        file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, target in ((0, nothing), (1, file), (2, file)):
            os.dup2(target, number)
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS + 1, CPU_SECONDS + 5))
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_BYTES, ADDRESS_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        work(report)
        status = 0
    except BaseException:
        report.note("fault", traceback.format_exc()[-1800:])
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
