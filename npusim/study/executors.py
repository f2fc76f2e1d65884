"""The executors of a search on this machine: this process, or worker processes on its cores."""

from __future__ import annotations

import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Protocol

from npusim.isa.base.errors import NpusimError
from npusim.study.evaluate import Evaluator, Job, Record, order

LARGEST_GROUP = 16
ATTEMPTS = 3
"""Attempts for a point whose process dies, because the machine may only have been out of memory for a moment."""


class Executor(Protocol):
    """The interface of executors: they compute points in any order, and all give the same records."""

    def records(self, points: Sequence[int]) -> Iterator[Record]:
        """Yield the records of points as they are ready."""
        ...

    def close(self) -> None:
        """Stop what still runs."""
        ...


def executor(job: Job, jobs: int | None = None) -> Executor:
    """Return an executor on this machine with `jobs` processes; None starts one per core."""
    count = jobs or available_cores()
    return InProcess(job) if count == 1 else LocalProcesses(job, count)


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def died(point: int) -> Record:
    """Return the record of a point that kills every process that computes it."""
    return Record(
        point, reason=f"the process that computed it died {ATTEMPTS} times; is there enough memory?"
    )


class InProcess:
    """The executor that computes points one after the other in this process."""

    def __init__(self, job: Job) -> None:
        self._space = job.space
        self.evaluator = Evaluator(job)

    def records(self, points: Sequence[int]) -> Iterator[Record]:
        """Yield the records of points as they are ready."""
        for group in order(self._space, points):
            for point in group:
                yield self.evaluator.record(point)

    def close(self) -> None:
        """Do nothing, because nothing runs between points."""


def chunks(groups: Sequence[Sequence[int]], workers: int) -> list[list[int]]:
    """Cut groups into chunks so small that all workers stay busy to the end, and a dying one loses little."""
    total = sum(map(len, groups))
    size = max(1, min(LARGEST_GROUP, total // (4 * workers)))
    return [list(group[at : at + size]) for group in groups for at in range(0, len(group), size)]


class LocalProcesses:
    """The executor with worker processes, each with its own models and caches.

    One thread per worker sends points and reads records. A worker ends at the end of its input, so none is left behind
    if this process is killed. A worker that dies is replaced, and its point is tried again.
    """

    def __init__(self, job: Job, count: int) -> None:
        self._space = job.space
        self._payload = pickle.dumps(job, pickle.HIGHEST_PROTOCOL)
        self._workers = [_Worker(self._payload) for _ in range(count)]

    def records(self, points: Sequence[int]) -> Iterator[Record]:
        """Yield the records of points as they are ready."""
        todo: queue.SimpleQueue[list[int]] = queue.SimpleQueue()
        for chunk in chunks(order(self._space, points), len(self._workers)):
            todo.put(chunk)
        done: queue.SimpleQueue[Record | BaseException] = queue.SimpleQueue()
        stop = threading.Event()

        def serve(worker: _Worker) -> None:
            try:
                while not stop.is_set():
                    for point in todo.get_nowait():
                        if stop.is_set():
                            return
                        done.put(worker.record(point))
            except queue.Empty:
                return
            except BaseException as fault:
                done.put(fault)

        threads = [threading.Thread(target=serve, args=(process,), daemon=True) for process in self._workers]
        for thread in threads:
            thread.start()
        try:
            for _ in points:
                outcome = done.get()
                if isinstance(outcome, BaseException):
                    raise outcome
                yield outcome
        finally:
            stop.set()

    def close(self) -> None:
        """End the workers, even in the middle of a point."""
        for worker in self._workers:
            worker.close()


class _Worker:
    """One worker process, started when it is first needed."""

    def __init__(self, payload: bytes) -> None:
        self._payload = payload
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    def record(self, point: int) -> Record:
        """Have a point computed. A process that dies meanwhile is replaced, up to `ATTEMPTS` times."""
        for _ in range(ATTEMPTS):
            process = self._process or self._start()
            try:
                assert process.stdin is not None
                pickle.dump(point, process.stdin)
                process.stdin.flush()
                return self._answer(process)
            except (EOFError, BrokenPipeError, pickle.UnpicklingError):
                self._stop()
                if self._closed:
                    raise NpusimError("the search was stopped") from None
        return died(point)

    @staticmethod
    def _answer(process: subprocess.Popen[bytes]) -> Record:
        assert process.stdout is not None
        answer = pickle.load(process.stdout)
        if isinstance(answer, BaseException):
            raise answer
        assert isinstance(answer, Record)
        return answer

    def _start(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-m", "npusim.study.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=_environment(),
            start_new_session=True,  # Ctrl-C is for the process that searches; it ends this one
        )
        self._process = process
        assert process.stdin is not None
        _send(process.stdin, self._payload)
        return process

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def close(self) -> None:
        """End the process for good."""
        self._closed = True
        self._stop()


def _send(stream: IO[bytes], payload: bytes) -> None:
    try:
        stream.write(payload)
        stream.flush()
    except BrokenPipeError:
        return  # the first question to this worker finds out


def _environment() -> dict[str, str]:
    """Return environment variables with which a worker imports this npusim and uses one core only."""
    folder = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH", "")]))
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {**os.environ, **threads, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
