"""``oncebox hook``: verify and explain at a terminal."""

import json
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from oncebox.webhooks import registry
from tests.cli.ledger import Answer, Ledger
from tests.webhooks import senders
from tests.webhooks.senders import NOW, SECRET, Sent


def typed(sent: Sent, *more: str) -> list[str]:
    """Return the command that verifies a request."""
    headers = [part for pair in sent.headers.items() for part in ("--header", ": ".join(pair))]
    secrets = [part for secret in sent.secrets for part in ("--secret", secret)]
    now = ["--now", str(NOW // 1000)]
    return [
        "hook", "verify", "-", "--scheme", sent.scheme, "--url", sent.url,
        *headers, *secrets, *now, *more,
    ]  # fmt: skip


def answer(bare: Ledger, sent: Sent, *more: str) -> Answer:
    return bare.type(*typed(sent, *more), stdin=sent.body)


@pytest.mark.parametrize("name", ["github", "stripe", "standard-webhooks", "twilio", "discord"])
def test_a_good_request_is_valid(bare: Ledger, name: str) -> None:
    plain = answer(bare, senders.SENDERS[name]())
    as_json = answer(bare, senders.SENDERS[name](), "--json")

    assert (plain.code, plain.rows[0][0]) == (0, "valid")
    assert (as_json.code, as_json.record["verdict"], as_json.record["secret"]) == (0, "valid", 1)


def test_a_bad_request_is_invalid_and_says_why(bare: Ledger) -> None:
    sent = senders.SENDERS["github"]().but(body=senders.BODY + b"\n")
    plain, as_json = answer(bare, sent, "--explain"), answer(bare, sent, "--json", "--explain")

    assert plain.code == as_json.code == 1
    assert plain.rows[0][:2] == ["invalid", "signature_mismatch"]
    assert "a line end was added to the body" in plain.out
    assert as_json.record["reason"] == "signature_mismatch"
    assert any("a line end" in sentence for sentence in as_json.record["explanation"])
    assert answer(bare, sent, "-q").out == ""


def test_what_is_stale_is_invalid_here(bare: Ledger) -> None:
    late = answer(bare, senders.SENDERS["stripe"](), "--now", "2026-01-31T12:00:00Z")

    assert late.code == 1
    assert late.rows[0][1] == "stale"
    wide = ("--now", str(NOW // 1000 + 400), "--option", "window=600")
    assert answer(bare, senders.SENDERS["stripe"](), *wide).code == 0


def test_a_handshake_is_a_challenge(bare: Ledger) -> None:
    body = b'{"event":"endpoint.url_validation","payload":{"plainToken":"abc"}}'
    sent = Sent("zoom", {}, body=body)

    assert answer(bare, sent, "--json").record["verdict"] == "challenge"


def test_secrets_come_from_the_environment_or_a_file(
    bare: Ledger, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    sent = senders.SENDERS["github"]()

    assert answer(bare, sent.but(secrets=("env:HOOK_SECRET",))).code == 0
    assert answer(bare, sent.but(secrets=(f"file:{tmp_path / 'secret'}",))).code == 0
    for missing in ("env:NO_SUCH", "file:/no/such"):
        refused = answer(bare, sent.but(secrets=(missing,)))
        assert refused.code == 1
        assert refused.err.startswith("error: config_invalid: ")


def test_options_of_a_scheme_may_be_given(bare: Ledger) -> None:
    body = senders.BODY
    sent = Sent("generic-hmac", {"X-Sig": senders.mac(body, "sha1").hex()})
    options = ("--option", "header=X-Sig", "--option", "algorithm=sha1")

    assert answer(bare, sent, *options).code == 0
    sns = senders.sns()
    assert answer(bare, sns, "--option", f"topics={senders.TOPIC}").code == 0
    assert answer(bare, sns).err.startswith("error: config_invalid: ")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--scheme", "github", "--secret", "s", "--header", "no colon"],
        ["--scheme", "github", "--secret", "s", "--now", "soon"],
        ["--scheme", "github", "--secret", "s", "--option", "window"],
        ["--scheme", "github", "--secret", "s", "--option", "window=soon"],
        ["--scheme", "github", "--secret", "s", "--option", "no_such=1"],
        ["--scheme", "github", "--secret", "s", "--body", "a", "-"],
        ["--batch", "no-such-file"],
    ],
)
def test_misuse_is_exit_code_2(bare: Ledger, arguments: list[str]) -> None:
    assert bare.type("hook", "verify", *arguments).code == 2


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--scheme", "no-such", "--secret", "s"], "unknown_scheme"),
        (["--scheme", "github"], "config_invalid"),
        (["--scheme", "github", "--secret", " "], "config_invalid"),
        (["--scheme", "none"], "config_invalid"),
        (["--scheme", "github", "--secret", "s", "--option", "header=X"], "config_invalid"),
    ],
)
def test_what_can_never_work_is_told_by_code(bare: Ledger, arguments: list[str], code: str) -> None:
    refused = bare.type("hook", "verify", *arguments)

    assert refused.code == 1
    assert refused.err.startswith(f"error: {code}: ")


def test_no_secret_is_ever_printed(bare: Ledger) -> None:
    canary = "c4nary-0123456789-secret"
    for sent in (make() for make in senders.SENDERS.values()):
        for more in ([], ["--json"], ["--explain"]):
            said = answer(bare, sent.but(secrets=(canary,)), *more)
            assert canary not in said.out + said.err


@pytest.mark.parametrize(
    "content", [b"{}", b"nonsense", b'[{"id":1}]', b'[{"id":"a","scheme":"x","headers":[1]}]']
)
def test_a_file_that_holds_no_vectors_is_refused(
    bare: Ledger, tmp_path: Path, content: bytes
) -> None:
    file = tmp_path / "vectors"
    file.write_bytes(content)
    refused = bare.type("hook", "verify", "--batch", str(file))

    assert refused.code == 1
    assert refused.err.startswith("error: config_invalid: ")


def test_a_batch_may_have_an_object_a_line_and_our_own_names(bare: Ledger, tmp_path: Path) -> None:
    sent = senders.SENDERS["calcom"]()
    vector = {
        "id": "one",
        "scheme": "calcom",
        "secret_or_key": ["x", SECRET],
        "headers": [list(pair) for pair in sent.headers.items()],
        "body_base64": senders.b64(sent.body),
    }
    broken = {"id": "two", "scheme": "calcom", "body_base64": "!"}
    file = tmp_path / "vectors.jsonl"
    file.write_text(f"{json.dumps(vector)}\n\n{json.dumps(broken)}\n")
    said = bare.type("hook", "verify", "--batch", str(file))

    assert said.code == 1
    assert said.rows == [["one", "valid", ""]]
    assert "two: the body is not base64" in said.err


def test_schemes_are_listed_with_what_they_cover(bare: Ledger) -> None:
    rows = {row[0]: row for row in bare.type("hook", "schemes").rows}
    records = {record["name"]: record for record in bare.type("hook", "schemes", "--json").records}

    assert set(rows) == set(records) == set(registry.scheme_names())
    assert rows["github"][5] == "header:X-GitHub-Delivery*"
    assert rows["stripe"][2] == "time, body"
    assert records["github"]["id_signed"] is False
    assert records["stripe"]["id_signed"] is True
    assert bare.type("hook", "schemes", "-q").out.splitlines() == registry.scheme_names()


def test_a_broken_scheme_does_not_hide_the_others(
    bare: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = EntryPoint("acme", "no_such_package:SCHEME", registry.ENTRY_POINT_GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda *, group: [broken])
    said = bare.type("hook", "schemes", "-q")

    assert said.code == 1
    assert "the scheme 'acme' (no_such_package:SCHEME) cannot be loaded" in said.err
    assert "stripe" in said.out.splitlines()
