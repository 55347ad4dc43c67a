"""Sender authentication (SPF, DKIM, DMARC) of one mail within a time limit.

See docs/decisions/0025-use-bounded-pure-functions-for-dkim-and-spf.md.
"""

import asyncio
import functools
import ipaddress
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from oncebox.core import clock
from oncebox.errors.mail import DnsRecordNotFound, ResolverUnavailable
from oncebox.mail.auth import dmarc
from oncebox.mail.auth.dkim_verify import MOST_SIGNATURES, dkim_key_name
from oncebox.mail.auth.reported_results import read_reported, reported_verdict
from oncebox.mail.auth.spf import DnsQuestion, SpfResult, check_spf
from oncebox.mail.mime.addresses import ascii_domain
from oncebox.model.inboxes.received_mail import (
    VERDICT_DETAILS,
    AuthResult,
    DkimResult,
    Envelope,
    ParsedMail,
    SenderVerdict,
    is_sender_proven,
)
from oncebox.model.public_internet import is_public_ip
from oncebox.settings import MailSettings
from oncebox.workers.mail.dns_resolver import DnsResolver, Resolver

#: checks the signatures of a mail, given the TXT records of their keys: ``check_dkim`` in a
#: parser process, so the results are plain values, or None if the process died
CheckSignatures = Callable[[bytes, Mapping[str, list[bytes]]], Awaitable[Any]]

#: milliseconds by which a signer's clock may be wrong, or a mail delayed
_CLOCK_SLACK = 3_600_000
#: seconds that a cancelled check may take to end
_GRACE = 0.1
#: the result of several signatures is the first of these that occurs
_PRECEDENCE = (
    AuthResult.PASS, AuthResult.TEMPERROR, AuthResult.FAIL,
    AuthResult.NEUTRAL, AuthResult.PERMERROR, AuthResult.NONE,
)  # fmt: skip
#: the share of the time that one query may take, so that its failure is cached
_QUERY_TIME_SHARE = 0.75


class _PartialResults(msgspec.Struct):
    """The results so far; at the time limit, the rest stay temporary errors."""

    spf: SpfResult = SpfResult(result=AuthResult.TEMPERROR)
    dkim: tuple[DkimResult, ...] = (DkimResult(result=AuthResult.TEMPERROR),)
    #: None: unknown
    policy: dmarc.DmarcRecord | None = None
    flags: tuple[str, ...] = ()


def make_authenticator(settings: MailSettings) -> "SenderAuthenticator":
    """Return an authenticator that queries the name servers of the settings.

    Raises: ConfigInvalid.
    """
    within = settings.authenticate_within * _QUERY_TIME_SHARE
    return SenderAuthenticator(DnsResolver(settings.dns_servers, within=within), settings)


