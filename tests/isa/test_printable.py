"""Text from outside on a line: all of it visible, nothing of it obeyed."""

from __future__ import annotations

import sys
import unicodedata

import pytest

from npusim.isa.base.errors import (
    LONGEST_MESSAGE,
    NpusimError,
    printable,
    printable_lines,
    replaced,
    visible,
    within,
)

SHOWN = [
    ("conv2d/Relu", "conv2d/Relu"),
    ("Größe 大きさ é", "Größe 大きさ é"),
    ("\x1b[31m", "\\x1b[31m"),
    ("a\nb\rc\td", "a\\nb\\rc\\td"),
    ("\x9b2J", "\\x9b2J"),
    ("user\u202egpj.exe", "user\\u202egpj.exe"),
    ("zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"),
    ("filler\u3164\u115f\ufe0f", "filler\\u3164\\u115f\\ufe0f"),
    ("line\u2028para\u2029", "line\\u2028para\\u2029"),
    ("tag\U000e0041", "tag\\U000e0041"),
    ("half\udc80", "half\\udc80"),
]


@pytest.mark.parametrize(("text", "shown"), SHOWN)
def test_what_is_hidden_is_shown(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert visible(shown)
    assert printable(shown) == shown


def test_no_control_and_no_mark_without_width_passes() -> None:
    for code in range(sys.maxunicode + 1):
        mark = chr(code)
        if unicodedata.category(mark) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
            assert not visible(mark), hex(code)


def test_lines_stay_lines() -> None:
    assert printable_lines("a\nb\x1bc\r\n\u202e\n") == "a\nb\\x1bc\\r\n\\u202e\n"
    assert printable_lines("plain\ntext\n") == "plain\ntext\n"


def test_shortened_text_has_question_marks() -> None:
    assert replaced("a\x1bb\u202ec", 10) == "a?b?c"
    assert replaced("abcdef", 3) == "abc..."


@pytest.mark.parametrize(
    ("text", "shorter"),
    [
        (f"x: shape [{', '.join(['1'] * 1000)}], at most 64", "x: shape [1, 1, 1, ..., 1], at most 64"),
        (f"size {', '.join(f'n{i}' for i in range(99))} is open", "size n0, n1, n2, ..., n98 is open"),
        (f"input {'q' * 5000}: is open", f"input {'q' * 20}...{'q' * 35}: is open"),
        ("; ".join(f"layer {i}: the format has no {'such' * 9}" for i in range(30)), None),
        ("where: " + "word " * 5000 + "remedy", None),
        ("where: " + "[[1, 2], [3, 4]], " * 99 + "remedy", None),
        ("x" * 10_000_000, f"{'x' * 20}...{'x' * 36}"),
    ],
)  # fmt: skip
def test_long_messages_keep_their_ends(text: str, shorter: str | None) -> None:
    found = within(text)
    assert found == shorter or shorter is None
    assert len(found) <= LONGEST_MESSAGE
    assert found[:5] == text[:5]
    assert found[-5:] == text[-5:]
    assert found == within(found)
    assert str(NpusimError(text)) == found


def test_messages_that_fit_stay() -> None:
    text = "a, b, c, d, e, f, g; " * 18
    assert len(text) < LONGEST_MESSAGE
    assert within(text) == text
