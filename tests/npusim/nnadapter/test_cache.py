"""Compiled models that are kept: restored ones compute the same, refused ones are compiled anew, and it is said."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim import nnadapter as nna
from npusim.isa.base.errors import NpusimError
from npusim.isa.base.tensor import TensorType
from npusim.kernels.graph.builder import GraphBuilder
from npusim.kernels.operators.elementwise.sums_and_products import ADD
from npusim.nnadapter import c
from npusim.nnadapter.cache import compiled_record, nnc_container
from npusim.nnadapter.cache_store import expectation
from tests.examples import examples

from .test_cache_container import flipped

LACKING = "NPUSIM_LACKS_OPERATORS=depthwise_conv_2d,max_pool_2d;"
"""The host computes what is in the middle of digits_cnn."""


def context(*names: str, properties: str = LACKING) -> nna.Context:
    return nna.Context([nna.Device.acquire(name) for name in names or ("npusim", "npusim_host")], properties)


class Blob(bytes):
    """The bytes of a file, which nobody wants to read in a message."""

    def __repr__(self) -> str:
        return f"<{len(self)} bytes>"


@pytest.fixture(scope="module")
def model() -> nna.Model:
    return nna.from_file("digits_cnn")


@pytest.fixture(scope="module")
def whole(model: nna.Model) -> Iterator[nna.Compilation]:
    """digits_cnn without a cache."""
    with context() as devices:
        compilation = nna.Compilation(model, devices)
        compilation.finish()
        yield compilation


@pytest.fixture(scope="module")
def blob(model: nna.Model, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of digits_cnn under the token "mine"."""
    with context() as devices:
        compilation = nna.Compilation(model, devices, cache_dir=tmp_path_factory.mktemp("kept"), token="mine")
        compilation.finish()
        assert compilation.cache_path is not None
        return Blob(compilation.cache_path.read_bytes())


def numbers(compilation: nna.Compilation, gear: int = 0, seed: int = 3) -> dict[str, Any]:
    """All that a run says, but for what it took this computer."""
    chosen = random.Random(seed)
    execution = nna.Execution(compilation)
    for index, crossing in enumerate(compilation.gears[gear].inputs):
        values = [chosen.randrange(-128, 128) for _ in range(crossing.type.elements)]
        execution.set_input(index, np.array(values).reshape(crossing.type.shape).astype(crossing.type.dtype))
    result = execution.compute()
    plain: dict[str, Any] = {} if result.run is None else result.run.to_dict()
    plain.pop("wall_s", None)
    pieces = [asdict(piece) for piece in result.pieces]
    outputs = [(array.dtype, array.shape, array.tobytes()) for array in result.outputs]
    return plain | {"outputs": outputs, "pieces of devices": pieces, "energy": result.energy}


def finished(*given: Any, **said: Any) -> tuple[nna.Compilation, list[str]]:
    """A finished compilation, and what it warned of."""
    compilation = nna.Compilation(*given, **said)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compilation.finish()
    return compilation, [str(each.message) for each in caught if each.category is nna.CacheWarning]


@pytest.mark.slow
def test_restored_ones_are_as_compiled_ones(model: nna.Model, whole: nna.Compilation, tmp_path: Path) -> None:
    """Bytes, cycles, energy, layers, pieces: every number of the JSON."""
    folder = tmp_path / "new" / "cache"
    expected = numbers(whole)
    assert [piece["device"] for piece in expected["pieces of devices"]] == [
        *("npusim", "npusim_host", "npusim", "npusim_host", "npusim")
    ]
    with context() as devices:
        first, said = finished(model, devices, cache_dir=folder)
        assert (first.restored, said) == (False, [])
        assert first.token is not None
        assert first.cache_path == folder / f"{first.token}.nnc"
        second, said = finished(model, devices, cache_dir=folder)
        assert (second.restored, second.token, said) == (True, first.token, [])
        third, said = finished(None, devices, cache_dir=folder, token=first.token)
        assert (third.restored, said) == (True, [])
        buffer = first.cache_path.read_bytes()
        fourth, said = finished(None, devices, token=first.token, buffer=buffer)
        assert (fourth.restored, fourth.cache_path, said) == (True, None, [])
        for compilation in (first, second, third, fourth):
            assert numbers(compilation) == expected
            assert compilation.inputs == whole.inputs
            assert compilation.outputs == whole.outputs
            assert compilation.compile_s == first.compile_s
    assert first.restore_s is None
    assert second.restore_s is not None


