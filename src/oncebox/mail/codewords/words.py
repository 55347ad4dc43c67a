"""What is known of a language: its words, by what they say of a number beside them.

Words are separated by commas and may be phrases. They are compared without accents, in lower
case, with hyphens as spaces. A word is matched where a word begins, whatever its ending;
``=word`` only as it stands, ``~word`` also inside of others, as in compounds and in scripts that
do not put spaces between words.
"""

import msgspec


class Words(msgspec.Struct, frozen=True, kw_only=True):
    """The words of one language."""

    #: what a one-time code is called
    code: str
    #: what codes are for
    purpose: str
    #: what a reader is asked to do with it, and where it stands
    ask: str
    #: how long it is good, and who may see it
    limit: str
    #: what other numbers are called: orders, tickets, parcels, telephones, errors
    other: str
    #: what is worth money: vouchers and rebates, whose names have a word for code in them
    gift: str
    #: passwords that stay, unless a word for code or for once stands with them
    standing: str
    #: gatherings and journeys, which have passcodes and confirmation codes of their own
    event: str = ""
    #: the most frequent words, by which the language is known
    common: str
