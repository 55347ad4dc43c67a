"""A canary: no secret and no key is ever seen again, whatever is typed or goes wrong."""

import base64
import logging
from pathlib import Path

import pytest

from tests.cli.ledger import Ledger

CANARY = "CANARYSECRET"
MASTER = base64.b64encode(b"CANARYMASTERKEY".ljust(32, b"x")).decode()


@pytest.fixture
def seen(ledger: Ledger, caplog: pytest.LogCaptureFixture) -> list[str]:
    """Everything that was printed or logged after the canaries were put in."""
    caplog.set_level(logging.DEBUG)
    return []


def test_nothing_that_can_be_typed_shows_a_secret_or_a_key(
    ledger: Ledger,
    seen: list[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOOK_SECRET", f"{CANARY}_ENV")
    Path("secret.txt").write_text(f"{CANARY}_FILE")
    Path("oncebox.toml").write_text(
        f'[sources.filed]\nscheme = "stripe"\nsecrets = ["{CANARY}_TOML", "env:HOOK_SECRET"]\n'
    )

    def type_(*arguments: str, stdin: str = "") -> str:
        for extra in ((), ("--json",)):
            answer = ledger.type(*arguments, *extra, stdin=stdin.encode())
            seen.append(answer.out + answer.err)
        return answer.out

    secret = f"{CANARY}_STDIN"
    type_("source", "add", "shop", "--scheme", "stripe", "--secret", "-", stdin=secret)
    for reference in ("env:HOOK_SECRET", "file:secret.txt", "env:NOT_SET", "file:nothing"):
        type_("source", "secret", "add", "shop", "--secret", reference)
    type_("source", "secret", "add", "shop", "--secret", f"{CANARY}_TYPED")
    type_("source", "secret", "add", "filed", "--secret", "-", stdin=secret)
    type_("source", "set", "shop", "--rate", "5")
    for name in ("shop", "filed"):
        type_("source", "show", name)
        type_("source", "secret", "list", name)
    type_("source", "list")
    key = ledger.type("key", "new", "--scope", "admin", "--quiet").out.strip()
    type_("key", "list")
    type_("key", "revoke", ledger.type("key", "list", "--quiet").out.strip())
    type_("doctor")
    type_("source", "remove", "shop")
    monkeypatch.setenv("ONCEBOX_MASTER_KEY", MASTER)
    type_("source", "list")

    everything = "\n".join(seen) + caplog.text
    assert "master_key_wrong" in everything
    for canary in ("CANARY", key, key[12:], MASTER):
        assert canary not in everything


def test_a_secret_is_sealed_in_the_files_too(bare: Ledger, tmp_path: Path) -> None:
    bare.type("source", "add", "x", "--scheme", "stripe", "--secret", "-", stdin=CANARY.encode())
    key = bare.type("key", "new", "--scope", "admin", "--quiet").out.strip()

    stored = b"".join(path.read_bytes() for path in (tmp_path / "data").iterdir())
    assert b"stripe" in stored
    assert CANARY.encode() not in stored
    assert key.encode() not in stored
    assert key[10:].encode() not in stored
