"""A name server on the loopback: real packets, scripted answers, and every way to misbehave."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import cast

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset

from tests.support.ports import free_port

#: the type and name that were asked for
Asked = tuple[str, str]


class NameServer(asyncio.DatagramProtocol):
    """Answers from a table by UDP and TCP.

    Moods of a name: ``silent``, ``garbage``, ``servfail``, ``refused``, ``cut`` (by UDP only),
    ``loop`` (an alias of itself), ``stranger`` (another id), ``slow``.
    """

    def __init__(
        self,
        records: Mapping[Asked, Sequence[str]] | None = None,
        moods: Mapping[str, str] | None = None,
        *,
        ttl: int = 60,
    ) -> None:
        self.records = {
            (kind, name): list(texts) for (kind, name), texts in (records or {}).items()
        }
        self.moods = dict(moods or {})
        self.ttl = ttl
        self.asked: list[Asked] = []
        self.by_tcp = 0
        self.port = 0
        self._transport: asyncio.DatagramTransport | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @asynccontextmanager
    async def running(self) -> AsyncIterator["NameServer"]:
        """Listen on a free port."""
        self.port = free_port()
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(
            lambda: self, local_addr=("127.0.0.1", self.port)
        )
        server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        try:
            async with server:
                yield self
        finally:
            transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        reply = self._reply(data, tcp=False)
        assert self._transport is not None
        if reply is not None:
            delay = 0.3 if self.moods.get(self.asked[-1][1]) == "slow" else 0.0
            asyncio.get_running_loop().call_later(delay, self._transport.sendto, reply, addr)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            size = int.from_bytes(await reader.readexactly(2), "big")
            self.by_tcp += 1
            reply = self._reply(await reader.readexactly(size), tcp=True)
            if reply is not None:
                writer.write(len(reply).to_bytes(2, "big") + reply)
                await writer.drain()
        except asyncio.IncompleteReadError:
            pass  # the client has gone
        finally:
            writer.close()

    def _reply(self, data: bytes, *, tcp: bool) -> bytes | None:
        query = dns.message.from_wire(data)
        question = query.question[0]
        name = question.name.to_text(omit_final_dot=True)
        kind = dns.rdatatype.to_text(question.rdtype).lower()
        self.asked.append((kind, name))
        mood = self.moods.get(name, "")
        if mood in {"silent", "garbage"}:
            return b"\xff" * 40 if mood == "garbage" else None
        reply = dns.message.make_response(query)
        if mood in {"servfail", "refused"}:
            reply.set_rcode(dns.rcode.from_text(mood))
        elif mood == "cut" and not tcp:
            reply.flags |= dns.flags.TC
        elif mood == "loop":
            reply.answer.append(dns.rrset.from_text(f"{name}.", 60, "IN", "CNAME", f"x.{name}."))
            reply.answer.append(dns.rrset.from_text(f"x.{name}.", 60, "IN", "CNAME", f"{name}."))
        else:
            self._fill(reply, kind, name)
        if mood == "stranger":
            reply.id ^= 1
        return reply.to_wire(max_size=65_535)

    def _fill(self, reply: dns.message.Message, kind: str, name: str) -> None:
        texts = self.records.get((kind, name), [])
        owner = f"{name}."
        if not texts and (alias := self.records.get(("cname", name))):
            reply.answer.append(dns.rrset.from_text(owner, self.ttl, "IN", "CNAME", *alias))
            owner = alias[0]
            texts = self.records.get((kind, owner.removesuffix(".")), [])
        if texts:
            reply.answer.append(dns.rrset.from_text(owner, self.ttl, "IN", kind.upper(), *texts))
        elif not any(known == name for _, known in self.records):
            reply.set_rcode(dns.rcode.NXDOMAIN)
