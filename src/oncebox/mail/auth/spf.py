"""SPF (RFC 7208): evaluated by pyspf over a table of DNS answers, without I/O.

The check returns the questions whose answers are missing from the table; the caller looks them up
and checks again. Nothing here does I/O or reads a clock.
"""

import ipaddress
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from oncebox.mail.mime.addresses import ascii_domain
from oncebox.model.inboxes.received_mail import AuthResult

with warnings.catch_warnings():
    # One docstring of pyspf has an escape that Python warns about when it compiles the file.
    for kind in (DeprecationWarning, SyntaxWarning):
        warnings.filterwarnings("ignore", message=".*invalid escape sequence", category=kind)
    import spf

#: a record type (txt, a, aaaa, mx, ptr) and a name
DnsQuestion = tuple[str, str]
#: the answers; None for a failed look-up
DnsAnswers = Mapping[DnsQuestion, Sequence[Any] | None]

#: limit of answers for one check; RFC 7208 would allow over a hundred
MOST_QUESTIONS = 50
#: limits in bytes: one record, all records of a check
_MOST_RECORD = 4_096
_MOST_RECORDS = 16_384
_MOST_TERMS = 200
#: longest name that is looked up
_LONGEST_TERM = 512
_LONGEST_LOCAL = 64
_MOST_HOSTS = 10

#: reserved addresses: a record that passes them passes everybody
_UNUSED_ADDRESSES = {4: "192.0.2.1", 6: "2001:db8::1"}


class SpfResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the check, and its domain."""

    result: AuthResult
    domain: str = ""
    #: keys of ``VERDICT_DETAILS``
    flags: tuple[str, ...] = ()


class SpfQuestions(msgspec.Struct, frozen=True):
    """The look-ups that the check needs to continue."""

    questions: tuple[DnsQuestion, ...]


class _AnswersMissing(Exception):
    def __init__(self, questions: Iterable[DnsQuestion]) -> None:
        super().__init__()
        self.questions = tuple(questions)


class _LimitExceeded(spf.PermError):  # type: ignore[misc]  # pyspf has no types
    """The record exceeds a limit."""


def check_spf(client: str, helo: str, sender: str, answers: DnsAnswers) -> SpfResult | SpfQuestions:
    """Return the SPF result for a client, or the look-ups it needs; never raises."""
    domain = ascii_domain(sender.rpartition("@")[2] if sender else helo)
    if "." not in domain:
        return SpfResult(result=AuthResult.NONE)  # RFC 7208, 4.3: not a valid domain
    try:
        found = _evaluate(client, helo, sender, domain, answers)
        nobody = _UNUSED_ADDRESSES[ipaddress.ip_address(client).version]
        if found.result is AuthResult.PASS and _passes(nobody, helo, sender, domain, answers):
            found = msgspec.structs.replace(found, flags=("spf_anybody",))
        return found
    except _AnswersMissing as error:
        if len(answers) + len(error.questions) > MOST_QUESTIONS:
            return SpfResult(result=AuthResult.PERMERROR, domain=domain, flags=("spf_limits",))
        return SpfQuestions(error.questions)
    except Exception:  # noqa: BLE001 - untrusted input: fail closed
        return SpfResult(result=AuthResult.PERMERROR, domain=domain, flags=("spf_invalid",))


def _passes(client: str, helo: str, sender: str, domain: str, answers: DnsAnswers) -> bool:
    try:
        return _evaluate(client, helo, sender, domain, answers).result is AuthResult.PASS
    except _AnswersMissing:
        return False  # the result depends on the client


def _evaluate(client: str, helo: str, sender: str, domain: str, answers: DnsAnswers) -> SpfResult:
    query = _TableQuery(client, helo, sender, domain, answers)
    word, _, _ = query.check()
    flags: tuple[str, ...] = ()
    if word == AuthResult.PERMERROR:
        flags = ("spf_limits",) if query.over_limits else ("spf_invalid",)
    return SpfResult(result=AuthResult(word), domain=domain, flags=flags)


class _TableQuery(spf.query):  # type: ignore[misc]  # pyspf has no types
    """A query that reads a table instead of DNS, with limits."""

    def __init__(
        self, client: str, helo: str, sender: str, domain: str, answers: DnsAnswers
    ) -> None:
        local = sender.rpartition("@")[0][:_LONGEST_LOCAL] or "postmaster"
        address = f"{local}@{domain}"
        super().__init__(client, address, ascii_domain(helo) or "unknown")
        # pyspf splits at the first @, which may be in a quoted local part.
        self.l, self.o, self.d = local, domain, domain
        self._answers = answers
        self._read = 0

    @property
    def over_limits(self) -> bool:
        """Whether a limit was exceeded, and the record is not invalid."""
        return (
            isinstance(self.perm_error, _LimitExceeded)
            or self.lookups > spf.MAX_LOOKUP
            or self.void_lookups > spf.MAX_VOID_LOOKUPS
        )

    def dns(
        self,
        name: object,
        qtype: str,
        cnames: object = None,
        ignore_void: bool = False,  # noqa: FBT001, FBT002 - the signature of pyspf
    ) -> list[Any]:
        """Read the table; the resolver has already followed aliases."""
        del cnames
        host = ascii_domain(str(name))
        if not host:
            return []  # not a valid name
        [found] = self._looked_up([(qtype.lower(), host)])
        if not found and not ignore_void:
            self.void_lookups += 1
            if self.void_lookups > spf.MAX_VOID_LOOKUPS:
                raise _LimitExceeded("too many names that do not exist")
        return [(record,) for record in found] if qtype == "TXT" else list(found)

    def dns_spf(self, domain: str) -> str | None:
        """Return the record of a domain, within limits."""
        record: str | None = super().dns_spf(domain)
        if record is not None:
            self._read += len(record)
            terms = record.split(" ")
            fits = (
                len(record) <= _MOST_RECORD
                and self._read <= _MOST_RECORDS
                and len(terms) <= _MOST_TERMS
                and max(map(len, terms)) <= _LONGEST_TERM
            )
            if not fits:
                raise _LimitExceeded("the record is too large")
        return record

    def dns_mx(self, domainname: str) -> list[str]:
        """Return the addresses of a domain's mail servers; all look-ups are requested at once."""
        hosts = [host for _, host in sorted(self.dns(domainname, "MX"))]
        if len(hosts) > _MOST_HOSTS:
            raise _LimitExceeded("too many mail servers")
        return self._addresses(hosts)

    def validated_ptrs(self) -> list[str]:
        """Return the names of the client that resolve to its address."""
        hosts = self.dns_ptr(self.i)[:_MOST_HOSTS]
        self._addresses(hosts)
        return [host for host in hosts if self.cidrmatch(self._addresses([host]), self.cidrmax)]

    def get_explanation(self, spec: str) -> None:
        """Skip the explanation, which is not used."""

    def _addresses(self, hosts: Sequence[str]) -> list[str]:
        asked = [(self.A.lower(), ascii_domain(host)) for host in hosts]
        found = self._looked_up([question for question in asked if question[1]])
        # A server without an address of this type is not a void look-up, which counts per term.
        return [address for addresses in found for address in addresses]

    def _looked_up(self, questions: Sequence[DnsQuestion]) -> list[Sequence[Any]]:
        missing = [question for question in questions if question not in self._answers]
        if missing:
            raise _AnswersMissing(dict.fromkeys(missing))
        found: list[Sequence[Any]] = []
        for question in questions:
            answer = self._answers[question]
            if answer is None:
                raise spf.TempError("a name server did not answer")
            found.append(answer)
        return found
