"""`oncebox doctor` looks at the machine: names, ports, disk, certificates, extras."""

import asyncio
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from oncebox.cli.checks import Check, dns, machine
from oncebox.core import clock
from oncebox.settings import InboxSettings, MailSettings, Settings
from tests.cli.ledger import Ledger
from tests.support import certificates
from tests.support.databases import fresh_sqlite
from tests.support.nameserver import Asked, NameServer
from tests.support.running import Running, running

DOMAIN = "inbox.example.com"


def findings(ledger: Ledger) -> dict[str, dict[str, str]]:
    return {each["check"]: each for each in ledger.type("doctor", "--json").records}


# Ports


def test_a_port_is_free_or_ours_or_somebody_elses(
    bare: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "served").mkdir()
    with running(fresh_sqlite(tmp_path / "served"), tmp_path / "served") as service:
        smtp = service.call(_smtp_port(service))
        monkeypatch.setenv("ONCEBOX_HTTP__PORT", str(service.port))
        monkeypatch.setenv("ONCEBOX_SMTP__PORT", str(smtp))
        ours = findings(bare)
    free = findings(bare)
    with _silent() as port:
        for name in ("HTTP", "SMTP"):
            monkeypatch.setenv(f"ONCEBOX_{name}__PORT", str(port))
        taken = findings(bare)

    for name in ("http port", "smtp port"):
        assert ours[name]["message"].endswith("Oncebox answers there")
        assert free[name]["message"].endswith("is free")
        assert (ours[name]["status"], free[name]["status"]) == ("ok", "ok")
        assert (taken[name]["status"], taken[name]["remedy"]) == (
            "warn", f"choose another with {name.split()[0]}.port",
        )  # fmt: skip


async def _smtp_port(service: Running) -> int:
    assert service._service._smtp is not None
    return int(service._service._smtp._sockets[0].getsockname()[1])


