"""The hardware that a space varies, computed like a point of it: what every finding is compared with."""

from __future__ import annotations

import json

from npusim.base import files
from npusim.isa.base import user_file
from npusim.study.evaluate import Evaluator, Job, Record
from npusim.study.folder import OLD_FORMAT, Folder, StudyError
from npusim.study.lines import BASE_POINT

BASE = "base.json"


def keep_base(folder: Folder, job: Job) -> None:
    """Compute the record of the base hardware, unless the study in `folder` has it."""
    if (folder.path / BASE).is_file():
        return
    line = folder.lines.write(Evaluator(job).base())
    files.write(folder.path / BASE, lambda file: file.write(line), follow=False)


def read_base(folder: Folder) -> Record | None:
    """The record of the base hardware; None in a study that does not have it yet. Raises StudyError."""
    file = folder.path / BASE
    if not file.exists() and not file.is_symlink():
        return None
    content = user_file.contents(file, user_file.STUDY, StudyError, follow=False)
    try:
        if folder.format == OLD_FORMAT:
            content = _in_the_form_of_a_line(content)
        return folder.lines.read(content, base=True)
    except ValueError as fault:
        raise StudyError(f"{file}: damaged: {fault}; delete it to compute it again") from None


def _in_the_form_of_a_line(content: bytes) -> bytes:
    """What format 1 called otherwise: `by_model` and `reason`, which were there even if empty."""
    plain = json.loads(content)
    if not isinstance(plain, dict) or plain.get("point") != BASE_POINT:
        raise ValueError("not a record")
    if plain.get("reason"):
        return json.dumps({"point": BASE_POINT, "infeasible": plain["reason"]}).encode()
    kept = {"point": BASE_POINT, "values": plain.get("values"), "models": plain.get("by_model")}
    return json.dumps(kept).encode()
