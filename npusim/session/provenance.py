"""The provenance of runs whose model and hardware are given as files or names."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from npusim import models
from npusim.frontends.frontend import model_file
from npusim.isa.base import user_file
from npusim.isa.base.errors import NpusimError
from npusim.isa.hardware.hardware import Hardware
from npusim.numbers.provenance import Inputs, Provenance
from npusim.session.options import SHAPE_OPTION, Options


def digest_of_model(path: str | Path) -> str | None:
    """Return the SHA-256 of a model's file, or of the bytes of a built-in model; None if the file is gone."""
    plain = model_file(path)
    source: str | Path | bytes = plain
    if not plain.is_file():
        if str(path) not in models.names():
            return None
        source = models.path_or_bytes(str(path))
    if isinstance(source, bytes):
        return sha256(source).hexdigest()
    identity = user_file.unchanged(source)
    return _digest(source, identity) if identity else _digest.__wrapped__(source, identity)


@lru_cache(maxsize=64)
def _digest(file: str | Path, identity: user_file.Identity | None) -> str | None:
    """Return the SHA-256 of a file, which is remembered while the file does not change; None if it cannot be read."""
    try:
        with user_file.opened(file, user_file.MODEL) as opened:
            text = sha256()
            while block := opened.read(1 << 20):
                text.update(block)
    except (NpusimError, OSError):
        return None
    return text.hexdigest()


def of_run(
    path: str | Path,
    hw: str | Path | Hardware | None,
    options: Options,
    *,
    seed: int,
    inputs: Inputs,
    settings: Sequence[str] = (),
    compiled: bool = False,
    devices: Sequence[str] = (),
) -> Provenance:
    """Return the provenance of a run of the model at `path`.

    hw, settings: the hardware as it was named; None for the default.
    compiled:     True if the model is a compiled program.
    devices:      names of devices, given instead of `hw`.
    """
    import shlex

    named = hw.name if isinstance(hw, Hardware) else None if hw is None else Path(hw).name
    shapes = options.shape_words()
    words = ["npusim", "run", Path(path).name]
    words += ["--hw", named] if named is not None else []
    words += [word for device in devices for word in ("--device", Path(device).name)]
    words += [word for setting in settings for word in ("--set", setting)]
    words += options.words()
    words += [word for shape in shapes for word in (SHAPE_OPTION, shape)]
    words += ["--seed", str(seed)] if inputs == "random" and seed else []
    words += ["--timing-only"] if inputs == "none" else []
    return Provenance(
        shlex.join(words),
        None if compiled else options.effort,
        seed if inputs == "random" else None,
        inputs,
        digest_of_model(path),
        shlex.join(shapes) if shapes else None,
    )
