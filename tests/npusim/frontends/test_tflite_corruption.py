"""Damaged TFLite files: each is still a valid graph or one clear error, in bounded time and memory."""

from __future__ import annotations

import random
import struct
import time
import tracemalloc
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from flatbuffers import flexbuffers

from npusim.frontends.tflite import reader as tflite
from npusim.isa.base.errors import FormatError, NpusimError
from npusim.kernels.graph.check import check

from ...damage import DAMAGES, Damage
from .tflite_builder import Builder, int32, small_model

LONGEST_SECONDS = 5.0  # a thousand times what the small ones take, for machines with other work to do
LONGEST_MESSAGE = 1000
PEAK_BYTES = 8 << 20

SMALL_FILES = [
    "tflm_hello_world_int8",
    "tflm_mnist_lstm_int8",
    "coral_split_concat",
    "edgetpu_ssd_mnv1_head",
    "tflm_micro_speech_int8",
    "mlperf_kws_int8",
]


def outcome(data: bytes) -> str:
    """How reading ends: "graph" or "error". Anything but an error of ours, on one line, is raised."""
    started = time.process_time()
    try:
        check(tflite.parse(data, "damaged"))
    except NpusimError as fault:
        text = str(fault)
        assert text.isprintable(), text
        assert 0 < len(text) < LONGEST_MESSAGE, text
        return "error"
    finally:
        assert time.process_time() - started < LONGEST_SECONDS
    return "graph"


def outcomes(original: bytes, damage: Damage, count: int) -> Counter[str]:
    counts: Counter[str] = Counter()
    for seed in range(count):
        data = bytearray(original)
        damage(data, random.Random(f"{damage.__name__} {seed}"))
        counts[outcome(bytes(data))] += 1
    return counts


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_small_model(damage: Damage) -> None:
    counts = outcomes(small_model(), damage, 200)
    assert counts["error"] > 50, "too little damage for a test"


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", SMALL_FILES)
def test_damaged_model_of_others(shared: Path, name: str, damage: Damage) -> None:
    outcomes((shared / "models" / f"{name}.tflite").read_bytes(), damage, 20)


def test_every_prefix_is_an_error_or_complete() -> None:
    """Truncation anywhere; what is cut may be padding or a description, which nobody needs."""
    data = small_model()
    results = [outcome(data[:size]) for size in range(0, len(data), 3)]
    assert results.count("graph") < len(results) // 20


@pytest.mark.slow
def test_every_single_byte_may_be_wrong() -> None:
    data = bytearray(small_model())
    for at in range(0, len(data), 2):
        kept = data[at]
        data[at] = kept ^ 0xFF
        outcome(bytes(data))
        data[at] = kept


@pytest.mark.slow
def test_memory_stays_small() -> None:
    original = small_model()
    tracemalloc.start()
    try:
        for damage in DAMAGES:
            outcomes(original, damage, 20)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < PEAK_BYTES


# Files made to hurt


def header(root: int, *rest: int) -> bytes:
    return struct.pack("<I4s", root, b"TFL3") + struct.pack(f"<{len(rest)}i", *rest)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (header(0xFFFFFFF0), "model table: an offset leads to byte 4294967284, the file has 8; "
         "it is truncated or damaged"),
        (header(8, 0x7FFFFFFF), "model table: an offset leads outside the file; it is truncated or damaged"),
        (header(8, -0x7FFFFFFF), "model table: an offset leads to byte 2147483657, the file has 12; "
         "it is truncated or damaged"),
        (header(8, 0), "schema version 0, may be 3"),
    ],
)  # fmt: skip
def test_root_that_leads_nowhere(data: bytes, text: str) -> None:
    with pytest.raises(FormatError) as fault:
        tflite.parse(data, "hurt")
    assert str(fault.value) == text


def with_vector_length(original: bytes, values: np.ndarray, length: int) -> bytes:
    """The file with another length in front of the vector that holds `values`."""
    data = bytearray(original)
    at = original.index(struct.pack("<I", len(values)) + values.tobytes())
    struct.pack_into("<I", data, at, length)
    return bytes(data)


