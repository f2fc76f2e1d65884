"""Open a model file, a compiled program, or a built-in model by its name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from npusim.isa.base import user_file
from npusim.isa.base.errors import CompileError, NpusimError, nearest
from npusim.isa.hardware.file import to_flat
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.program.program import Program

if TYPE_CHECKING:
    from npusim.kernels.graph.bind import Offered, Sizes
    from npusim.kernels.graph.graph import Graph

PROGRAM_SUFFIX = ".npu"


def open_model(
    path: str | Path, sizes: Sizes | None = None, offered: Offered | None = None
) -> Graph | Program:
    """Open a path as a model or program file or, if no such file exists, the built-in model of that name.

    The format of a transformer's weights may follow its name, as in "llama3_8b:int4-32". "size" may follow the name of
    any model: only the sizes of its constants are known then, which is enough to time it.

    sizes, offered: settle open sizes of a model file, as for `npusim.frontends.frontend.read`. Raises NpusimError if
    sizes are given for something that has no open sizes.
    """
    from npusim.frontends import frontend as formats

    file, name = Path(path), str(path)
    plain, form = formats.name_and_format(path)
    if form == formats.BY_SIZE:
        model = open_model(plain, sizes, offered)
        if isinstance(model, Program):
            raise NpusimError(f"{plain}: is compiled already, with its weights; give the model")
        return formats.without_data(model)
    if file.is_file() and _is_program(file):
        if sizes:
            raise NpusimError(f"{path}: is compiled already, its sizes are known; give the model")
        from npusim.isa.program import container

        return container.load(file)
    if file.exists():
        return formats.read(file, sizes, offered)
    from npusim import models  # a file does without its imports

    if name in models.names():
        from npusim.frontends.tflite import reader as tflite

        return tflite.parse(models.path_or_bytes(name), name, sizes)
    from npusim.frontends.transformer.published import BLOCK_BY_NAME, BY_NAME, configuration

    if config := configuration(path):
        return formats.read_config(config, sizes)
    if name in BLOCK_BY_NAME:
        return formats.built(name, BLOCK_BY_NAME[name].build, sizes)
    if form and open_model(plain, sizes):
        raise NpusimError(
            f"{path}: the format of weights is for a config.json, a GGUF file, and {', '.join(BY_NAME)}; {plain} has "
            f"its own, and {plain}:{formats.BY_SIZE} times it without reading its weights"
        )
    known = (*models.names(), *BY_NAME, *BLOCK_BY_NAME)
    near = nearest(name, known)
    if len(file.parts) != 1 or (file.suffix and not near):
        raise NpusimError(f"{path}: no such file")
    hint = f", did you mean {near}?" if near else ";"
    raise NpusimError(
        f"{path}: neither a file nor a built-in model{hint} built-in are {', '.join(known)}; npusim models lists them"
    )


def _is_program(file: Path) -> bool:
    """Return whether the name or the first bytes of a file are those of a compiled program."""
    from npusim.isa.program.container import MAGIC

    if file.suffix.lower() == PROGRAM_SUFFIX:
        return True
    try:
        with user_file.opened(file, user_file.PROGRAM) as stream:
            return stream.read(len(MAGIC)) == MAGIC
    except NpusimError:
        return False  # the reader of models says what is wrong with it


def is_program(path: str | Path) -> bool:
    """Return whether a path is that of a compiled program."""
    return Path(path).is_file() and _is_program(Path(path))


def resolved(path: str | Path) -> str:
    """Return the path or name by which a model is found again from any folder."""
    return str(Path(path).resolve() if Path(path).is_file() else path)


def require_same_hardware(path: str | Path, program: Program, chosen: Hardware | None) -> None:
    """Raise CompileError, naming what differs, if a program was compiled for other hardware than the chosen one.

    Tiles and addresses of a program hold for its own hardware only.
    """
    if chosen is None or chosen == program.hardware:
        return
    mine, other = to_flat(program.hardware), to_flat(chosen)
    differing = [key for key in dict.fromkeys([*mine, *other]) if mine.get(key) != other.get(key)]
    numbers = [key for key in differing if key not in ("name", "description")]
    shown = ", ".join((numbers or differing)[:3]) + (", ..." if len(numbers) > 3 else "")
    raise CompileError(
        f'{path}: compiled for "{program.hardware.name}", and "{chosen.name}" differs in {shown}; '
        "run it without --hw, or compile the model again for the other hardware"
    )
