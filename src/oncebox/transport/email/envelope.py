"""Envelopes: what may be said to a mail server at all, and how it is said to this one."""

import re
from collections.abc import Iterator, Mapping

from oncebox.mail_errors import AddressInvalid
from oncebox.model.domain import domain_key
from oncebox.transport.email.parcel import Parcel

#: without controls, blanks, and all that has a meaning of its own in a command
_WORD = '[^\x00-\x20\x7f-\xa0"(),:;<>@\\[\\]\\\\\u2028\u2029\ud800-\udfff]+'
_ADDRESS = re.compile(f"{_WORD}@{_WORD}")
#: octets of an address on the wire (RFC 5321, 4.5.3.1.3, without the angle brackets)
_LONGEST_ADDRESS = 254
#: octets of a line without its end (RFC 5322, 2.1.1)
_LONGEST_LINE = 998
# With as many CR as LF, a bare LF never comes without a bare CR.
_BARE_CR = re.compile(rb"\r(?:[^\n]|\Z)")
_HEADERS_END = b"\r\n\r\n"


def flaw(parcel: Parcel, most_recipients: int) -> str | None:
    """Return the code of what no server may be told, if there is anything of the kind."""
    if not parcel.recipients:
        return "no_recipient"
    if len(parcel.recipients) > most_recipients:
        return "too_many_recipients"
    if parcel.sender and not _is_sound(parcel.sender):
        return "sender_invalid"
    if not all(map(_is_sound, parcel.recipients)):
        return "recipient_invalid"
    return _message_flaw(parcel.message)


def misfit(parcel: Parcel, extensions: Mapping[str, str]) -> str | None:
    """Return the code of what this server does not offer and the mail needs."""
    if _needs_utf8(parcel) and "smtputf8" not in extensions:
        return "smtputf8_missing"
    if not parcel.message.isascii() and "8bitmime" not in extensions:
        return "eightbitmime_missing"
    most = extensions.get("size", "")
    # SIZE without a number, or with 0, sets no limit (RFC 1870).
    if most.isdecimal() and 0 < int(most[:20]) < len(parcel.message):
        return "message_too_large"
    return None


def commands(parcel: Parcel, extensions: Mapping[str, str]) -> Iterator[tuple[str, bytes]]:
    """Give each line of the envelope, and who it is about."""
    options = ""
    if "size" in extensions:
        options += f" SIZE={len(parcel.message)}"
    if not parcel.message.isascii():
        options += " BODY=8BITMIME"
    if _needs_utf8(parcel):
        options += " SMTPUTF8"
    yield "sender", f"MAIL FROM:<{_wired(parcel.sender)}>{options}".encode()
    for each in parcel.recipients:
        yield "recipient", f"RCPT TO:<{_wired(each)}>".encode()


def _is_sound(address: str) -> bool:
    if not _ADDRESS.fullmatch(address):
        return False
    try:
        return len(_wired(address).encode()) <= _LONGEST_ADDRESS
    except AddressInvalid:
        return False


def _wired(address: str) -> str:
    """Return an address with its domain as A-labels, which every server takes."""
    local, at, domain = address.rpartition("@")
    return address if domain.isascii() else f"{local}{at}{domain_key(domain)}"


def _needs_utf8(parcel: Parcel) -> bool:
    addresses = (parcel.sender, *parcel.recipients)
    headers = parcel.message.partition(_HEADERS_END)[0]
    return not (headers.isascii() and all(_wired(each).isascii() for each in addresses))


def _message_flaw(message: bytes) -> str | None:
    # Where others see line ends that we do not, they may see an end of the mail.
    if message.count(b"\r") != message.count(b"\n") or _BARE_CR.search(message):
        return "message_malformed"
    if b"\0" in message:
        return "message_malformed"
    if max(map(len, message.split(b"\r\n"))) > _LONGEST_LINE:
        return "line_too_long"
    return None
