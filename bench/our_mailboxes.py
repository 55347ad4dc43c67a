"""Our side of mailboxes, and the servers that both sides read from."""

from __future__ import annotations

import argparse
import asyncio
import gc
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedRWPair
from pathlib import Path
from statistics import quantiles

import uvloop

from bench import load
from bench.environment import ROOT, peers_python
from bench.our_waits import served
from bench.ours import new_box
from oncebox.box import Oncebox
from oncebox.client.asynchronous import AsyncClient
from oncebox.core import credentials, ids
from oncebox.ledger.admin.api_keys import Requester
from oncebox.ledger.admin.audit import AuditEntry
from oncebox.ledger.mailboxes import mailboxes
from oncebox.mailboxes.imap_config import ImapConfig
from oncebox.mailboxes.imap_connection import ImapSecurity
from oncebox.mailboxes.mailbox_config import MailboxConfig, encode_config
from oncebox.model.inboxes.inbox import InboxOptions
from oncebox.model.mailboxes.mailbox import MailboxKind, NewMailbox
from oncebox.testing.imap import ScriptedImap
from oncebox.workers.factory import Workers
from tests.support.dovecot import PASSWORD, Dovecot
from tests.torture.artifacts.courier import letter

USER = "ann"
MAILS, SIZE = 10_000, 4096
MAILBOXES = 1000
#: seconds for which idle mailboxes are watched: three renewals of their leases
WATCHED = 30.0
#: mails that somebody waits for, and seconds between them
WAITED, PAUSE = 60, 0.2


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument(
        "what", choices=("fetch", "imap-tools", "idle", "answer", "bare-idle", "server")
    )
    parser.add_argument("--mails", type=int, default=MAILS)
    parser.add_argument("--mailboxes", type=int, default=MAILBOXES)
    parser.add_argument("--bulk", type=int, default=0)
    options = parser.parse_args()
    if options.what == "server":
        uvloop.run(_serve())
    elif options.what == "idle":
        with _scripted_server() as port:
            uvloop.run(_idle(options, port))
    else:
        with Dovecot() as dovecot:
            _on_dovecot(options, dovecot)


def _on_dovecot(options: argparse.Namespace, dovecot: Dovecot) -> None:
    if options.what == "answer":
        _answers(options, dovecot)
    elif options.what == "bare-idle":
        _bare_idle(dovecot)
    else:
        dovecot.fill(USER, (_mail(number) for number in range(options.mails)))
        if options.what == "fetch":
            uvloop.run(_fetch(options, dovecot.port))
        else:
            words = [str(dovecot.port), USER, PASSWORD, "--bulk", str(options.bulk)]
            program = [str(peers_python()), "-m", "bench.peers.imap_tools_fetch", *words]
            subprocess.run(program, check=True, cwd=ROOT)


