"""The words of a clear `npusim run`, read without typer."""

from __future__ import annotations

import os
from pathlib import Path

from npusim.cli.options import OPTIONS, File, Names, Request


def read(words: list[str]) -> tuple[list[str], Request] | None:
    """Return the models and options of `npusim run`; None for words that typer must read.

    Those are all that could be a fault (an unknown option, a number that is none, a file that cannot be read), help,
    `--key=value`, `--`, and values that begin with a dash, such as "-" for standard output.
    """
    if os.name == "nt":
        return None  # typer expands wildcards on Windows
    by_flag = {option.flag: option for option in OPTIONS}
    values = {option.name: option.default for option in OPTIONS}
    models: list[str] = []
    given = set()
    left = iter(words)
    for word in left:
        if not word or (word.startswith("-") and word not in by_flag):
            return None
        if word not in by_flag:
            models.append(word)
            continue
        option = by_flag[word]
        if option.type is bool:
            values[option.name] = True
            continue
        text = next(left, "")
        if not text or text.startswith("-"):
            return None
        if option.type == Names:
            values[option.name] = [*(values[option.name] or ()), text]
            continue
        if option.name in given:
            return None
        given.add(option.name)
        if option.type in (int, int | None):
            if not (text.isascii() and text.isdigit()) or int(text) < (option.least or 0):
                return None
            values[option.name] = int(text)
        elif option.type == File and not (os.path.exists(text) and not os.access(text, os.R_OK)):
            values[option.name] = Path(text)
        elif option.type in (str, str | None):
            values[option.name] = text
        else:
            return None
    if not models:
        return None
    return models, Request.of(**values)
