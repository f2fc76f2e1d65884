"""The table of all commands, and the help that lists them, which needs no typer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import TextWrapper, shorten

COMMANDS = (
    (
        "run",
        "run_commands",
        "Compile and execute a model, and print the summary; of several models or machines, a table.",
    ),
    (
        "serve",
        "serve",
        "Serve requests on one machine: queues, deadlines, batching; times in percentiles, energy, what limits.",
    ),
    (
        "demo",
        "run_commands",
        "Classify handwritten digits on the simulated NPU, with the built-in model and its 200 test images.",
    ),
    ("compile", "program", "Compile a model to a program that `npusim run` executes."),
    ("asm", "program", "Turn assembly into a program."),
    (
        "disasm",
        "program",
        "Print a program as assembly, with the fields by name; `npusim asm` needs all of it.",
    ),
    ("convert", "program", "Write a model in another format, or say which layers it cannot express and why."),
    (
        "quantize",
        "quantize",
        "Quantize a float network after training, and say what accuracy that costs on the samples.",
    ),
    (
        "capabilities",
        "catalogue",
        "Simulate the reference models and print the PerformanceInfo table of the NN HAL driver.",
    ),
    ("models", "catalogue", "The built-in models."),
    (
        "ops",
        "catalogue",
        "The operators: what each model format calls them, which element types run where, and on which conditions.",
    ),
    ("schema", "catalogue", "The JSON Schema of the JSON that npusim writes."),
    ("compare", "compare", "Compare results with the first of them: what changed, layer by layer."),
    ("explore", "study", "Search a hardware space; the same command goes on where it was interrupted."),
    (
        "study",
        "study",
        "Draw a study again from its points: tables, page, figures, summary; also of one that is unfinished.",
    ),
    (
        "verify",
        "verify",
        "Compare npusim with who else computes the model, layer by layer, and say where the first byte differs.",
    ),
    ("hw", "catalogue", "Hardware: presets and files."),
)
"""Each command, the module of this package that holds it, and the first paragraph of its help.

The module is imported when the command is called: the options of all commands together take longer to build than a
small model takes to run.
"""

PURPOSE = "Compile quantized networks for a parametric NPU and simulate them: exact bytes, cycles, energy."
ENDING = "Exit status: 0 done, 2 a mistake in what was given, 1 a fault of npusim."
VERSION = "Show the version and exit."

_OPTIONS = (
    ("--version", VERSION),
    ("--install-completion", "Install completion for the current shell."),
    ("--show-completion", "Show completion for the current shell, to copy it or customize the installation."),
    ("-h, --help", "Show this message and exit."),
)


def help_text(columns: int) -> str:
    """Return the text that typer prints for `npusim --help` on a terminal with the given number of columns."""
    width = max(min(columns, 80) - 2, 50)
    longest = max(len(name) for name, *_ in COMMANDS)
    commands = [
        (name, shorten(text, width - longest - 6, placeholder="...", break_on_hyphens=False))
        for name, _, text in COMMANDS
    ]
    return "\n".join(
        [
            "Usage: npusim [OPTIONS] COMMAND [ARGS]...",
            "",
            *_indented(PURPOSE, width, ""),
            "",
            *("Options:", *_listed(_OPTIONS, width)),
            "",
            *("Commands:", *_listed(commands, width)),
            "",
            *_indented(ENDING, width, ""),
        ]
    )


def _listed(rows: Sequence[tuple[str, str]], width: int) -> Iterator[str]:
    """Yield the lines of a list of names, each with its description beside it."""
    longest = max(len(name) for name, _ in rows)
    for name, text in rows:
        yield from _indented(text, width, f"{name:{longest}}  ")


def _indented(text: str, width: int, name: str) -> list[str]:
    wrapper = TextWrapper(width, initial_indent=f"  {name}", subsequent_indent=" " * (len(name) + 2))
    return wrapper.wrap(text)
