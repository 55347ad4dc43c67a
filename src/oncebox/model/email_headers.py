"""Header fields that come with an email: which ones may be set, and how they may look.

Those that say who gets a mail, who sent it, when and how it is built are written by Oncebox
alone, from what was checked. So are those by which providers are told to do something else
with it, such as sending it to further people.
"""

import re

from oncebox.send_errors import EmailHeaderInvalid, HeaderReserved

_NAME = re.compile(r"[A-Za-z0-9-]{1,76}")
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]")
#: the longest word that fits on a line of a mail, which ends after 998 characters
_LONGEST_WORD = 900
_RESERVED = frozenset({
    # who, when and what (RFC 5322)
    "from", "sender", "to", "cc", "bcc", "reply-to", "date", "message-id", "subject",
    "return-path", "received", "mime-version", "apparently-to", "errors-to",
    "disposition-notification-to", "return-receipt-to",
    # what is said about it, by us and by those who pass it on
    "auto-submitted", "list-unsubscribe", "list-unsubscribe-post", "dkim-signature",
    "domainkey-signature", "authentication-results", "received-spf", "delivered-to",
    "x-original-to", "x-envelope-to", "x-envelope-from",
    # what is ours
    "idempotency-key", "resend-idempotency-key",
    # what tells a provider whom else to send it to, or how
    "x-smtpapi",
})  # fmt: skip
_RESERVED_BEGINNINGS = (
    "content-", "resent-", "arc-", "x-mailgun-", "x-mailjet-", "x-mc-", "x-mj-", "x-msys-",
    "x-pm-", "x-ses-", "x-oncebox-",
)  # fmt: skip
#: fields that hold the ids of other mails
_IDS = frozenset({"in-reply-to", "references"})
_ID_LIST = re.compile(r"<[!-;=?A-~]+@[!-;=?A-~]+>(?: <[!-;=?A-~]+@[!-;=?A-~]+>)*")


def check_header(name: str, value: str) -> str:
    """Return the value of a header field as it is written.

    Raises: EmailHeaderInvalid, HeaderReserved.
    """
    if not _NAME.fullmatch(name):
        raise EmailHeaderInvalid("the name of a header field has letters, digits and - only")
    lowered = name.lower()
    if lowered in _RESERVED or lowered.startswith(_RESERVED_BEGINNINGS):
        raise HeaderReserved(f"the header field {name} cannot be set; it is written by Oncebox")
    if _CONTROLS.search(value):
        message = f"the header field {name} has line ends or control characters; remove them"
        raise EmailHeaderInvalid(message)
    value = value.strip(" ")
    if not value or max(map(len, value.split(" "))) > _LONGEST_WORD:
        message = f"the header field {name} is empty, or has a word over {_LONGEST_WORD} characters"
        raise EmailHeaderInvalid(message)
    if lowered in _IDS and not _ID_LIST.fullmatch(value):
        raise EmailHeaderInvalid(f"{name} holds ids such as <id@example.com>, and single spaces")
    return value
