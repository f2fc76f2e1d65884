"""Points per second of a search: every point compiled for its hardware and simulated event by event.

As a script it measures one search in a warm process and prints points and seconds as JSON:

    python -P benchmarks/exploring.py MODEL own|shared POINTS JOBS
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from benchmarks.measure import Row

# What a designer turns around edge-128: the array, memories, clock and lanes. 22 nm end at 685 MHz.
OWN = {
    "mac_array.rows": [8, 16, 32],
    "mac_array.columns": [4, 8, 16],
    "scratchpad.size_kib": [512, 1024, 2048],
    "dram.bandwidth_gb_per_s": {"from": 0.25, "to": 8, "factor": 2},
    "clock_mhz": {"from": 200, "to": 650, "step": 50},
    "vector.lanes": [4, 8, 16],
    "dma.channels": [1, 2],
    "technology.node_nm": [28, 22, 16],
}
SHARED = {
    "dram.bandwidth_gb_per_s": {"from": 0.25, "to": 8, "count": 20, "log": True},
    "dram.latency_ns": [50, 100, 200],
    "clock_mhz": {"from": 200, "to": 650, "step": 25},
    "dram.outstanding_requests": [4, 16, 64],
    "technology.node_nm": [28, 22, 16],
}


class Rate(NamedTuple):
    """A measured search."""

    points: int
    wall_s: float
    cpu_s: float


def exploring(rounds: int) -> Iterator[Row]:
    """Points of searches, everything counted: processor time of a point, and what a second process brings."""
    from benchmarks import peers
    from benchmarks.measure import Row

    for what, model, programs, points, wanted_per_s in (
        ("point, own program", "ds_cnn", "own", 200, 40.0),
        ("point, own program", str(peers.model("mlperf_resnet8_int8")), "own", 150, 25.0),
        ("point, own program", "mobilenet_v2", "own", 30, 2.5),
        ("point, shared program", "ds_cnn", "shared", 400, 120.0),
    ):
        rates = [_measure(model, programs, points, 1) for _ in range(rounds)]
        spent_ms = median(each.cpu_s / each.points for each in rates) * 1e3
        shown = f"{spent_ms:.1f} ms, {1e3 / spent_ms:.3g}/s"
        yield Row(what, Path(model).stem, shown, "", spent_ms, 1e3 / wanted_per_s, unit="ms")
    pairs = [[_measure("ds_cnn", "own", 400, jobs) for jobs in (1, 2)] for _ in range(rounds)]
    share = median(two.wall_s / one.wall_s for one, two in pairs)
    yield Row("2 processes / 1", "ds_cnn", f"{1 / share:.2f} times", "", share, 1 / 1.8, unit="of the time")


def _measure(model: str, programs: str, points: int, jobs: int) -> Rate:
    from benchmarks.measure import output_of

    return Rate(*json.loads(output_of(Path(__file__), model, programs, str(points), str(jobs))))


def search(model: str, programs: str, points: int, jobs: int) -> Rate:
    """A random search, its processes warm: they have computed one point before the clock starts."""
    import npusim
    from npusim.study.evaluate import Job, Workload
    from npusim.study.executors import executor
    from npusim.study.samplers import sampler
    from npusim.study.space_file import from_values

    varied: dict[str, Any] = OWN if programs == "own" else SHARED
    values = {
        "parameters": varied,
        "programs": programs,
        "sampler": {"kind": "random", "points": points + jobs, "seed": 1},
    }
    with tempfile.TemporaryDirectory() as folder:
        file = from_values(values, Path(folder) / "space.toml")
        batch = next(iter(sampler(file.sampling)(file.space, file.sampling, {})))
        made = executor(Job(file.space, (Workload(model, npusim.load(model)),)), jobs)
        list(made.records(batch[:jobs]))
        begin, cpu = time.perf_counter(), time.process_time()
        found = list(made.records(batch[jobs:]))
        taken = Rate(len(found), time.perf_counter() - begin, time.process_time() - cpu)
        made.close()
    reasons = {record.reason for record in found if record.reason}
    assert not reasons, f"points without a result: {reasons}"
    return taken


if __name__ == "__main__":
    print(json.dumps(search(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
