"""What `import npusim` gives: the public names and no other, and results that show themselves."""

from __future__ import annotations

import pickle
import pydoc
import re
from dataclasses import replace
from pathlib import Path

import pytest

import npusim
from npusim.explore import Sampling, Study, Workload, explore
from npusim.numbers.run import RunResult
from npusim.study import study as data

from .study.spaces import digits, space_file

PUBLIC = {
    "Comparison", "Graph", "GraphBuilder", "Hardware", "NpusimError", "Program", "Quantization", "RunResult",
    "TensorType", "Verification", "WhatIf", "__version__",
    "caches_in_place", "compare", "compile", "generate", "hardware", "inferences", "load", "load_program", "models",
    "quantize", "register_operator", "reset_states", "run", "save_program", "serve", "simulate", "states", "system",
    "unregister_operator", "verify", "what_if",
}  # fmt: skip


@pytest.fixture(scope="module")
def result() -> npusim.RunResult:
    return npusim.run("digits_cnn", timing_only=True)


def test_dir_and_help_show_the_public_names_only() -> None:
    assert set(dir(npusim)) >= PUBLIC
    assert set(dir(npusim)) == set(npusim.__all__)
    told = pydoc.plain(pydoc.render_doc(npusim))
    functions = told.partition("\nFUNCTIONS\n")[2].partition("\nDATA\n")[0]
    assert set(re.findall(r"^    ([a-z_]\w*)(?:\(| = )", functions, re.M)) <= PUBLIC
    assert {"run", "simulate", "what_if"} <= set(re.findall(r"^    (\w+)\(", functions, re.M))


def test_a_result_is_the_same_data_and_shows_itself(result: npusim.RunResult) -> None:
    assert isinstance(result, RunResult)
    assert type(result) is npusim.RunResult
    assert "<table" in result._repr_html_()
    assert result.plot_timeline().axes
    again = pickle.loads(pickle.dumps(replace(result, source=None)))
    assert type(again) is npusim.RunResult
    assert again.to_dict()["cycles"] == result.to_dict()["cycles"]
    simulated = npusim.simulate(result.program, timing_only=True)
    assert type(simulated) is npusim.RunResult


@pytest.mark.slow
def test_what_results_are_compared_to_shows_itself(result: npusim.RunResult) -> None:
    tried = result.what_if(jobs=1)
    assert type(tried) is type(npusim.what_if(result.program, jobs=1)) is npusim.WhatIf
    assert "what if" in tried._repr_html_()
    compared = npusim.compare(result, result)
    assert type(compared) is npusim.Comparison
    assert "Comparison" in compared._repr_html_()


@pytest.mark.slow
def test_a_study_shows_itself(tmp_path: Path) -> None:
    space = space_file({"mac_array.rows": [8, 16]}).space
    made = explore([digits()], space, Sampling(kind="grid"), tmp_path / "s")
    assert isinstance(made, data.Study)
    assert type(made) is type(Study.open(tmp_path / "s")) is Study
    assert "2 points" in made._repr_html_()
    assert isinstance(digits(), Workload)
