"""Batching of language models: time lines to the cycle, equal tokens under every policy, and a cache that fills."""

from __future__ import annotations

from math import fsum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.serving.batching import BATCHINGS, Plan

from ...examples import examples
from .servings import Steps, batched, plan, requests

STEPS = Steps(fixed=1000, sequence=10, token=3)
"""A prompt of n tokens takes 1010 + 3 n cycles, a token of b sequences 1000 + 13 b."""


def test_one_by_one_is_the_sum_of_its_steps() -> None:
    result = batched(requests([0, 100], tokens=[(20, 3), (40, 2)]), plan("one"), STEPS)
    first = 1010 + 60 + 2 * 1013
    assert list(result.log.first) == [1070, first + 1130]
    assert list(result.log.end) == [first, first + 1130 + 1013]
    assert result.total.token_ms.mean == pytest.approx(1013e-6)


def test_continuous_batching_joins_at_the_end_of_a_step() -> None:
    """The second arrives while the first generates: its prompt is next, then both generate together."""
    result = batched(requests([0, 1500], tokens=[(20, 4), (40, 2)]), plan("continuous", 2), STEPS)
    second = 1070 + 1013
    assert list(result.log.start) == [0, second]
    assert list(result.log.first) == [1070, second + 1130]
    together = second + 1130 + 1026
    assert list(result.log.end) == [together + 1013, together]
    assert sorted(result.log.gaps.items()) == [(1013, 2), (1026, 1), (1130 + 1026, 1)]


def test_a_chunked_prompt_lets_others_generate_between_its_chunks() -> None:
    """A prompt of 40 tokens in chunks of 20: the first sequence gets a token after each."""
    result = batched(requests([0, 1500], tokens=[(20, 4), (40, 2)]), plan("chunked", 2, chunk=20), STEPS)
    first = 1070 + 1013  # the prompt of the first is one chunk, and it generates
    assert result.log.first[1] == first + 1070 + 1013 + 1070
    assert sorted(result.log.gaps) == [1013, 1026, 1070 + 1013, 1070 + 1026]


def test_a_static_batch_takes_what_waits_and_ends_as_a_whole() -> None:
    """The first alone; the other two as a batch of two, whose prompts are as long as the longer one's."""
    result = batched(requests([0, 1, 2], tokens=[(20, 2), (40, 3), (20, 1)]), plan("static", 2), STEPS)
    alone = 1070 + 1013
    read = alone + 1000 + 2 * 130
    assert list(result.log.first) == [1070, read, read]
    assert list(result.log.end) == [alone, read + 2 * 1026, read]


def test_who_arrives_when_a_step_ends_is_there_when_the_machine_decides() -> None:
    """The first prompt ends in cycle 1070, whether another request arrives during it or not."""
    tokens = [(20, 1), (20, 1), (20, 2)]
    for second in (1069, 1070):
        result = batched(requests([0, second, 1070], tokens=tokens), plan("static", 2), STEPS)
        assert list(result.log.start) == [0, 1070, 1070]


def test_a_static_batch_fits_the_positions_when_it_is_padded() -> None:
    """The longest prompt and the longest answer of a batch are behind each other: 20 + 30 - 1 positions of 48."""
    asked = requests([0, 0, 0], tokens=[(10, 30), (20, 4), (10, 29)])
    static = Plan("static", 3, 0, 1, 1 << 20, 4, positions=48)
    result = batched(asked, static)
    assert max(step.past + step.tokens for step in result.log.steps) <= 48
    assert list(result.log.run_batch)[:1] == [1], "the second does not fit behind the first"
    assert result.log.start[1] == result.log.start[2] == result.log.end[0], "but with the third: 20 + 29 - 1"
    assert result.total.tokens == 63


def test_a_static_batch_has_pages_for_its_padding() -> None:
    """Prompts of 4 and 12 tokens are 1 and 3 pages of 4, but together both are 3 pages long."""
    asked = requests([0, 0], tokens=[(4, 1), (12, 1)])
    for pages, batches, peak in ((5, [1, 1], 3), (6, [2], 6)):
        result = batched(asked, plan("static", 2, pages=pages))
        assert result.cache is not None
        assert (list(result.log.run_batch), result.cache.peak) == (batches, peak)


