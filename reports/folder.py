"""`npusim run --report DIR`: the page, its data, and its figures, as files of one folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import TYPE_CHECKING, BinaryIO

from npusim.base.extras import has_parquet
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.reports import REPORTS
from npusim.reports.run import figures, html, tables
from npusim.reports.run.series import Charts

if TYPE_CHECKING:
    from pathlib import Path

    from npusim.base.files import Writer
    from npusim.numbers.run import RunResult

PAGE = "report.html"


@dataclass(frozen=True, slots=True)
class ReportFile:
    """A file of the report folder: its name, its purpose, and the function that writes it."""

    name: str
    purpose: str
    write: Callable[[Charts, BinaryIO], object]


def files() -> tuple[ReportFile, ...]:
    """Return every file of the folder. Data comes first, so that it is written even if a figure fails."""
    rows = [
        ReportFile(entry.file, entry.purpose, _text(entry.render_charts)) for entry in REPORTS if entry.file
    ]
    for name, table in tables.TABLES.items():
        purpose = " ".join((table.__doc__ or "").split()).rstrip(".")
        rows.append(ReportFile(f"{name}.csv", purpose[0].lower() + purpose[1:], _csv(table)))
        if has_parquet():
            rows.append(ReportFile(f"{name}.parquet", "", _parquet(table)))
    rows.append(ReportFile(PAGE, "this page", _text(page)))
    for name, draw in figures.FIGURES.items():
        purpose, drawn = (draw.__doc__ or "").split(".")[0], lru_cache(1)(draw)
        purposes = (f"figure: {purpose[0].lower()}{purpose[1:]}", "", "")
        rows += [
            ReportFile(f"{name}.{kind}", text, _figure(drawn, kind))
            for kind, text in zip(figures.FORMATS, purposes, strict=True)
        ]
    return tuple(rows)


def writers(result: RunResult, wanted: Mapping[Path, ReportFile]) -> dict[Path, Writer]:
    """Return the functions that write files of the folder. All of them show the same series, computed once."""
    charts = Charts(result)
    return {path: partial(file.write, charts) for path, file in wanted.items()}


def page(given: RunResult | Charts) -> str:
    """Render the page, with the list of the files beside it."""
    names: dict[str, list[str]] = {}
    purposes: dict[str, list[str]] = {}
    for file in files():
        if file.name != PAGE:
            stem = file.name.rpartition(".")[0]
            names.setdefault(stem, []).append(file.name)
            purposes.setdefault(stem, []).extend([file.purpose] if file.purpose else [])
    return html.render(given, [(", ".join(names[stem]), "; ".join(purposes[stem])) for stem in names])


def _text(render: Callable[[Charts], str]) -> Callable[[Charts, BinaryIO], object]:
    return lambda charts, file: file.write(render(charts).encode())


def _csv(table: Callable[[Charts], tables.Columns]) -> Callable[[Charts, BinaryIO], object]:
    return _text(lambda charts: tables.to_csv(table(charts)))


def _parquet(table: Callable[[Charts], tables.Columns]) -> Callable[[Charts, BinaryIO], object]:
    return lambda charts, file: tables.write_parquet(table(charts), file)


def _figure(drawn: figures.Drawing, kind: str) -> Callable[[Charts, BinaryIO], object]:
    def write(charts: Charts, file: BinaryIO) -> None:
        provenance = charts.result.provenance.to_dict(charts.result.hardware)
        figures.save(lambda: drawn(charts), kind, provenance, file)

    return write
