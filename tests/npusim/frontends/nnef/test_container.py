"""Folders, texts that stand alone, and archives: what is read, and what is refused."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from npusim.frontends.nnef import nnef_container
from npusim.frontends.nnef.document import load, loads
from npusim.frontends.nnef.nnef_container import recognises
from npusim.frontends.nnef.places import DocumentError
from npusim.frontends.nnef.tensor_file import dump
from tests.npusim.frontends.nnef.documents import flat

TEXT = flat("w = variable(shape = [2,3], label = 'block/w'); z = add(x, w); y = relu(z);")
CODES = '"z": linear_quantize(min = 0.0, max = 1.0, bits = 8);'
VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)
FILES = {"graph.nnef": TEXT.encode(), "graph.quant": CODES.encode(), "block/w.dat": dump(VALUES)}


def folder(path: Path, files: dict[str, bytes] = FILES) -> Path:
    for name, data in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
    return path


def tar(files: dict[str, bytes], prefix: str = "", *members: tarfile.TarInfo) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(prefix + name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
        for member in members:
            archive.addfile(member)
    return packed.getvalue()


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


CONTAINERS: tuple[Callable[[Path], Path], ...] = (
    lambda path: folder(path),
    lambda path: folder(path) / "graph.nnef",
    lambda path: written(path / "m.nnef.tgz", gzip.compress(tar(FILES))),
    lambda path: written(path / "m.TGZ", gzip.compress(tar(FILES, "./"))),
    lambda path: written(path / "m.tar.gz", gzip.compress(tar(FILES, "net/"))),
    lambda path: written(path / "m.tar", tar(FILES, "./net/")),
    lambda path: written(path / "m.tgz", tar(FILES, "", special("docs", tarfile.DIRTYPE))),
)


@pytest.mark.parametrize("make", CONTAINERS)
def test_a_container_gives_graph_quantization_and_data(make: Callable[[Path], Path], tmp_path: Path) -> None:
    network = load(make(tmp_path)).network()
    data = network.variables["w"].data
    assert data is not None
    np.testing.assert_array_equal(data.values, VALUES)
    assert (list(network.quantization), network.missing()) == (["z"], ())


def test_a_text_of_another_name_stands_alone(tmp_path: Path) -> None:
    path = written(folder(tmp_path) / "net.nnef", TEXT.encode())
    network = load(path).network()
    assert (network.missing(), network.quantization) == (("block/w",), {})


def test_places_are_named_without_the_file_only_where_it_stands_alone(tmp_path: Path) -> None:
    folder(tmp_path, {"graph.nnef": b"version 2.0;", "net.nnef": b"version 2.0;"})
    for path, begin in (
        (tmp_path, "graph.nnef, line 1"),
        (tmp_path / "net.nnef", "line 1"),
        (tmp_path / "graph.nnef", "line 1"),
    ):
        with pytest.raises(DocumentError) as raised:
            load(path)
        assert str(raised.value).startswith(f"{begin}, column 9: version 2.0 is newer than 1.0")


def test_which_files_are_of_this_format(tmp_path: Path) -> None:
    assert recognises(folder(tmp_path / "net"), b"")
    assert not recognises(tmp_path, b"")
    assert recognises(tmp_path / "a.nnef", b"version")
    assert recognises(tmp_path / "a.nnef.tgz", b"\x1f\x8b")
    assert recognises(tmp_path / "a.tar", b"graph.nnef")
    assert not recognises(tmp_path / "a.tgz", b"ABCD")
    assert not recognises(tmp_path / "a.tflite", b"\x1f\x8b")


def without(name: str) -> dict[str, bytes]:
    return {key: data for key, data in FILES.items() if key != name}


REFUSED: tuple[tuple[Callable[[Path], Path], str], ...] = (
    (lambda path: folder(path, without("graph.nnef")), "the folder has no graph.nnef (rule V1"),
    (
        lambda path: written(path / "m.tar", tar(without("graph.nnef"))),
        "the archive has no graph.nnef (rule V1",
    ),
    (lambda path: written(path / "m.tar", tar(FILES, "a/b/")), "the archive has no graph.nnef"),
    (
        lambda path: written(path / "m.tar", tar({"a/graph.nnef": b"", "b/graph.nnef": b""})),
        "the archive has graphs in 2 folders",
    ),
    (lambda path: written(path / "m.tar", tar(FILES, "/")), "leaves the archive (rule X2"),
    (lambda path: written(path / "m.tar", tar(FILES, "../")), "leaves the archive (rule X2"),
    (lambda path: written(path / "m.tar", tar(FILES, "a/../../")), "leaves the archive (rule X2"),
    (
        lambda path: written(
            path / "m.tar", tar(FILES, "", special("v.dat", tarfile.SYMTYPE, "/etc/passwd"))
        ),
        "member 'v.dat' is a link or device",
    ),
    (
        lambda path: written(path / "m.tar", tar(FILES, "", special("v.dat", tarfile.LNKTYPE, "graph.nnef"))),
        "member 'v.dat' is a link or device",
    ),
    (
        lambda path: written(path / "m.tar", tar(FILES, "", special("v", tarfile.FIFOTYPE))),
        "'v' is a link or device",
    ),
    (
        lambda path: written(path / "m.tar", tar(FILES, "", special("graph.nnef", tarfile.REGTYPE))),
        "has 'graph.nnef' twice",
    ),
    (lambda path: written(path / "m.tgz", b""), "the archive is damaged: empty file"),
    (lambda path: written(path / "m.tgz", b"\x1f\x8b"), "the archive is damaged: "),
    (lambda path: written(path / "m.tgz", gzip.compress(tar(FILES))[:300]), "the archive is damaged: "),
    (lambda path: written(path / "m.tgz", gzip.compress(b"no archive")), "the archive is damaged: "),
    (lambda path: written(path / "m.tar", tar(FILES)[:700]), "the archive is damaged: "),
    (
        lambda path: written(path / "m.tgz", gzip.compress(tar(FILES))[:-8] + bytes(8)),
        "the archive is damaged: CRC",
    ),
    (
        lambda path: written(path / "m.tgz", gzip.compress(tar({"w.dat": bytes(80 << 20)}))),
        "the archive unpacks to more than ",
    ),
    (
        lambda path: written(path / "m.tgz", gzip.compress(tar({"readme": bytes(80 << 20), **FILES}))),
        "the archive unpacks to more than ",
    ),
    (
        lambda path: written(path / "m.tgz", gzip.compress(tar({"graph.nnef": bytes(34 << 20)}))),
        "graph.nnef has 35,651,584 bytes; at most 33,554,432 are read (rule N",
    ),
    (lambda path: folder(path, {**FILES, "block/w.dat": b"1"}), "block/w.dat: 1 bytes are fewer than"),
    (
        lambda path: folder(path, {**FILES, "block/w.dat": dump(VALUES.T)}),
        "'block/w.dat' has shape [3, 2], the variable [2, 3]",
    ),
    (
        lambda path: folder(path, {**FILES, "block/w.dat": dump(VALUES > 1)}),
        "has items of type bool for scalar",
    ),
    (
        lambda path: folder(path, {**FILES, "graph.nnef": b"\xff\xfe"}),
        "graph.nnef, line 1, column 1: unknown character",
    ),
)


@pytest.mark.parametrize(("make", "words"), REFUSED)
def test_what_is_no_container_is_refused_in_one_line(
    make: Callable[[Path], Path], words: str, tmp_path: Path
) -> None:
    with pytest.raises(DocumentError) as raised:
        load(make(tmp_path)).network()
    message = str(raised.value)
    assert words in message
    assert len(message.splitlines()) == 1
    assert str(tmp_path) not in message


def test_a_link_inside_the_folder_is_followed_and_one_that_leaves_it_is_not(tmp_path: Path) -> None:
    inside = folder(tmp_path / "net", without("block/w.dat"))
    (inside / "block").mkdir()
    (inside / "weights").write_bytes(FILES["block/w.dat"])
    (inside / "block/w.dat").symlink_to("../weights")
    assert load(inside).network().missing() == ()
    (inside / "block/w.dat").unlink()
    (tmp_path / "weights").write_bytes(FILES["block/w.dat"])
    (inside / "block/w.dat").symlink_to("../../weights")
    with pytest.raises(DocumentError, match=r"'block/w\.dat' is a link that leaves the folder"):
        load(inside).network()


def test_a_folder_where_a_data_file_should_be_is_refused(tmp_path: Path) -> None:
    folder(tmp_path, without("block/w.dat"))
    (tmp_path / "block/w.dat").mkdir(parents=True)
    with pytest.raises(DocumentError, match=r"block/w\.dat: is a folder, not a model file"):
        load(tmp_path).network()


def test_text_that_is_not_utf_8_may_stand_in_comments_only(tmp_path: Path) -> None:
    text = b"# Ger\xe4t\n" + TEXT.encode()
    assert load(written(tmp_path / "a.nnef", text)).network().name == "net"
    assert load(written(tmp_path / "b.nnef", b"\xef\xbb\xbf" + TEXT.encode())).network().name == "net"
    with pytest.raises(
        DocumentError, match=r"line 4, column 5: variable of w: label 'Ger\\udce4t' is no path"
    ):
        load(written(tmp_path / "c.nnef", TEXT.encode().replace(b"block/w", b"Ger\xe4t"))).network()


def test_codes_may_stand_for_scalars_where_they_are_quantized() -> None:
    codes = dump(VALUES.astype(np.int8), quantized=True)
    assert loads(TEXT, files={"block/w.dat": codes}).network().missing() == ()
    plain = dump(VALUES.astype(np.int8))
    with pytest.raises(DocumentError, match="has items of type int8 for scalar"):
        loads(TEXT, files={"block/w.dat": plain}).network()
    entry = '"w": linear_quantize(min = 0.0, max = 1.0, bits = 8);'
    assert loads(TEXT, entry, {"block/w.dat": plain}).network().missing() == ()


def test_an_archive_has_not_too_many_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nnef_container, "MOST_MEMBERS", 2)
    with pytest.raises(DocumentError, match="the archive has more than 2 members"):
        load(written(tmp_path / "m.tar", tar(FILES)))


LABELS = (
    ("w", "w.dat"),
    ("a/b/w", "a/b/w.dat"),
    ("a.b", "a.b.dat"),
    ("..w", "..w.dat"),
    ("w w", "w w.dat"),
    ("ä", "ä.dat"),
    ("", None),
    ("/w", None),
    ("a//w", None),
    ("a/", None),
    ("..", None),
    ("a/../w", None),
    ("./w", None),
    ("C:w", None),
    ("C:/w", None),
    ("a\\w", None),
    ("a\0w", None),
    ("a\nw", None),
)


@pytest.mark.parametrize(("label", "path"), LABELS)
def test_where_the_data_of_a_label_lies(label: str, path: str | None) -> None:
    assert nnef_container.data_path(label) == path


TWO = flat(
    "v = variable(shape = [2,3], label = 'v');\nw = variable(shape = [2,3], label = 'w'); y = add(v, w);"
)


def test_a_data_file_that_is_missing_beside_others_is_named_with_the_line_of_its_variable(
    tmp_path: Path,
) -> None:
    path = folder(tmp_path, {"graph.nnef": TWO.encode(), "v.dat": dump(VALUES)})
    with pytest.raises(DocumentError) as raised:
        load(path).network()
    message = str(raised.value)
    assert message.startswith(
        "graph.nnef, line 5, column 5: variable 'w' has no data file 'w.dat'; others have (rule V4"
    )
    (path / "w.dat").write_bytes(dump(VALUES))
    assert load(path).network().warnings == ()


def test_a_container_without_any_data_is_a_model_that_can_be_timed(tmp_path: Path) -> None:
    path = folder(tmp_path, {"graph.nnef": TWO.encode()})
    (warning,) = load(path).network().warnings
    assert warning == (
        "line 4: variable 'v' has no data file 'v.dat', nor has 1 more: the model can be timed, not run"
    )
    assert loads(TWO).network().warnings == ()  # a text alone has no data files