@contextmanager
def _silent() -> Iterator[int]:
    """Listen, and never say a word."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


# Names


def asked(records: dict[Asked, list[str]], *domains: str, mood: str = "") -> list[Check]:
    """Ask the doctor about domains, of a name server that answers so."""

    async def ask() -> list[Check]:
        async with NameServer(records, {DOMAIN: mood}).running() as server:
            settings = Settings(
                mail=MailSettings(dns_servers=server.address),
                inboxes=InboxSettings(host="mx.example.com"),
            )
            return await dns.check_domains(settings, domains, within=2.0)

    return asyncio.run(ask())


GOOD: dict[Asked, list[str]] = {
    ("mx", DOMAIN): ["10 MX.example.com."],
    ("a", "mx.example.com"): ["192.0.2.1"],
}


def test_mail_that_finds_its_way_is_well() -> None:
    (found,) = asked(GOOD, DOMAIN)

    assert (found.status, found.message) == ("ok", f"{DOMAIN}: mail comes to mx.example.com")


@pytest.mark.parametrize(
    ("records", "message", "remedy"),
    [
        ({("a", "x.example.com"): ["192.0.2.1"]}, "has no MX record", f"set: {DOMAIN}. MX 10 mx."),
        ({("mx", DOMAIN): ["10 other.example.com."]}, "taken to other.example.com", "inboxes.host"),
        ({("mx", DOMAIN): ["10 mx.example.com."]}, "has no address", "A or AAAA"),
    ],
)
def test_a_name_that_leads_elsewhere_is_told_with_the_record_to_set(
    records: dict[Asked, list[str]], message: str, remedy: str
) -> None:
    (found,) = asked(records, DOMAIN)

    assert found.status == "warn"
    assert message in found.message
    assert remedy in found.remedy


def test_a_name_server_that_is_silent_keeps_nobody_waiting() -> None:
    (found,) = asked(GOOD, DOMAIN, mood="silent")

    assert (found.status, bool(found.remedy)) == ("warn", True)


def test_names_that_nobody_outside_knows_are_not_asked_for() -> None:
    (found,) = asked({}, "oncebox.test", "a.example")

    assert (found.status, found.check) == ("ok", "dns")


def test_the_doctor_asks_for_the_domains_of_the_ledger(
    bare: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare.type("domain", "add", DOMAIN)
    with _serving(NameServer(GOOD)) as server:
        monkeypatch.setenv("ONCEBOX_MAIL__DNS_SERVERS", server.address)
        monkeypatch.setenv("ONCEBOX_INBOXES__HOST", "mx.example.com")
        found = findings(bare)["dns"]

    assert found["message"] == f"{DOMAIN}: mail comes to mx.example.com"
    assert ("mx", DOMAIN) in server.asked


@contextmanager
def _serving(server: NameServer) -> Iterator[NameServer]:
    """Run a name server in a thread of its own; the command has a loop of its own."""
    up, over = threading.Event(), threading.Event()

    async def serve() -> None:
        async with server.running():
            up.set()
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert up.wait(30)
    try:
        yield server
    finally:
        over.set()
        thread.join()


# Files


class Inodes(NamedTuple):
    f_files: int
    f_favail: int
    f_blocks: int = 1 << 30
    f_bfree: int = 1 << 30
    f_bavail: int = 1 << 30
    f_frsize: int = 4096


def test_inodes_that_run_out_are_told(bare: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    for left, status in ((100_000, "ok"), (5_000, "warn"), (10, "fail")):
        monkeypatch.setattr(os, "statvfs", lambda _path, left=left: Inodes(1_000_000, left))
        found = findings(bare)["inodes"]
        assert (found["status"], bool(found["remedy"])) == (status, status != "ok")
    monkeypatch.setattr(os, "statvfs", lambda _path: Inodes(0, 0))
    assert "inodes" not in findings(bare)


def test_a_key_file_that_others_can_read_is_told(
    bare: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ONCEBOX_MASTER_KEY")
    bare.accept("k")
    key = Path("data/oncebox.key")
    well = findings(bare)["key file"]
    key.chmod(0o644)
    open_ = findings(bare)["key file"]

    assert well["status"] == "ok"
    assert (open_["status"], open_["remedy"]) == (
        "warn", f"let only its owner read it: chmod 600 {key.absolute()}",
    )  # fmt: skip


def test_a_database_that_others_can_read_is_told(bare: Ledger) -> None:
    bare.accept("k")
    file = next(Path("data").glob("*.db")).absolute()
    well = findings(bare)
    file.chmod(0o644)
    file.parent.chmod(0o755)
    open_ = findings(bare)

    assert (well["database file"]["status"], well["data folder"]["status"]) == ("ok", "ok")
    remedies = {name: open_[name]["remedy"] for name in ("database file", "data folder")}
    assert remedies == {
        "database file": f"let only its owner read it: chmod 600 {file}",
        "data folder": f"let only its owner read it: chmod 700 {file.parent}",
    }


def test_a_certificate_is_read_and_its_end_is_told(
    bare: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        Path(name).mkdir()
        certificates.make(Path(name))
    shown = Path("one/certificate.pem").absolute()
    monkeypatch.setenv("ONCEBOX_SMTP__TLS_CERTIFICATE", str(shown))
    soon = findings(bare)["tls"]
    monkeypatch.setenv("ONCEBOX_SMTP__TLS_KEY", str(Path("two/certificate.pem").absolute()))
    mixed = findings(bare)["tls"]
    monkeypatch.setenv("ONCEBOX_SMTP__TLS_KEY", "missing.pem")
    missing = findings(bare)["tls"]
    monkeypatch.delenv("ONCEBOX_SMTP__TLS_KEY")
    shown.write_text("no certificate")
    garbage = findings(bare)["tls"]

    assert (soon["status"], soon["remedy"]) == ("warn", "renew the certificate")
    assert (mixed["status"], mixed["message"]) == ("fail", "the key is not the certificate's")
    assert (missing["status"], missing["message"]) == (
        "fail", "cannot be read: No such file or directory",
    )  # fmt: skip
    assert garbage["status"] == "fail"


@pytest.mark.parametrize(("later", "status"), [(0, "warn"), (3, "fail"), (-30, "ok")])
def test_a_certificate_that_is_over_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, later: int, status: str
) -> None:
    certificates.make(tmp_path)  # good for one day
    now = clock.system()
    monkeypatch.setattr(clock, "system", lambda: now + later * 86_400_000)

    assert machine._check_certificate(str(tmp_path / "certificate.pem"), None).status == status


def test_the_extras_are_named(bare: Ledger) -> None:
    found = findings(bare)["extras"]

    assert found["status"] == "ok"
    assert "postgres is installed" in found["message"]
