"""The result of a search: its computed points, their front, and tables. It is read from disk, finished or not."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from npusim.base import files
from npusim.base.csv_text import csv_text
from npusim.base.extras import has_parquet
from npusim.isa.base.errors import printable
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.hardware import file as hardware_file
from npusim.isa.hardware.hardware import Hardware
from npusim.numbers.provenance import digest_of_hardware
from npusim.study import metrics
from npusim.study.evaluate import Record
from npusim.study.folder import BASE, DESCRIPTION, POINTS, Folder, read_base
from npusim.study.sensitivity import Sensitivity, sensitivities, without_effect
from npusim.study.space import Axis, Objective, Space

if TYPE_CHECKING:
    import pandas

LONGEST_NAME, LONGEST_DESCRIPTION = 64, 1000
"""Most characters of the name and of the description of a hardware."""


@dataclass(frozen=True, slots=True)
class StudyModel:
    """A model of a study: its name, the SHA-256 of its graph, its weight, the name of its file if it is one.

    shapes: sizes that it leaves open, as `npusim run --shape` takes them.
    """

    name: str
    digest: str
    weight: float
    file: str = ""
    shapes: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """The model and its sizes as words of an `npusim run` command."""
        shapes = [word for shape in self.shapes for word in ("--shape", shape)]
        return shlex.join(map(printable, (self.file or self.name, *shapes)))


@dataclass(frozen=True)
class Study:
    """The computed points of a search, with its front, the effects of parameters, and tables.

    path:    folder of the study.
    space:   the space that was searched.
    models:  the models that each point runs.
    sampler: how points were chosen: kind, seed and batch.
    version: version of npusim that computed it.
    records: a record per computed point, in the order of their numbers.
    base:    record of the base hardware; None in a study that has not computed it yet.
    """

    path: Path
    space: Space
    models: tuple[StudyModel, ...]
    sampler: Mapping[str, Any]
    version: str
    records: tuple[Record, ...]
    base: Record | None = None

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Open the study in a folder. Raises StudyError for a folder that is no study, or a damaged one."""
        folder = Folder(Path(path))
        plain = folder.description()
        return cls(
            Path(path),
            Space.from_plain(plain["space"]),
            tuple(
                StudyModel(**model | {"shapes": tuple(model.get("shapes", ()))}) for model in plain["models"]
            ),
            plain["sampler"],
            plain["npusim_version"],
            tuple(sorted(folder.records(), key=lambda record: record.point)),
            read_base(folder),
        )

    @property
    def parameters(self) -> tuple[Axis, ...]:
        """The parameters that vary, with their values."""
        return self.space.axes

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """The objectives of the search."""
        return self.space.objectives

    @cached_property
    def feasible(self) -> tuple[Record, ...]:
        """The points with a result that is within every limit."""
        return tuple(record for record in self.records if self.within_limits(record))

    def within_limits(self, record: Record) -> bool:
        """Return whether a point has a result that keeps the limits."""
        return not record.reason and not self.space.excess(record.values)

    def costs(self, records: Sequence[Record]) -> NDArray[np.float64]:
        """Return the costs of records, float64 [records, objectives], with signs for which less is better."""
        rows = [self.space.costs(record.values) for record in records]
        return np.array(rows, np.float64).reshape(len(rows), len(self.objectives))

    @cached_property
    def front(self) -> tuple[Record, ...]:
        """The Pareto front: feasible points that no other one dominates, the best in the first objective first."""
        costs = self.costs(self.feasible)
        kept = metrics.front(costs)
        order = np.lexsort(costs.T[::-1]) if len(costs) else ()
        return tuple(self.feasible[at] for at in order if kept[at])

    @cached_property
    def sensitivities(self) -> tuple[Sensitivity, ...]:
        """The effect of every varying parameter on every objective, the parameter with the largest effect first.

        They come from a model of all points with a result; there are none for fewer than ten such points.
        """
        return tuple(sensitivities(self.space, self.records))

    @cached_property
    def without_effect(self) -> tuple[str, ...]:
        """Return the parameters without any effect on the recorded points."""
        return tuple(without_effect(self.space, self.records))

    @property
    def name(self) -> str:
        """The name of the study: that of its space file when it began, or else of its folder."""
        return self.space.name or self.path.resolve().name.removesuffix(".study")

    @property
    def provenance(self) -> dict[str, Any]:
        """The provenance of the study: versions, space, digests."""
        return {
            "npusim": self.version,
            "space": self.space.name,
            "sampler": dict(self.sampler),
            "effort": self.space.effort,
            "programs": self.space.programs,
            "models": {model.name: model.digest for model in self.models},
            "hardware_sha256": digest_of_hardware(self.space.base),
            "points": len(self.records),
        }

    def hardware(self, point: int) -> Hardware:
        """Return the hardware of a point, named after study and point, with its changes as description."""
        setting = self.space.setting(point)
        changes = [f"{path} = {hardware_file.toml_value(setting[path])}" for path in self.space.changed]
        named = {
            "name": f"{self.hardware_name} {point}"[:LONGEST_NAME],
            "description": (self.hardware_description + ", ".join(changes))[:LONGEST_DESCRIPTION],
        }
        return self.space.hardware(setting | named)

    @property
    def hardware_name(self) -> str:
        """The common beginning of all points' hardware names; the number of the point follows."""
        room = max(1, LONGEST_NAME - len(f" point {self.space.size}"))
        return f"{printable(self.name)[:room]} point"

    @property
    def hardware_description(self) -> str:
        """The common beginning of all points' hardware descriptions; the changes of the point follow."""
        models = ", ".join(printable(model.name) for model in self.models)
        return f"{f'searched for {models}: ' if models else ''}{self.space.base.name} with "

    def rows(self, records: Sequence[Record] | None = None) -> list[dict[str, Any]]:
        """Return a row per record: number, parameters, values, values of each model, and feasibility.

        Values are None for a point without a result.
        """
        front = {record.point for record in self.front}
        several = [model.name for model in self.models] if len(self.models) > 1 else []
        rows = []
        for record in self.records if records is None else records:
            row: dict[str, Any] = {"point": record.point, **self.space.point(record.point)}
            row |= {key: record.values.get(key) for key in self.space.keys}
            for name in several:
                values = record.by_model.get(name, {})
                row |= {f"{key} [{name}]": values.get(key) for key in self.space.keys}
            row["feasible"] = self.within_limits(record)
            row["on_front"] = record.point in front
            row["reason"] = self.reason(record)
            rows.append(row)
        return rows

    def reason(self, record: Record) -> str:
        """Return why a point is not feasible; empty if it is feasible."""
        if record.reason:
            return record.reason
        broken = [str(limit) for limit in self.space.limits if limit.excess(record.values[limit.key]) > 0]
        return f"breaks {' and '.join(broken)}" if broken else ""

    def to_pandas(self, records: Sequence[Record] | None = None) -> pandas.DataFrame:
        """Return the rows as a DataFrame, of all points or of the given records, such as `front`."""
        import pandas

        return pandas.DataFrame(self.rows(records))


