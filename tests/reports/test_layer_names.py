"""Short names of layers: they fit, they are printable, and different layers have different ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.reports.words.names import PLAIN_CUT, main_name, short_names
from npusim.reports.words.quantities import printable


def test_what_all_share_is_cut() -> None:
    names = ["net/block_1/conv/transform", "net/block_2/conv/transform", "net/block_10/pool/transform"]
    assert short_names(names, 40) == ["1/conv", "2/conv", "10/pool"]


def test_what_most_share_goes_first() -> None:
    """Nine of ten hottest layers that were all called "..._transform"."""
    names = [f"encoder/layer_{at}/attention/output_transform" for at in range(9)] + ["classifier"]
    short = short_names(names, 18, PLAIN_CUT)
    assert all(f"_{at}" in name for at, name in enumerate(short[:9]))
    assert short[9] == "classifier"


def test_a_single_name_and_equal_names_stay() -> None:
    assert short_names(["conv"], 10) == ["conv"]
    assert short_names(["conv", "conv"], 10) == ["conv", "conv"]
    assert short_names([], 10) == []


def test_what_differs_is_shown_where_words_do_not_tell() -> None:
    names = ["a" * 30 + "x" + "a" * 30, "a" * 30 + "y" + "a" * 30]
    first, second = short_names(names, 16)
    assert ("x" in first, "y" in second) == (True, True)


NAME = st.text(st.characters(codec="ascii", exclude_categories=("Cc",)) | st.sampled_from("/_1"), max_size=40)


@given(st.lists(NAME, max_size=8), st.integers(8, 30), st.sampled_from(["…", PLAIN_CUT]))
def test_short_names_fit(names: list[str], width: int, cut: str) -> None:
    found = short_names(names, width, cut)
    assert len(found) == len(names)
    assert all(len(name) <= width and name.isprintable() for name in found)


@pytest.mark.parametrize("width", [12, 16, 24])
def test_layers_of_networks_keep_different_names(width: int) -> None:
    names = [
        f"MobilenetV2/expanded_conv_{at}/{part}"
        for at in range(17)
        for part in ("expand/Relu6", "depthwise/Relu6", "project/add_fold")
    ]
    assert len(set(short_names(names, width))) == len({printable(main_name(name)) for name in names})
