"""How a run came about, so that it can be had again and told from another. No time of day, no folder, no host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from npusim.isa.base import user_file
from npusim.isa.base.errors import NpusimError
from npusim.isa.hardware import file as hardware_file
from npusim.isa.hardware.hardware import Hardware

if TYPE_CHECKING:
    from npusim.explore.study import Study

Inputs = Literal["random", "given", "none"]


@dataclass(frozen=True, slots=True)
class Provenance:
    """What a result does not show by itself.

    command:      a command that gives the same numbers, files by their names alone; None for what Python made.
    effort:       of the compiler, as `npusim run --effort`; None for a program that was compiled before.
    seed:         of the random inputs; None for others, and where no data was executed.
    inputs:       "random", "given", or "none" where no data was executed.
    model_sha256: of the file of the model or program, or of a built-in model; None for what Python made.
    """

    command: str | None = None
    effort: str | int | None = None
    seed: int | None = None
    inputs: Inputs = "none"
    model_sha256: str | None = None

    def to_dict(self, hardware: Hardware) -> dict[str, Any]:
        """The block of the JSON: versions, what is held here, and the digest of the hardware without its name."""
        return versions() | asdict(self) | {"hardware_sha256": digest_of_hardware(hardware)}


def versions() -> dict[str, Any]:
    """What computed: npusim, Python, and the packages that numbers pass through."""
    import platform

    import numpy
    import simpy

    from npusim import __version__

    return {
        "npusim": __version__,
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "simpy": simpy.__version__,
    }


def digest_of_hardware(hardware: Hardware) -> str:
    """SHA-256 of all parameters; machines that differ in name and description only have the same."""
    import json
    from hashlib import sha256

    plain = hardware_file.to_dict(hardware)
    numbers = {key: value for key, value in plain.items() if key not in ("name", "description")}
    return sha256(json.dumps(numbers, sort_keys=True).encode()).hexdigest()


def digest_of_model(path: str | Path) -> str | None:
    """SHA-256 of a model: of its file, or of the bytes of a built-in one; None if it is gone."""
    from hashlib import sha256

    from npusim import models

    found: str | Path | bytes = Path(path)
    if not Path(path).is_file():
        if str(path) not in models.names():
            return None
        found = models.path_or_bytes(str(path))
    if isinstance(found, bytes):
        return sha256(found).hexdigest()
    try:
        with user_file.opened(found, user_file.MODEL) as file:
            text = sha256()
            while block := file.read(1 << 20):
                text.update(block)
    except (NpusimError, OSError):
        return None
    return text.hexdigest()


def of_run(
    path: str | Path,
    hw: str | Path | Hardware | None,
    *,
    effort: str | int,
    seed: int,
    inputs: Inputs,
    settings: Sequence[str] = (),
    compiled: bool = False,
) -> Provenance:
    """The provenance of a run of the model at `path`.

    hw, settings: the hardware as it was named, None for the default; compiled: the model is a program already.
    """
    import shlex

    named = hw.name if isinstance(hw, Hardware) else None if hw is None else Path(hw).name
    words = ["npusim", "run", Path(path).name]
    words += ["--hw", named] if named is not None else []
    words += [word for each in settings for word in ("--set", each)]
    words += ["--effort", str(effort)] if effort not in ("fast", 0, "0") else []
    words += ["--seed", str(seed)] if inputs == "random" and seed else []
    words += ["--timing-only"] if inputs == "none" else []
    return Provenance(
        shlex.join(words),
        None if compiled else effort,
        seed if inputs == "random" else None,
        inputs,
        digest_of_model(path),
    )


def of_study(study: Study) -> dict[str, Any]:
    """What a study rests on, for the metadata of its figures."""
    return {
        "npusim": study.version,
        "space": study.space.name,
        "sampler": dict(study.sampler),
        "effort": study.space.effort,
        "programs": study.space.programs,
        "models": {model.name: model.digest for model in study.models},
        "hardware_sha256": digest_of_hardware(study.space.base),
        "points": len(study.records),
    }
