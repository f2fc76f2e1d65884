"""Settings of the hardware, options that are given twice, and tables of models by machines."""

from __future__ import annotations

import csv
import json
import tomllib
from pathlib import Path

import pytest

import npusim
from npusim.isa.base.tensor import TensorType
from npusim.models.writer import ModelWriter, per_tensor
from npusim.session.settings import parse

from ...command_line import command

ONE = ("run", "digits_cnn", "--timing-only")


@pytest.mark.slow
def test_a_setting_is_a_hardware_file_of_one_line(tmp_path: Path) -> None:
    file = tmp_path / "wide.toml"
    file.write_text('extends = "edge-128"\nmac_array.rows = 32\ntechnology.dram = "psram"\n')
    settings = ["--set", "mac_array.rows=32", "--set", "technology.dram=psram"]
    results = []
    for hardware in (["--hw", file], settings, ["--hw", "edge-128", *settings]):
        target = tmp_path / "run.json"
        assert command(*ONE, *hardware, "--json", target)[0] == 0
        found = json.loads(target.read_text())
        name = found["hardware"].pop("name")
        assert name == ("wide" if file in hardware else "edge-128, mac_array.rows=32, technology.dram=psram")
        assert [piece.pop("device") for piece in found["pieces"]] == [name]
        for key in ("wall_s", "provenance"):
            found.pop(key, None)
        results.append(found)
    assert results[0] == results[1] == results[2]
    assert results[0]["hardware"]["mac_array"]["rows"] == 32


def test_compile_takes_settings(tmp_path: Path) -> None:
    target = tmp_path / "p.npu"
    status, out, _ = command("compile", "digits_cnn", "-o", target, "--set", "clock_mhz=250")
    assert status == 0
    assert "for edge-128, clock_mhz=250," in out
    assert npusim.load_program(target).hardware.clock_mhz == 250
    # A program is compiled for its machine: settings may not contradict it.
    assert command("run", target, "--set", "clock_mhz=250", "--timing-only")[0] == 0
    status, _, err = command("run", target, "--set", "clock_mhz=300", "--timing-only")
    assert status == 2
    assert 'compiled for "edge-128, clock_mhz=250", and "edge-128, clock_mhz=300" differs in clock_mhz' in err


