"""The causes of lost cycles: those that instruction rows and units declare, those of the DRAM port, and stalls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from npusim.isa.base.cause import Cause
from npusim.isa.hardware.units import COMPUTING, PORT, RESOURCES, WORKERS
from npusim.isa.instructions.table import ROWS, row_of

PORT_CAUSES = (
    Cause(
        "dram_traffic",
        "extra DRAM traffic",
        "#a33a3a",
        "inside the DRAM port: transfers beyond the compulsory bytes, spilled or fetched again",
        ("scratchpad.size_kib",),
    ),
    Cause(
        "dram_overhead",
        "DRAM overhead",
        "#d98c8c",
        "inside the DRAM port: row misses, unfinished bursts, too few requests in flight",
        ("dram.row_miss_ns", "dram.outstanding_requests"),
    ),
)

STALLS = (
    Cause(
        "stall_weights",
        "stall: weights",
        "#e0731d",
        "nothing computes: the weights being waited for pass the DRAM port",
        ("dram.bandwidth_gb_per_s",),
    ),
    Cause(
        "stall_feature_map",
        "stall: feature map",
        "#f2a65a",
        "nothing computes: the feature map being waited for passes the DRAM port, in or out",
        ("dram.bandwidth_gb_per_s", "scratchpad.size_kib"),
    ),
    Cause(
        "stall_dram_contention",
        "stall: DRAM contention",
        "#8c3b0e",
        "nothing computes: the transfer being waited for waits while another one has the port",
        ("dram.bandwidth_gb_per_s",),
    ),
    Cause(
        "stall_dma",
        "stall: DMA",
        "#e3c02b",
        "nothing computes: the DMA sets up, or bytes are on their way between DRAM and scratchpad",
        ("dma.setup_cycles", "dram.latency_ns"),
    ),
    Cause(
        "stall_bank_ports",
        "stall: bank ports",
        "#d06a8a",
        "nothing computes: the instruction being waited for waits for ports of banks, or for a host that cores share",
        ("scratchpad.bank_ports", "scratchpad.banks"),
    ),
    Cause(
        "stall_queue",
        "stall: full queue",
        "#b0559c",
        "nothing computes: an instruction that could start is stuck behind one whose unit has a full queue",
        ("front_end.queue_depth",),
    ),
    Cause(
        "stall_front_end",
        "stall: front end",
        "#5f6971",
        "nothing computes: the instruction being waited for is not yet fetched and decoded, or its layer is not yet "
        "set up",
        ("front_end.decode_cycles", "front_end.fetch_instructions", "front_end.layer_cycles"),
    ),
)

FETCH = Cause(
    "instruction_fetch",
    "instruction fetch",
    "#8d979f",
    "the DRAM port, which sets the bound, transfers instructions",
    ("dram.bandwidth_gb_per_s",),
)

ENDS = (
    Cause(
        "start_up",
        "start-up",
        "#aeb6bd",
        "before the first computation, except for full queues: first instructions, weights, input",
        ("dram.latency_ns", "dma.setup_cycles"),
    ),
    Cause(
        "tail",
        "tail",
        "#c9cfd4",
        "after the last computation: results on their way to DRAM",
        ("dram.bandwidth_gb_per_s", "dram.latency_ns"),
    ),
)

STAGES = Cause(
    "stages",
    "between stages",
    "#7d7468",
    "programs run one after the other: work that they could have overlapped, and the wait for a core",
    ("host.core", "host.handover_us"),
)

GAINS = (
    Cause(
        "prefetched",
        "prefetched",
        "#3f8f3a",
        "gain: the DRAM port worked for the layer in cycles of other layers",
    ),
    Cause(
        "overlapped",
        "overlapped",
        "#7cb874",
        "gain: the vector unit or the host worked for the layer in cycles of other layers",
    ),
)


def _inside(resource: str) -> tuple[Cause, ...]:
    """Return the causes to which the instructions of a resource's units can lose cycles."""
    # The rows of one unit declare the same causes (tests/isa/test_instructions.py), so one row per unit is imported.
    rows = {unit: opcode for opcode, unit, _ in reversed(ROWS) if unit.kind.resource is RESOURCES[resource]}
    return tuple(dict.fromkeys(cause for opcode in rows.values() for cause in row_of(opcode).causes))


INSIDE: Mapping[str, tuple[Cause, ...]] = MappingProxyType(
    {name: PORT_CAUSES if name == PORT else _inside(name) for name in RESOURCES}
)
"""By resource, the causes of its busy cycles beyond the lower bound. The first cause takes what rounding leaves."""


def _all() -> Iterator[Cause]:
    for name in RESOURCES:
        yield from INSIDE[name] if name != PORT else ()
    yield from PORT_CAUSES
    yield from (kind.works for kind in COMPUTING if kind.works)
    yield from (kind.works for kind in WORKERS if kind.works and not kind.advances)
    yield from (*STALLS, FETCH, *ENDS, STAGES, *GAINS)


CAUSES: Mapping[str, Cause] = MappingProxyType({cause.name: cause for cause in _all()})
"""The causes of lost cycles by name, in the order of reports.

Their colours: cyan and pale blue inside the MAC array, red to yellow for memory, purple for queues, grey for beginning
and end, light green for gains. None has the colour of a resource that may be next to it in a bar.
"""
