"""The authenticator: who sent a mail, by SPF, DKIM and DMARC, within one bound of time."""

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from oncebox import clock
from oncebox.config import MailSettings
from oncebox.mail import dmarc
from oncebox.mail.dkim import MOST_SIGNATURES, key_name
from oncebox.mail.names import ascii_name
from oncebox.mail.spf import Question, SpfResult
from oncebox.mail.spf import check as check_spf
from oncebox.mail_errors import NoSuchRecord, ResolverTrouble
from oncebox.model.envelope import Envelope
from oncebox.model.internet import is_public
from oncebox.model.message import Parsed
from oncebox.model.verdict import DETAILS, DkimResult, Result, Verdict
from oncebox.worker.resolver import DnsResolver, Resolver

#: checks the signatures of a mail, given the records of the keys' names: ``mail.dkim.check`` in
#: a process that may be killed, so the results may come as plain values, and None if it was
Check = Callable[[bytes, Mapping[str, list[bytes]]], Awaitable[Any]]

#: how wrong a signer's clock may be, and how long a mail may have waited for us
_SLACK = 3_600_000
#: how long a check that has run out of time may take to notice
_GRACE = 0.1

#: which of several signatures speaks for the mail
_WEIGHT = (
    Result.PASS, Result.TEMPERROR, Result.FAIL, Result.NEUTRAL, Result.PERMERROR, Result.NONE,
)  # fmt: skip


#: the share of the time that one question may take, so that its trouble is noticed and kept
_SHARE = 0.75


class _Findings(msgspec.Struct):
    """What is known so far; whatever is still so at the end was not answered."""

    spf: SpfResult = SpfResult(result=Result.TEMPERROR)
    dkim: tuple[DkimResult, ...] = (DkimResult(result=Result.TEMPERROR),)
    #: None is not known
    policy: dmarc.Published | None = None
    flags: tuple[str, ...] = ()


def authenticator(settings: MailSettings) -> "Authenticator":
    """Return an authenticator that asks the name servers of the settings.

    Raises: ConfigInvalid.
    """
    within = settings.authenticate_within * _SHARE
    return Authenticator(DnsResolver(settings.dns_servers, within=within), settings)


class Authenticator:
    """Judges mails, any number at a time."""

    def __init__(
        self, resolver: Resolver, settings: MailSettings, *, now: clock.Clock = clock.system
    ) -> None:
        """Ask this resolver."""
        self._resolver = resolver
        self._settings = settings
        self._now = now

    async def judge(self, envelope: Envelope, parsed: Parsed, raw: bytes, check: Check) -> Verdict:
        """Return the verdict on a mail that our SMTP edge took, in bounded time.

        What is not answered by then is a temperror. Raises nothing of its own.
        """
        if not self._settings.authenticate:
            return Verdict(details=("not_checked",))
        client = _public(envelope.client)
        if not client and not parsed.signatures:
            return Verdict(details=("nothing_to_judge",))
        found = _Findings()
        parts = [
            self._judge_spf(found, client, envelope),
            self._judge_dkim(found, parsed, raw, check),
            self._find_policy(found, _author(parsed)),
        ]
        troubles = await _within(self._settings.authenticate_within, parts)
        found.flags += troubles
        return _verdict(found, envelope, parsed, self._now())

    async def _judge_spf(self, found: _Findings, client: str, envelope: Envelope) -> None:
        if not client:
            found.spf = SpfResult(result=Result.NONE, flags=("spf_private_client",))
            return
        answers: dict[Question, Sequence[Any] | None] = {}
        while True:
            judged = check_spf(client, envelope.helo, envelope.sender, answers)
            if isinstance(judged, SpfResult):
                found.spf = judged
                return
            said = await asyncio.gather(*(self._ask(*asked) for asked in judged.questions))
            answers.update(zip(judged.questions, said, strict=True))

    async def _judge_dkim(self, found: _Findings, parsed: Parsed, raw: bytes, check: Check) -> None:
        hints = parsed.signatures[:MOST_SIGNATURES]
        if not hints:
            found.dkim = ()
            return
        names = {key_name(hint.domain, hint.selector) for hint in hints} - {""}
        records = await self._texts(names)
        known = {name: texts for name, texts in records.items() if texts is not None}
        results = await check(raw, known)
        if results is None:
            found.flags += ("check_failed",)
        else:
            found.dkim = msgspec.convert(results, tuple[DkimResult, ...])

    async def _find_policy(self, found: _Findings, author: str) -> None:
        if not author:
            found.policy = dmarc.Published()
            return
        texts = await self._texts(dmarc.record_names(author))
        known = {name: text for name, text in texts.items() if text is not None}
        if len(known) == len(texts):
            found.policy = dmarc.published(author, known)

    async def _texts(self, names: Iterable[str]) -> dict[str, list[bytes] | None]:
        names = list(names)
        said = await asyncio.gather(*(self._ask("txt", name) for name in names))
        return dict(zip(names, said, strict=True))

    async def _ask(self, kind: str, name: str) -> list[Any] | None:
        """Return the answer; there may be nothing in it, and None is no answer."""
        ask: Callable[[str], Awaitable[list[Any]]] = getattr(self._resolver, kind)
        try:
            return await ask(name)
        except NoSuchRecord:
            return []
        except ResolverTrouble:
            return None


