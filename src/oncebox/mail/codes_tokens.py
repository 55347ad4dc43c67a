"""Tokens of a page: everything on it that is written like a code and belongs to nothing else."""

from oncebox.mail import codes_folding, codes_foreign, codes_shapes
from oncebox.mail.codes_place import Sheet
from oncebox.mail.codes_shapes import Token


def find(sheet: Sheet) -> list[Token]:
    """Return what on a page may be a code."""
    return [token for token in _tokens(sheet) if _stands_free(sheet, token)]


def _tokens(sheet: Sheet) -> list[Token]:
    found = codes_shapes.tokens(sheet.text)
    taken = {(token.start, token.end) for token in found}
    for block in sheet.blocks()[: codes_shapes.MOST]:
        token = codes_shapes.whole(sheet.text, block.start, block.end)
        if token is not None and (token.start, token.end) not in taken:
            found.append(token)
    return found


def _stands_free(sheet: Sheet, token: Token) -> bool:
    """Say whether it is what it looks like, and belongs to nothing else."""
    return not (
        codes_foreign.is_foreign(sheet.text, token)
        or codes_foreign.touches_letters(sheet.text, token)
        or codes_folding.is_mixed(sheet.page.text[token.start : token.end])
    )
