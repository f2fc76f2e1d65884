"""Array cycles against SCALE-Sim 2, whose published runs are in ../shared.

Its conventions, found from the numbers: a GEMM of shape M x N x K multiplies [M, K] by [K, N]; a convolution of
shape h x w x kh x kw x c x f x s has no padding and counts as the GEMM of M = output pixels, K = kh * kw * c,
N = filters. `dw3x3_32_as1filter` is what its name says: a convolution of 32 channels by one filter. The array is
square and fed at full rate; a fold of weights is loaded, streamed and drained before the next one begins.

`Total Cycles` contains `Stall Cycles`, its memory model's waiting: none with the bandwidth it calculates ("calc"),
some with a given one ("user"). What remains is the array, and equals ours without shadow registers, with
accumulators for every output and ports as wide as the array. Its prefetch column is not part of it.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from npusim.isa.engines.systolic.timing import ArrayShape, output_stationary, weight_stationary

ROWS_IN_FILE = 104


def plain_array(rows: int, columns: int) -> ArrayShape:
    """No shadow registers, accumulators for everything, ports that never hold the array up."""
    return ArrayShape(
        rows,
        columns,
        shadow=False,
        half_accumulators=1 << 30,
        ifm_port=rows,
        weight_port=columns,
        lanes=columns,
    )


def array_cycles(array: ArrayShape, dataflow: str, m: int, n: int, k: int) -> int:
    if dataflow == "ws":
        return weight_stationary(array, m, k, n).array
    return output_stationary(array, m, k, n).array


def gemm_of(kind: str, shape: str) -> tuple[int, int, int]:
    """(M, N, K) of a row."""
    sizes = [int(size) for size in shape.split("x")]
    if kind == "gemm":
        m, n, k = sizes
        return m, n, k
    height, width, kernel_height, kernel_width, channels, filters, stride = sizes
    rows = (height - kernel_height) // stride + 1
    columns = (width - kernel_width) // stride + 1
    return rows * columns, filters, kernel_height * kernel_width * channels


def test_every_row_of_scalesim_is_met(shared: Path) -> None:
    with (shared / "reference" / "scalesim_micro.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    differing = []
    for row in rows:
        size = int(row["array"])
        ours = array_cycles(plain_array(size, size), row["dataflow"], *gemm_of(row["kind"], row["shape"]))
        if ours != int(row["Total Cycles"]) - int(row["Stall Cycles"]):
            differing.append(
                (row["array"], row["dataflow"], row["bw_mode"], row["layer"], ours, row["Total Cycles"])
            )
    assert differing == []
    assert len(rows) == ROWS_IN_FILE
    assert {row["dataflow"] for row in rows} == {"ws", "os"}
    assert all(row["Stall Cycles"] == "0" for row in rows if row["bw_mode"] == "calc")


@pytest.mark.parametrize(
    ("dataflow", "m", "n", "k", "cycles"),
    [
        # R = 8, C = 4. WS: ceil(K / R) * ceil(N / C) folds of 2R + C + M - 2, less one.
        ("ws", 20, 12, 24, 3 * 3 * (16 + 4 + 20 - 2) - 1),
        ("ws", 8, 4, 16, 2 * 1 * (16 + 4 + 8 - 2) - 1),
        ("ws", 8, 4, 1, 1 * 1 * (16 + 4 + 8 - 2) - 1),
        # OS: ceil(M / R) * ceil(N / C) folds of R + C + K - 2, less one.
        ("os", 20, 12, 24, 3 * 3 * (8 + 4 + 24 - 2) - 1),
        ("os", 8, 4, 16, 1 * 1 * (8 + 4 + 16 - 2) - 1),
        ("os", 8, 4, 1, 1 * 1 * (8 + 4 + 1 - 2) - 1),
    ],
)
def test_arrays_that_are_not_square(dataflow: str, m: int, n: int, k: int, cycles: int) -> None:
    """Runs of SCALE-Sim 2.0.1 on an 8 x 4 array gave 341, 51, 25 and 305, 25, 10."""
    assert array_cycles(plain_array(8, 4), dataflow, m, n, k) == cycles
    assert cycles in (341, 51, 25, 305, 10)
