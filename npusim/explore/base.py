"""The hardware that a space varies, computed like a point of it: what every finding is compared with."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from npusim import files
from npusim.explore.evaluate import Evaluator, Job, Record
from npusim.explore.folder import StudyError

BASE = "base.json"


def keep_base(folder: Path, job: Job) -> None:
    """Compute the record of the base hardware, unless the study in `folder` has it."""
    if (folder / BASE).is_file():
        return
    record = Evaluator(job).base()
    text = json.dumps(asdict(record), indent=1, ensure_ascii=False) + "\n"
    files.write(folder / BASE, files.text(text))


def read_base(folder: Path) -> Record | None:
    """The record of the base hardware; None in a study that does not have it yet. Raises StudyError."""
    try:
        return Record(**json.loads((folder / BASE).read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as fault:
        raise StudyError(f"{folder / BASE}: damaged; delete it to compute it again: {fault}") from None
