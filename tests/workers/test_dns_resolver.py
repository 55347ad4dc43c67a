"""The resolver, against a real name server that misbehaves on demand."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import dns.asyncresolver
import dns.resolver
import pytest

from oncebox.errors import ConfigInvalid
from oncebox.errors.mail import DnsRecordNotFound, ResolverUnavailable
from oncebox.workers.mail import dns_resolver as resolving
from oncebox.workers.mail.dns_resolver import DnsResolver
from tests.support.nameserver import NameServer
from tests.support.ports import free_port

_RECORDS = {
    ("txt", "example.com"): ['"v=spf1 " "-all"', '"other"'],
    ("a", "example.com"): ["192.0.2.1", "192.0.2.2"],
    ("aaaa", "example.com"): ["2001:db8::1"],
    ("mx", "example.com"): ["10 mx.example.com.", "0 ."],
    ("ptr", "1.2.0.192.in-addr.arpa"): ["mx.example.com."],
    ("cname", "alias.example.com"): ["example.com."],
}


@asynccontextmanager
async def _asking(
    server: NameServer, within: float = 5.0
) -> AsyncIterator[tuple[NameServer, DnsResolver]]:
    async with server.running():
        yield server, DnsResolver(server.address, within=within)


async def test_every_kind_of_record_is_read() -> None:
    async with _asking(NameServer(_RECORDS)) as (_, resolver):
        assert sorted(await resolver.txt("example.com")) == [b"other", b"v=spf1 -all"]
        assert sorted(await resolver.a("example.com")) == ["192.0.2.1", "192.0.2.2"]
        assert await resolver.aaaa("example.com") == ["2001:db8::1"]
        assert sorted(await resolver.mx("example.com")) == [(0, ""), (10, "mx.example.com")]
        assert await resolver.ptr("1.2.0.192.in-addr.arpa") == ["mx.example.com"]
        assert sorted(await resolver.a("alias.example.com")) == ["192.0.2.1", "192.0.2.2"]


async def test_what_does_not_exist_is_no_answer() -> None:
    async with _asking(NameServer(_RECORDS)) as (_, resolver):
        for name in ("nowhere.example.com", "alias.example.com"):
            with pytest.raises(DnsRecordNotFound):
                await resolver.ptr(name)


@pytest.mark.parametrize("mood", ["silent", "garbage", "servfail", "refused", "loop", "stranger"])
async def test_a_server_that_misbehaves_is_trouble_after_a_few_questions(mood: str) -> None:
    server = NameServer(_RECORDS, {"example.com": mood})
    async with _asking(server, within=0.3) as (_, resolver):
        with pytest.raises(ResolverUnavailable):
            await resolver.txt("example.com")
        assert len(server.asked) <= 4


async def test_nobody_there_is_trouble() -> None:
    with pytest.raises(ResolverUnavailable):
        await DnsResolver(f"127.0.0.1:{free_port()}", within=0.2).txt("example.com")


async def test_a_cut_answer_is_fetched_by_tcp() -> None:
    server = NameServer(_RECORDS, {"example.com": "cut"})
    async with _asking(server) as (_, resolver):
        assert await resolver.aaaa("example.com") == ["2001:db8::1"]
        assert server.by_tcp == 1


@pytest.mark.parametrize(("texts", "size"), [(101, 10), (60, 250)], ids=["too many", "too much"])
async def test_an_answer_beyond_all_need_is_trouble(texts: int, size: int) -> None:
    long = [f'"{number:03}{"x" * size}" "{"y" * size}" "{"z" * size}"' for number in range(texts)]
    server = NameServer({("txt", "example.com"): long}, {"example.com": "cut"})
    async with _asking(server) as (_, resolver):
        with pytest.raises(ResolverUnavailable):
            await resolver.txt("example.com")


@pytest.mark.parametrize(
    "name", ["", ".", "a..b", "a" * 64 + ".example", "a." * 200 + "b", "é.example", "a\x00.b"]
)
async def test_what_is_no_name_is_asked_of_nobody(name: str) -> None:
    async with _asking(NameServer(), within=0.5) as (server, resolver):
        with pytest.raises((DnsRecordNotFound, ResolverUnavailable)):
            await resolver.txt(name)
        assert len(server.asked) <= 1


async def test_answers_are_remembered_as_long_as_they_say() -> None:
    async with _asking(NameServer(_RECORDS, ttl=60)) as (server, resolver):
        for _ in range(3):
            await resolver.txt("example.com")
        assert len(server.asked) == 1
    async with _asking(NameServer(_RECORDS, ttl=0)) as (server, resolver):
        for _ in range(3):
            await resolver.txt("example.com")
        assert len(server.asked) == 3


async def test_what_is_remembered_cannot_be_changed_by_who_was_told() -> None:
    async with _asking(NameServer(_RECORDS)) as (_, resolver):
        (await resolver.aaaa("example.com")).clear()
        assert await resolver.aaaa("example.com") == ["2001:db8::1"]


async def test_trouble_and_absence_are_remembered_for_a_moment() -> None:
    server = NameServer(_RECORDS, {"bad.example": "servfail"})
    async with _asking(server) as (_, resolver):
        for _ in range(3):
            with pytest.raises(ResolverUnavailable):
                await resolver.txt("bad.example")
            with pytest.raises(DnsRecordNotFound):
                await resolver.txt("nowhere.example")
        assert server.asked.count(("txt", "nowhere.example")) == 1
        assert server.asked.count(("txt", "bad.example")) <= 3  # within one question


async def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolving, "_MAX_CACHED", 10)
    big = {("txt", "big.example"): [f'"{"x" * 250}" ' * 20]}
    async with _asking(NameServer(_RECORDS | big)) as (_, resolver):
        for number in range(30):
            with pytest.raises(DnsRecordNotFound):
                await resolver.txt(f"n{number}.example")
        await resolver.txt("big.example")
        kept = resolver._cache._entries
        assert len(kept) == 10
        assert ("TXT", "big.example") not in kept


async def test_many_questions_at_once_share_the_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    records = {("a", f"h{number}.example"): ["192.0.2.1"] for number in range(300)}
    async with _asking(NameServer(records), within=5.0) as (_, resolver):
        answers = await asyncio.gather(*(resolver.a(name) for _, name in records))
        assert answers == [["192.0.2.1"]] * 300


async def test_a_question_that_is_given_up_is_given_up_at_once() -> None:
    server = NameServer(moods={"example.com": "silent"})
    async with _asking(server, within=1.0) as (_, resolver):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await resolver.txt("example.com")
        assert len(server.asked) == 1  # the packet was not sent again


@pytest.mark.parametrize("servers", ["9.9.9.9", "9.9.9.9, 1.1.1.1:5353", "::1", "[::1]:53,[::1]"])
async def test_servers_may_be_named(servers: str) -> None:
    DnsResolver(servers)


@pytest.mark.parametrize("servers", ["dns.example", "9.9.9.9:x", "9.9.9.9,", "9.9.9.9:99999"])
async def test_what_is_no_server_is_refused(servers: str) -> None:
    with pytest.raises(ConfigInvalid):
        DnsResolver(servers)


async def test_a_machine_without_servers_has_trouble_and_nothing_worse(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unconfigured(*_: object, configure: bool = True, **__: object) -> object:
        if configure:
            raise dns.resolver.NoResolverConfiguration
        return real(configure=False)

    real = dns.asyncresolver.Resolver
    monkeypatch.setattr(dns.asyncresolver, "Resolver", unconfigured)
    with pytest.raises(ResolverUnavailable):
        await DnsResolver().txt("example.com")