def test_seconds_with_and_without_the_cache(model: nna.Model, tmp_path: Path) -> None:
    """In the JSON and in the terminal's last lines."""
    from npusim.reports.run.terminal import summary

    with context() as devices:
        texts = []
        for _ in range(2):
            compilation, _ = finished(model, devices, cache_dir=tmp_path)
            execution = nna.Execution(compilation)
            execution.set_input(0, np.zeros((1, 8, 8, 1), np.int8))
            run = execution.compute().run
            assert run is not None
            wall = run.to_dict()["wall_s"]
            assert wall["compile"] == compilation.compile_s > 0
            assert wall.get("restore") == compilation.restore_s
            texts.append(_plain(summary(run, 100, True)))
    assert f"compile {compilation.compile_s:.2f} s" in texts[0]
    assert f"restore {compilation.restore_s:.2f} s" in texts[1]
    assert f"Restored: without the cache, compile takes {compilation.compile_s:.2f} s." in texts[1]
    assert "restore" not in texts[0]


def _plain(renderable: Any) -> str:
    from io import StringIO

    from rich.console import Console

    out = StringIO()
    Console(file=out, width=100).print(renderable)
    return out.getvalue()


def _changed(**fields: Any) -> Callable[[bytes], bytes]:
    """Entries of a container replaced, with a right checksum."""
    return lambda data: nnc_container.write_cache(nnc_container.read_cache(data) | fields)


REFUSED: Sequence[tuple[str, Callable[[bytes], bytes], type[nna.CacheRefused], str]] = (
    ("magic", lambda data: b"PK\3\4" + data[4:], nna.BadMagic, "magic 0x04034b50, must be 0x2e6e6e63"),
    ("version", lambda data: data[:4] + b"\2" + data[5:], nna.BadVersion, "version 2, must be 1"),
    ("checksum", lambda data: flipped(data, 8 * 1000), nna.BadChecksum, "checksum 0x"),
    ("end", lambda data: data[:20], nna.Truncated, "too short: 20 bytes, the header has 24"),
    ("token", _changed(token=b"yours"), nna.WrongToken, 'kept under token "yours", must be "mine"'),
    (
        "device",
        _changed(cache_1_device_name=b"gpu"),
        nna.WrongDevice,
        'compiled for device "gpu", the context has npusim, npusim_host',
    ),
    ("npusim", _changed(npusim_version=b"0.0"), nna.WrongMachine, 'compiled with npusim "0.0", must be "'),
    (
        "machine",
        _changed(machine_digest=b"ab"),
        nna.WrongDevice,
        'compiled for the devices "ab", the context has npusim',
    ),
    (
        "properties",
        _changed(properties=b"A=B;"),
        nna.WrongMachine,
        'compiled with properties "A=B;", must be',
    ),
    ("content", _changed(gears=b"[]"), nna.BadContent, "gears: 0 with 0 pieces, num_caches says 5"),
    (
        "program",
        _changed(cache_0_model_buffer=b"no program"),
        nna.BadContent,
        "piece 0: npusim: not an npusim program: begins with",
    ),
)


