"""Verdicts: what is proven about a sender, and what is said when it cannot be."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from oncebox.errors.mail import DnsRecordNotFound, ResolverUnavailable
from oncebox.mail.auth import dkim_verify
from oncebox.model.inboxes.received_mail import (
    VERDICT_DETAILS,
    AuthResult,
    DkimKeyLocation,
    DkimResult,
    Envelope,
    ParsedMail,
    ParsedSender,
    ParseStatus,
    SenderVerdict,
    is_sender_proven,
)
from oncebox.settings import MailSettings
from oncebox.workers.mail.sender_authentication import SenderAuthenticator, make_authenticator
from tests.mail.signing import MAIL, NAME, crafted, rsa_key, signed
from tests.support.nameserver import NameServer

_CLIENT = "198.49.23.7"
_OTHER = "8.8.8.8"
_SPF = [b"v=spf1 ip4:198.49.23.0/24 -all"]
_REJECT = [b"v=DMARC1; p=reject"]
_HINT = DkimKeyLocation(domain="example.com", selector="s1")


class _Table:
    """A resolver that knows a table; None is trouble, and what is absent does not exist."""

    def __init__(self, zone: Mapping[str, list[Any] | None]) -> None:
        self.zone = zone
        self.asked: list[str] = []

    async def _ask(self, name: str) -> list[Any]:
        self.asked.append(name)
        await asyncio.sleep(0)
        found = self.zone.get(name, [])
        if found is None:
            raise ResolverUnavailable("down")
        if not found:
            raise DnsRecordNotFound("none")
        return found

    async def txt(self, name: str) -> list[bytes]:
        return await self._ask(name)

    async def a(self, name: str) -> list[str]:
        return await self._ask(f"a:{name}")

    async def aaaa(self, name: str) -> list[str]:
        return await self._ask(f"aaaa:{name}")

    async def mx(self, name: str) -> list[tuple[int, str]]:
        return await self._ask(f"mx:{name}")

    async def ptr(self, name: str) -> list[str]:
        return await self._ask(f"ptr:{name}")


async def _check(raw: bytes, answers: Mapping[str, list[bytes]]) -> tuple[DkimResult, ...]:
    return dkim_verify.check_dkim(raw, answers)


def _envelope(client: str = _CLIENT, sender: str = "bounce@example.com") -> Envelope:
    return Envelope(client=client, helo="mx.example.com", sender=sender, recipients=())


def _parsed(
    *hints: DkimKeyLocation, domain: str = "example.com", standing: Any = "single"
) -> ParsedMail:
    sender = ParsedSender(address=f"ann@{domain}", domain=domain, standing=standing)
    return ParsedMail(status=ParseStatus.PARSED, sender=sender, signatures=hints)


def _zone(**more: Any) -> dict[str, list[Any] | None]:
    return {"example.com": _SPF, "_dmarc.example.com": _REJECT, NAME: [rsa_key()[1]]} | more


async def _judge(
    zone: Mapping[str, list[Any] | None] | None = None,
    envelope: Envelope | None = None,
    parsed: ParsedMail | None = None,
    raw: bytes = MAIL,
    check: Callable[..., Awaitable[object]] = _check,
    within: float = 2.0,
) -> SenderVerdict:
    table = _Table(_zone() if zone is None else zone)
    judge = SenderAuthenticator(table, MailSettings(authenticate_within=within))
    verdict = await judge.authenticate(envelope or _envelope(), parsed or _parsed(), raw, check)
    assert set(verdict.details) <= VERDICT_DETAILS.keys()
    return verdict


def _words(verdict: SenderVerdict) -> tuple[str, str, str]:
    return verdict.spf, verdict.dkim, verdict.dmarc


# ---------------------------------------------------------------- what is proven


async def test_the_client_of_a_signed_webhook_counts_and_the_verdict_names_its_source() -> None:
    by_webhook = msgspec.structs.replace(_envelope(), helo="", origin="sendgrid")
    verdict = await _judge(envelope=by_webhook)
    bounce = await _judge(envelope=msgspec.structs.replace(by_webhook, sender=""))

    assert (_words(verdict), verdict.origin) == (("pass", "none", "pass"), "sendgrid")
    assert (bounce.spf, bounce.domain) == ("none", "")  # there is no HELO either


async def test_mail_by_webhook_without_a_client_has_no_spf_and_our_own_dkim() -> None:
    bare = msgspec.structs.replace(_envelope(client=""), origin="postmark")
    verdict = await _judge(envelope=bare, parsed=_parsed(_HINT), raw=signed())

    assert (_words(verdict), verdict.origin) == (("none", "pass", "pass"), "smtp")


async def test_spf_of_the_domain_in_from_proves_the_sender() -> None:
    verdict = await _judge()

    assert _words(verdict) == ("pass", "none", "pass")
    assert (verdict.domain, verdict.origin) == ("example.com", "smtp")
    assert verdict.details == ("spf_aligned", "dmarc_policy_reject")
    assert is_sender_proven(verdict, "example.com")


async def test_a_signature_of_the_domain_in_from_proves_the_sender() -> None:
    """Forwarded mail: SPF fails, the signature holds."""
    verdict = await _judge(envelope=_envelope(_OTHER), parsed=_parsed(_HINT), raw=signed())

    assert _words(verdict) == ("fail", "pass", "pass")
    assert verdict.details == (
        "dkim_aligned", "signed_date", "signed_from", "signed_subject", "signed_to",
        "dmarc_policy_reject",
    )  # fmt: skip
    assert is_sender_proven(verdict, "example.com")


async def test_a_sender_is_proven_without_a_dmarc_record_too() -> None:
    zone = _zone(**{"_dmarc.example.com": []})

    by_spf = await _judge(zone)
    by_dkim = await _judge(zone, _envelope(_OTHER), _parsed(_HINT), signed())

    assert (by_spf.dmarc, by_dkim.dmarc) == (AuthResult.NONE, AuthResult.NONE)
    assert is_sender_proven(by_spf, "example.com")
    assert is_sender_proven(by_dkim, "example.com")


async def test_relatives_prove_each_other_unless_the_owner_is_strict() -> None:
    parsed = _parsed(domain="news.example.com")

    relaxed = await _judge(parsed=parsed)
    strict = await _judge(
        _zone(**{"_dmarc.example.com": [b"v=DMARC1; p=none; aspf=s"]}), parsed=parsed
    )

    assert (relaxed.dmarc, relaxed.domain) == (AuthResult.PASS, "news.example.com")
    assert (strict.spf, strict.dmarc, strict.domain) == (AuthResult.PASS, AuthResult.FAIL, "")
    assert not is_sender_proven(strict, "news.example.com")


async def test_a_domain_in_other_letters_is_proven_as_it_is_written() -> None:
    zone = {
        "xn--bcher-kva.example": _SPF,
        "_dmarc.xn--bcher-kva.example": _REJECT,
    }
    envelope = _envelope(sender="a@bücher.example")

    verdict = await _judge(zone, envelope, _parsed(domain="bücher.example"))

    assert (verdict.dmarc, verdict.domain) == (AuthResult.PASS, "bücher.example")


async def test_one_good_signature_among_bad_ones_is_enough() -> None:
    """A mailing list with a footer, whose author's server signed twice."""
    other = DkimKeyLocation(domain="list.example", selector="l")
    listed = signed(signed() + b"-- \r\nThe list\r\n", domain="list.example", selector="l")
    zone = _zone(**{"l._domainkey.list.example": [rsa_key()[1]]})

    verdict = await _judge(zone, _envelope(_OTHER), _parsed(other, _HINT), listed)

    assert _words(verdict) == ("fail", "pass", "fail")
    assert verdict.details == ("dkim_body_changed", "dmarc_policy_reject")
    assert not is_sender_proven(verdict, "example.com")


