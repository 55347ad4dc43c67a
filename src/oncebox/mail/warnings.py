"""Warnings: the codes of what a reader of a mail should know."""

#: by code, one sentence each; the page on mail shows this table
MEANINGS = {
    "addresses_cut": "There are more addresses than are kept.",
    "attachment_name_odd": "An attachment's name has a path, control or direction characters.",
    "bidi_characters": "The text changes its direction by control characters.",
    "charset_repaired": "Bytes did not fit the charset that was named, or UTF-8 where none was.",
    "charset_unknown": "A charset is not one we decode; the bytes are shown as Latin-1.",
    "date_unreadable": "The Date field is no date.",
    "encoding_unknown": "A part names a transfer encoding that nobody uses for mail.",
    "foreign_verdict": "The mail brings verdicts of its own about its sender; they do not count.",
    "from_ambiguous": "Readers may disagree about who it is from.",
    "header_limit": "The header is over a limit; what is beyond was not read.",
    "headers_broken": "A line of the header is no field; the body begins there.",
    "hidden_text": "There is text that a person would not see.",
    "html_limit": "The HTML is over a limit; what is beyond was not read.",
    "invisible_characters": "The text has characters that nobody sees.",
    "message_id_repeated": "There are several Message-ID fields; the first one counts.",
    "parts_limit": "There are more parts, or deeper ones, than are read.",
    "structure_broken": "A multipart has no boundary; it is read as text.",
    "text_html_differ": "The text part and the HTML part do not say the same.",
    "text_limit": "The text is over a limit; what is beyond was not read.",
}

#: those that make a mail ``limited``
LIMITS = frozenset({"header_limit", "html_limit", "parts_limit", "text_limit"})