@pytest.mark.usefixtures("one_figure")
@pytest.mark.slow
def test_explore_takes_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.toml").write_text(
        "[parameters]\nclock_mhz = [100, 200]\n[derived]\nvector.lanes = '4'\n[models]\ndigits_cnn = 1\n"
    )
    assert (
        command("explore", "s.toml", "-j", "1", "--set", "mac_array.rows=8", "--set", "dma.channels=1")[0]
        == 0
    )
    plain = json.loads(Path("s.study/study.json").read_text())["space"]["hardware"]
    assert (plain["mac_array"]["rows"], plain["dma"]["channels"]) == (8, 1)
    for path in ("clock_mhz=3", "vector.lanes=8"):
        status, _, err = command("explore", "s.toml", "--set", path)
        assert status == 2
        assert (
            err
            == f"npusim: --set {path.partition('=')[0]}: the space itself varies or derives it; change it there\n"
        )


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("clock_mhz = 500", "clock_mhz", 500.0),
        ("mac_array.rows=32", "mac_array.rows", 32),
        ("technology.dram=psram", "technology.dram", "psram"),
        ('technology.dram="psram"', "technology.dram", "psram"),
        ("name=a = b", "name", "a = b"),
        ("description=3\nx=4", "description", "3\nx=4"),
        ("description=[1]", "description", "[1]"),
        ('lacks_operators=["softmax", "mean"]', "lacks_operators", ("softmax", "mean")),
    ],
)
def test_values_are_numbers_words_and_text(text: str, path: str, value: object) -> None:
    assert parse([text]) == {path: value}


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        (["mac_array.rowz=3"], "mac_array.rowz: unknown key, did you mean rows?"),
        (["rows=3", "clock_mhz=fast"],
         'rows: unknown key, did you mean mac_array.rows?; clock_mhz: "fast" is not a number from '),
        (["rows"], '"rows" is not KEY=VALUE, such as mac_array.rows=32'),
        (["=3"], '"=3" is not KEY=VALUE, such as mac_array.rows=32'),
        (["clock_mhz=1", "clock_mhz=2"], "clock_mhz: is set twice"),
        (["mac_array=3"], "mac_array: unknown key, "),
        (["dram.burst_bytes=48"],
         "dram.burst_bytes=48: 1 fault: dram.burst_bytes: 48 is not a power of two, such as 32 or 64"),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "words",
    [ONE, ("compile", "digits_cnn", "-o", "x.npu"), (*ONE, "--hw", "edge-32", "--hw", "edge-64")],
)
def test_wrong_settings(
    words: tuple[str, ...],
    settings: list[str],
    fault: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, err = command(*words, *(word for each in settings for word in ("--set", each)))
    assert (status, out) == (2, "")
    assert err.startswith(f"npusim: --set {fault}")
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (("compile", "ds_cnn", "-o", "a.npu", "--hw", "edge-32", "--hw=x"), "--hw: is given twice; compile takes one"),
        (("run", "digits_cnn", "--json", "a", "--json", "b"), "--json: is given twice; run takes one"),
        (("demo", "--hw", "edge-32", "--hw", "edge-64"), "--hw: is given twice; demo takes one"),
        (("capabilities", "--hw=edge-32", "--hw=edge-64"), "--hw: is given twice; capabilities takes one"),
        (("explore", "a.toml", "-j4", "-j", "2"), "-j: is given twice; explore takes one"),
        (("run", "digits_cnn", "--seed", "1", "--seed", "1"), "--seed: is given twice; run takes one"),
    ],
)  # fmt: skip
def test_an_option_of_one_value_is_given_once(
    words: tuple[str, ...], fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command(*words) == (2, "", f"npusim: {fault}\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_models_by_machines(tmp_path: Path) -> None:
    table, data, folder = tmp_path / "t.csv", tmp_path / "t.json", tmp_path / "report"
    status, out, err = command(
        "run", "digits_cnn", "ds_cnn", "--hw", "edge-32", "--hw", "edge-128",
        "--csv", table, "--json", data, "--report", folder,
    )  # fmt: skip
    assert (status, err) == (0, "")
    latency, energy, errors = (part.splitlines() for part in out.strip().split("\n\n"))
    assert latency[0].split() == ["latency", "edge-32", "edge-128"]
    assert [line.split()[0] for line in (*latency[1:], *energy[1:])] == ["digits_cnn", "ds_cnn"] * 2
    assert errors == [f"{name}: idealised array, error not known" for name in ("edge-32", "edge-128")]
    runs = json.loads(data.read_text())["runs"]
    alone = npusim.run("ds_cnn", "edge-128", timing_only=True)
    assert runs[3]["cycles"]["total"] == alone.cycles
    assert [(run["model"], run["hardware"]["name"]) for run in runs] == [
        (model, machine) for model in ("digits_cnn", "ds_cnn") for machine in ("edge-32", "edge-128")
    ]
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert [float(row["latency_ms"]) for row in rows] == [run["latency_ms"] for run in runs]
    pages = {f"run-{number}.html" for number in range(1, 5)}
    assert {path.name for path in folder.iterdir()} == {"table.html", "runs.json", "runs.csv", *pages}
    assert (folder / "runs.json").read_bytes() == data.read_bytes()
    page = (folder / "table.html").read_text()
    for number, run in enumerate(runs, 1):
        assert f'href="run-{number}.html"' in page
        title = (folder / f"run-{number}.html").read_text().partition("</title>")[0]
        assert run["model"] in title
        assert run["hardware"]["name"] in title


def test_a_run_of_the_table_can_be_compared(tmp_path: Path) -> None:
    data = tmp_path / "t.json"
    assert command("run", "digits_cnn", "--hw", "edge-32", "--hw", "edge-64", "--json", data)[0] == 0
    files = []
    for run in json.loads(data.read_text())["runs"]:
        files.append(tmp_path / f"{run['hardware']['name']}.json")
        files[-1].write_text(json.dumps(run))
    assert command("compare", *files)[0] == 0


@pytest.mark.slow
def test_what_does_not_fit_is_told_and_the_rest_goes_on(tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text('extends = "edge-128"\nscratchpad.size_kib = 4\n')
    status, out, err = command(
        "run", "mobilenet_v1", "digits_cnn", "--hw", tmp_path / "tiny.toml", "--hw", "edge-128",
        "--csv", tmp_path / "t.csv",
    )  # fmt: skip
    rows = list(csv.DictReader((tmp_path / "t.csv").read_text().splitlines()))
    missing = [row for row in rows if row["fault"]]
    assert [(row["model"], row["hardware"], row["cycles"]) for row in missing] == [
        ("mobilenet_v1", "tiny", "")
    ]
    assert "mobilenet_v1 on tiny: " in out
    assert (status, err) == (2, "npusim: 1 of 4 runs have no result\n")


def _relu(code: str, dtype: str = "int8") -> bytes:
    """A file of one operator."""
    kind = TensorType(dtype, (1, 8, 8, 4), None if dtype == "float32" else per_tensor(0.05, 0))
    writer = ModelWriter("one")
    return writer.finish([writer.operator(code, (writer.input("x", kind),), kind)])


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A folder with two files that run, one of them deeper, and three that do not, beside files of other kinds."""
    folder = tmp_path / "models"
    for inside in ("deep", ".hidden", "net"):
        (folder / inside).mkdir(parents=True)
    (folder / "relu.tflite").write_bytes(_relu("RELU"))
    (folder / "deep" / "TANH.TFLITE").write_bytes(_relu("TANH", "float32"))
    (folder / ".hidden" / "no.tflite").write_bytes(_relu("RELU"))
    (folder / "damaged.tflite").write_bytes(_relu("RELU")[:-100])
    (folder / "vela.tflite").write_bytes(_relu("CUSTOM ethos-u"))
    (folder / "unknown.tflite").write_bytes(_relu("BUCKETIZE"))
    (folder / "net" / "graph.nnef").write_text(
        "version 1.0;\ngraph net(x) -> (y)\n{\n    x = external(shape = [1, 4]);\n    y = relu(x);\n}\n"
    )
    (folder / "README.md").write_text("no model")
    return folder


def test_a_folder_is_a_table_of_its_models(models: Path, tmp_path: Path) -> None:
    table, data = tmp_path / "t.csv", tmp_path / "t.json"
    status, out, err = command(
        "run", models, "--hw", "edge-32", "--hw", "edge-64", "--csv", table, "--json", data
    )
    assert (status, err) == (2, "npusim: 6 of 12 runs have no result\n")
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert [row["model"] for row in rows[::2]] == ["damaged", "TANH", "net", "relu", "unknown", "vela"]
    assert [row["model"] for row in rows if not row["fault"]][::2] == ["TANH", "net", "relu"]
    alone = npusim.run(models / "relu.tflite", "edge-64", timing_only=True)
    assert [row["cycles"] for row in rows if row["model"] == "relu"][1] == str(int(alone.cycles))
    runs = json.loads(data.read_text())["runs"]
    assert [run["fault"] for run in runs if "fault" in run] == [row["fault"] for row in rows if row["fault"]]
    said = out.splitlines()
    assert (
        f"vela on edge-32, edge-64: {models}/vela.tflite: already compiled for an Ethos-U by Vela; give the original"
        in said
    )
    assert (
        "unknown on edge-32, edge-64: 1 operator is not known to npusim: BUCKETIZE (1); "
        "npusim run --unknown host times them as host layers" in said
    )
    status, out, err = command("run", models, "--unknown", "host")
    assert (status, err) == (2, "npusim: 2 of 6 runs have no result\n")
    assert "unknown on" not in out


def test_a_bad_file_does_not_end_a_table(models: Path) -> None:
    status, out, err = command("run", models / "damaged.tflite", "digits_cnn")
    assert (status, err) == (2, "npusim: 1 of 2 runs have no result\n")
    assert [line.split()[0] for line in out.splitlines()[1:3]] == ["damaged", "digits_cnn"]


def test_a_folder_that_is_a_model_is_a_run(models: Path) -> None:
    status, out, _ = command("run", models / "net", "--timing-only")
    assert (status, out.splitlines()[0]) == (0, "net on edge-128")


def test_a_folder_without_models(tmp_path: Path) -> None:
    status, _, err = command("run", tmp_path)
    assert status == 2
    assert err.startswith(
        f"npusim: {tmp_path}: no model file below this folder; models end in .tflite, .lite, "
    )


def test_public_files_that_were_refused_run_or_say_what_to_do(shared: Path, tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    status, _, err = command("run", shared / "corpus", "--csv", table)
    assert (status, err) == (2, "npusim: 1 of 17 runs have no result\n")
    faults = {row["model"]: row["fault"] for row in csv.DictReader(table.read_text().splitlines())}
    assert faults.pop("person_detect_vela").endswith("by Vela; give the original")
    assert not any(faults.values())


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["--output", "o.npz"], "--output: goes with one model on one machine; this is a table of 2 models by 1"),
        (["--what-if"], "--what-if: goes with one model on one machine"),
        (["--hw", "edge-32", "--hw", "edge-32"], "edge-32: two of this hardware; a table has each once"),
        (["--hw", "edge-32", "--hw", "edge-33"], "no hardware is named"),
        (["--json", "a.out", "--csv", "a.out"], "--csv a.out: is also --json"),
        (["digits_cnn"], "digits_cnn: two of this model; a table has each once"),
        (["no_such"], "no_such: neither a file nor a built-in model"),
    ],
)  # fmt: skip
def test_mistakes_of_tables(
    words: list[str], fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, err = command("run", "digits_cnn", "ds_cnn", *words)
    assert (status, out) == (2, "")
    assert err.startswith(f"npusim: {fault}")
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_the_hardware_file_of_a_set_name_is_valid() -> None:
    settings = ["dma.channels=1", "mac_array.rows=8", "mac_array.columns=8", "clock_mhz=123.5"]
    made = npusim.hardware("edge-128", settings)
    assert made.name == "edge-128, dma.channels=1, mac_array.rows=8, mac_array.columns..."
    from npusim.isa.hardware import file as hardware_file

    assert hardware_file.from_dict(tomllib.loads(hardware_file.to_toml(made))) == made