# ---------------------------------------------------------------- what is not


async def test_a_stranger_with_a_good_name_of_its_own_is_not_the_author() -> None:
    zone = _zone(**{"evil.example": _SPF, "s1._domainkey.evil.example": [rsa_key()[1]]})
    hint = DkimKeyLocation(domain="evil.example", selector="s1")

    verdict = await _judge(
        zone, _envelope(sender="x@evil.example"), _parsed(hint), signed(domain="evil.example")
    )

    assert _words(verdict) == ("pass", "pass", "fail")
    assert verdict.domain == ""
    assert not any(code.startswith("signed_") for code in verdict.details)
    assert not is_sender_proven(verdict, "example.com")
    assert not is_sender_proven(verdict, "evil.example")


@pytest.mark.parametrize("standing", ["ambiguous", "missing"])
async def test_a_from_that_names_nobody_is_never_aligned(standing: str) -> None:
    verdict = await _judge(parsed=_parsed(_HINT, standing=standing), raw=signed())

    assert _words(verdict) == ("pass", "pass", "none")
    assert (verdict.domain, verdict.details) == ("", (f"from_{standing}",))
    assert not is_sender_proven(verdict, "example.com")
    assert not is_sender_proven(verdict, "")


async def test_two_froms_are_never_aligned() -> None:
    raw = b"From: eve@evil.example\r\n" + signed()

    verdict = await _judge(parsed=_parsed(_HINT, domain="", standing="ambiguous"), raw=raw)

    assert (verdict.dkim, verdict.dmarc, verdict.domain) == (AuthResult.FAIL, AuthResult.NONE, "")