Row = Mapping[str, Any]

FRONT = "front"
ALWAYS = (DESCRIPTION, POINTS, BASE, "points.csv", "front.csv", "points.parquet")
WRITTEN = (".html", ".svg", ".png")
FILES = (
    ("points.csv, points.parquet", "every point: parameters, values, how it stands"),
    ("front.csv", "the points of the front"),
    ("front/*.toml", "their hardware files, by number, for npusim run --hw"),
)
"""The files of a study with its tables, with their purposes."""


def names_in(study: Path) -> list[str]:
    """Return the files of a study's folder that a search writes: the usual ones, and present ones of the same kind.

    Raises NpusimError for a folder of the front that is a link.
    """
    front = study / FRONT
    files.require_no_link(front)
    written = [path for path in study.glob("*") if path.suffix in WRITTEN] + list(front.glob("*.toml"))
    return list(dict.fromkeys([*ALWAYS, *(str(path.relative_to(study)) for path in written)]))


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
    """Return the columns of the tables: number, parameters, values, values of each model, and feasibility."""
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
    """Return rows as CSV with a header; missing values are empty, flags are true or false."""
    return csv_text(names, ([row[name] for name in names] for row in rows))


def to_parquet(rows: Sequence[Row], names: Sequence[str]) -> bytes | None:
    """Return rows as Parquet; None if pyarrow is not installed."""
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
    """Return a column whose numbers have one type: floats if one is a float or exceeds 64 bits, else integers."""
    numbers = [cell for cell in cells if isinstance(cell, int | float) and not isinstance(cell, bool)]
    if not any(isinstance(cell, float) or not -(1 << 63) <= cell < 1 << 63 for cell in numbers):
        return list(cells)
    return [float(cell) if isinstance(cell, int) and not isinstance(cell, bool) else cell for cell in cells]


def _write_hardware(study: Study) -> list[Path]:
    """Write a hardware file for `npusim run --hw` for every point of the front, and remove old ones."""
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
