"""Resizes on the NPU: every size to every other, and which positions an instruction can say."""

from __future__ import annotations

import numpy as np
import pytest

from npusim.isa.hardware.file import hardware
from npusim.kernels.lowering.resize_work import Line, line_before, line_through
from npusim.kernels.table import operator

from .calls import call_with, codes, given

EDGE = hardware("edge-128")
SIZES = (1, 2, 3, 5, 7, 8, 13, 32, 100, 224, 513)


@pytest.mark.parametrize("how", [{}, {"align_corners": True}, {"half_pixel_centers": True}], ids=str)
@pytest.mark.parametrize("name", ["resize_nearest_neighbor", "resize_bilinear"])
def test_every_int8_resize_has_a_lowering(name: str, how: dict[str, bool]) -> None:
    for size in SIZES:
        for count in SIZES:
            call = call_with(
                [codes(1, size, 1, 1)], [codes(1, count, 1, 1)], given(name, size=[count, 1], **how)
            )
            assert operator(name).lowering(call, EDGE) is not None, (size, count)


@pytest.mark.parametrize(
    ("size", "count", "on_npu"),
    [
        (4, 8, True), (5, 40, True),  # halves, eighths
        (2, 3, True), (3, 7, True), (4, 6, True),  # thirds, sevenths
        (5, 6, False),  # sixths have ties
        (200, 333, False),  # too many, too near to ties
    ],
)  # fmt: skip
def test_uint8_is_interpolated_where_reals_are_exact(size: int, count: int, on_npu: bool) -> None:
    image, output = codes(1, size, size, 1, dtype="uint8"), codes(1, count, count, 1, dtype="uint8")
    call = call_with([image], [output], given("resize_bilinear", size=[count, count]))
    assert (operator("resize_bilinear").lowering(call, EDGE) is not None) == on_npu


def test_lines() -> None:
    assert line_through(np.array([-512, 0, 512])) == Line(512, -512)
    assert line_through(np.array([0, 1, 3])) is None
    assert line_before(np.array([0, 2, 2, 3]), 4) is None
