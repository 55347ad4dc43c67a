"""The one escaper: nothing that was stored can steer a terminal, hide or swap what is read.

Escaped are the controls (C0, DEL, C1), the line separators, lone surrogates and everything
that Unicode calls ignorable: zero-width, bidirectional, variation, tag and filler characters.
"""

import json
import re

_HIDDEN = (
    "\x00-\x1f\x7f-\x9f"  # C0, DEL, C1
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"  # soft hyphen, fillers, marks
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f"  # zero-width, separators, bidirectional
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"  # fillers, variation, annotation
    "\ud800-\udfff"  # lone surrogates
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"  # shorthand, music, tags
)
_IN_JSON = re.compile(f"[{_HIDDEN}]")
_IN_TEXT = re.compile(rf"[\\{_HIDDEN}]")
_ONE_BYTE, _TWO_BYTES = 0xFF, 0xFFFF


def escape(text: str) -> str:
    r"""Return text that is safe to print: ``\x1b``, ``\u202e``; a backslash is doubled."""
    return _IN_TEXT.sub(lambda match: _spelled(match[0]), text)


def to_json(value: object) -> str:
    r"""Return a value as one line of JSON in which hidden characters are ``\u`` escapes."""
    text = json.dumps(value, ensure_ascii=False, separators=(", ", ": "))
    return _IN_JSON.sub(lambda match: _units(match[0]), text)


def _spelled(character: str) -> str:
    if character == "\\":
        return "\\\\"
    number = ord(character)
    if number <= _ONE_BYTE:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number <= _TWO_BYTES else f"\\U{number:08x}"


def _units(character: str) -> str:
    """Spell a character as JSON does: one or two UTF-16 units."""
    encoded = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{encoded[at : at + 2].hex()}" for at in range(0, len(encoded), 2))
