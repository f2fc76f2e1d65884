"""Inputs of a run: the recipe of random ones, and what is said about wrong ones."""

from __future__ import annotations

import pickle
import resource
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npusim.isa.base.errors import NpusimError
from npusim.isa.base.tensor import Placement, Quantization, TensorType
from npusim.session import inputs

IMAGE = Placement("image", TensorType("uint8", (1, 2, 3), Quantization((0.5,), (128,))), 0)
STATE = Placement("state", TensorType("float32", (4,)), 64)
BOTH = (IMAGE, STATE)

GOOD_IMAGE = np.zeros((1, 2, 3), np.uint8)
GOOD_STATE = np.zeros(4, np.float32)
HAS_BOTH = 'it has 2 inputs: in0 = "image" uint8 [1, 2, 3], in1 = "state" float32 [4]'


def test_random_inputs_follow_the_recipe_of_the_golden_outputs(shared: Path) -> None:
    golden = np.load(shared / "golden" / "mlperf_kws_int8.npz")["in0_0"]
    place = Placement("in", TensorType(str(golden.dtype), golden.shape), 0)
    assert np.array_equal(inputs.draw([place], seed=0)[0], golden)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "bool", "float32"])
def test_random_inputs_cover_the_type(dtype: str) -> None:
    codes = Quantization((0.5,), (0,)) if dtype == "int32" else None  # else they are taken for indices
    (values,) = inputs.draw([Placement("in", TensorType(dtype, (4000,), codes), 0)], seed=1)
    assert values.dtype == np.dtype(dtype)
    low, high = float(values.min()), float(values.max())
    limits: Any = np.iinfo(dtype) if values.dtype.kind in "iu" else None
    expected = (float(limits.min), float(limits.max)) if limits else (0, 1) if dtype == "bool" else (-1, 1)
    span = expected[1] - expected[0]
    assert low - expected[0] < 0.01 * span
    assert expected[1] - high < 0.01 * span


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint64"])
def test_indices_are_drawn_where_every_list_has_them(dtype: str) -> None:
    (values,) = inputs.draw([Placement("in", TensorType(dtype, (4000,)), 0)], seed=1)
    assert values.dtype == np.dtype(dtype)
    assert np.unique(values).tolist() == [0, 1]


def test_one_generator_draws_all_inputs() -> None:
    first, second = inputs.draw([IMAGE, IMAGE], seed=3)
    assert not np.array_equal(first, second)


@pytest.mark.parametrize(
    "given",
    [
        [GOOD_IMAGE, GOOD_STATE],
        {"state": GOOD_STATE, "image": GOOD_IMAGE},
        {"in1": GOOD_STATE, "in0": GOOD_IMAGE},
        {"in0": GOOD_IMAGE, "state": GOOD_STATE.astype(">f4")},
        {"in0": GOOD_IMAGE, "state": GOOD_STATE},
    ],
    ids=["by position", "by name", "by number", "other byte order", "mixed"],
)
def test_good_inputs(given: inputs.Inputs) -> None:
    image, state = inputs.bind(BOTH, given)
    assert (image.shape, image.dtype) == ((1, 2, 3), np.uint8)
    assert (state.dtype, state.flags.c_contiguous) == (np.dtype("<f4"), True)


WRONG = [
    (
        {"imgae": GOOD_IMAGE, "state": GOOD_STATE},
        f'input "imgae": the model has no such input, did you mean "image"? {HAS_BOTH}',
    ),
    ({"x": GOOD_IMAGE}, f'input "x": the model has no such input; {HAS_BOTH}'),
    (
        {"image": GOOD_IMAGE},
        'input "state" (in1) is missing; the model has 2 inputs: in0 = "image" uint8 [1, 2, 3], '
        'in1 = "state" float32 [4]',
    ),
    (
        {"image": GOOD_IMAGE, "in0": GOOD_IMAGE, "state": GOOD_STATE},
        'input "image" is given twice, also as in0; give it once',
    ),
    (
        {"image": GOOD_IMAGE.astype(np.float32), "state": GOOD_STATE},
        'input "image": values of float32, the model takes uint8 codes: round(real / 0.5) +128',
    ),
    (
        {"in0": GOOD_IMAGE, "in1": GOOD_STATE.astype(np.float64)},
        'input "state" (in1): values of float64, the model takes float32',
    ),
    (
        {"image": GOOD_IMAGE[0], "state": GOOD_STATE},
        'input "image": shape [2, 3], the model takes [1, 2, 3]',
    ),
    (
        [GOOD_IMAGE],
        'inputs: 1 given, the model has 2 inputs: in0 = "image" uint8 [1, 2, 3], in1 = "state" float32 [4]',
    ),
    (GOOD_IMAGE, "inputs: one array given; it may be a list of 2 inputs or a mapping by name"),
]


@pytest.mark.parametrize(("given", "message"), WRONG, ids=[str(i) for i in range(len(WRONG))])
def test_wrong_inputs(given: Any, message: str) -> None:
    with pytest.raises(NpusimError) as caught:
        inputs.bind(BOTH, given)
    assert str(caught.value) == message


def test_a_name_that_two_inputs_have_names_neither() -> None:
    with pytest.raises(NpusimError, match="no such input"):
        inputs.bind((IMAGE, IMAGE), {"image": GOOD_IMAGE})
    assert len(inputs.bind((IMAGE, IMAGE), {"in0": GOOD_IMAGE, "in1": GOOD_IMAGE})) == 2


