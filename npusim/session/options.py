"""The options of a compilation: one value for Python, the command line, studies and provenance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from npusim.isa.base.errors import NpusimError
from npusim.isa.base.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from npusim.isa.hardware.hardware import Hardware
    from npusim.kernels.graph.bind import Sizes
    from npusim.kernels.graph.graph import Graph
    from npusim.kernels.graph.placing import Forced

EFFORTS = {"fast": 0, "high": 200}
"""Optimization levels by name: how many schedules the compiler tries beside the one that it estimates to be best."""

BUCKET = 128
"""Tokens by which the number of keys and values grows from one program to the next, by default."""

COST = "cost"
"""In place of a partition file: operators go to the host if that makes the run faster."""


@dataclass(frozen=True, slots=True)
class Partition:
    """The operators that the host runs beside those that the NPU cannot.

    forced:  operators that the host must run.
    by_cost: True if others follow them where the machine's timing says that the run is faster so.
    """

    forced: tuple[Forced, ...] = ()
    by_cost: bool = False

    def of(self, graph: Graph, hardware: Hardware) -> Graph:
        """Return a graph without IF and WHILE with all operators marked that the host runs.

        Raises NpusimError for a forced operator that the graph does not have.
        """
        return self.by_cost_of(self.forced_of(graph), hardware)

    def forced_of(self, graph: Graph) -> Graph:
        """Return the graph with forced operators marked, also in bodies. Raises NpusimError as `of` does."""
        from npusim.kernels.graph.placing import placed

        return placed(graph, self.forced) if self.forced else graph

    def by_cost_of(self, graph: Graph, hardware: Hardware) -> Graph:
        """Return the graph, without IF and WHILE, with what is faster on the host marked, if that is asked for."""
        if not self.by_cost:
            return graph
        from npusim.scheduler import compile_graph
        from npusim.scheduler.search.by_cost import partition_by_cost
        from npusim.session.tuning import timing

        return partition_by_cost(
            graph, lambda part: compile_graph(part, hardware), lambda program: timing(program).cycles
        )


CAPABILITY = Partition()
"""The host runs what the NPU cannot, and nothing else."""

Asked = str | Path | Partition | Sequence[str | Path] | None
"""A partition file, "cost", several of these, or a `Partition`."""


def partition(host: Iterable[str] = (), asked: Asked = None) -> Partition:
    """Return the partition that is asked for.

    host:  names of operators that the host must run.
    asked: a partition file (`npusim.kernels.graph.placing`), the word "cost", or both in a list; a file of that name
           is "./cost".

    Raises NpusimError for a file that cannot be read.
    """
    from npusim.kernels.graph.placing import Forced, read

    forced = [Forced(name) for name in operator_names(host)]
    if isinstance(asked, Partition):
        return Partition((*forced, *asked.forced), asked.by_cost)
    parts = parts_of(asked)
    for part in parts:
        if part != COST:
            forced += read(part)
    return Partition(tuple(forced), COST in parts)


def operator_names(host: Iterable[str]) -> list[str]:
    """Return names of operators without surrounding spaces. Raises NpusimError for an operator without a name.

    host: the names, or a text with commas between them.
    """
    from npusim.kernels.graph.placing import HOST_OPTION

    names = [str(name).strip() for name in (host.split(",") if isinstance(host, str) else host)]
    if "" in names:
        raise NpusimError(f"{HOST_OPTION}: an operator has no name; give some such as softmax,pad")
    return names


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a compilation.

    effort:    "fast" decides everything by estimates. A number of schedules to try, or "high", searches for a faster
               program with the machine's own timing. The result is never slower than the fast one, and deterministic.
    unknown:   "host" times operators that npusim does not have as host layers, by their bytes; the program has no
               outputs then. None refuses them, all of them by name.
    host:      names of operators that the host runs although the NPU could.
    partition: a partition file, which names single operators too, or "cost", or both in a list.
    sizes:     sizes that the model leaves open: shapes by input name, or single sizes by their own names.
    """

    effort: str | int = "fast"
    unknown: str | None = None
    host: Sequence[str] = ()
    partition: Asked = None
    sizes: Sizes | None = None

    @property
    def schedules(self) -> int:
        """The number of schedules that the search tries. Raises NpusimError for an invalid effort."""
        if isinstance(self.effort, str) and self.effort in EFFORTS:
            return EFFORTS[self.effort]
        try:
            schedules = int(self.effort)
        except ValueError:
            schedules = -1
        if schedules < 0:
            raise NpusimError(
                f"effort {self.effort!r}: may be {', '.join(EFFORTS)}, or how many schedules to try, 0 or more"
            )
        return schedules

    @property
    def times_unknown(self) -> bool:
        """True if unknown operators become host layers. Raises NpusimError for a value that is not "host"."""
        if self.unknown not in (None, "host"):
            raise NpusimError(
                f"unknown {self.unknown!r}: may be 'host', which times unknown operators as host layers"
            )
        return self.unknown == "host"

    def require_sound(self) -> None:
        """Raise NpusimError for an effort or a treatment of unknown operators that does not exist."""
        _ = self.schedules, self.times_unknown

    @property
    def places(self) -> bool:
        """True if the options say which operators the host runs."""
        return bool(self.host) or self.partition is not None

    def placing(self) -> Partition:
        """Return what the host runs beside the operators that the NPU cannot. Raises NpusimError for a bad file."""
        return partition(self.host, self.partition)

    def known(self, graph: Graph) -> Graph:
        """Return the graph with its unknown operators as host layers, if the options ask for that."""
        if not self.times_unknown:
            return graph
        from npusim.kernels.graph.unknown import unknown_on_host

        return unknown_on_host(graph)

    def placed(self, graph: Graph, hardware: Hardware) -> Graph:
        """Return a graph without IF and WHILE with all operators marked that the host runs."""
        return self.placing().of(graph, hardware) if self.places else graph

    def words(self) -> list[str]:
        """Return the options as `npusim run` takes them, files by their names alone; sizes are in `shape_words`."""
        words = ["--effort", str(self.effort)] if self.effort not in ("fast", 0, "0") else []
        words += ["--unknown", self.unknown] if self.unknown else []
        words += (
            ["--host", self.host if isinstance(self.host, str) else ",".join(self.host)] if self.host else []
        )
        return words + [
            word for part in parts_of(self.partition) for word in ("--partition", Path(part).name)
        ]

    def shape_words(self) -> list[str]:
        """Return the open sizes as texts that `parse_sizes` reads."""
        return texts_of(self.sizes)


