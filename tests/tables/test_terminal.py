"""Nothing in a label acts on the terminal."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isobag.tables.terminal import escape_for_terminal


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain größe 値 €", "plain größe 値 €"),
        ("C:\\data", "C:\\data"),
        ("\x1b[2J\x1b[H", "\\x1b[2J\\x1b[H"),
        ("\x1b]52;c;aGk=\x07", "\\x1b]52;c;aGk=\\x07"),
        ("\x1b]0;title\x1b\\", "\\x1b]0;title\\x1b\\\\"),
        ("\x9b31m\x90q\x9c", "\\x9b31m\\x90q\\x9c"),
        ("a\r\nb\tc\0", "a\\r\\nb\\tc\\x00"),
        ("\u202eevil\u2066\u200b\u2028", "\\u202eevil\\u2066\\u200b\\u2028"),
        ("\ud800\U000e0041", "\\ud800\\U000e0041"),
    ],
)
def test_what_acts_or_hides_is_shown(text, shown):
    assert escape_for_terminal(text) == shown


@given(st.text())
def test_no_text_acts_and_none_is_lost(text):
    shown = escape_for_terminal(text)
    assert not any(unicodedata.category(one) in ("Cc", "Cf", "Cs", "Zl", "Zp") for one in shown)
    if shown != text:
        assert shown.encode("latin-1", "backslashreplace").decode("unicode_escape") == text
