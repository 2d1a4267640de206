"""Escape control characters in untrusted text before it reaches a terminal."""

import unicodedata
from typing import Any

LONGEST = 300
_NAMES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}
_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp", "Co", "Cn")
"""Control characters (among them those of ANSI and OSC sequences), marks of direction and other invisible ones, halves
of pairs, ends of lines and paragraphs, and characters without an agreed form."""


def escape_for_terminal(text: str) -> str:
    r"""The text in which every character that acts or hides is written as an escape; all others as they are.

    Backslashes are doubled if anything in the text is escaped, so that they cannot be mistaken for escapes.

    >>> escape_for_terminal("a\x1b[2Jb"), escape_for_terminal("größe \u202e"), escape_for_terminal("C:\\data")
    ('a\\x1b[2Jb', 'größe \\u202e', 'C:\\data')
    """
    if not any(unicodedata.category(character) in _HIDDEN for character in text):
        return text
    return "".join(map(_shown, text))


def shown(text: Any, most: int = LONGEST) -> str:
    """Text for people to read: cut in the middle if long, what acts or hides written out as on a terminal."""
    whole = str(text)
    half = most // 2
    return escape_for_terminal(whole if len(whole) <= most else f"{whole[:half]}…{whole[-half:]}")


def _shown(character: str) -> str:
    if character in _NAMES:
        return _NAMES[character]
    if unicodedata.category(character) not in _HIDDEN:
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
