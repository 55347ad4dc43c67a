"""A server that is killed between a webhook and its answer, on both ways that webhooks take."""

import asyncio
from pathlib import Path

import pytest

from tests.support.databases import Place, fresh_sqlite
from tests.torture.hooks.events import request
from tests.torture.hooks.service import Service
from tests.torture.processes import Children

#: in one packet it takes the express; in two, the long way
WAYS = {"express": 0, "long": 100}


async def _ask(port: int, wire: bytes, cut: int) -> bytes:
    """Send a request in one packet or two; return the first line of its answer, if any comes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for packet in filter(None, (wire[:cut], wire[cut:])):
            writer.write(packet)
            await writer.drain()
            await asyncio.sleep(0.05)
        return (await asyncio.wait_for(reader.readline(), 10)).strip()
    except ConnectionError:
        return b""
    finally:
        writer.close()


def _stored(url: str) -> int:
    session = Place("sqlite", url).session()
    ((count,),) = session.run(
        lambda tx: tx.execute("SELECT count(*) FROM oncebox_deliveries WHERE source = 'github'")
    )
    session.close()
    return int(count)


@pytest.mark.parametrize(
    ("point", "stored", "cut"),
    [
        pytest.param("accept.verified", 0, WAYS["long"], id="verified-long"),
        # One statement, which is committed as soon as it is written.
        pytest.param("accept.written", 1, WAYS["express"], id="written-express"),
        *(
            pytest.param("accept.committed", 1, cut, id=f"committed-{way}")
            for way, cut in WAYS.items()
        ),
    ],
)
def test_a_webhook_without_an_answer_is_sent_again_and_counts_once(
    tmp_path: Path, point: str, stored: int, cut: int
) -> None:
    url = fresh_sqlite(tmp_path).url
    wire = request("evt-1")
    with Children(tmp_path) as children:
        service = Service(tmp_path, url, children, {"ONCEBOX_FAULTS": f"{point}:1:kill"})
        service.start()
        assert asyncio.run(_ask(service.port, wire, cut)) == b""
        service.kill_all()
        assert _stored(url) == stored

        again = Service(tmp_path, url, children, known=True)
        again.start()
        assert asyncio.run(_ask(again.port, wire, cut)) == b"HTTP/1.1 200 OK"
        assert again.settle() == []
        assert len(again.runs()) == 1
        again.stop()
    assert _stored(url) == 1


def test_a_webhook_that_was_written_but_not_committed_is_not_there(tmp_path: Path) -> None:
    """After a duplicate, the next few commits read before they write: several statements."""
    url = fresh_sqlite(tmp_path).url
    known, new = request("evt-1"), request("evt-2")
    with Children(tmp_path) as children:
        service = Service(tmp_path, url, children, {"ONCEBOX_FAULTS": "accept.written:3:kill"})
        service.start()
        for _ in range(2):
            assert asyncio.run(_ask(service.port, known, 0)) == b"HTTP/1.1 200 OK"
        assert asyncio.run(_ask(service.port, new, 0)) == b""
        service.kill_all()
        assert _stored(url) == 1

        again = Service(tmp_path, url, children, known=True)
        again.start()
        assert asyncio.run(_ask(again.port, new, 0)) == b"HTTP/1.1 200 OK"
        assert again.settle() == []
        assert len(again.runs()) == 2
        again.stop()
    assert _stored(url) == 2
