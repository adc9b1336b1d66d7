"""Escaping of characters that a terminal obeys or a reader does not see.

Payloads, keys, headers, names, reasons and error texts of remote systems can hold control sequences that move the
cursor, line ends that forge a line, and marks that reorder or hide text. They are written as Python would write them in
a literal: ``\\n``, ``\\x1b``, ``\\u202e``. A backslash is left as it is: the text is for reading, not for parsing.
"""

from __future__ import annotations

import re
from typing import Final

_RANGES: Final = (
    (0x0000, 0x001F),  # C0
    (0x007F, 0x009F),  # DEL and C1
    (0x00AD, 0x00AD),
    (0x034F, 0x034F),
    (0x0600, 0x0605),
    (0x061C, 0x061C),
    (0x06DD, 0x06DD),
    (0x070F, 0x070F),
    (0x0890, 0x0891),
    (0x08E2, 0x08E2),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x200B, 0x200F),  # zero width, marks of direction
    (0x2028, 0x202E),  # ends of lines and paragraphs, embeddings and overrides of direction
    (0x2060, 0x206F),  # invisible operators, isolates
    (0x3164, 0x3164),
    (0xD800, 0xDFFF),  # halves of surrogate pairs, which no terminal can be sent
    (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFFB),
    (0x110BD, 0x110BD),
    (0x110CD, 0x110CD),
    (0x13430, 0x1345F),
    (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),  # tags
)
"""Unicode's categories Cc, Cf, Cs, Zl and Zp, and default ignorable code points; ends included."""

_FORBIDDEN: Final = re.compile("[" + "".join(f"{chr(first)}-{chr(last)}" for first, last in _RANGES) + "]")
_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_BMP_LAST: Final = 0xFFFF
_BYTE_LAST: Final = 0xFF


def is_safe(text: str) -> bool:
    """Return True if a terminal shows every character of ``text`` and interprets none as control."""
    return _FORBIDDEN.search(text) is None


def visible(text: str) -> str:
    """Return ``text`` on one line, with unsafe characters escaped."""
    return _FORBIDDEN.sub(_escaped, text)


def visible_json(document: str) -> str:
    """Return an equivalent JSON document without unsafe characters; its own line ends are kept."""
    return "\n".join(_FORBIDDEN.sub(_escaped_in_json, line) for line in document.split("\n"))


def _escaped(found: re.Match[str]) -> str:
    character = found.group()
    number = ord(character)
    if character in _SHORT:
        return _SHORT[character]
    if number <= _BYTE_LAST:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number <= _BMP_LAST else f"\\U{number:08x}"


def _escaped_in_json(found: re.Match[str]) -> str:
    number = ord(found.group())
    if number <= _BMP_LAST:
        return f"\\u{number:04x}"
    number -= _BMP_LAST + 1
    return f"\\u{0xD800 + (number >> 10):04x}\\u{0xDC00 + (number & 0x3FF):04x}"
