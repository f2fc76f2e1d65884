"""Every JSON document that npusim writes is what docs/json.md and the schema say, key by key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from npusim.cli.typer_app import app
from npusim.reports.json_schema import schema
from npusim.reports.words.json_keys import DOCUMENTS, PARTS

from ..json_documents import Draft202012Validator, faults
from ..litert.test_control import looping


def command(*words: str | Path) -> None:
    done = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code in (0, 3), done.output  # 3: --fail-if holds
    assert "Traceback" not in done.output


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(schema())


def test_every_row_has_a_meaning_and_a_known_type() -> None:
    plain = {"string", "integer", "number", "boolean", "object", "any"}
    parts = {f"@{name}" for name in (*DOCUMENTS, *PARTS, "hardware")}
    for each in (*DOCUMENTS.values(), *PARTS.values()):
        assert len({key.path for key in each.keys}) == len(each.keys)
        for key in each.keys:
            assert key.meaning.endswith((".", ")")), key
            assert set(key.type.removesuffix("?").removeprefix("list of ").split(" or ")) <= plain | parts, (
                key
            )


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """What the commands write, by the document that it must be."""
    folder = tmp_path_factory.mktemp("documents")
    a, b, c = (folder / f"{name}.json" for name in "abc")
    command("run", "digits_cnn", "--json", a)
    command("run", "digits_cnn", "--hw", "gap9", "--timing-only", "--what-if", "--json", b)
    command("run", "digits_cnn", "--device", "edge-128", "--device", "cortex-m7", "--json", c)
    command("run", "digits_cnn", "ds_cnn", "--hw", "edge-32", "--timing-only", "--report", folder / "table")
    command("compare", a, b, "--json", folder / "compare.json", "--fail-if", "latency_ms>+10%")
    looped, loops = folder / "loops.json", folder / "looping.tflite"
    loops.write_bytes(looping())
    command("run", loops, "--timing-only", "--decide", "looping/y=3", "--json", looped)
    lists = {"presets": ["hw", "list"], "models": ["models"], "operators": ["ops"]}
    lists["operations"] = ["ops", "--format", "onnx"]
    for name, words in lists.items():
        command(*words, "--json", folder / f"{name}.json")
    return {
        **{name: [json.loads((folder / f"{name}.json").read_text())] for name in lists},
        "run": [json.loads(each.read_text()) for each in (a, b, c)],
        "table": [json.loads((folder / "table" / "runs.json").read_text())],
        "comparison": [json.loads((folder / "compare.json").read_text())],
        "job": [json.loads(looped.read_text())],
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["run", "table", "comparison", "job", "presets", "models", "operators", "operations"]
)
def test_documents_have_the_keys_of_the_table_and_no_others(
    documents: dict[str, list[Any]], name: str
) -> None:
    for value in documents[name]:
        assert not faults(name, value)


@pytest.mark.slow
def test_a_key_that_no_row_names_is_seen(documents: dict[str, list[Any]]) -> None:
    (value, *_) = documents["run"]
    assert faults("run", value | {"another": 1})
    assert faults("run", {key: each for key, each in value.items() if key != "macs"})
    assert faults("run", value | {"macs": "many"})
    assert faults("run", value | {"layers": [value["layers"][0] | {"another": 1}]})
    assert faults("run", value | {"hardware": value["hardware"] | {"another": 1}})
    assert not list(Draft202012Validator(schema()).iter_errors(value | {"another": 1}))
