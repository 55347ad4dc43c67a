"""Parse limits and warning codes."""

import msgspec


class ParseLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of parsing; a mail that exceeds one of them is ``limited``."""

    #: nesting depth of multiparts
    depth: int = 20
    #: number of parts
    parts: int = 200
    #: bytes of the header of a mail, of one field, and the number of fields
    headers: int = 256 * 1024
    field: int = 64 * 1024
    fields: int = 1_000
    #: addresses in all fields of one name
    addresses: int = 1_000
    #: bytes of the text parts, after transfer decoding
    text: int = 2 * 1024 * 1024
    #: characters that are searched for codes and links, of all text parts together
    extracted: int = 256 * 1024
    #: number of HTML tags, and nesting depth of elements
    tags: int = 50_000
    nesting: int = 500


#: description by code; docs/reference/states.md shows this table
WARNING_MEANINGS = {
    "addresses_cut": "There are more addresses than are kept.",
    "attachment_name_odd": "An attachment's name has a path, control or direction characters.",
    "bidi_characters": "The text contains direction control characters.",
    "charset_repaired": "Bytes did not fit the declared charset, or UTF-8 without one.",
    "charset_unknown": "A charset is not supported; the bytes are shown as Latin-1.",
    "date_unreadable": "The Date field is not a valid date.",
    "doubtful_text": "There is text that may be hidden, by a style that is not computed.",
    "encoding_unknown": "A part has an unknown transfer encoding.",
    "extraction_limit": "The text is over a limit; codes and links were searched at its beginning.",
    "foreign_verdict": "The mail contains verdicts about its own sender; they are ignored.",
    "from_ambiguous": "Mail programs may disagree about the sender.",
    "header_limit": "The header is over a limit; the rest was not read.",
    "headers_broken": "A line of the header is not a field; the body begins there.",
    "hidden_text": "There is text that a reader would not see.",
    "html_limit": "The HTML is over a limit; the rest was not read.",
    "invisible_characters": "The text has invisible characters.",
    "message_id_repeated": "There are several Message-ID fields; the first one counts.",
    "parts_limit": "There are too many parts, or they are nested too deeply.",
    "recipients_ambiguous": "Mail programs may disagree about the recipients.",
    "structure_broken": "A multipart has no boundary; it is read as text.",
    "text_html_differ": "The text part and the HTML part differ.",
    "text_limit": "The text is over a limit; the rest was not read.",
}

#: warnings that make a mail ``limited``
LIMIT_WARNINGS = frozenset({
    "extraction_limit", "header_limit", "html_limit", "parts_limit", "text_limit",
})  # fmt: skip
