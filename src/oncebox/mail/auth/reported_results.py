"""Authentication-Results (RFC 8601) of a server that is trusted by name.

The server that received a mail knew the client's address, which mail read from a mailbox no longer
shows. Only the first field with its name counts: servers write theirs on top, and a sender may
have written others below.
"""

import re

import msgspec

from oncebox.mail.auth import dmarc
from oncebox.mail.limits import ParseLimits
from oncebox.mail.mime.addresses import ascii_domain
from oncebox.mail.mime.header_fields import split_header, unfold
from oncebox.model.inboxes.received_mail import AuthResult, SenderVerdict

_LONGEST_FIELD = 8_192
_MOST_RESULTS = 20
_COMMENT = re.compile(r"\([^()]*+\)")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*+)"')
#: method, result, and the properties behind them
_RESULT = re.compile(r"([a-z0-9-]++)(?:/\d++)?\s*+=\s*+([a-z]++)\b(.*)", re.DOTALL)
_PROPERTY = re.compile(r"([a-z]++)\.([a-z0-9_-]++)\s*+=\s*+([^\s;]++)")
#: the properties that name the domain of each method
_DOMAINS = {
    "spf": ("smtp.mailfrom", "smtp.helo"),
    "dkim": ("header.d", "header.i"),
    "dmarc": ("header.from",),
}


class ReportedResult(msgspec.Struct, frozen=True):
    """One result: the method, what it said, and about which domain."""

    method: str
    result: AuthResult
    domain: str


def read_reported(raw: bytes, authserv: str) -> tuple[ReportedResult, ...] | None:
    """Return the results that the server ``authserv`` wrote into a mail; None if it wrote none."""
    header = split_header(raw, 0, len(raw), ParseLimits())
    if header.ambiguous:
        return None
    for value in header.all("authentication-results"):
        text = _plain(unfold(value[:_LONGEST_FIELD], set()))
        name, *results = text.split(";")
        # A version may follow the name.
        if name.split()[:1] == [authserv.lower()]:
            return tuple(filter(None, map(_read_result, results[:_MOST_RESULTS])))
    return None


def _plain(text: str) -> str:
    """Return a field in lower case, without comments and quotation marks."""
    before, text = "", text.lower()
    while before != text:
        before, text = text, _COMMENT.sub(" ", text)
    return _QUOTED.sub(r"\1", text)


def _read_result(text: str) -> ReportedResult | None:
    found = _RESULT.match(text.strip())
    if found is None or found[1] not in _DOMAINS:
        return None
    try:
        result = AuthResult(found[2])
    except ValueError:
        result = AuthResult.NONE
    said = {f"{kind}.{name}": value for kind, name, value in _PROPERTY.findall(found[3])}
    named = next((said[each] for each in _DOMAINS[found[1]] if each in said), "")
    return ReportedResult(found[1], result, ascii_domain(named.rpartition("@")[2]))


def reported_verdict(
    results: tuple[ReportedResult, ...], author: str, authserv: str
) -> SenderVerdict:
    """Return the verdict that a server's results give on the domain in From."""
    best = {method: _best(results, method, author) for method in _DOMAINS}
    aligned = any(
        each.result is AuthResult.PASS and dmarc.is_aligned(author, each.domain, strict=True)
        if each.method == "dmarc"
        else each.result is AuthResult.PASS and dmarc.is_aligned(author, each.domain, strict=False)
        for each in results
    )
    failed = best["dmarc"] is AuthResult.FAIL
    return SenderVerdict(
        spf=best["spf"],
        dkim=best["dkim"],
        dmarc=best["dmarc"],
        domain=author if aligned and not failed else "",
        origin=authserv,
        details=("reported",),
    )


def _best(results: tuple[ReportedResult, ...], method: str, author: str) -> AuthResult:
    """Return the result of a method: one about the author's domain before others."""
    own = [each for each in results if each.method == method]
    own.sort(key=lambda each: not dmarc.is_aligned(author, each.domain, strict=False))
    return own[0].result if own else AuthResult.NONE