async def test_a_pass_that_everybody_gets_proves_nothing() -> None:
    verdict = await _judge(_zone(**{"example.com": [b"v=spf1 +all"]}))

    assert _words(verdict) == ("pass", "none", "fail")
    assert "spf_anybody" in verdict.details
    assert not is_sender_proven(verdict, "example.com")


async def test_a_signed_beginning_proves_nothing() -> None:
    raw = signed(length=True) + b"Click http://evil.example\r\n"

    verdict = await _judge(envelope=_envelope(_OTHER), parsed=_parsed(_HINT), raw=raw)

    assert _words(verdict) == ("fail", "neutral", "fail")
    assert "dkim_body_partly" in verdict.details


async def test_a_signature_past_its_time_does_not_count() -> None:
    now = int(time.time())
    for changes, code in (
        ({"t": "1000", "x": str(now - 7_200)}, "dkim_expired"),
        ({"t": str(now + 7_200)}, "dkim_future"),
    ):
        verdict = await _judge(
            envelope=_envelope(_OTHER), parsed=_parsed(_HINT), raw=crafted(changes)
        )
        assert _words(verdict) == ("fail", "fail", "fail")
        assert code in verdict.details
    verdict = await _judge(parsed=_parsed(_HINT), raw=crafted({"x": str(now + 60)}))
    assert verdict.dkim is AuthResult.PASS


@pytest.mark.parametrize("second", [0, 1])
async def test_a_signature_from_the_beginning_of_time_has_that_time(second: int) -> None:
    verdict = await _judge(parsed=_parsed(_HINT), raw=crafted({"t": str(second)}))

    assert verdict.signed_at == second * 1000


# ---------------------------------------------------------------- who is asked


@pytest.mark.parametrize("client", ["127.0.0.1", "10.1.2.3", "::1", "fe80::1%eth0", "", "unknown"])
async def test_nobody_is_asked_about_an_unsigned_mail_from_within(client: str) -> None:
    table = _Table(_zone())

    verdict = await SenderAuthenticator(table, MailSettings()).authenticate(
        _envelope(client), _parsed(), MAIL, _check
    )

    assert verdict == SenderVerdict(details=("nothing_to_judge",))
    assert table.asked == []


async def test_spf_says_nothing_about_a_client_from_within() -> None:
    verdict = await _judge(envelope=_envelope("192.168.1.1"), parsed=_parsed(_HINT), raw=signed())

    assert _words(verdict) == ("none", "pass", "pass")
    assert "spf_private_client" in verdict.details


async def test_a_client_by_either_protocol_is_the_same() -> None:
    assert (await _judge(envelope=_envelope(f"::ffff:{_CLIENT}"))).spf is AuthResult.PASS


async def test_no_child_is_asked_about_a_mail_without_signatures() -> None:
    async def never(*_: object) -> tuple[DkimResult, ...]:
        raise AssertionError

    assert (await _judge(check=never)).dkim is AuthResult.NONE


async def test_only_a_few_keys_are_asked_for() -> None:
    table = _Table(_zone())
    hints = [DkimKeyLocation(domain=f"d{n}.example", selector="s") for n in range(40)]

    await SenderAuthenticator(table, MailSettings()).authenticate(
        _envelope(), _parsed(*hints), MAIL, _check
    )

    assert sum("_domainkey" in name for name in table.asked) == 5


async def test_switched_off_nothing_is_checked() -> None:
    table = _Table(_zone())

    verdict = await SenderAuthenticator(table, MailSettings(authenticate=False)).authenticate(
        _envelope(), _parsed(_HINT), signed(), _check
    )

    assert verdict == SenderVerdict(details=("not_checked",))
    assert table.asked == []