def test_lengths_are_rounded_up_to_buckets() -> None:
    powers = Plan("continuous", 6, 0, 0, 8, 16, positions=1000)
    assert [powers.length(each) for each in (1, 128, 129, 300, 600)] == [128, 128, 256, 512, 1000]
    assert [powers.past(each, 1) for each in (0, 1, 256, 257, 600, 999)] == [0, 256, 256, 512, 999, 999]
    assert powers.past(900, 30) == 970
    multiples = Plan("continuous", 6, 0, 48, 8, 16)
    assert [multiples.length(each) for each in (1, 48, 49, 1000)] == [48, 48, 96, 1008]
    assert [multiples.past(each, 1) for each in (1, 48, 49, 1000)] == [48, 48, 96, 1008]
    assert [powers.batch(each) for each in (1, 2, 3, 4, 5, 6)] == [1, 2, 4, 4, 6, 6]


def test_a_full_cache_stops_the_youngest_and_computes_it_again() -> None:
    """Six pages of 4 tokens: both prompts of 8 fit with a page for the first's new tokens and one for the second's."""
    result = batched(requests([0, 0], tokens=[(8, 9), (8, 9)]), plan("continuous", 2, pages=6), STEPS)
    cache = result.cache
    assert cache is not None
    assert (cache.stops, cache.peak, list(result.log.stops)) == (1, 6, [0, 1])
    # The second had read 8 tokens and generated 4 more when the first needed a seventh page.
    assert cache.again == 12
    assert result.total.tokens == 18
    again = [step for step in result.log.steps if step.tokens == 13]
    assert len(again) == 1, "its prompt and the five tokens that it has"


asked = st.lists(
    st.tuples(st.integers(0, 3000), st.integers(1, 30), st.integers(1, 12)), min_size=1, max_size=14
)


@examples(60)
@given(
    asked, st.integers(1, 5), st.sampled_from([12, 20, 1000]), st.integers(1, 9), st.sampled_from([0, 1, 8])
)
def test_every_policy_generates_the_same_tokens(
    rows: list[tuple[int, int, int]], most: int, pages: int, chunk: int, bucket: int
) -> None:
    arrivals = requests(
        [sum(gap for gap, *_ in rows[: at + 1]) for at in range(len(rows))], tokens=[row[1:] for row in rows]
    )
    new = [row[2] for row in rows]
    for policy in BATCHINGS:
        size = 1 if policy == "one" else most
        result = batched(
            arrivals,
            plan(policy, size, chunk=chunk if policy == "chunked" else 0, pages=pages, bucket=bucket),
        )
        assert result.total.tokens == sum(new)
        # Tokens times their mean time is the time in which they came.
        further = sum(each - 1 for each in new)
        gaps = sum(end - first for end, first in zip(result.log.end, result.log.first, strict=True))
        assert result.log.gaps.total() == further
        assert sum(gap * number for gap, number in result.log.gaps.items()) == gaps
        spent = fsum(step.energy_uj * runs for step, runs in zip(result.log.steps, result.runs, strict=True))
        assert fsum(result.log.energy_uj) == pytest.approx(spent)
        assert result.busy_cycles == sum(
            step.cycles * runs for step, runs in zip(result.log.steps, result.runs, strict=True)
        )
        cache = result.cache
        assert cache is not None
        assert 0 < cache.mean <= cache.peak <= pages
        assert cache.stops == sum(result.log.stops)
        assert all(at <= start < first <= end for at, start, first, end in zip(
            arrivals.arrival.tolist(), result.log.start, result.log.first, result.log.end, strict=True))  # fmt: skip


@examples(60)
@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(1, 20)), min_size=2, max_size=20), st.integers(2, 8)
)
def test_continuous_batching_of_waiting_requests_is_never_slower(
    tokens: list[tuple[int, int]], most: int
) -> None:
    """Steps that read the weights once for all sequences, which is most of their time."""
    waiting, steps = requests([0] * len(tokens), tokens=tokens), Steps(past=1)
    alone = batched(waiting, plan("one", bucket=16), steps)
    together = batched(waiting, plan("continuous", most, bucket=16), steps)
    assert together.tokens_per_s >= alone.tokens_per_s
