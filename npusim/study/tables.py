"""The tables of a study as files: CSV, and Parquet where pyarrow is installed. The same study gives the same bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from npusim.base import files
from npusim.base.csv_text import csv_text
from npusim.base.extras import has_parquet
from npusim.isa.hardware import file as hardware_file
from npusim.study.base_hardware import BASE
from npusim.study.folder import DESCRIPTION, POINTS
from npusim.study.study import Study

Row = Mapping[str, Any]

FRONT = "front"
ALWAYS = (DESCRIPTION, POINTS, BASE, "points.csv", "front.csv", "points.parquet")
WRITTEN = (".html", ".svg", ".png")
FILES = (
    ("points.csv, points.parquet", "every point: parameters, values, how it stands"),
    ("front.csv", "the points of the front"),
    ("front/*.toml", "their hardware files, by number, for npusim run --hw"),
)
"""The files of a study with its tables, and what they are for."""


def names_in(study: Path) -> list[str]:
    """The files of a study's folder that a search writes: those that it always does, and whatever is there of its kind.

    Raises NpusimError for a folder of the front that is a link.
    """
    front = study / FRONT
    files.require_no_link(front)
    there = [path for path in study.glob("*") if path.suffix in WRITTEN] + list(front.glob("*.toml"))
    return list(dict.fromkeys([*ALWAYS, *(str(path.relative_to(study)) for path in there)]))


def write_tables(study: Study) -> list[Path]:
    """Write points.csv, front.csv, points.parquet and the hardware files of the front; returns the files."""
    rows = study.rows()
    by_point = {row["point"]: row for row in rows}
    folder = study.path
    written = {
        folder / "points.csv": files.text(to_csv(rows, columns(study))),
        folder / "front.csv": files.text(
            to_csv([by_point[record.point] for record in study.front], columns(study))
        ),
    }
    parquet = to_parquet(rows, columns(study))
    if parquet is not None:
        written[folder / "points.parquet"] = lambda file: file.write(parquet)
    files.write_all(written, follow=False)
    return [*written, *_write_hardware(study)]


def columns(study: Study) -> list[str]:
    """The columns of the tables: number, parameters, values, those of each model, and how the point stands."""
    keys = list(study.space.keys)
    several = study.models if len(study.models) > 1 else ()
    by_model = [f"{key} [{model.name}]" for model in several for key in keys]
    return [
        "point",
        *(axis.path for axis in study.parameters),
        *keys,
        *by_model,
        "feasible",
        "on_front",
        "reason",
    ]


def to_csv(rows: Sequence[Row], names: Sequence[str]) -> str:
    """Rows as CSV with a header; a value that is missing is empty, a flag is true or false."""
    return csv_text(names, ([row[name] for name in names] for row in rows))


def to_parquet(rows: Sequence[Row], names: Sequence[str]) -> bytes | None:
    """Rows as Parquet; None where pyarrow is not installed."""
    if not has_parquet():
        return None
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.table({name: _one_kind([row[name] for row in rows]) for name in names})
    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(table, sink)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _one_kind(cells: Sequence[object]) -> list[object]:
    """A column whose numbers are of one kind: reals where one of them is, or is beyond 64 bits."""
    numbers = [cell for cell in cells if isinstance(cell, int | float) and not isinstance(cell, bool)]
    if not any(isinstance(cell, float) or not -(1 << 63) <= cell < 1 << 63 for cell in numbers):
        return list(cells)
    return [float(cell) if isinstance(cell, int) and not isinstance(cell, bool) else cell for cell in cells]


def _write_hardware(study: Study) -> list[Path]:
    """A hardware file for every point of the front: what `npusim run --hw` takes. Old ones are removed."""
    folder = study.path / FRONT
    files.require_no_link(folder)
    files.make_folder(folder)
    named = {folder / f"{record.point}.toml": record for record in study.front}
    for old in folder.glob("*.toml"):
        if old.stem.isdigit() and old not in named:  # others are not ours
            old.unlink()
    for path, record in named.items():
        text = hardware_file.to_toml(study.hardware(record.point))
        files.write(path, files.text(text), follow=False)
    return list(named)