@pytest.mark.parametrize("length", [0x7FFFFFFF, 0xFFFFFFFF, 1 << 28])
def test_absurd_vector_lengths(length: int) -> None:
    build = Builder()
    x, y = build.tensor("x", [71, 73]), build.tensor("y", [71, 73])
    build.operator("RELU", [x], [y])
    with pytest.raises(FormatError, match=r"^tensor [01]: an offset leads outside the file"):
        tflite.parse(with_vector_length(build.file([x], [y]), int32(71, 73), length), "hurt")


def test_rows_that_share_one_long_vector() -> None:
    """A small file whose thousands of operators all have the same thousands of operands."""
    many = 4000
    build = Builder()
    x, y = build.tensor("x", [4]), build.tensor("y", [4])
    build.operator("ADD_N", [x] * many, [y])
    build.operators *= many
    file = build.file([x], [y])
    assert len(file) < 40_000
    started = time.process_time()
    with pytest.raises(
        FormatError, match=r"^operator \d+: overlaps other parts of the file, which is damaged$"
    ):
        tflite.parse(file, "hurt")
    assert time.process_time() - started < LONGEST_SECONDS


def test_rows_beyond_counting() -> None:
    build = Builder()
    build.tensor("x", [4])
    build.tensors *= 70_000
    with pytest.raises(FormatError, match=r"^tensors: 70000 rows, may be at most 65536$"):
        tflite.parse(build.file([0], [0]), "hurt")


@pytest.mark.slow
def test_thousands_of_nodes_with_one_name() -> None:
    """Making names unique must not compare each with all."""
    many = 5000
    build = Builder()
    for _ in range(many):
        build.tensor("same", [1], Quantization=None)
    for i in range(many - 1):
        build.operator("RELU", [i], [i + 1])
        build.operators[-1].fields["OpcodeIndex"] = 0
    build.codes = build.codes[:1]
    started = time.process_time()
    graph = tflite.parse(build.file([0], [many - 1]), "long")
    assert time.process_time() - started < LONGEST_SECONDS
    assert graph.nodes[-1].name == f"same_{many - 2}"


def detection(options: bytes) -> bytes:
    """A file whose only operator is custom and has these options, a flexbuffer."""
    build = Builder()
    ends = [build.tensor(f"t{i}", [1] if i < 3 else [], "FLOAT32", scales=None) for i in range(7)]
    raw = np.frombuffer(options, np.uint8)
    build.operator("CUSTOM", ends[:3], ends[3:], custom="TFLite_Detection_PostProcess", CustomOptions=raw)
    return build.file(ends[:3], ends[3:])


@pytest.mark.slow
def test_damaged_custom_options() -> None:
    names = ("max_detections", "max_classes_per_detection", "num_classes", "nms_score_threshold")
    more = ("nms_iou_threshold", "y_scale", "x_scale", "h_scale", "w_scale")
    original = bytes(flexbuffers.Dumps(dict.fromkeys((*names, *more), 3)))
    assert outcome(detection(original)) == "graph"
    for damage in DAMAGES:
        for seed in range(30):
            data = bytearray(original)
            damage(data, random.Random(f"{damage.__name__} {seed}"))
            outcome(detection(bytes(data)))


def test_custom_options_that_contain_themselves() -> None:
    """A map of one key whose value is the map: whoever decodes all of it never ends."""
    keys = b"num_classes\0" + bytes([1, 13])  # the vector of keys: length, distance back to the key
    this = bytes([1, 1, 1, 0, 9 << 2])  # distance to keys, their width, length, value: 0 back, a map
    with pytest.raises(FormatError) as fault:
        tflite.parse(detection(keys + this + bytes([2, 9 << 2, 1])), "hurt")
    assert str(fault.value) == (
        'layer "t3" (CUSTOM TFLite_Detection_PostProcess version 1, operator 0): '
        "custom option num_classes is not one value, must be a number"
    )
