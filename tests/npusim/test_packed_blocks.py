"""Every packed block of every model decodes to the weights that the memo says it holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import npusim
from npusim.isa.arithmetic import packing, packing_memo
from npusim.isa.instructions.dma import Unpack
from npusim.isa.instructions.table import decode_all

SMALL = ("digits_cnn", "ds_cnn", "mlperf_kws_int8", "mlperf_vww96_int8", "tflm_mnist_lstm_int8")
LARGE = (
    "coral_deeplabv3_mnv2_dm05_pascal_quant",
    "coral_mobilenet_v1_0.25_128_quant",
    "coral_mobilenet_v2_1.0_224_quant",
    "coral_tf2_mobilenet_v2_1.0_224_ptq",
    "edgetpu_ssd_mnv1_head",
    "mlperf_ad01_int8",
    "mlperf_resnet8_int8",
    "mobilenet_v1",
    "mobilenet_v2",
    "resnet18",
    "resnet50",
    "tflm_person_detect_int8_patched",
)


@pytest.mark.parametrize("preset", ["edge-128", "ethos-u55-128"])  # without and with `dma.decoder_skips`
@pytest.mark.parametrize("name", [*SMALL, *(pytest.param(each, marks=pytest.mark.slow) for each in LARGE)])
def test_every_packed_block_decodes_to_its_weights(name: str, preset: str, shared: Path) -> None:
    file = shared / "models" / f"{name}.tflite"
    hardware = npusim.hardware(preset, ["scratchpad.size_kib=8192"])  # room for all of them
    program = npusim.compile(npusim.load(file if file.is_file() else name), hardware)
    assert isinstance(program, npusim.Program)
    for each in decode_all(program.code):
        if not isinstance(each, Unpack):
            continue
        start = each.source + each.plain
        block = np.frombuffer(program.constants_at(each.source_space, start, each.packed), np.uint8)
        decoded = packing.unpack(block, each.weights, each.zero)
        np.testing.assert_array_equal(packing_memo.unpack(block, each.weights, each.zero), decoded)
