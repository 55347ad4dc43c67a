"""SPF: may this client send for the domain of the envelope's sender?

pyspf judges over a table of answers. What is missing there is named, so that it can be asked
for and the judgement made again; nothing here asks, waits or knows what time it is.
"""

import ipaddress
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from oncebox.mail.names import ascii_name
from oncebox.model.verdict import Result

with warnings.catch_warnings():
    # One docstring of pyspf has an escape that Python warns about when it compiles the file.
    for kind in (DeprecationWarning, SyntaxWarning):
        warnings.filterwarnings("ignore", message=".*invalid escape sequence", category=kind)
    import spf

#: a kind of record (txt, a, aaaa, mx, ptr) and the name it belongs to
Question = tuple[str, str]
#: what was answered; None is an answer that could not be had
Answers = Mapping[Question, Sequence[Any] | None]

#: answers one judgement may need; RFC 7208 itself would allow over a hundred
MOST_QUESTIONS = 50
#: bytes of one record and of all that one judgement reads
_MOST_RECORD = 4_096
_MOST_RECORDS = 16_384
_MOST_TERMS = 200
#: a name that is longer cannot be asked for, with or without its macros
_LONGEST_TERM = 512
_LONGEST_LOCAL = 64
_MOST_HOSTS = 10

#: addresses that no server has: what lets them pass lets everybody pass
_NOBODY = {4: "192.0.2.1", 6: "2001:db8::1"}


class SpfResult(msgspec.Struct, frozen=True, kw_only=True):
    """How the check ended, for which domain."""

    result: Result
    domain: str = ""
    #: codes of the verdict's details
    flags: tuple[str, ...] = ()


class SpfWants(msgspec.Struct, frozen=True):
    """What must be asked before the check can end."""

    questions: tuple[Question, ...]


class _Wanted(Exception):
    def __init__(self, questions: Iterable[Question]) -> None:
        super().__init__()
        self.questions = tuple(questions)


class _Limits(spf.PermError):  # type: ignore[misc]  # pyspf has no types
    """The record asks for more than is allowed."""


def check(client: str, helo: str, sender: str, answers: Answers) -> SpfResult | SpfWants:
    """Return how SPF ends for this client, or what must be asked first. Never raises."""
    domain = ascii_name(sender.rpartition("@")[2] if sender else helo)
    if "." not in domain:
        return SpfResult(result=Result.NONE)  # RFC 7208, 4.3: there is no such domain
    try:
        found = _judge(client, helo, sender, domain, answers)
        if found.result is Result.PASS and _passes_anybody(client, helo, sender, domain, answers):
            found = msgspec.structs.replace(found, flags=("spf_anybody",))
        return found
    except _Wanted as error:
        if len(answers) + len(error.questions) > MOST_QUESTIONS:
            return SpfResult(result=Result.PERMERROR, domain=domain, flags=("spf_limits",))
        return SpfWants(error.questions)
    except Exception:  # noqa: BLE001 - a record is anybody's text: fail closed
        return SpfResult(result=Result.PERMERROR, domain=domain, flags=("spf_invalid",))


def _passes_anybody(client: str, helo: str, sender: str, domain: str, answers: Answers) -> bool:
    nobody = _NOBODY[ipaddress.ip_address(client).version]
    try:
        return _judge(nobody, helo, sender, domain, answers).result is Result.PASS
    except _Wanted:
        return False  # it makes a difference who asks


def _judge(client: str, helo: str, sender: str, domain: str, answers: Answers) -> SpfResult:
    query = _Query(client, helo, sender, domain, answers)
    word, _, _ = query.check()
    flags: tuple[str, ...] = ()
    if word == Result.PERMERROR:
        flags = ("spf_limits",) if query.over_limits else ("spf_invalid",)
    return SpfResult(result=Result(word), domain=domain, flags=flags)


class _Query(spf.query):  # type: ignore[misc]  # pyspf has no types
    """A query that knows a table instead of a network, and where enough is enough."""

    def __init__(self, client: str, helo: str, sender: str, domain: str, answers: Answers) -> None:
        local = sender.rpartition("@")[0][:_LONGEST_LOCAL] or "postmaster"
        address = f"{local}@{domain}"
        super().__init__(client, address, ascii_name(helo) or "unknown")
        # pyspf cuts at the first @, which a quoted local part may hold.
        self.l, self.o, self.d = local, domain, domain
        self._answers = answers
        self._read = 0

    @property
    def over_limits(self) -> bool:
        """Whether it was too much, rather than wrong."""
        return (
            isinstance(self.perm_error, _Limits)
            or self.lookups > spf.MAX_LOOKUP
            or self.void_lookups > spf.MAX_VOID_LOOKUPS
        )

    def dns(
        self,
        name: object,
        qtype: str,
        cnames: object = None,
        ignore_void: bool = False,  # noqa: FBT001, FBT002 - pyspf calls it so
    ) -> list[Any]:
        """Look into the table; the resolver has followed aliases already."""
        del cnames
        host = ascii_name(str(name))
        if not host:
            return []  # nobody can have such a name
        [found] = self._known([(qtype.lower(), host)])
        if not found and not ignore_void:
            self.void_lookups += 1
            if self.void_lookups > spf.MAX_VOID_LOOKUPS:
                raise _Limits("too many names that do not exist")
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
                raise _Limits("the record is too large")
        return record

    def dns_mx(self, domainname: str) -> list[str]:
        """Return the addresses of a domain's mail servers, asking for all of them at once."""
        hosts = [host for _, host in sorted(self.dns(domainname, "MX"))]
        if len(hosts) > _MOST_HOSTS:
            raise _Limits("too many mail servers")
        return self._addresses(hosts)

    def validated_ptrs(self) -> list[str]:
        """Return those names of the client that lead back to it."""
        hosts = self.dns_ptr(self.i)[:_MOST_HOSTS]
        self._addresses(hosts)
        return [host for host in hosts if self.cidrmatch(self._addresses([host]), self.cidrmax)]

    def get_explanation(self, spec: str) -> None:
        """Ask for no explanation: nobody would read it."""

    def _addresses(self, hosts: Sequence[str]) -> list[str]:
        asked = [(self.A.lower(), ascii_name(host)) for host in hosts]
        found = self._known([question for question in asked if question[1]])
        # A server without an address of this kind is no void look-up: those count by the term.
        return [address for addresses in found for address in addresses]

    def _known(self, questions: Sequence[Question]) -> list[Sequence[Any]]:
        missing = [question for question in questions if question not in self._answers]
        if missing:
            raise _Wanted(dict.fromkeys(missing))
        found: list[Sequence[Any]] = []
        for question in questions:
            answer = self._answers[question]
            if answer is None:
                raise spf.TempError("a name server did not answer")
            found.append(answer)
        return found