class SenderAuthenticator:
    """Authenticates the senders of any number of mails at a time."""

    def __init__(
        self, resolver: Resolver, settings: MailSettings, *, now: clock.Clock = clock.system
    ) -> None:
        self._resolver = resolver
        self._settings = settings
        self._now = now

    async def authenticate(
        self, envelope: Envelope, parsed: ParsedMail, raw: bytes, check: CheckSignatures
    ) -> SenderVerdict:
        """Return the verdict on a mail; a check without an answer in time is a temperror."""
        if not self._settings.authenticate:
            return SenderVerdict(details=("not_checked",))
        own = await self._check(envelope, parsed, raw, check)
        if envelope.origin and envelope.client:  # SPF is about a client that only the source saw
            own = msgspec.structs.replace(own, origin=envelope.origin)
        author = _author_domain(parsed)
        if not envelope.authserv or is_sender_proven(own, author):
            return own
        reported = read_reported(raw, envelope.authserv)
        return own if reported is None else reported_verdict(reported, author, envelope.authserv)

    async def _check(
        self, envelope: Envelope, parsed: ParsedMail, raw: bytes, check: CheckSignatures
    ) -> SenderVerdict:
        client = _public_address(envelope.client)
        if not client and not parsed.signatures:
            return SenderVerdict(details=("nothing_to_judge",))
        found = _PartialResults()
        checks = [
            self._check_spf(found, client, envelope),
            self._check_dkim(found, parsed, raw, check),
            self._find_policy(found, _author_domain(parsed)),
        ]
        failures = await _run_within(self._settings.authenticate_within, checks)
        found.flags += failures  # only now: the checks add flags too
        return _verdict(found, envelope, parsed, self._now())

    async def _check_spf(self, found: _PartialResults, client: str, envelope: Envelope) -> None:
        if not client:
            found.spf = SpfResult(result=AuthResult.NONE, flags=("spf_private_client",))
            return
        answers: dict[DnsQuestion, Sequence[Any] | None] = {}
        while True:
            result = check_spf(client, envelope.helo, envelope.sender, answers)
            if isinstance(result, SpfResult):
                found.spf = result
                return
            records = await asyncio.gather(*(self._query(*each) for each in result.questions))
            answers.update(zip(result.questions, records, strict=True))

    async def _check_dkim(
        self, found: _PartialResults, parsed: ParsedMail, raw: bytes, check: CheckSignatures
    ) -> None:
        hints = parsed.signatures[:MOST_SIGNATURES]
        if not hints:
            found.dkim = ()
            return
        names = {dkim_key_name(hint.domain, hint.selector) for hint in hints} - {""}
        results = await check(raw, await self._txt_records(names))
        if results is None:
            found.flags += ("check_failed",)
        else:
            found.dkim = msgspec.convert(results, tuple[DkimResult, ...])

    async def _find_policy(self, found: _PartialResults, author: str) -> None:
        if not author:
            found.policy = dmarc.DmarcRecord()
            return
        names = dmarc.dmarc_record_names(author)
        records = await self._txt_records(names)
        if len(records) == len(names):
            found.policy = dmarc.read_dmarc(author, records)

    async def _txt_records(self, names: Collection[str]) -> dict[str, list[bytes]]:
        """Return the records by name, without the names whose query failed."""
        answers = await asyncio.gather(*(self._query("txt", name) for name in names))
        return {
            name: records
            for name, records in zip(names, answers, strict=True)
            if records is not None
        }

    async def _query(self, kind: str, name: str) -> list[Any] | None:
        """Return the records, perhaps none; None if the query failed."""
        ask: Callable[[str], Awaitable[list[Any]]] = getattr(self._resolver, kind)
        try:
            return await ask(name)
        except DnsRecordNotFound:
            return []
        except ResolverUnavailable:
            return None


async def _run_within(
    seconds: float, checks: Iterable[Coroutine[Any, Any, None]]
) -> tuple[str, ...]:
    """Run all checks, within a time limit; return the flags of failures."""
    tasks = [asyncio.create_task(check) for check in checks]
    try:
        done, pending = await asyncio.wait(tasks, timeout=seconds)
    finally:
        for task in tasks:
            task.cancel()
    if pending:
        await asyncio.wait(pending, timeout=_GRACE)
    failed = any(task.cancelled() or task.exception() for task in done)
    return (*(["timed_out"] if pending else []), *(["check_failed"] if failed else []))


@functools.lru_cache(maxsize=512)  # most mail comes from few clients
def _public_address(client: str) -> str:
    """Return the client's address; empty unless it is public."""
    try:
        address = ipaddress.ip_address(client.partition("%")[0])
    except ValueError:
        return ""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    return str(address) if is_public_ip(str(address)) else ""


def _author_domain(parsed: ParsedMail) -> str:
    """Return the domain in From; empty unless there is exactly one."""
    return ascii_domain(parsed.sender.domain) if parsed.sender.standing == "single" else ""