@pytest.mark.parametrize(("_what", "change", "kind", "text"), REFUSED)
def test_refused_ones_are_compiled_anew(
    _what: str,
    change: Callable[[bytes], bytes],
    kind: type[nna.CacheRefused],
    text: str,
    model: nna.Model,
    blob: bytes,
    tmp_path: Path,
) -> None:
    """With one warning that says why; the file is right afterwards. Without a model it is an error."""
    path = tmp_path / "mine.nnc"
    path.write_bytes(change(blob))
    with context() as devices:
        without_model = nna.Compilation(None, devices, cache_dir=tmp_path, token="mine")
        with pytest.raises(kind) as refused:
            without_model.finish()
        assert str(refused.value).startswith(f"{path}: {text}")
        assert refused.value.code == nna.INVALID_PARAMETER
        compilation, said = finished(model, devices, cache_dir=tmp_path, token="mine")
        assert not compilation.restored
        assert len(said) == 1
        assert said[0].startswith(f"{path}: {text}")
        assert said[0].endswith("; the model is compiled anew")
        again, said = finished(model, devices, cache_dir=tmp_path, token="mine")
        assert (again.restored, said) == (True, [])
        with pytest.raises(kind, match=r"^the cache buffer of token mine: "):
            nna.Compilation(None, devices, token="mine", buffer=change(blob)).finish()


def test_one_bit_anywhere(blob: bytes) -> None:
    """200 places, spread evenly with the first and last byte among them."""
    for place in np.linspace(0, 8 * len(blob) - 1, 200).astype(int).tolist():
        with pytest.raises(nna.CacheRefused):
            compiled_record.load(flipped(blob, place))


def test_contexts_of_other_machines(model: nna.Model, blob: bytes) -> None:
    """Another property, a device more, another order, another machine: all refused."""
    for devices in (
        context(properties=LACKING + "NPUSIM_CLOCK_MHZ=401"),
        context(properties=""),
    ):
        with devices, pytest.raises(nna.WrongMachine):
            nna.Compilation(None, devices, token="mine", buffer=blob).finish()
    for names in (
        ("npusim", "npusim_host", "builtin_device"),
        ("npusim_host", "npusim"),
        ("edge-64", "npusim_host"),
    ):
        with context(*names) as devices, pytest.raises(nna.WrongDevice):
            nna.Compilation(None, devices, token="mine", buffer=blob).finish()


