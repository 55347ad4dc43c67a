"""Transports at the terminal: configured, seen, tried and paused; their secrets never shown."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oncebox.model.sends.transports import NotSent, SendPhase
from oncebox.testing.provider import ScriptedProvider
from oncebox.testing.smtp import ScriptedSmtp
from tests.cli.ledger import Answer, Ledger
from tests.cli.outbox import tried
from tests.support import certificates

CANARY = "CANARYPASSWORD"


@pytest.fixture
def relay() -> Iterator[ScriptedSmtp]:
    """A mail server that wants a login."""
    with ScriptedSmtp(users={"app": CANARY}) as relay:
        yield relay


@pytest.fixture
def sqlite(bare: Ledger) -> Ledger:
    """An empty ledger on one of the databases."""
    bare.type("migrate")
    return bare


def add(ledger: Ledger, relay: ScriptedSmtp, *options: str, stdin: str = CANARY) -> Answer:
    return ledger.type(
        "transport", "add", "relay", "--kind", "smtp", "--host", relay.host,
        "--port", str(relay.port), "--security", "none", "--username", "app",
        "--password", "-", *options, stdin=stdin.encode(),
    )  # fmt: skip


def show(ledger: Ledger) -> Any:
    return ledger.type("transport", "show", "relay", "--json").record


def test_a_transport_is_added_seen_paused_and_resumed_on_record(
    ledger: Ledger, relay: ScriptedSmtp
) -> None:
    added = add(ledger, relay, "--rate", "100/1min", "--why", "first", "--json").record
    listed = ledger.type("transport", "list").rows
    paused = ledger.type("transport", "pause", "relay", "--why", "moving", "--json").record
    resumed = ledger.type("transport", "resume", "relay").rows
    outline = ledger.type("transport", "show", "relay").rows

    assert (added["kind"], added["state"], added["action"]) == ("smtp", "working", "added")
    assert added["rate"] == {"sends": 100, "within": 60.0}
    assert listed == [["relay", "working", "smtp", "0", "none", "100 in 60 s", "0", ""]]
    assert (paused["state"], resumed) == ("paused", [["relay", "resumed", "smtp"]])
    assert ["server", f"{relay.host}:{relay.port}"] in outline
    assert [(each[1], each[2]) for each in ledger.audit("transport:relay")] == [
        ("transport add", "first"), ("transport pause", "moving"), ("transport resume", ""),
    ]  # fmt: skip


def test_a_transport_is_removed_on_record_unless_a_send_needs_it(
    ledger: Ledger, relay: ScriptedSmtp
) -> None:
    add(ledger, relay)
    mail = ("--from", "a@example.com", "--to", "b@example.com", "--text", "x", "--key", "k")
    send = ledger.type("send", "mail", *mail, "--json").record["id"]

    refused = ledger.type("transport", "remove", "relay", "--why", "moved")
    ledger.type("send", "cancel", send, "--why", "moved")
    removed = ledger.type("transport", "remove", "relay", "--why", "moved", "--json").record

    assert (refused.code, "1 waits" in refused.err) == (4, True)
    assert (removed["name"], removed["action"]) == ("relay", "removed")
    assert ledger.type("transport", "list").out == ""
    assert ledger.type("transport", "remove", "relay", "--why", "moved").code == 3
    assert ledger.audit("transport:relay")[-1][1:3] == ("transport remove", "moved")


def test_a_failover_group_is_given_seen_changed_and_taken_away(
    sqlite: Ledger, relay: ScriptedSmtp
) -> None:
    added = add(sqlite, relay, "--failover-group", "main", "--json").record
    kept = sqlite.type("transport", "change", "relay", "--position", "3", "--json").record
    outline = sqlite.type("transport", "show", "relay").rows
    gone = sqlite.type("transport", "change", "relay", "--failover-group", "", "--json").record
    log = ("transport", "add", "log2", "--kind", "log", "--failover-group", "main")
    refused = [sqlite.type(*log), add(sqlite, relay, "--failover-group", " main")]

    assert (added["failover_group"], kept["failover_group"]) == ("main", "main")
    assert ["failover group", "main"] in outline
    assert gone["failover_group"] == ""
    assert {each.code for each in refused} == {1}
    assert len(sqlite.type("transport", "list").rows) == 1


def test_the_doctor_names_what_does_not_fail_over(
    sqlite: Ledger, relay: ScriptedSmtp, tmp_path: Path
) -> None:
    key = tmp_path / "key"
    key.write_text(base64.b64encode(bytes(range(32))).decode())
    add(sqlite, relay, "--failover-group", "main", "--dkim", f"example.com/s1=file:{key}")

    def failover() -> list[str]:
        checks = sqlite.type("doctor", "--json").records
        return [each["message"] for each in checks if each["check"] == "failover"]

    alone = failover()
    second = (
        *("--kind", "smtp", "--host", relay.host, "--port", str(relay.port)),
        *("--security", "none"),
    )
    sqlite.type("transport", "add", "second", *second, "--failover-group", "main")
    sqlite.type("transport", "add", "third", *second)
    together = failover()

    assert alone == ["group main has only relay: nothing takes over from it"]
    assert together == [
        "none for third: their mail waits if they fail",
        "group main: relay, second; the next takes over from one that fails",
        "second has no DKIM key for example.com, so it does not take over its mail",
    ]


def test_a_test_connects_logs_in_and_sends_nothing(sqlite: Ledger, relay: ScriptedSmtp) -> None:
    add(sqlite, relay)
    tested = sqlite.type("transport", "test", "relay")

    assert (tested.code, tested.rows[0][:2]) == (0, ["relay", "works"])
    assert relay.commands[-3:] == ["AUTH PLAIN", "NOOP", "QUIT"]
    assert relay.accepted == []


def test_a_test_says_plainly_what_is_in_the_way(sqlite: Ledger, relay: ScriptedSmtp) -> None:
    add(sqlite, relay, stdin="wrong")
    refused = sqlite.type("transport", "test", "relay", "--json")
    told = sqlite.type("transport", "test", "relay")
    sqlite.type("transport", "change", "relay", "--port", "1")
    unreached = sqlite.type("transport", "test", "relay", "--json")

    assert (refused.code, unreached.code) == (1, 1)
    assert (refused.record["works"], refused.record["code"]) == (False, "login_refused")
    assert "user name, password or key was refused" in told.out
    assert unreached.record["code"] == "connect_failed"


def test_a_test_by_tls_trusts_whom_it_is_told_to(sqlite: Ledger, tmp_path: Path) -> None:
    shown, _ = certificates.make(tmp_path)
    with ScriptedSmtp(tls=shown) as relay:
        where = ("--host", relay.host, "--port", str(relay.port))
        sqlite.type("transport", "add", "relay", "--kind", "smtp", *where)
        strange = sqlite.type("transport", "test", "relay", "--json").record
        pem = (tmp_path / "certificate.pem").read_text()
        ca = tmp_path / "ca.pem"
        ca.write_text(pem[pem.index("-----BEGIN CERTIFICATE") :])
        sqlite.type("transport", "change", "relay", "--ca", str(ca))
        trusted = sqlite.type("transport", "test", "relay", "--json").record

    assert (strange["works"], strange["code"]) == (False, "certificate_refused")
    assert trusted["works"]


def test_a_test_of_resend_proves_the_key_and_sends_nothing(sqlite: Ledger) -> None:
    with ScriptedProvider() as provider:
        add = ("transport", "add", "resend", "--kind", "resend", "--url", provider.url)
        sqlite.type(*add, "--api-key", "-", stdin=b"re_good")
        works = sqlite.type("transport", "test", "resend")
        change = ("transport", "change", "resend", "--api-key", "-")
        sqlite.type(*change, stdin=b"wrong")
        refused = sqlite.type("transport", "test", "resend", "--json")
        provider.script("500")
        failing = sqlite.type("transport", "test", "resend", "--json").record

    assert (works.code, works.rows[0][1]) == (0, "works")
    assert (refused.code, refused.record["code"]) == (1, "login_refused")
    assert (failing["works"], failing["code"]) == (False, "server_error")
    assert provider.accepted == []


def test_a_test_mail_is_a_send_like_any_other(sqlite: Ledger, relay: ScriptedSmtp) -> None:
    add(sqlite, relay)
    command = ("transport", "test", "relay", "--to", "ann@example.com", "--from", "a@example.com")
    tested = sqlite.type(*command, "--within", "0", "--json")
    sends = sqlite.type("send", "list", "--json").records

    assert tested.code == 1
    assert [(each["state"], each["event_type"], each["transport"]) for each in sends] == [
        ("pending", "oncebox.transport_test", "relay")
    ]
    assert tested.record["send"] == sends[0]["id"]


def test_a_change_keeps_what_was_not_typed(sqlite: Ledger, relay: ScriptedSmtp) -> None:
    add(sqlite, relay, "--rate", "5", "--position", "7")
    sqlite.type("transport", "change", "relay", "--greet-as", "app.example.com")
    kept = show(sqlite)
    sqlite.type("transport", "change", "relay", "--rate", "0", "--position", "0")
    freed = show(sqlite)

    assert (kept["rate"]["sends"], kept["position"]) == (5, 7)
    assert (freed["rate"], freed["position"]) == (None, 0)
    assert sqlite.type("transport", "test", "relay").code == 0
    assert "EHLO app.example.com" in relay.commands


def test_a_transport_that_rests_is_told_with_the_reason_to_look(
    ledger: Ledger, relay: ScriptedSmtp
) -> None:
    add(ledger, relay)
    mail = ("send", "mail", "--to", "ann@example.com", "--from", "a@example.com", "--text", "x")
    ledger.type(*mail, "--key", "k")
    tried(
        outcome=NotSent(code="login_refused", phase=SendPhase.GREETED, opens_circuit=True), wait=1
    )
    listed = ledger.type("transport", "list").rows[0]
    doctor = {each["check"]: each for each in ledger.type("doctor", "--json").records}
    ledger.type("transport", "change", "relay", "--password", "-", stdin=CANARY.encode())

    assert (listed[1], listed[6]) == ("resting", "1")
    assert "rests after failures" in listed[7]
    assert doctor["transport"]["status"] == "warn"
    assert "oncebox transport test relay" in doctor["transport"]["remedy"]
    assert show(ledger)["state"] == "working"


def test_secrets_are_never_shown_and_never_taken_from_the_command_line(
    sqlite: Ledger, relay: ScriptedSmtp, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SMTP_PASSWORD", CANARY)
    (tmp_path / "password").write_text(f"{CANARY}\n")
    typed = [
        add(sqlite, relay),
        sqlite.type("transport", "change", "relay", "--password", CANARY),
        sqlite.type("transport", "change", "relay", "--password", "env:SMTP_PASSWORD"),
        sqlite.type("transport", "test", "relay"),
        sqlite.type("transport", "change", "relay", "--password", "file:password"),
        sqlite.type("transport", "test", "relay"),
        sqlite.type("transport", "show", "relay"),
        sqlite.type("transport", "show", "relay", "--json"),
        sqlite.type("transport", "list", "--json"),
        sqlite.type("transport", "change", "relay", "--password", "env:NOT_SET"),
    ]

    assert [each.code for each in typed] == [0, 2, 0, 0, 0, 0, 0, 0, 0, 1]
    assert not any(CANARY in each.out + each.err for each in typed)


@pytest.mark.parametrize(
    "options",
    [
        ["--kind", "smtp"],
        ["--kind", "resend"],
        ["--kind", "log", "--host", "a"],
        ["--kind", "smtp", "--host", "a", "--api-key", "env:HOME"],
        ["--kind", "smtp", "--host", "a", "--username", "x"],
        ["--kind", "smtp", "--host", "a", "--rate", "fast"],
        ["--kind", "smtp", "--host", "a", "--dkim", "example.com=env:HOME"],
        ["--kind", "smtp", "--host", "a", "--password", "-", "--dkim", "example.com/s=-"],
        ["--kind", "pigeon"],
    ],
    ids=" ".join,
)
def test_half_a_transport_is_refused(bare: Ledger, options: list[str]) -> None:
    answer = bare.type("transport", "add", "x", *options)

    assert answer.code == 2
    assert not Path("data/oncebox.db").exists()


def test_what_could_never_send_is_refused_before_it_is_kept(bare: Ledger) -> None:
    add = ("transport", "add", "x", "--kind", "smtp", "--host")
    clear = bare.type(*add, "relay.example.com", "--security", "none", "--username", "a",
                      "--password", "-", stdin=b"p")  # fmt: skip
    unsigned = bare.type(*add, "relay.example.com", "--dkim", "example.com/s=-", stdin=b"no key")
    unnamed = bare.type(*add, "a b")

    assert {each.code for each in (clear, unsigned, unnamed)} == {1}
    assert clear.err.startswith("error: config_invalid: ")
    assert not Path("data/oncebox.db").exists()


def test_a_key_that_signs_is_found_whatever_its_file_is_called(
    sqlite: Ledger, tmp_path: Path
) -> None:
    (tmp_path / "s=1.key").write_text("A" * 43 + "=")
    add = ("transport", "add", "x", "--kind", "smtp", "--host", "relay.example.com")
    added = sqlite.type(*add, "--dkim", "example.com/s=file:s=1.key")

    assert added.code == 0
    assert "s._domainkey.example.com" in sqlite.type("transport", "show", "x").out


def test_a_name_is_given_once_and_one_that_is_missing_is_not_found(bare: Ledger) -> None:
    first = bare.type("transport", "add", "x", "--kind", "log")
    again = bare.type("transport", "add", "x", "--kind", "log")
    missing = bare.type("transport", "pause", "y")

    assert (first.code, again.code, missing.code) == (0, 4, 3)
    assert bare.type("transport", "test", "x").code == 0
    assert bare.type("transport", "change", "x").code == 2