# ---------------------------------------------------------------- trouble


async def test_trouble_is_temporary_and_proves_nothing() -> None:
    zone = {"example.com": None, NAME: None, "_dmarc.example.com": _REJECT}

    verdict = await _judge(zone, parsed=_parsed(_HINT), raw=signed())

    assert _words(verdict) == ("temperror", "temperror", "temperror")
    assert not is_sender_proven(verdict, "example.com")


@pytest.mark.parametrize("way", ["signature", "spf", "both"])
async def test_a_stranger_with_dead_name_servers_does_not_make_a_forgery_doubtful(way: str) -> None:
    """What cannot be asked about the stranger could prove nothing about the domain in From."""
    zone = _zone(**{"s1._domainkey.dead.example": None, "dead.example": None})
    hints = () if way == "spf" else (DkimKeyLocation(domain="dead.example", selector="s1"),)
    bounces = "x@live.example" if way == "signature" else "x@dead.example"
    raw = MAIL if way == "spf" else signed(domain="dead.example")

    verdict = await _judge(zone, _envelope(_OTHER, bounces), _parsed(*hints), raw)

    assert AuthResult.TEMPERROR in {verdict.spf, verdict.dkim}
    assert verdict.dmarc is AuthResult.FAIL


async def test_a_stranger_who_keeps_us_waiting_does_not_make_a_forgery_doubtful() -> None:
    class Slow(_Table):
        async def _ask(self, name: str) -> list[Any]:
            if "dead.example" in name:
                await asyncio.sleep(60)
            return await super()._ask(name)

    judge = SenderAuthenticator(Slow(_zone()), MailSettings(authenticate_within=0.3))
    hint = DkimKeyLocation(domain="dead.example", selector="s1")
    envelope = _envelope(_OTHER, "x@dead.example")

    verdict = await judge.authenticate(
        envelope, _parsed(hint), signed(domain="dead.example"), _check
    )

    assert _words(verdict) == ("temperror", "temperror", "fail")


async def test_where_the_policy_is_unknown_only_the_very_domain_counts() -> None:
    for records, word in ((None, "temperror"), ([b"v=DMARC1; p=odd"], "permerror")):
        zone = _zone(**{"_dmarc.example.com": records})

        same = await _judge(zone)
        relative = await _judge(zone, parsed=_parsed(domain="news.example.com"))

        assert (same.dmarc, relative.dmarc) == (word, word)
        assert is_sender_proven(same, "example.com")
        assert not is_sender_proven(relative, "news.example.com")


async def test_what_is_not_answered_in_time_is_a_temperror_and_the_rest_counts() -> None:
    rounds = 0

    async def slow(*_: object) -> tuple[DkimResult, ...]:
        nonlocal rounds
        while True:
            rounds += 1
            await asyncio.sleep(0.1)

    verdict = await _judge(parsed=_parsed(_HINT), raw=signed(), check=slow, within=1.0)

    assert rounds <= 20
    assert _words(verdict) == ("pass", "temperror", "pass")
    assert "timed_out" in verdict.details


async def test_a_check_that_will_not_stop_holds_nobody_up() -> None:
    may_end, has_ended = asyncio.Event(), asyncio.Event()

    async def stubborn(*_: object) -> tuple[DkimResult, ...]:
        with suppress(asyncio.CancelledError):
            await may_end.wait()
        await may_end.wait()
        has_ended.set()
        return ()

    async with asyncio.timeout(20):
        verdict = await _judge(parsed=_parsed(_HINT), raw=signed(), check=stubborn, within=0.1)

    assert "timed_out" in verdict.details
    assert not has_ended.is_set()
    may_end.set()
    await has_ended.wait()


async def test_a_check_that_breaks_is_a_temperror() -> None:
    async def broken(*_: object) -> object:
        raise RuntimeError

    async def killed(*_: object) -> object:
        return None

    async def odd(*_: object) -> object:
        return [{"result": "passed by"}]

    for check in (broken, killed, odd):
        verdict = await _judge(parsed=_parsed(_HINT), raw=signed(), check=check)
        assert verdict.dkim is AuthResult.TEMPERROR
        assert "check_failed" in verdict.details


