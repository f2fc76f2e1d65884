"""Where npusim does as drivers do and not as a text says: what is taken, and the hint for the other reading."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import npusim.hal as hal
from npusim.frontends.nn_hal.enumerations import HalVersion
from tests.npusim.frontends.nn_hal.calls import IMAGE, Value
from tests.npusim.frontends.nn_hal.single import Spec, fault, model, tensor
from tests.npusim.frontends.nn_hal.test_sequence_operations import LEGAL, f
from tests.npusim.hal.runs import request

RESIZE = [IMAGE, 3, 2]
EXCHANGE = "; input 1 is the width and input 2 the height, as drivers have it: exchange them"


@pytest.mark.parametrize("version", list(HalVersion))
def test_resize_takes_width_and_height(version: HalVersion) -> None:
    assert fault("RESIZE_BILINEAR", RESIZE, [tensor("F32", (1, 2, 3, 2))], version) == ""
    other = fault("RESIZE_BILINEAR", RESIZE, [tensor("F32", (1, 3, 2, 2))], version)
    assert other.endswith(
        f"has dimensions [1, 3, 2, 2], [1, 2, 3, 2] by its operands and parameters{EXCHANGE}"
    )
    neither = fault("RESIZE_BILINEAR", RESIZE, [tensor("F32", (1, 3, 3, 2))], version)
    assert "by its operands" in neither
    assert "exchange" not in neither


@pytest.mark.parametrize(("sizes", "hint"), [((1, 3, 2, 2), True), ((1, 3, 3, 2), False)])
def test_an_output_whose_sizes_only_the_request_says_gets_the_hint_too(
    sizes: tuple[int, ...], hint: bool
) -> None:
    made = model("RESIZE_BILINEAR", RESIZE, [tensor("F32", (1, 0, 0, 2))], HalVersion.V1_0)
    with hal.Device() as device:
        asked = request([np.zeros((1, 4, 4, 2), np.float32)], [4096])
        asked.outputs[0].dimensions = list(sizes)
        done = device.prepareModel(made).unwrap().execute(asked)
    assert done.status is hal.ErrorStatus.INVALID_ARGUMENT
    said = f"outputs[0].dimensions: are {list(sizes)}, the output has [1, 2, 3, 2]"
    assert done.message == said + EXCHANGE * hint


def test_resize_by_scale_and_of_channels_first_get_no_wrong_hint() -> None:
    first = fault("RESIZE_BILINEAR", [tensor("F32", (1, 2, 4, 4)), 3, 2, True], [tensor("F32", (1, 2, 3, 2))])
    assert first.endswith(EXCHANGE)
    scaled = fault("RESIZE_BILINEAR", [IMAGE, 0.5, 1.0], [tensor("F32", (1, 2, 4, 2))])
    assert "by its operands" in scaled
    assert "exchange" not in scaled


@pytest.mark.parametrize(("width", "hint"), [(32, True), (33, False)])
def test_the_state_of_svdf_has_the_newest_element_too(width: int, hint: bool) -> None:
    inputs, outputs = LEGAL["SVDF"]  # memory 5, 8 filters
    short: list[Value] = [*inputs[:4], f(2, width), *inputs[5:]]
    message = fault("SVDF", short, [f(2, width), outputs[1]])
    assert "state has dimensions [batch, memory_size*filters], batch as input has it" in message
    said = "types.hal writes memory_size - 1, drivers have memory_size"
    assert message.endswith(f"; {said}") is hint


@pytest.mark.parametrize(
    ("name", "width", "hint"),
    [("LSTM", 12, True), ("LSTM", 8, False), ("LSTM coupled", 16, True), ("LSTM coupled", 20, False)],
)
def test_the_scratch_of_an_lstm_is_narrower_without_an_input_gate(name: str, width: int, hint: bool) -> None:
    inputs, outputs = LEGAL[name]
    message = fault("LSTM", inputs, [f(2, width), *outputs[1:]])
    assert "scratch has dimensions [batch, 4 * units], or 3 * units without an input gate" in message
    assert message.endswith("; an earlier types.hal exchanges 3 and 4, drivers do not") is hint


def projection(kind: int, functions: int, bits: int, version: HalVersion = HalVersion.V1_2) -> str:
    inputs: Sequence[Value] = [f(functions, bits), tensor("I32", (4,)), NOTHING_REAL, kind]
    return fault("LSH_PROJECTION", inputs, [tensor("I32", (functions,))], version)


NOTHING_REAL = Spec(f(1).type, (1,), omitted=True)


def test_signatures_of_type_1_have_32_bits_without_the_number_of_the_function() -> None:
    too_long = "sparse signatures have at most 32 bits, those of type 3 with the number of the hash function"
    assert projection(1, 4, 32) == ""
    assert too_long in projection(1, 4, 33)
    assert projection(3, 4, 30) == ""
    assert too_long in projection(3, 4, 31)
    assert projection(1, 4, 32, HalVersion.V1_0) == ""


def test_every_departure_stands_in_the_table() -> None:
    page = Path(__file__).resolve().parents[4].joinpath("docs/hal.md").read_text("utf-8")
    table = page[page.index("## Departures") : page.index("## Files")]
    for operation in ("RESIZE_BILINEAR", "SVDF", "LSTM", "LSH_PROJECTION"):
        assert f"| {operation} |" in table