def test_the_environment_counts(model: nna.Model, blob: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPUSIM_CLOCK_MHZ", "401")
    with context() as devices, pytest.raises(nna.WrongMachine):
        nna.Compilation(None, devices, token="mine", buffer=blob).finish()


def test_tokens_differ_with_what_is_asked(model: nna.Model, tmp_path: Path) -> None:
    tokens = set()
    asked: Sequence[tuple[nna.Context, Any]] = (
        (context(), None),
        (context("npusim"), None),
        (context("npusim_host", "npusim"), None),
        (context(properties=""), None),
        (context(properties="NPUSIM_CLOCK_MHZ=401"), None),
        (context(), "single"),
        (context(), nna.Partition.parse("conv_2d")),
        (context(), nna.Partition.parse("softmax")),
    )
    for devices, partition in asked:
        compilation = nna.Compilation(model, devices, cache_dir=tmp_path, partition=partition)
        tokens.add(compilation.token)
        devices.destroy()
    assert len(tokens) == len(asked)


def test_programs_of_others(model: nna.Model, blob: bytes) -> None:
    """A whole program in the place of another is seen by its machine, or by its inputs and outputs."""
    kept = compiled_record.load(blob)
    first, second = (piece.buffer for piece in kept.gears[0].pieces[:2])
    swapped = nnc_container.read_cache(blob) | {"cache_0_model_buffer": second, "cache_1_model_buffer": first}
    with context() as devices, pytest.raises((nna.BadContent, nna.WrongMachine), match=r"^the cache buffer"):
        nna.Compilation(None, devices, token="mine", buffer=nnc_container.write_cache(swapped)).finish()
    with context(properties=LACKING + "NPUSIM_CLOCK_MHZ=401") as devices:
        expected = expectation("mine", devices)
    forged = nnc_container.read_cache(blob)
    forged |= {key: getattr(expected, key).encode() for key in ("machine_digest", "properties")}
    with (
        context(properties=LACKING + "NPUSIM_CLOCK_MHZ=401") as devices,
        pytest.raises(nna.WrongMachine, match="piece 0: its program is not for the machine of npusim"),
    ):
        nna.Compilation(None, devices, token="mine", buffer=nnc_container.write_cache(forged)).finish()


@pytest.mark.slow
@given(st.data())
@examples(60)
def test_entries_of_strangers(blob: bytes, draw: st.DataObject) -> None:
    """Whatever entries say, under a right checksum: a compilation that runs, or a refusal."""
    entries = nnc_container.read_cache(blob)
    key = draw.draw(st.sampled_from(sorted(entries)))
    value = bytearray(entries[key])
    begin = draw.draw(st.integers(0, len(value)))
    end = draw.draw(st.integers(begin, min(begin + 3, len(value))))
    value[begin:end] = draw.draw(st.binary(max_size=4) | st.sampled_from((b"0", b"1", b'"', b"[", b"-")))
    with context() as devices:
        compilation = nna.Compilation(
            None, devices, token="mine", buffer=nnc_container.write_cache(entries | {key: bytes(value)})
        )
        try:
            compilation.finish()
            numbers(compilation)
        except NpusimError as fault:
            assert "\n" not in str(fault)  # noqa: PT017


def gears_model() -> nna.Model:
    """x + 1 for batches of 1, 2 and 5."""
    model = nna.Model()
    type_ = nna.OperandType(nna.FLOAT32, [-1, 4], dynamic=[[1, 4], [2, 4], [5, 4]])
    x = model.add_operand(type_)
    model.identify(inputs=[x], outputs=[model.add(x, model.add_constant(np.ones((1, 4), np.float32)))])
    model.finish()
    return model


def test_gears(tmp_path: Path) -> None:
    """Each has its program, restored too."""
    with context(properties="") as devices:
        first, _ = finished(gears_model(), devices, cache_dir=tmp_path)
        second, said = finished(None, devices, cache_dir=tmp_path, token=first.token)
        assert (second.restored, said) == (True, [])
        assert [gear.shapes for gear in second.gears] == [((1, 4),), ((2, 4),), ((5, 4),)]
        for gear in range(3):
            assert numbers(second, gear) == numbers(first, gear)
        assert (second.inputs, second.outputs) == (first.inputs, first.outputs)
        execution = nna.Execution(second)
        execution.set_input(0, np.zeros((3, 4), np.float32))
        with pytest.raises(nna.InvalidDimensions, match=r"must have \[1, 4\] or \[2, 4\] or \[5, 4\]"):
            execution.compute()


def test_outputs_that_are_read_too_or_there_twice(tmp_path: Path) -> None:
    model = nna.Model()
    x = model.add_operand(nna.OperandType(nna.FLOAT32, [2, 3]))
    y = model.relu(x)
    z = model.sin(y)
    model.identify(inputs=[x], outputs=[y, z, y])
    model.finish()
    with context("npusim", "npusim_host", properties="") as devices:
        first, _ = finished(model, devices, cache_dir=tmp_path)
        second, said = finished(model, devices, cache_dir=tmp_path)
        assert (second.restored, said) == (True, [])
        assert numbers(second) == numbers(first)
        assert len(second.outputs) == 3


def test_outputs_that_no_piece_computes(tmp_path: Path) -> None:
    """An input, a constant, a size that is known as soon as the model is."""
    model = nna.Model()
    x = model.add_operand(nna.OperandType(nna.FLOAT32, [2, 3]))
    constant = model.add_constant(np.ones((2, 2), np.float32))
    model.identify(inputs=[x], outputs=[model.relu(x), x, constant, model.shape(x)])
    model.finish()
    with context("npusim", "npusim_host", properties="") as devices:
        first, _ = finished(model, devices, cache_dir=tmp_path)
        second, said = finished(model, devices, cache_dir=tmp_path)
        assert (second.restored, said) == (True, [])
        assert numbers(second) == numbers(first)


def test_outputs_that_say_how_many_rows_they_have(tmp_path: Path) -> None:
    """NON_MAX_SUPPRESSION has rows for the most that there can be."""
    model = nna.Model()
    boxes = model.add_operand(nna.OperandType(nna.FLOAT32, [1, 6, 4]))
    scores = model.add_operand(nna.OperandType(nna.FLOAT32, [1, 2, 6]))
    kept = model.non_max_suppression(boxes, scores, None, -1, 0.1, 4, 0.3, 1.0, 5, False, True)
    model.identify(inputs=[boxes, scores], outputs=list(kept))
    model.finish()
    with context(properties="") as devices:
        first, _ = finished(model, devices, cache_dir=tmp_path)
        second, said = finished(model, devices, cache_dir=tmp_path)
        assert (second.restored, said) == (True, [])
        assert numbers(second) == numbers(first)


def test_values_that_last_from_run_to_run(tmp_path: Path) -> None:
    """A restored model begins anew, and goes on as a compiled one does: it sums its inputs."""
    builder = GraphBuilder("sums")
    kind = TensorType("float32", (4,))
    x, total = builder.input("x", kind), builder.state("total", kind)
    (after,) = builder.node("add", [x, total], [kind], ADD.parameters())
    builder.keep(total, after)
    model = nna.from_graph(builder.graph([after]))
    with context(properties="") as devices:
        runs = []
        for _ in range(2):
            compilation, said = finished(model, devices, cache_dir=tmp_path)
            assert said == []
            runs.append([numbers(compilation, seed=seed)["outputs"] for seed in (1, 1, 2)])
    assert runs[0] == runs[1]
    assert runs[0][0] != runs[0][1]


class Doubler(nna.Driver):
    """A user's device: twice the input. It keeps what it doubles with."""

    name, vendor, version = "cache_doubler", "tests", 1
    keeps = True

    def validate_program(self, context: object, model: nna.Submodel) -> list[str | None]:
        return [None] * len(model.places)

    def create_program(self, context: object, model: nna.Submodel | None, cache: nna.Cache) -> object:
        if model is None:
            assert [type_.shape for type_ in cache.input_types] == [(2, 3)]
            if cache.buffer != b"twice":
                raise ValueError("is no doubler")
            return 2
        cache.buffer = b"twice" if self.keeps and cache.token else b""
        return 2

    def execute_program(self, program: Any, inputs: Any, outputs: Any) -> None:
        outputs[0].write(inputs[0].read() * program)


@pytest.fixture
def doubler() -> Iterator[str]:
    nna.register(Doubler)
    yield Doubler.name
    nna.unregister(Doubler.name)


def relu_model() -> nna.Model:
    model = nna.Model()
    x = model.add_operand(nna.OperandType(nna.FLOAT32, [2, 3]))
    model.identify(inputs=[x], outputs=[model.relu(x)])
    model.finish()
    return model


def test_drivers_of_users(doubler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a driver leaves is kept and given back to it; one that leaves nothing is said, and works."""
    with context(doubler, properties="") as devices:
        first, said = finished(relu_model(), devices, cache_dir=tmp_path)
        assert (first.restored, said) == (False, [])
        assert first.cache_path is not None
        second, said = finished(None, devices, cache_dir=tmp_path, token=first.token)
        assert (second.restored, said) == (True, [])
        assert numbers(second) == numbers(first)
        entries = nnc_container.read_cache(first.cache_path.read_bytes()) | {
            "cache_0_model_buffer": b"thrice"
        }
        with pytest.raises(
            nna.BadContent, match="piece 0: cache_doubler: create_program: ValueError: is no doubler"
        ):
            nna.Compilation(
                None, devices, token=first.token, buffer=nnc_container.write_cache(entries)
            ).finish()
        first.cache_path.unlink()
        monkeypatch.setattr(Doubler, "keeps", False)
        third, said = finished(relu_model(), devices, cache_dir=tmp_path)
        assert said == [
            "the compiled model is not cached: the driver of cache_doubler leaves nothing to cache"
        ]
        assert numbers(third) == numbers(first)
        assert list(tmp_path.iterdir()) == []


def test_folders_that_cannot_be_written(model: nna.Model, whole: nna.Compilation, tmp_path: Path) -> None:
    """The compiled model is not lost."""
    (tmp_path / "file").write_bytes(b"")
    with context() as devices:
        compilation, said = finished(model, devices, cache_dir=tmp_path / "file")
        assert said == [f"the compiled model is not cached: {tmp_path / 'file'}: cannot be made: File exists"]
        assert numbers(compilation) == numbers(whole)


def test_files_that_cannot_be_read(model: nna.Model, tmp_path: Path) -> None:
    (tmp_path / "mine.nnc").mkdir()
    with context() as devices:
        compilation, said = finished(model, devices, cache_dir=tmp_path, token="mine")
        assert not compilation.restored
        path = tmp_path / "mine.nnc"
        assert said == [
            f"{path}: is a folder, not a compiled model; it must be a regular file; the model is compiled anew",
            f"the compiled model is not cached: {path}: cannot be written: Is a directory",
        ]


def test_what_is_asked_wrongly(model: nna.Model, blob: bytes, tmp_path: Path) -> None:
    with context() as devices:
        for said, text in (
            ({"token": ""}, "token: is empty"),
            ({"token": "../up", "cache_dir": tmp_path}, "token: '../up' has a '/'"),
            ({"cache_dir": 5}, "cache_dir: is 5, must be the path of a folder"),
            ({"buffer": blob}, "token: is missing, a buffer needs the token that it was cached under"),
            ({"buffer": "text", "token": "mine"}, "buffer: is str, must be the bytes of a .nnc file"),
        ):
            with pytest.raises(nna.InvalidParameter, match=f"^{text}"):
                nna.Compilation(model, devices, **said)  # type: ignore[arg-type]
        for said, text in (
            ({}, "compilation: has neither a model nor a cache"),
            ({"cache_dir": tmp_path}, "compilation: has neither a model nor a cache"),
            ({"token": "mine"}, "compilation: has no model, and there is no cache"),
            (
                {"cache_dir": tmp_path, "token": "mine"},
                "compilation: has no model, and there is no .*mine.nnc",
            ),
        ):
            with pytest.raises(nna.InvalidParameter, match=f"^{text}"):
                nna.Compilation(None, devices, **said).finish()  # type: ignore[arg-type]


def test_the_c_interface(blob: bytes, tmp_path: Path, whole: nna.Compilation) -> None:
    """Checklist 2.20: restored from memory, and from a folder, without a model."""
    with context() as devices:
        place = c.Ref()
        create = c.NNAdapterCompilation_create
        assert create(None, "mine", blob, len(blob), None, devices, place) == nna.NO_ERROR
        assert c.NNAdapterCompilation_finish(place.value) == nna.NO_ERROR
        assert numbers(place.value) == numbers(whole)
        (tmp_path / "mine.nnc").write_bytes(blob)
        assert create(None, "mine", None, 0, str(tmp_path), devices, place) == nna.NO_ERROR
        assert c.NNAdapterCompilation_finish(place.value) == nna.NO_ERROR
        assert place.value.restored
        assert create(None, "mine", blob, len(blob) + 1, None, devices, place) == nna.INVALID_PARAMETER
        assert create(None, "mine", blob, 0, None, devices, place) == nna.INVALID_PARAMETER
        assert create(None, None, blob, len(blob), None, devices, place) == nna.INVALID_PARAMETER
        assert create(None, "mine", blob, len(blob) - 1, None, devices, place) == nna.NO_ERROR
        assert c.NNAdapterCompilation_finish(place.value) == nna.INVALID_PARAMETER


def test_the_same_model_gives_the_same_entries(model: nna.Model, blob: bytes, tmp_path: Path) -> None:
    """But for the seconds that it took."""
    with context() as devices:
        compilation, _ = finished(model, devices, cache_dir=tmp_path, token="mine")
        assert compilation.cache_path is not None
        again, before = (
            nnc_container.read_cache(data) for data in (compilation.cache_path.read_bytes(), blob)
        )
    assert again | {"compile_seconds": b""} == before | {"compile_seconds": b""}
    assert compiled_record.save(compiled_record.load(blob)) == blob