def _mail(number: int) -> bytes:
    head = (
        f"From: Shop <orders@shop.example>\r\nTo: ann@oncebox.test\r\nSubject: Order {number}\r\n"
        f"Message-ID: <{number}@shop.example>\r\nDate: Mon, 16 Nov 2026 04:00:00 +0000\r\n\r\n"
    )
    line = f"Your order {number} is on its way to you, and reaches you within three days.\r\n"
    return (head + line * ((SIZE - len(head)) // len(line) + 1)).encode()


# our side


async def _add(box: Oncebox, port: int, count: int, since: str) -> None:
    """Add an inbox, and mailboxes that go into it."""
    components = box.components
    now = components.database.clock()
    (made,) = await components.database.write(
        components.inboxes.allocate, Requester(tenant=box.settings.tenant), [InboxOptions()], now
    )
    await add_mailboxes(box, port, [made.inbox.id] * count, since)


async def add_mailboxes(box: Oncebox, port: int, inboxes: list[str], since: str) -> None:
    """Add a mailbox for each of these inboxes, as an operator would."""
    components, tenant = box.components, box.settings.tenant
    for number, inbox_id in enumerate(inboxes):
        reader = ImapConfig(
            host="127.0.0.1", port=port, security=ImapSecurity.NONE, username=USER,
            password=PASSWORD, since="all" if since == "all" else "now",
        )  # fmt: skip
        config, name = MailboxConfig(reader=reader), f"box-{number}"
        sealed = components.mailbox_cipher.encrypt(tenant, name, encode_config(config))
        new = NewMailbox(
            name=name, kind=MailboxKind.IMAP, account=name, config=sealed, inbox_id=inbox_id
        )
        entry = AuditEntry(
            id=ids.new("aud"), tenant=tenant, at=components.database.clock(), who="bench", why=""
        )
        await components.database.write(mailboxes.add, ids.new("mbx"), new, entry)


async def _fetch(options: argparse.Namespace, port: int) -> None:
    """Report how many mails are read and on disk a second, from the claim to the last commit."""
    box = new_box(options)
    await box.open()
    await _add(box, port, 1, "all")
    worker = Workers(box.components, box.settings, box.handlers, name="bench").mailbox_worker()
    read, tenant = box.components.database.read, box.settings.tenant
    # As a service does when it has started.
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)
    began = time.perf_counter()
    running = asyncio.create_task(worker.run())
    while (await read(mailboxes.get, tenant, "box-0")).figures.messages < options.mails:
        assert not running.done()
        await asyncio.sleep(0.01)
    seconds = time.perf_counter() - began
    worker.stop()
    await running
    await box.close()
    load.report(options.mails / seconds, f"{options.mails} mails of 4 KB, on disk")


async def _idle(options: argparse.Namespace, port: int) -> None:
    """Report how many idle mailboxes one core would carry, and the memory of the process."""
    box = new_box(options)
    await box.open()
    await _add(box, port, options.mailboxes, "now")
    before = _resident()
    worker = Workers(box.components, box.settings, box.handlers, name="bench").mailbox_worker()
    running = asyncio.create_task(worker.run())
    await _first_page(box)
    await asyncio.sleep(2)  # the last of them begin to wait
    used = _cpu()
    await asyncio.sleep(WATCHED)
    share = (_cpu() - used) / WATCHED
    resident = _resident()
    worker.stop()
    await running
    await box.close()
    each = (resident - before) / options.mailboxes
    load.report(
        options.mailboxes / share,
        f"{share * 1e6 / options.mailboxes:.0f} µs of CPU a second and {each:.0f} KiB each",
        mib=resident / 1024,
    )


async def _first_page(box: Oncebox) -> None:
    """Wait until every mailbox was read once."""
    read, tenant = box.components.database.read, box.settings.tenant
    while any(each.cursor is None for each in await read(mailboxes.of_tenant, tenant)):  # noqa: ASYNC110
        await asyncio.sleep(0.1)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _resident() -> float:
    """Return the resident memory of this process in KiB."""
    text = Path("/proc/self/statm").read_text()
    return int(text.split()[1]) * resource.getpagesize() / 1024


@contextmanager
def _scripted_server() -> Iterator[int]:
    """Run a server in a process of its own, whose time and memory do not count."""
    words = [sys.executable, "-m", "bench.our_mailboxes", "none", "server"]
    with subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        yield int(server.stdout.readline())
        server.stdin.close()
        server.wait()


async def _serve() -> None:
    async with ScriptedImap() as server:
        print(server.port, flush=True)
        await asyncio.to_thread(sys.stdin.read)


# from the delivery to the answer


def _answers(options: argparse.Namespace, dovecot: Dovecot) -> None:
    """Report how long it takes from a delivery to the code in the hands of who waits for it."""
    with (
        tempfile.TemporaryDirectory(prefix="oncebox-bench-") as folder,
        served(options.url, Path(folder)) as (http, _smtp),
    ):
        found = credentials.read(Path(folder))
        assert found is not None
        times = uvloop.run(_waited(options, dovecot, f"http://127.0.0.1:{http}", found.key))
    _report_waits(times)


async def _waited(options: argparse.Namespace, dovecot: Dovecot, url: str, key: str) -> list[float]:
    times: list[float] = []
    async with AsyncClient(url, key) as client:
        inbox = await client.inboxes.create(attempt_id="bench")
        box = new_box(options)
        await box.open()
        await add_mailboxes(box, dovecot.port, [inbox.id], "now")
        await _first_page(box)
        await box.close()
        after = 0
        for number in range(WAITED + 3):
            answer = asyncio.create_task(inbox.wait_for_code(after=after, within=60))
            await asyncio.sleep(PAUSE)
            mail = letter(inbox.email, f"83{number:04}", number)
            await asyncio.to_thread(dovecot.deliver, USER, mail)
            delivered_at = time.monotonic()
            after = (await answer).sequence
            times.append(time.monotonic() - delivered_at)
    return times[3:]


def _bare_idle(dovecot: Dovecot) -> None:
    """Report how long Dovecot itself takes to tell a client that waits."""
    dovecot.deliver(USER, _mail(0))
    times = []
    with socket.create_connection(("127.0.0.1", dovecot.port), timeout=60) as line:
        stream = line.makefile("rwb")
        assert stream.readline().startswith(b"* OK")
        _exchange(stream, f"1 LOGIN {USER} {PASSWORD}", b"1 OK")
        _exchange(stream, "2 SELECT INBOX", b"2 OK")
        for number in range(WAITED):
            stream.write(b"3 IDLE\r\n")
            stream.flush()
            assert stream.readline().startswith(b"+")
            time.sleep(PAUSE)
            dovecot.deliver(USER, _mail(number + 1))
            delivered_at = time.monotonic()
            while not stream.readline().rstrip().endswith(b"EXISTS"):
                pass
            times.append(time.monotonic() - delivered_at)
            _exchange(stream, "DONE", b"3 OK")
    _report_waits(times)


def _exchange(stream: BufferedRWPair, words: str, end: bytes) -> None:
    """Send a line, and read until the line that ends the answer."""
    stream.write(f"{words}\r\n".encode())
    stream.flush()
    while not (line := stream.readline()).startswith(end):
        assert line


def _report_waits(times: list[float]) -> None:
    cut = [each * 1000 for each in quantiles(times, n=100)]
    # What one who does nothing but wait and go on would get in a second.
    load.report(len(times) / sum(times), f"{len(times)} mails", p50=cut[49], p99=cut[98])


if __name__ == "__main__":
    main()
