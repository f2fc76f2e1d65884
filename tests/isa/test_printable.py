"""Text from outside on a line: all of it visible, nothing of it obeyed."""

from __future__ import annotations

import sys
import unicodedata

import pytest

from npusim.isa.base.printable import printable, printable_lines, replaced, visible

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
