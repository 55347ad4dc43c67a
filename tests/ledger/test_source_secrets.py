"""Secrets: sealed for their own row, or fetched from where a reference points; never quoted."""

import os
from pathlib import Path

import pytest

from oncebox.core.encryption import MasterKey
from oncebox.errors import ConfigInvalid, MasterKeyWrong, OnceboxError, SecretUnavailable
from oncebox.ledger.admin import sources
from oncebox.ledger.admin.sources import StoredSecret

KEY = MasterKey(bytes(range(32)))
CANARY = "whsec_CANARY"


def _sealed(text: str = CANARY, tenant: str = "acme", id_: str = "sec_1") -> StoredSecret:
    return sources.encrypt_secret(KEY, tenant=tenant, id_=id_, text=text, created_at=5)


def _open(
    kept: StoredSecret,
    *,
    tenant: str = "acme",
    key: MasterKey = KEY,
    environ: dict[str, str] | None = None,
) -> str:
    return sources.decrypt_secret(kept, tenant=tenant, master_key=key, environ=environ or {}).value


def test_a_secret_is_kept_sealed_and_opens_again() -> None:
    kept = _sealed()

    assert kept.ciphertext is not None
    assert CANARY.encode() not in kept.ciphertext
    assert CANARY not in repr(kept)
    assert _open(kept) == CANARY


def test_a_sealed_secret_opens_for_no_other_tenant_row_or_key() -> None:
    kept = _sealed()
    moved = StoredSecret("sec_2", kept.ciphertext, None, 5)

    for secret, tenant, key in (
        (kept, "other", KEY),
        (moved, "acme", KEY),
        (kept, "acme", MasterKey(bytes(32))),
    ):
        with pytest.raises(MasterKeyWrong) as caught:
            _open(secret, tenant=tenant, key=key)
        assert CANARY not in str(caught.value)


def test_a_secret_that_was_erased_says_so() -> None:
    with pytest.raises(SecretUnavailable, match="retired"):
        _open(StoredSecret("sec_1", None, None, 5, retired_at=6))


def test_a_reference_is_kept_as_it_is_and_fetched_when_opened() -> None:
    kept = _sealed("env:HOOK_SECRET")

    assert (kept.ciphertext, kept.reference) == (None, "env:HOOK_SECRET")
    assert _open(kept, environ={"HOOK_SECRET": f" {CANARY}\n"}) == CANARY


@pytest.mark.parametrize("environ", [{}, {"HOOK_SECRET": ""}, {"HOOK_SECRET": " \n"}])
def test_a_variable_that_is_not_set_is_named(environ: dict[str, str]) -> None:
    with pytest.raises(SecretUnavailable, match="HOOK_SECRET is not set"):
        sources.resolve_reference("env:HOOK_SECRET", environ)


def test_a_file_is_read_without_the_newline_that_editors_add(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(f"{CANARY}\r\n")

    assert sources.resolve_reference(f"file:{file}", {}) == CANARY


def test_a_file_may_hold_several_lines(tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    file.write_text("-----BEGIN PUBLIC KEY-----\nMFk\n-----END PUBLIC KEY-----\n")

    assert sources.resolve_reference(f"file:{file}", {}).count("\n") == 2


@pytest.mark.parametrize("content", [None, b"", b" \n", b"\xff\xfe", b"x" * 70_000])
def test_a_file_that_holds_no_secret_is_named_and_not_quoted(
    tmp_path: Path, content: bytes | None
) -> None:
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(SecretUnavailable, match=str(file)) as caught:
        sources.resolve_reference(f"file:{file}", {})
    assert "xxx" not in str(caught.value)


def test_what_is_no_plain_file_is_never_read(tmp_path: Path) -> None:
    """A pipe without a writer would stop whoever opens it."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    for path in (pipe, tmp_path, Path("/dev/zero")):
        with pytest.raises(SecretUnavailable):
            sources.resolve_reference(f"file:{path}", {})


@pytest.mark.parametrize("text", ["", "env:", "env:A B", "env:1A", "file:", "file: ", "x" * 70_000])
def test_what_can_be_neither_secret_nor_reference_is_refused_unquoted(text: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        _sealed(text)

    assert "xxx" not in str(caught.value)


def test_every_trouble_with_a_secret_has_a_stable_code() -> None:
    found: list[type[OnceboxError]] = [SecretUnavailable, MasterKeyWrong, ConfigInvalid]

    codes = [each.code for each in found]
    assert codes == ["secret_unavailable", "master_key_wrong", "config_invalid"]
