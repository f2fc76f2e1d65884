"""`npusim run --report DIR`: the page, its data, and its figures, as files of one folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from npusim.base.extras import has_parquet
from npusim.reports import REPORTS
from npusim.reports.run import figures, html, tables

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from npusim.numbers.run import RunResult

PAGE = "report.html"


@dataclass(frozen=True, slots=True)
class ReportFile:
    """A file of the report folder: its name, its purpose, and the function that writes it."""

    name: str
    purpose: str
    write: Callable[[RunResult, BinaryIO], object]


def files() -> tuple[ReportFile, ...]:
    """Return every file of the folder. Data comes first, so that it is written even if a figure fails."""
    found = [ReportFile(entry.file, entry.purpose, _text(entry.render)) for entry in REPORTS if entry.file]
    for name, table in tables.TABLES.items():
        purpose = " ".join((table.__doc__ or "").split()).rstrip(".")
        purpose = purpose[0].lower() + purpose[1:]
        found.append(ReportFile(f"{name}.csv", purpose, _csv(table)))
        if has_parquet():
            found.append(ReportFile(f"{name}.parquet", "", _parquet(table)))
    found.append(ReportFile(PAGE, "this page", _text(page)))
    for name, draw in figures.FIGURES.items():
        purpose, drawn = (draw.__doc__ or "").split(".")[0], _Drawn(draw)
        purposes = (f"figure: {purpose[0].lower()}{purpose[1:]}", "", "")
        found += [
            ReportFile(f"{name}.{kind}", text, drawn.writer(kind))
            for kind, text in zip(figures.FORMATS, purposes, strict=True)
        ]
    return tuple(found)


def page(result: RunResult) -> str:
    """Render the page, with the list of the files beside it."""
    names: dict[str, list[str]] = {}
    purposes: dict[str, list[str]] = {}
    for each in files():
        if each.name != PAGE:
            stem = each.name.rpartition(".")[0]
            names.setdefault(stem, []).append(each.name)
            purposes.setdefault(stem, []).extend([each.purpose] if each.purpose else [])
    return html.render(result, [(", ".join(names[stem]), "; ".join(purposes[stem])) for stem in names])


def _text(render: Callable[[RunResult], str]) -> Callable[[RunResult, BinaryIO], object]:
    return lambda result, file: file.write(render(result).encode())


def _csv(table: Callable[[RunResult], tables.Columns]) -> Callable[[RunResult, BinaryIO], object]:
    return lambda result, file: file.write(tables.to_csv(table(result)).encode())


def _parquet(table: Callable[[RunResult], tables.Columns]) -> Callable[[RunResult, BinaryIO], object]:
    return lambda result, file: tables.write_parquet(table(result), file)


class _Drawn:
    """A figure that is drawn and laid out once, and then written in several formats."""

    def __init__(self, draw: figures.Drawing) -> None:
        self._draw = draw
        self._figure: tuple[RunResult, Figure] | None = None

    def writer(self, kind: str) -> Callable[[RunResult, BinaryIO], object]:
        """Return the function that writes the figure in a format."""

        def write(result: RunResult, file: BinaryIO) -> None:
            with figures.styled():
                if self._figure is None or self._figure[0] is not result:
                    self._figure = result, self._draw(result)
                figure = self._figure[1]
                made = result.provenance.to_dict(result.hardware)
                figure.savefig(file, format=kind, metadata=figures.metadata(kind, made))
                figure.set_layout_engine("none")

        return write
