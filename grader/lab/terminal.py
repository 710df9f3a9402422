"""Text for a terminal: what a learner wrote can't move the cursor, recolour or rewrite the screen."""

from __future__ import annotations

import unicodedata

# Everything but letters, marks, numbers, punctuation and spaces: control characters, the invisible
# ones that reorder text, halves of surrogate pairs, and code points without a meaning.
_UNSAFE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def plain(text: str) -> str:
    """``text`` with every character that a terminal might obey written out, as in ``\\x1b``."""
    return "".join(
        character
        if character in "\n\t" or unicodedata.category(character) not in _UNSAFE
        else character.encode("unicode_escape").decode("ascii")
        for character in text
    )