async def _within(seconds: float, parts: Iterable[Coroutine[Any, Any, None]]) -> tuple[str, ...]:
    """Run all parts to their end or to the end of time; return what went wrong."""
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        done, pending = await asyncio.wait(tasks, timeout=seconds)
    finally:
        for task in tasks:
            task.cancel()
    if pending:
        await asyncio.wait(pending, timeout=_GRACE)
    failed = any(task.cancelled() or task.exception() for task in done)
    return (*(["timed_out"] if pending else []), *(["check_failed"] if failed else []))


def _public(client: str) -> str:
    """Return the client's address if it is public, otherwise nothing."""
    try:
        address = ipaddress.ip_address(client.partition("%")[0])
    except ValueError:
        return ""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    return str(address) if is_public(str(address)) else ""


def _author(parsed: Parsed) -> str:
    """Return the domain in From, if there is exactly one."""
    return ascii_name(parsed.sender.domain) if parsed.sender.standing == "single" else ""


def _verdict(found: _Findings, envelope: Envelope, parsed: Parsed, now: int) -> Verdict:
    author = _author(parsed)
    signatures = [_timely(one, now) for one in found.dkim]
    policy = _alignment(found.policy)
    by_dkim = [
        one
        for one in signatures
        if one.result is Result.PASS
        and dmarc.aligned(author, one.domain, strict=policy.strict_dkim)
    ]
    by_spf = (
        found.spf.result is Result.PASS
        and "spf_anybody" not in found.spf.flags
        and dmarc.aligned(author, found.spf.domain, strict=policy.strict_spf)
    )
    dkim = min((one.result for one in signatures), key=_WEIGHT.index, default=Result.NONE)
    unsure = _unsure(found, author, _bouncing(envelope), parsed)
    flags = {
        *found.flags,
        *found.spf.flags,
        *(flag for one in signatures for flag in one.flags),
        *(f"signed_{name}" for one in by_dkim for name in one.covers),
        *(found.policy.flags if found.policy else ()),
        *(["dkim_aligned"] if by_dkim else []),
        *(["spf_aligned"] if by_spf else []),
        *([] if author else [_no_author(parsed)]),
    }
    return Verdict(
        spf=found.spf.result,
        dkim=dkim,
        dmarc=_dmarc(found.policy, proven=bool(by_dkim) or by_spf, unsure=unsure),
        domain=parsed.sender.domain if by_dkim or by_spf else "",
        details=tuple(code for code in DETAILS if code in flags),
    )


def _unsure(found: _Findings, author: str, bouncing: str, parsed: Parsed) -> bool:
    """Say whether an answer that is missing could have proven the author.

    What a stranger leaves unanswered about a domain of its own could not, or a forger would
    only need a name server that is down.
    """
    if found.spf.result is Result.TEMPERROR and dmarc.aligned(author, bouncing, strict=False):
        return True
    missing = {one.domain for one in found.dkim if one.result is Result.TEMPERROR}
    if "" in missing:  # nothing is known of any of them
        missing |= {hint.domain for hint in parsed.signatures}
    return any(dmarc.aligned(author, domain, strict=False) for domain in missing)


def _bouncing(envelope: Envelope) -> str:
    """Return the domain that SPF is about."""
    return ascii_name(envelope.sender.rpartition("@")[2] if envelope.sender else envelope.helo)


def _timely(one: DkimResult, now: int) -> DkimResult:
    """Return the signature as it counts at this time."""
    if one.result is not Result.PASS:
        return one
    if one.expires_at is not None and one.expires_at < now - _SLACK:
        late = "dkim_expired"
    elif one.signed_at is not None and one.signed_at > now + _SLACK:
        late = "dkim_future"
    else:
        return one
    return msgspec.structs.replace(one, result=Result.FAIL, flags=(*one.flags, late))


def _alignment(published: dmarc.Published | None) -> dmarc.Policy:
    """Return how close a domain must be; strictly the same where the owner's wish is unknown."""
    if published is not None and published.policy is not None:
        return published.policy
    unknown = published is None or bool(published.flags)
    return dmarc.Policy(wish="none", strict_spf=unknown, strict_dkim=unknown)


def _dmarc(published: dmarc.Published | None, *, proven: bool, unsure: bool) -> Result:
    if published is None:
        return Result.TEMPERROR
    if published.policy is None:
        return Result.PERMERROR if "dmarc_invalid" in published.flags else Result.NONE
    if proven:
        return Result.PASS
    return Result.TEMPERROR if unsure else Result.FAIL


def _no_author(parsed: Parsed) -> str:
    return "from_ambiguous" if parsed.sender.standing == "ambiguous" else "from_missing"
