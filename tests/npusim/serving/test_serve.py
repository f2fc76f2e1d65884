"""`npusim serve` from its options to its files, and one line for every mistake before anything is compiled."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from hashlib import sha256
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import npusim
from npusim.frontends.transformer.config import config_of
from npusim.frontends.transformer.network import transformer
from npusim.isa.base.errors import NpusimError
from npusim.kernels.graph.check import check
from npusim.reports.serving.serving_page import render
from npusim.reports.serving.serving_text import limits, summary
from npusim.serving import service
from npusim.serving.arrivals import read
from npusim.serving.inferences import Rules
from npusim.serving.steps import Moves, busy_cycles, stops_of, weakest

from ...command_line import command
from ...json_documents import faults
from ..frontends.transformer.test_transformer import LLAMA
from .servings import queued, requests

TINY = config_of(LLAMA, "tiny")


def written(folder: Path, text: str) -> Path:
    path = folder / "requests.csv"
    path.write_text(text)
    return path


def test_an_inference_takes_what_run_says() -> None:
    alone = npusim.run("digits_cnn", "edge-128", timing_only=True)
    result = npusim.serve("digits_cnn", period_ms=1.0, count=5)
    assert list(result.log.end) == [at * 500_000 + int(alone.cycles) for at in range(5)]
    assert list(result.log.energy_uj) == [float(alone.energy_uj)] * 5
    assert result.total.total_ms.mean == pytest.approx(alone.latency_ms)


def test_busy_cycles_are_those_of_the_cycle_breakdown() -> None:
    result = npusim.run("ds_cnn", "edge-128", timing_only=True)
    expected = dict(result.accounts.network.busy)
    assert expected.pop("dma") == 0, "copies inside of the chip"
    assert busy_cycles(result) == expected


def test_an_inference_may_stop_where_its_layers_end() -> None:
    result = npusim.run("digits_cnn", "edge-128", timing_only=True)
    moves: Moves = {}
    stops = stops_of(result, moves)
    assert set(stops.cycle) == {
        int(result.cycles),
        *(layer.end_cycle for layer in result.layers if layer.end_cycle),
    }
    assert stops.energy_uj[-1] == pytest.approx(float(result.energy_uj))
    assert stops.store[-1].cycles == stops.load[-1].cycles == 0
    # The bytes in use take at least their time at the DRAM's port.
    use = result.scratchpad_use()
    for cycle, store, load in zip(stops.cycle[:-1], stops.store, stops.load, strict=False):
        held = int(use.sizes[use.cycles <= cycle][-1])
        least = held / result.hardware.dram_bytes_per_cycle
        assert (store, load) == moves[held]
        for move in moves[held] if held else ():
            assert least <= move.cycles < 2 * least + 500
            assert move.dram_bytes >= held
            assert least <= move.busy["dram"] <= move.cycles


def test_the_steps_of_a_language_model_are_programs(tmp_path: Path) -> None:
    """A prompt of 20 tokens in a bucket of 24, and two tokens with the keys of 20 and 21 others in the same."""
    path = written(tmp_path, "arrival_s,prompt_tokens,new_tokens,tenant\n0.5,20,3,a\n0.9,40,2,b\n")
    compiled: list[str] = []
    result = npusim.serve(TINY, "mobile-1024", requests=path, bucket=24, watch=compiled.append)
    assert compiled[:2] == ["prefill 1 x 48", "decode 1 x 1 after 48"], (
        "the largest, which may not fit, first"
    )

    def step(tokens: int, past: int) -> Any:
        program = npusim.compile(check(transformer(TINY, tokens=tokens, past=past)), "mobile-1024")
        return npusim.simulate(program, timing_only=True)

    first, token = step(24, 0), step(1, 24)
    assert result.log.first[0] - result.log.start[0] == first.cycles
    assert result.log.end[0] - result.log.first[0] == 2 * token.cycles
    assert result.log.energy_uj[0] == pytest.approx(float(first.energy_uj) + 2 * float(token.energy_uj))
    assert [step.name for step in result.log.steps] == [
        "prefill 1 x 24", "decode 1 x 1 after 24", "prefill 1 x 48", "decode 1 x 1 after 48",
    ]  # fmt: skip
    assert [group.name for group in result.by_tenant] == ["a", "b"]


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["static", "continuous", "chunked"])
def test_batches_of_real_programs_generate_as_many_tokens_sooner(policy: str) -> None:
    given: dict[str, Any] = {"rate": 1e6, "count": 12, "prompt_tokens": 20, "new_tokens": 9, "bucket": 32}
    alone = npusim.serve(TINY, "mobile-1024", **given)
    chunk = {"chunk": 16} if policy == "chunked" else {}
    together = npusim.serve(TINY, "mobile-1024", batching=policy, max_batch=4, **given, **chunk)
    assert together.total.tokens == alone.total.tokens == 12 * 9
    assert together.tokens_per_s > alone.tokens_per_s


def test_the_command_prints_and_writes_equal_files(tmp_path: Path) -> None:
    words = [
        "serve",
        "digits_cnn",
        "ds_cnn",
        "--rate",
        "900,300",
        "--priority",
        "1,0",
        "--deadline-ms",
        "1,9",
    ]
    words += ["--preempt", "--queue", "9", "--count", "200", "--seed", "4"]
    texts = []
    for name in "ab":
        targets = [tmp_path / f"{name}.json", tmp_path / f"{name}.csv"]
        status, out, err = command(*words, "--json", targets[0], "--csv", targets[1])
        assert (status, err) == (0, ""), err
        texts.append((out, *(each.read_text() for each in targets)))
    assert texts[0] == texts[1]
    out, values, table = texts[0]
    assert "What limits" in out
    assert not faults("serving", json.loads(values))
    policy = json.loads(values)["policy"]
    assert [policy[key] for key in ("rate", "count", "seed", "effort")] == [[900.0, 300.0], 200, 4, "fast"]
    assert len(list(csv.DictReader(table.splitlines()))) == 200


def test_a_language_model_prints_and_writes(tmp_path: Path) -> None:
    config = tmp_path / "tiny.json"
    config.write_text(json.dumps(LLAMA))
    path = written(
        tmp_path,
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "5,ChatGPT,12,3,15,Conversation log\n5,GPT-4,9,0,9,API log\n6,GPT-4,9,2,11,API log\n",
    )
    target = tmp_path / "out.json"
    status, out, err = command(
        "serve", config, "--requests", path, "--batching", "continuous", "--max-batch", "2", "--hw", "mobile-1024",
        "--bucket", "16", "--json", target,
    )  # fmt: skip
    assert (status, err) == (0, ""), err
    assert "which were left out: 1" in " ".join(out.split())
    assert "ESTIMATE" in out
    values = json.loads(target.read_text())
    assert not faults("serving", values)
    assert [group["name"] for group in values["tenants"]] == ["ChatGPT", "GPT-4"]
    assert values["all"]["tokens"] == 5
    assert values["policy"]["requests_sha256"] == sha256(path.read_bytes()).hexdigest()
    assert "count" not in values["policy"]


def test_the_weakest_claim_holds_for_all() -> None:
    known = queued(requests([0]), [100]).uncertainty
    unlike = replace(known, unlike="has an operator that no measured run has")
    assert weakest([known, unlike]) == weakest([unlike, known]) == unlike
    assert weakest([known, known]) == known


HEAD = "arrival_s,prompt_tokens,new_tokens,tenant\n"
LANGUAGE, SINGLE = ["qwen2_0.5b"], ["digits_cnn"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty; its first line must name the columns, such as arrival_s"),
        (HEAD, "has no requests; each is a line below that of the columns"),
        ("arrival_s,tenant\n1,a\n", "line 1: no column prompt_tokens and no new_tokens; it has arrival_s, tenant"),
        (f"{HEAD}0,5,6,a\n1,x,3,a\n", "line 3: prompt_tokens is x, must be a number"),
        (f"{HEAD}0,5,6,a\n1,1.5,3,a\n", "line 3: prompt_tokens is 1.5, must be a whole number"),
        (f"{HEAD}0,1_0,3,a\n", "line 2: prompt_tokens is 1_0, must be a number"),
        (f"{HEAD}0,5,0,a\n", "line 2: new_tokens is 0, must be 1 to 1073741824"),
        (f"{HEAD}nan,5,1,a\n", "line 2: arrival_s is nan, must be 0 to 1073741824"),
        (f"{HEAD}0,5,1\n", "line 2: has 3 cells, fewer than the columns of line 1"),
        (f"{HEAD}2,5,1,a\n\n1,5,1,a\n", "line 4: arrives at 1 s, before the one above (2 s); sort the file by it"),
        (f"{HEAD}0,5,1,a\n1,131000,100,a\n", "line 3: 131000 tokens and 100 new ones: 131099 have keys and values, "
         "qwen2_0.5b has 131072 positions"),
        ("arrival_s\xff\n", "not UTF-8 text at byte 9"),
    ],
)  # fmt: skip
def test_a_file_with_a_fault_is_refused_by_its_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "requests.csv"
    path.write_bytes(text.encode("latin-1"))
    status, out, err = command("serve", "qwen2_0.5b", "--requests", path, "--hw", "rk3588")
    assert (status, out) == (2, "")
    assert err == f"npusim: {path}: {message}\n"


HUGE = "9" * 400
"""A whole number that no float holds."""
RATE = ["--rate", "5", "--prompt-tokens", "9", "--new-tokens", "9", "--hw", "rk3588"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (SINGLE, "no requests: give one of --requests F.csv, --rate N (per second), --period-ms N"),
        ([*SINGLE, "--rate", "4", "--period-ms", "3"], "--rate and --period-ms: give one of"),
        ([*SINGLE, "--rate", "4,5"], "--rate 4,5: the models (digits_cnn) are 1, the numbers 2; give one for each"),
        ([*SINGLE, "--rate", "0"], "--rate 0: must be more than 0"),
        ([*SINGLE, "--rate", "inf"], "--rate inf: must be more than 0 and at most 1e+12"),
        ([*SINGLE, "--rate", "1_0"], "--rate 1_0: must be numbers, such as 40,15"),
        ([*SINGLE, "--rate", "x"], "--rate x: must be numbers, such as 40,15"),
        ([*SINGLE, "--period-ms", "-1"], "--period-ms -1: must be more than 0"),
        ([*SINGLE, "--rate", "4", "--count", "4", "--duration-s", "1"], "--count and --duration-s: give one of them"),
        ([*SINGLE, "--rate", "4", "--duration-s", "1e9"], "more than 10000000 requests"),
        ([*SINGLE, "--rate", "4", "--deadline-ms", "0"], "--deadline-ms 0: must be more than 0"),
        ([*SINGLE, "--rate", "4", "--deadline-ms", "1e305"], "--deadline-ms 1e+305: must be more than 0 and at most"),
        ([*SINGLE, "--period-ms", "1e308"], "--period-ms 1e+308: must be more than 0 and at most 1e+12"),
        ([*SINGLE, "--rate", "4", "--sleep-mw", "1e305"], "--sleep-mw 1e+305: must be a number from 0 to 1e+12"),
        ([*SINGLE, "--rate", "1e-300"], "requests arrive until 9.7"),
        ([*SINGLE, "--rate", "4", "--priority", "1.5"], "--priority 1.5: must be whole numbers, such as 1,0"),
        ([*SINGLE, "--rate", "4", "--priority", f"{HUGE},0"], "99999,0: the models (digits_cnn) are 1"),
        ([*SINGLE, "--rate", "4", "--priority", "1,2"], "--priority 1,2: the models (digits_cnn) are 1, the numbers 2"),
        ([*SINGLE, "--rate", "4", "--preempt"], "--preempt: needs models of different --priority"),
        ([*SINGLE, "--rate", "4", "--max-batch", "4"], "--max-batch: is for a language model; digits_cnn has none"),
        ([*SINGLE, *SINGLE, "--rate", "4,4"], "digits_cnn: is given twice"),
        (["digits_cn", "--rate", "4"], "digits_cn: neither a file nor a built-in model, did you mean digits_cnn?"),
        ([*LANGUAGE, "--rate", "4"], "--prompt-tokens and --new-tokens: each request to a language model needs both"),
        ([*LANGUAGE, *SINGLE, *RATE], "qwen2_0.5b: a language model is served alone"),
        ([*LANGUAGE, *RATE, "--queue", "3"], "--queue: is for single inferences; qwen2_0.5b is a language model"),
        ([*LANGUAGE, *RATE, "--batching", "all"], "--batching all: may be one, static, continuous, chunked"),
        ([*LANGUAGE, *RATE, "--batching", "static"], "--batching static: needs its size, --max-batch N"),
        ([*LANGUAGE, *RATE, "--batching", "chunked", "--max-batch", "2"], "--batching chunked and --chunk N: one"),
        ([*LANGUAGE, *RATE, "--cache-mib", "1e300"], "--cache-mib 1e+300: must be more than 0 and at most 1073741824"),
        ([*LANGUAGE, *RATE, "--cache-mib", "99999"], "and a cache of 104856551424 are more than the memories have"),
        ([*LANGUAGE, *RATE, "--cache-mib", "0.01"], "qwen2_0.5b: a page of 16 tokens has 98304 bytes, the cache 10486"),
        ([*LANGUAGE, *RATE, "--cache-mib", "0.1"], "request 0: 9 tokens and 9 new ones: 17 have keys and values, the "
         "cache has 1 page of 16; give more with --cache-mib"),
        (["t5_small", *RATE], "t5_small: has an encoder"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line(words: list[str], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("compiled")

    monkeypatch.setattr(service.api, "simulate", never)
    status, out, err = command("serve", *words)
    assert (status, out) == (2, "")
    assert err.startswith(f"npusim: {message}") or message in err
    assert err.count("\n") == 1


def test_several_models_are_named_in_a_file(tmp_path: Path) -> None:
    path = written(tmp_path, "arrival_s,model\n0,b\n1,a\n")
    assert read(path, ["a", "b"], 1.0, tokens=False).model.tolist() == [1, 0]
    with pytest.raises(NpusimError, match="line 3: model bb is not served, did you mean b"):
        read(written(tmp_path, "arrival_s,model\n0,b\n1,bb\n"), ["aa", "b"], 1.0, tokens=False)
    with pytest.raises(NpusimError, match="line 1: no column model"):
        read(written(tmp_path, "arrival_s\n0\n"), ["a", "b"], 1.0, tokens=False)


def test_two_files_of_one_name_are_no_repetition(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "net.onnx").write_bytes(b"")
    a, b = (str(tmp_path / folder / "net.onnx") for folder in ("a", "b"))
    status, _, err = command("serve", a, b, "--rate", "4,4")
    assert (status, err) == (2, f"npusim: net: is the name of {a} and {b}; give one a file name of its own\n")


def test_columns_and_tenants_are_named(tmp_path: Path) -> None:
    for text, fault in (
        ("arrival_s,arrival_s\n0,3\n", "line 1: column arrival_s is there twice; leave one of them out"),
        ('arrival_s,tenant\n0,"a\n1,b\n', "line 3: is no CSV: unexpected end of data"),
        ("arrival_s,tenant\n0,a\n1, \n", "line 3: tenant is empty, must be a name"),
    ):
        with pytest.raises(NpusimError, match=fault):
            read(written(tmp_path, text), ["a"], 1.0, tokens=False)
    # Columns that are not read may be there twice, and without a name.
    assert len(read(written(tmp_path, "note,note,,,arrival_s\n,,,,0\n"), ["a"], 1.0, tokens=False)) == 1


def test_a_program_that_does_not_fit_is_named(tmp_path: Path) -> None:
    """Five tokens of 64 requests are few pages, but their program reads 256 keys for each."""
    path = written(tmp_path, "arrival_s,prompt_tokens,new_tokens\n" + "0,5,4\n" * 64)
    small = npusim.hardware("edge-128", dram={"size_mib": 2})
    with pytest.raises(
        NpusimError, match=r"^program decode 64 x 1 after .* give a smaller --max-batch, --bucket"
    ):
        npusim.serve(TINY, small, requests=path, batching="continuous", max_batch=64)


def test_nothing_limits_what_never_runs() -> None:
    result = queued(requests([0]), [100], Rules(deadline_ms=[1e-6]))
    assert [phase.limited_by for phase in result.phases] == ["none"]
    assert [name for name, *_ in limits(result)] == ["queue", "machine"]
    assert "Half of them" not in render(result)
    assert "Half of them" in render(queued(requests([0]), [100]))
    console = Console(width=80, record=True, file=StringIO())
    console.print(summary(result, 80))
    text = console.export_text()
    assert "no request was answered" in text
    assert "0 uJ  per request" not in text
    assert "1 program, simulated once" in text
