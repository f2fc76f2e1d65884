"""The step of a run at which each hardware parameter first matters, so that earlier steps can be reused.

A run has the steps compile, execute, measure. If a later step is the first to read a parameter, the results of earlier
steps do not depend on it:

    structure   the compiler cuts, places and checks by it, so another value needs another program
    estimate    the compiler only estimates times with it: another value may give another program, but any program
                runs with it
    time        only the machine reads it
    energy      only the measurement reads it

A parameter that is not listed counts as structure, so a new parameter is safe by default. A test records what compiler
and machine read, and compares it with this table.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cache

from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.parameters import ANY_NAME, MEMORY, parameters


class Stage(IntEnum):
    """The first step of a run that reads a parameter, with two levels for the compiler."""

    STRUCTURE = 0
    ESTIMATE = 1
    TIME = 2
    ENERGY = 3


_PORT = {
    **dict.fromkeys(("bandwidth_gb_per_s", "latency_ns", "row_bytes", "row_miss_ns"), Stage.ESTIMATE),
    **dict.fromkeys(("banks", "grant_bytes", "outstanding_requests"), Stage.ESTIMATE),
    **dict.fromkeys(("read_pj_per_byte", "write_pj_per_byte", "standby_mw"), Stage.ENERGY),
}
"""The parameters of a memory behind a port."""

# By parameter, or by table for all its parameters.
_STAGES = {
    "name": Stage.ENERGY,
    "description": Stage.ENERGY,
    "clock_mhz": Stage.ESTIMATE,
    "front_end.queue_depth": Stage.ESTIMATE,
    "front_end.decode_cycles": Stage.ESTIMATE,
    "front_end.fetch_instructions": Stage.TIME,
    "dma.setup_cycles": Stage.ESTIMATE,
    "dma.port_bytes_per_cycle": Stage.ESTIMATE,
    **{f"dram.{key}": read_by for key, read_by in _PORT.items()},
    "scratchpad.banks": Stage.ESTIMATE,
    "scratchpad.bank_ports": Stage.ESTIMATE,
    "scratchpad.port_bytes": Stage.ENERGY,
    **{f"scratchpad.{key}": read_by for key, read_by in _PORT.items() if read_by == Stage.ENERGY},
    "mac_array.ifm_bytes_per_cycle": Stage.ESTIMATE,
    "mac_array.weight_bytes_per_cycle": Stage.ESTIMATE,
    "mac_array.output_lanes": Stage.ESTIMATE,
    "vector": Stage.ESTIMATE,
    "host": Stage.ESTIMATE,
    "host.call_overhead_us": Stage.ENERGY,
    "technology": Stage.ENERGY,
    # Of a further memory, whatever its name.
    **{f"memory.NAME.{key}": read_by for key, read_by in _PORT.items()},
    "memory.NAME.clock_ratio": Stage.ESTIMATE,
    "memory.NAME.access_bytes": Stage.ESTIMATE,
    "memory.NAME.latency_cycles": Stage.ESTIMATE,
    "memory.NAME.area_mm2": Stage.ENERGY,
}


def stage(path: str) -> Stage:
    """Return the stage of a parameter."""
    table, _, rest = path.partition(".")
    if table == MEMORY:
        path = f"{table}.{ANY_NAME}.{rest.rpartition('.')[2]}"
    return _STAGES.get(path, _STAGES.get(path.partition(".")[0], Stage.STRUCTURE))


@cache
def paths_up_to(last: Stage, of: Hardware | None = None) -> tuple[str, ...]:
    """Return the paths of the parameters that matter up to a stage, in the order of the schema.

    of: the machine whose further memories are included.
    """
    return tuple(parameter.path for parameter in parameters(of) if stage(parameter.path) <= last)