async def test_results_may_come_as_plain_values() -> None:
    async def elsewhere(raw: bytes, answers: Mapping[str, list[bytes]]) -> object:
        return msgspec.msgpack.decode(msgspec.msgpack.encode(dkim_verify.check_dkim(raw, answers)))

    verdict = await _judge(parsed=_parsed(_HINT), raw=signed(), check=elsewhere)

    assert verdict.dkim is AuthResult.PASS
    assert "signed_date" in verdict.details


async def test_a_judgement_that_is_given_up_leaves_nothing_running() -> None:
    async def slow(*_: object) -> tuple[DkimResult, ...]:
        await asyncio.sleep(60)
        raise AssertionError

    task = asyncio.create_task(_judge(parsed=_parsed(_HINT), raw=signed(), check=slow))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0.05)

    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_no_text_of_a_sender_or_a_name_server_gets_into_a_verdict() -> None:
    zone = _zone(**{
        "example.com": [b"v=spf1 CANARY -all"],
        "_dmarc.example.com": [b"v=DMARC1; CANARY"],
        NAME: [b"p=CANARY"],
    })  # fmt: skip

    verdict = await _judge(zone, parsed=_parsed(_HINT), raw=signed())

    assert "canary" not in repr(verdict).lower()


# ---------------------------------------------------------------- trust


@pytest.mark.parametrize(
    ("verdict", "believed"),
    [
        (SenderVerdict(dmarc=AuthResult.PASS, domain="a.example"), True),
        (SenderVerdict(dkim=AuthResult.PASS, domain="a.example"), True),
        (SenderVerdict(spf=AuthResult.PASS, domain="a.example"), True),
        (SenderVerdict(dmarc=AuthResult.PASS, domain="a.example", origin="mailbox"), True),
        (SenderVerdict(dmarc=AuthResult.PASS, domain="b.example"), False),
        (SenderVerdict(dmarc=AuthResult.PASS), False),
        (SenderVerdict(domain="a.example"), False),
        (SenderVerdict(spf=AuthResult.PASS, dkim=AuthResult.PASS), False),
        (SenderVerdict(spf=AuthResult.PASS, dmarc=AuthResult.FAIL, domain="a.example"), False),
        (SenderVerdict(spf=AuthResult.SOFTFAIL, domain="a.example"), False),
    ],
)
def test_a_domain_is_trusted_only_when_it_is_proven(verdict: SenderVerdict, believed: bool) -> None:
    assert is_sender_proven(verdict, "a.example") is believed


# ---------------------------------------------------------------- the whole way


async def test_a_mail_is_judged_by_what_real_name_servers_say() -> None:
    key = rsa_key()[1].decode()
    server = NameServer({
        ("txt", "example.com"): ['"v=spf1 mx -all"', '"site-verification=1"'],
        ("mx", "example.com"): ["10 mx.example.com."],
        ("a", "mx.example.com"): [_CLIENT],
        ("txt", "_dmarc.example.com"): ['"v=DMARC1; p=quarantine"'],
        ("txt", NAME): [f'"{key[:200]}" "{key[200:]}"'],
    })  # fmt: skip
    async with server.running():
        judge, raw = make_authenticator(MailSettings(dns_servers=server.address)), signed()

        verdict = await judge.authenticate(_envelope(), _parsed(_HINT), raw, _check)

        assert _words(verdict) == ("pass", "pass", "pass")
        asked = len(server.asked)
        assert await judge.authenticate(_envelope(), _parsed(_HINT), raw, _check) == verdict
        assert len(server.asked) == asked


@pytest.mark.parametrize("mood", ["silent", "garbage", "servfail"])
async def test_name_servers_that_misbehave_hold_nobody_up(mood: str) -> None:
    moods = dict.fromkeys(("example.com", "_dmarc.example.com", NAME), mood)
    async with NameServer(moods=moods).running() as server:
        settings = MailSettings(dns_servers=server.address, authenticate_within=0.4)
        judge = make_authenticator(settings)
        for _ in range(2):
            asked = len(server.asked)

            verdict = await judge.authenticate(_envelope(), _parsed(_HINT), signed(), _check)

            assert _words(verdict) == ("temperror", "temperror", "temperror")
        assert asked <= 4 * len(moods)  # a question is not repeated for ever
        assert len(server.asked) == asked  # trouble is remembered for a moment