FAST = Options()
"""Everything by estimate, on the NPU where it can be."""


def parts_of(partition: Asked) -> Sequence[str | Path]:
    """Return the files, and the word "cost", that ask for a partition; none for a `Partition` that Python made."""
    if isinstance(partition, str | Path):
        return (partition,)
    return partition if isinstance(partition, Sequence) else ()


SHAPE_OPTION = "--shape"

LARGEST_SIZE = (1 << 31) - 1
_MOST_DIGITS = len(str(LARGEST_SIZE))
_MAY_BE = (
    "may be the shape of an input, such as image=1,3,224,224, or a size by its own name, such as batch=1"
)


def parse_sizes(texts: Sequence[str]) -> dict[str, int | tuple[int, ...]]:
    """Return the open sizes that texts such as "image=1,3,224,224" or "batch=1" give. Raises NpusimError."""
    sizes: dict[str, int | tuple[int, ...]] = {}
    for text in texts:
        name, equals, numbers = text.rpartition("=")
        if not equals or not name:
            raise NpusimError(f"{SHAPE_OPTION} {text}: {_MAY_BE}")
        if name in sizes:
            raise NpusimError(f"{SHAPE_OPTION} {text}: {name} is given twice")
        shape = tuple(_number(text, number.strip()) for number in numbers.split(","))
        sizes[name] = shape[0] if len(shape) == 1 else shape
    return sizes


def texts_of(sizes: Mapping[str, int | Sequence[int]] | None) -> list[str]:
    """Return open sizes as texts that `parse_sizes` reads."""
    return [
        f"{name}={','.join(map(str, [size] if isinstance(size, int) else size))}"
        for name, size in (sizes or {}).items()
    ]


def _number(text: str, number: str) -> int:
    if not (number.isascii() and number.isdigit()):
        raise NpusimError(f'{SHAPE_OPTION} {text}: "{number}" is no whole number; {_MAY_BE}')
    shown = number[:_MOST_DIGITS]
    if int(shown) > LARGEST_SIZE or len(number) > _MOST_DIGITS:
        raise NpusimError(f"{SHAPE_OPTION} {text}: {shown} is more than a size may be, {LARGEST_SIZE}")
    return int(number)
