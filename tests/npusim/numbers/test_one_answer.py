"""Reason, bound, levers and busy times of a run never contradict each other, on page, terminal and in the JSON."""

from __future__ import annotations

from dataclasses import replace

import pytest

from npusim.isa.hardware.file import list_presets
from npusim.numbers.answer import CLOCK, WAITS
from npusim.reports.run import html, terminal
from npusim.reports.words.reason import ending
from npusim.session import api
from npusim.study.levers import levers

CLASSES = {"host": "host", "mac": "compute", "vector": "compute", "dma": "compute"}


@pytest.mark.slow
@pytest.mark.cases(4)
@pytest.mark.parametrize("preset", list_presets())
@pytest.mark.parametrize("model", ["digits_cnn", "ds_cnn"])
def test_an_answer_does_not_contradict_itself(model: str, preset: str) -> None:
    ran = api.run(model, preset, timing_only=True)
    tried = levers(api.load(model), ran, file=model)
    result = replace(ran, tried=tried)
    found = result.answer
    assert found is not None
    gains = {each.relieves: 0.0 for each in tried.levers}
    for each in tried.levers:
        gains[each.relieves] = max(gains[each.relieves], -each.latency_percent)
    named = {name: gain for name, gain in gains.items() if name in found.busy or name in WAITS}
    if max(named.values(), default=0) >= 1:
        assert found.reason.by == max(named, key=lambda name: named[name])
        expected = "" if found.reason.by in WAITS else CLASSES.get(found.reason.by, "memory")
        assert found.bound == expected
        assert found.levers
        assert next(each.relieves for each in found.levers if each.relieves != CLOCK) == found.reason.by
    else:
        assert not found.bound
    plain = result.to_dict()
    busiest = max(found.busy, key=lambda name: found.busy[name])
    assert found.busy[plain["bound_by"]] == found.busy[busiest]
    assert (plain["answer"]["reason"]["by"], plain["answer"]["bound"]) == (
        found.reason.by,
        found.bound or None,
    )
    # Where another unit works longer than the one that is named, the same sentence says so.
    sentence = ending(result)[0].words
    if found.reason.by != busiest and found.reason.by != "host" and found.busy[busiest] >= 0.1:
        assert f"{100 * found.busy[busiest]:.1f} %" in sentence
    shown, page = " ".join(terminal.render(result).split()), html.render(result)
    assert sentence.split(",")[0] in shown
    for bound in {"memory", "compute", "host"} - {found.bound}:
        assert f"({bound}-bound)" not in shown
        assert f"({bound}-bound)" not in page