def _verdict(
    found: _PartialResults, envelope: Envelope, parsed: ParsedMail, now: int
) -> SenderVerdict:
    author = _author_domain(parsed)
    signatures = [_apply_signature_times(one, now) for one in found.dkim]
    policy = _alignment_policy(found.policy)
    by_dkim = [
        one
        for one in signatures
        if one.result is AuthResult.PASS
        and dmarc.is_aligned(author, one.domain, strict=policy.strict_dkim)
    ]
    by_spf = (
        found.spf.result is AuthResult.PASS
        and "spf_anybody" not in found.spf.flags
        and dmarc.is_aligned(author, found.spf.domain, strict=policy.strict_spf)
    )
    dkim = min((one.result for one in signatures), key=_PRECEDENCE.index, default=AuthResult.NONE)
    # Only SMTP shows the client; without it SPF could have passed.
    unsure = bool(envelope.origin) or _missing_answer_could_pass(
        found, author, _envelope_domain(envelope), parsed
    )
    flags = {
        *found.flags,
        *found.spf.flags,
        *(flag for one in signatures for flag in one.flags),
        *(f"signed_{name}" for one in by_dkim for name in one.covers),
        *(found.policy.flags if found.policy else ()),
        *(["dkim_aligned"] if by_dkim else []),
        *(["spf_aligned"] if by_spf else []),
    }
    if not author:
        ambiguous = parsed.sender.standing == "ambiguous"
        flags.add("from_ambiguous" if ambiguous else "from_missing")
    return SenderVerdict(
        spf=found.spf.result,
        dkim=dkim,
        dmarc=_dmarc(found.policy, proven=bool(by_dkim) or by_spf, unsure=unsure),
        domain=parsed.sender.domain if by_dkim or by_spf else "",
        details=tuple(code for code in VERDICT_DETAILS if code in flags),
        signed_at=max(
            (at for one in by_dkim if (at := _signed_at(one, parsed)) is not None), default=None
        ),
    )


def _signed_at(one: DkimResult, parsed: ParsedMail) -> int | None:
    """Return when a signature was made: its own time, or the Date that it covers."""
    if one.signed_at is not None:
        return one.signed_at
    return parsed.date if "date" in one.covers else None


def _missing_answer_could_pass(
    found: _PartialResults, author: str, bouncing: str, parsed: ParsedMail
) -> bool:
    """Say whether a missing answer could have proven the author.

    An answer about an unaligned domain could not. Otherwise a name server that is down would be
    all a forger needs.
    """
    if found.spf.result is AuthResult.TEMPERROR and dmarc.is_aligned(
        author, bouncing, strict=False
    ):
        return True
    missing = {one.domain for one in found.dkim if one.result is AuthResult.TEMPERROR}
    if "" in missing:  # none of the signatures was checked
        missing |= {hint.domain for hint in parsed.signatures}
    return any(dmarc.is_aligned(author, domain, strict=False) for domain in missing)


def _envelope_domain(envelope: Envelope) -> str:
    """Return the domain that SPF checks."""
    return ascii_domain(envelope.sender.rpartition("@")[2] if envelope.sender else envelope.helo)


def _apply_signature_times(one: DkimResult, now: int) -> DkimResult:
    if one.result is not AuthResult.PASS:
        return one
    if one.expires_at is not None and one.expires_at < now - _CLOCK_SLACK:
        late = "dkim_expired"
    elif one.signed_at is not None and one.signed_at > now + _CLOCK_SLACK:
        late = "dkim_future"
    else:
        return one
    return msgspec.structs.replace(one, result=AuthResult.FAIL, flags=(*one.flags, late))


def _alignment_policy(published: dmarc.DmarcRecord | None) -> dmarc.DmarcPolicy:
    """Return the alignment to require; strict if the owner's policy is unknown."""
    if published is not None and published.policy is not None:
        return published.policy
    unknown = published is None or bool(published.flags)
    return dmarc.DmarcPolicy(disposition="none", strict_spf=unknown, strict_dkim=unknown)


def _dmarc(published: dmarc.DmarcRecord | None, *, proven: bool, unsure: bool) -> AuthResult:
    if published is None:
        return AuthResult.TEMPERROR
    if published.policy is None:
        return AuthResult.PERMERROR if "dmarc_invalid" in published.flags else AuthResult.NONE
    if proven:
        return AuthResult.PASS
    return AuthResult.TEMPERROR if unsure else AuthResult.FAIL