def test_npz(tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", image=GOOD_IMAGE, in1=GOOD_STATE)
    assert len(inputs.read_npz(tmp_path / "in.npz", BOTH)) == 2


def _truncated(path: Path) -> None:
    np.savez(path.with_suffix(".whole.npz"), image=GOOD_IMAGE)
    path.write_bytes(path.with_suffix(".whole.npz").read_bytes()[:100])


def _flipped(path: Path) -> None:
    np.savez_compressed(path, image=np.arange(6, dtype=np.uint8).reshape(1, 2, 3), state=GOOD_STATE)
    data = bytearray(path.read_bytes())
    data[60] ^= 0xFF
    path.write_bytes(data)


BROKEN = [
    ("truncated", _truncated, "not a readable npz file of plain arrays"),
    ("empty", lambda path: path.write_bytes(b""), "not a readable npz file of plain arrays"),
    ("flipped", _flipped, "not a readable npz file of plain arrays"),
    ("pickle", lambda path: path.write_bytes(pickle.dumps({"image": 1})), "not a readable npz file"),
    (
        "objects",
        lambda path: np.savez(path, image=np.array([{}], object), state=GOOD_STATE),
        "not a readable npz file of plain arrays: Object arrays cannot be loaded",
    ),
    ("folder", lambda path: path.mkdir(), "is a folder, not an npz file of inputs"),
    ("one array", lambda path: np.save(path.open("wb"), GOOD_IMAGE), "is a single array; inputs are an npz"),
    (
        "names",
        lambda path: np.savez(path, picture=GOOD_IMAGE),
        'input "picture": the model has no such input',
    ),
]


@pytest.mark.parametrize(("name", "make", "message"), BROKEN, ids=[row[0] for row in BROKEN])
def test_broken_npz_is_one_line(tmp_path: Path, name: str, make: Any, message: str) -> None:
    path = tmp_path / "in.npz"
    make(path)
    with pytest.raises(NpusimError) as caught:
        inputs.read_npz(path, BOTH)
    text = str(caught.value)
    assert text.startswith(f"{path}: {message}")
    assert "\n" not in text


def test_missing_npz(tmp_path: Path) -> None:
    with pytest.raises(NpusimError, match=r"none\.npz: no such file$"):
        inputs.read_npz(tmp_path / "none.npz", BOTH)


# Files that unfold


def _npz(path: Path, *members: tuple[str, bytes, int]) -> None:
    """An npz file by hand: name, header and data, and how often the data stands there."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, begin, megabytes in members:
            with archive.open(name, "w", force_zip64=True) as member:
                member.write(begin)
                for _ in range(megabytes):
                    member.write(bytes(1 << 20))


def _header(dtype: str, shape: tuple[int, ...], version: int = 1) -> bytes:
    text = repr({"descr": dtype, "fortran_order": False, "shape": shape}).encode() + b"\n"
    size = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + size + text


@pytest.mark.slow
@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("begin", "megabytes", "message"),
    [
        (_header("|u1", (1 << 40,)), 0, "shape [1099511627776], the model takes [1, 2, 3]"),
        (_header("|u1", (3221225472,)), 200, "shape [3221225472], the model takes [1, 2, 3]"),
        (_header("<c16", (1, 2, 3)), 200, "values of complex128, the model takes uint8"),
        (
            _header("|u1", (1, 2, 3)),
            200,
            "not a readable npz file of plain arrays: bytes stand behind an array",
        ),
        (
            _header("|u1", (1, 2, 3)),
            0,
            "not a readable npz file of plain arrays: an array ends after 0 of 6 bytes",
        ),
        (
            b"\x93NUMPY\2\0\xff\xff\xff\xff",
            200,
            "an array with a header of 4294967295 bytes, there may be 10000",
        ),
        (b"\x93NUMPY\7\0" + bytes(100), 0, "a member is not an array of numpy"),
        (b"PK", 0, "a member is not an array of numpy"),
    ],
)
def test_a_file_that_unfolds_is_not_unfolded(
    begin: bytes, megabytes: int, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "bomb.npz"
    _npz(path, ("image.npy", begin, megabytes), ("state.npy", _header("<f4", (4,)), 0))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(NpusimError) as caught:
        inputs.read_npz(path, BOTH)
    assert message in str(caught.value)
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10 < 100 << 20


def test_other_methods_of_packing_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "in.npz", "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("image.npy", _header("|u1", (1, 2, 3)) + bytes(6))
        archive.writestr("state.npy", _header("<f4", (4,)) + bytes(16))
    with pytest.raises(NpusimError, match=r"image.npy is packed with method 12; use np.savez"):
        inputs.read_npz(tmp_path / "in.npz", BOTH)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_headers_of_every_version_and_order_are_read(version: int, tmp_path: Path) -> None:
    _npz(
        tmp_path / "in.npz",
        ("in0.npy", _header("|u1", (1, 2, 3), version) + bytes(range(6)), 0),
        ("state.npy", _header(">f4", (4,), version) + np.arange(4, dtype=">f4").tobytes(), 0),
    )
    image, state = inputs.read_npz(tmp_path / "in.npz", BOTH)
    assert image.tolist() == [[[0, 1, 2], [3, 4, 5]]]
    assert state.tolist() == [0, 1, 2, 3]
    by_columns = np.asfortranarray(GOOD_IMAGE)
    np.savez(tmp_path / "columns.npz", image=by_columns, state=GOOD_STATE)
    assert np.array_equal(inputs.read_npz(tmp_path / "columns.npz", BOTH)[0], GOOD_IMAGE)
