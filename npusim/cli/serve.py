"""The command `npusim serve`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from npusim.base.console import console
from npusim.cli.base import Progress
from npusim.cli.options import hardware_inputs
from npusim.cli.typer_options import EffortOption, HardwareOption, SetOption
from npusim.isa.base.errors import NpusimError

if TYPE_CHECKING:
    from npusim.base.files import Writer
    from npusim.serving.served import Serving


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("serve")(serve)


def _option(purpose: str, metavar: str | None, least: float | None = None) -> Any:
    return typer.Option(help=purpose, metavar=metavar, min=least, show_default=False)


_LIST = "N,N"


def serve(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...",
            help="Models of single inferences (files, .npu programs, built-in models), or one language model "
            "(config.json, GGUF, published name).",
        ),
    ],
    requests: Annotated[
        Path | None,
        _option(
            "Arrivals: a CSV file with arrival_s, prompt_tokens, new_tokens, tenant, or BurstGPT's columns.",
            "F.csv",
        ),
    ] = None,
    rate: Annotated[
        str | None, _option("Or requests per second of each model, at random (Poisson).", _LIST)
    ] = None,
    period_ms: Annotated[
        str | None, _option("Or the time between two requests of each model, in ms.", _LIST)
    ] = None,
    count: Annotated[
        int | None, _option("With a rate or period: how many requests. [default: 1000]", "N", 1)
    ] = None,
    duration_s: Annotated[
        float | None, _option("With a rate or period: until when they arrive.", "S", 1e-6)
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the arrivals.", metavar="N", min=0)] = 0,
    prompt_tokens: Annotated[
        int | None, _option("With a rate or period: tokens of each prompt.", "N", 1)
    ] = None,
    new_tokens: Annotated[
        int | None, _option("With a rate or period: tokens of each answer.", "N", 1)
    ] = None,
    priority: Annotated[
        str | None, _option("Priority of each model, the larger first. [default: equal]", _LIST)
    ] = None,
    deadline_ms: Annotated[
        str | None, _option("Deadline of each model, from arrival: who cannot meet it is not run.", _LIST)
    ] = None,
    queue: Annotated[int | None, _option("Most requests that wait; more are refused (BUSY).", "N", 0)] = None,
    preempt: Annotated[
        bool, typer.Option("--preempt", help="A higher priority stops a lower one at the end of a layer.")
    ] = False,
    batching: Annotated[
        str, _option("Of a language model. [default: one]", "one|static|continuous|chunked")
    ] = "",
    max_batch: Annotated[int | None, _option("Most requests of a language model at once.", "N", 1)] = None,
    chunk: Annotated[int | None, _option("Tokens of a chunk, for chunked.", "N", 1)] = None,
    bucket: Annotated[
        int | None, _option("Lengths of programs are multiples of it. [default: powers of two]", "N", 1)
    ] = None,
    cache_mib: Annotated[
        float | None, _option("Memory for keys and values. [default: what the weights leave]", "MIB", 1e-6)
    ] = None,
    page: Annotated[int | None, _option("Tokens of a page of the cache. [default: 16]", "N", 1)] = None,
    sleep_mw: Annotated[
        float | None,
        _option("Power while no program runs. [default: of the machine with its clocks]", "MW", 0),
    ] = None,
    battery_wh: Annotated[float | None, _option("Say how long such a battery lasts.", "WH", 1e-6)] = None,
    hw: HardwareOption = None,
    set_: SetOption = None,
    effort: EffortOption = "fast",
    json: Annotated[Path | None, _option("Write every number, for programs.", "F")] = None,
    csv: Annotated[Path | None, _option("Write the requests, for a spreadsheet.", "F")] = None,
    report: Annotated[
        Path | None, _option("Write a page, serving.html, with its data and the requests.", "DIR")
    ] = None,
) -> None:
    """Serve requests on one machine: queues, deadlines, batching; times in percentiles, energy, what limits."""
    from npusim.base import files
    from npusim.frontends.frontend import model_file
    from npusim.reports.serving import serving_text
    from npusim.serving.service import serve as serving
    from npusim.session import api
    from npusim.session.options import Options

    sources: dict[str, Path | None] = {f"MODEL {model}": model_file(model) for model in models}
    sources |= {"--requests": requests} | hardware_inputs(hw)
    targets = {option: path for option, path in (("--json", json), ("--csv", csv)) if path}
    files.check_outputs(targets, sources, {"--report": (report, IN_FOLDER)})
    machine = api.hardware(hw or api.DEFAULT_HARDWARE, set_ or ()) if hw or set_ else None
    with Progress("serving"):
        result = serving(
            models,
            machine,
            requests=requests,
            rate=_numbers("--rate", rate, float),
            period_ms=_numbers("--period-ms", period_ms, float),
            count=count or 0,
            duration_s=duration_s or 0.0,
            seed=seed,
            prompt_tokens=prompt_tokens or 0,
            new_tokens=new_tokens or 0,
            priority=_numbers("--priority", priority, int),
            deadline_ms=_numbers("--deadline-ms", deadline_ms, float),
            queue=queue,
            preempt=preempt,
            batching=batching,
            max_batch=max_batch or 0,
            chunk=chunk or 0,
            bucket=bucket or 0,
            cache_mib=cache_mib or 0.0,
            page=page or 0,
            sleep_mw=sleep_mw,
            battery_wh=battery_wh or 0.0,
            options=Options(effort),
        )
    try:
        out = console()
        out.print(serving_text.summary(result, out.width))
    finally:
        files.write_all({path: _writer(option, result) for option, path in targets.items()})
        if report:
            files.make_folder(report)
            files.write_all({report / name: _writer(name, result) for name in IN_FOLDER}, follow=False)


IN_FOLDER = ("serving.json", "requests.csv", "serving.html")
"""Files of the --report folder; data comes first, so that it is written even if the page fails."""


def _writer(name: str, result: Serving) -> Writer:
    """Return the writer of a file, by its option or its name in the folder."""
    from npusim.base import files
    from npusim.reports.serving import serving_page, serving_text

    if name.endswith("html"):
        return lambda file: files.text(serving_page.render(result))(file)
    if name.endswith("csv"):
        return lambda file: files.text(serving_text.csv(result))(file)
    return lambda file: files.text(files.json_text(result.to_dict()))(file)


def _numbers(option: str, given: str | None, kind: Callable[[str], Any]) -> Sequence[Any]:
    """Return numbers that are separated by commas. Raises NpusimError for anything else."""
    from npusim.serving.arrivals import number

    try:
        return [number(part, kind) for part in given.split(",")] if given else ()
    except ValueError:
        numbers = "whole numbers, such as 1,0" if kind is int else "numbers, such as 40,15"
        raise NpusimError(f"{option} {given}: must be {numbers}") from None
