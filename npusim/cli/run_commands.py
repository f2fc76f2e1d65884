"""`npusim run` and `npusim demo` as commands of typer."""

from __future__ import annotations

from dataclasses import replace

import typer

from npusim.base.console import say
from npusim.cli.base import Progress
from npusim.cli.run import print_summary, run
from npusim.cli.typer_options import HardwareOption, with_options


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("run")(with_options(run))
    app.command("demo")(demo)


def demo(hw: HardwareOption = None) -> None:
    """Classify handwritten digits on the simulated NPU, with the built-in model and its 200 test images."""
    from npusim import models
    from npusim.session import api
    from npusim.study.levers import levers

    program, wall = api.prepare("digits_cnn", hw)
    images, labels = models.digits_test()
    right, cycles = 0, set()
    with Progress("classifying") as progress:
        for i, (image, label) in enumerate(zip(images, labels, strict=True)):
            result = api.simulate(program, [image[None]])
            right += int(result.outputs[0].argmax()) == int(label)
            cycles.add(int(result.cycles))
            if progress:
                progress(i + 1, len(labels))
    tried = levers(api.load("digits_cnn"), result, file="digits_cnn")
    print_summary(replace(result, wall_s=replace(result.wall_s, **wall), tried=tried))
    lines = [f"Accuracy {right / len(labels):.1%}: {right} of {len(labels)} test images."]
    if len(cycles) == 1:
        lines.append(f"Every inference took {cycles.pop()} cycles.")
    say("\n" + " ".join(lines))
