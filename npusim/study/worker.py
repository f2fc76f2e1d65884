"""The worker process of a search on this machine: it reads a job, then points, and answers with their records.

Pickles pass through its standard input and output, between processes of one npusim. Anything printed goes to standard
error.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from typing import BinaryIO

from npusim.study.evaluate import Evaluator, Job


def serve(questions: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until their stream ends."""
    job = pickle.load(questions)
    assert isinstance(job, Job)
    evaluator = Evaluator(job)
    while True:
        try:
            point = pickle.load(questions)
        except EOFError:
            return
        try:
            answer: object = evaluator.record(point)
        except Exception as fault:
            answer = fault
        pickle.dump(answer, answers)
        answers.flush()


def main() -> None:
    """Compute points that the parent process asks for; run by `python -m npusim.study.worker`."""
    # Ctrl-C is for the process that searches; it ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)
        try:
            serve(sys.stdin.buffer, answers)
        except (BrokenPipeError, EOFError):
            os._exit(0)  # nobody listens any more


if __name__ == "__main__":
    main()
