"""Answers that go on: server-sent events, one block after another for as long as both sides like.

The connection has no time limit while it is our move, and a client that does not read is cut
off below, by the watch.
"""

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass

from oncebox.edge.guard import Send
from oncebox.errors import OnceboxError

MEDIA = "text/event-stream"
#: also for proxies: what is kept back or changed on the way is of no use
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store, no-transform"),
    (b"x-accel-buffering", b"no"),
    (b"x-content-type-options", b"nosniff"),
]


@dataclass(frozen=True, slots=True)
class Streamed:
    """An answer in blocks, which ends when they do."""

    blocks: AsyncIterator[bytes]


def is_wanted(accept: bytes) -> bool:
    """Say whether a client asks for a stream by name; whoever takes anything gets a page."""
    kinds = (kind.partition(b";")[0].strip().lower() for kind in accept.split(b","))
    return MEDIA.encode() in kinds


def block(id_: str, *, event: str = "", data: bytes = b"", retry: int | None = None) -> bytes:
    """Return one block of a stream; one without data only moves the reader's place on."""
    lines = [b"id: %s" % id_.encode()]
    if retry is not None:
        lines.append(b"retry: %d" % retry)
    if data:
        lines += [b"event: %s" % event.encode(), b"data: %s" % data]
    return b"\n".join((*lines, b"", b""))


async def send_all(answer: Streamed, send: Send) -> None:
    """Send an answer block by block.

    What fails on the way ends it, and the client comes back to hear of it.
    """
    await send({"type": "http.response.start", "status": 200, "headers": list(_HEADERS)})
    try:
        async with aclosing(answer.blocks) as blocks:  # type: ignore[type-var]
            async for each in blocks:
                await send({"type": "http.response.body", "body": each, "more_body": True})
    except OnceboxError:
        pass
    finally:
        await send({"type": "http.response.body", "body": b""})
