"""How a model is cut: which device gets which operation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from npusim.frontends.nnadapter.errors import FeatureNotSupported, InvalidParameter
from npusim.frontends.nnadapter.network import Network
from npusim.kernels.graph import placing
from npusim.nnadapter.context import Member, reasons
from npusim.nnadapter.hal import machines


@dataclass(frozen=True, slots=True)
class Partition:
    """Operations that are forced to the CPU, by the lines of a partition file."""

    forced: tuple[placing.Forced, ...] = ()

    @classmethod
    def read(cls, path: str | Path) -> Partition:
        """The lines of a file. Raises NpusimError for one that is none."""
        return cls(placing.read(path))

    @classmethod
    def parse(cls, text: str, name: str = "partition") -> Partition:
        """Lines of a text; `name` is what messages call it. Raises NpusimError likewise."""
        return cls(placing.parse(text, name))


Asked = str | Path | Partition | Sequence[str | Path | Partition] | None
"""A mode, a partition file, a `Partition`, or several of these."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is asked for: how to choose among devices that can, and what is forced."""

    mode: str
    forced: tuple[placing.Forced, ...]


def asked(given: Asked, mode: str) -> Plan:
    """The plan of what is given; `mode` where that says none. Raises InvalidParameter, and NpusimError for a file."""
    parts = () if given is None else (given,) if isinstance(given, str | Path | Partition) else given
    forced: list[placing.Forced] = []
    if not isinstance(parts, Sequence):
        raise InvalidParameter(f"partition: is {given!r}, must be a mode, a file or a Partition")
    for part in parts:
        if isinstance(part, str) and part in machines.MODES:
            mode = part
        elif isinstance(part, Partition):
            forced += part.forced
        elif isinstance(part, str | Path):
            forced += placing.read(part)
        else:
            raise InvalidParameter(f"partition: is {part!r}, must be a mode, a file or a Partition")
    return Plan(mode, tuple(forced))


def pieces_of(network: Network, members: Sequence[Member], plan: Plan) -> Iterator[tuple[Member, list[int]]]:
    """The pieces of a model and their devices, in an order in which they can run. Raises FeatureNotSupported."""
    chosen = _assigned(network, members, plan)
    group: list[int] = []
    for place, member in enumerate(chosen):
        if group and chosen[group[-1]] is not member:
            yield chosen[group[0]], group
            group = []
        group = [*group, place]
    if group:
        yield chosen[group[0]], group


def _assigned(network: Network, members: Sequence[Member], plan: Plan) -> list[Member]:
    rows = reasons(members, network)
    for place, row in enumerate(rows):
        if len(row) == len(members):
            why = "; ".join(f"{name}: {reason}" for name, reason in row.items())
            raise FeatureNotSupported(f"{network.steps[place].place}: no device can do it: {why}")
    return [next(member for member in members if member.name not in row) for row in rows]
