"""Keys and tenants at the terminal: shown once, told apart, and ended."""

import asyncio
from pathlib import Path

import pytest

from oncebox.model.admin import access as texts
from oncebox.model.admin.access import ApiKey
from oncebox.settings_loading import load_settings
from oncebox.wiring import open_components
from tests.cli.ledger import Ledger


async def _checked(text: str) -> ApiKey | None:
    rooms = await open_components(load_settings())
    try:
        return await rooms.api_keys.check(text)
    finally:
        await rooms.close()


def checked(text: str) -> ApiKey | None:
    """Check a key as a service does."""
    return asyncio.run(_checked(text))


def new(ledger: Ledger, *options: str) -> tuple[str, str]:
    """Make a key; return its id and text."""
    answer = ledger.type("key", "new", *(options or ("--scope", "admin")))
    assert answer.code == 0, answer.err
    ((id_, text),) = answer.rows
    return id_, text


def test_a_new_key_works_and_is_shown_this_once(ledger: Ledger) -> None:
    id_, text = new(ledger, "--scope", "operator", "--scope", "worker:shop", "--name", "ada")

    found = checked(text)
    assert found is not None
    assert (found.id, found.scopes, found.name) == (id_, ("operator", "worker:shop"), "ada")
    shown = [ledger.type("key", "list", *options).out for options in ([], ["--json"], ["--quiet"])]
    assert all(id_ in each and text not in each for each in shown)


def test_json_and_quiet_show_the_new_key_too(ledger: Ledger) -> None:
    record = ledger.type("key", "new", "--scope", "agent", "--json").record
    quiet = ledger.type("key", "new", "--scope", "agent", "--quiet").out.strip()

    assert texts.is_key_text(record["key"])
    assert record["scopes"] == ["agent"]
    assert record["state"] == "active"
    assert checked(quiet) is not None


def test_a_key_may_expire(ledger: Ledger) -> None:
    record = ledger.type("key", "new", "--scope", "agent", "--expires", "90d", "--json").record

    assert record["expires_at"] - record["created_at"] == 90 * 86_400_000


@pytest.mark.parametrize("time", ["soon", "90 weeks", "-1d", "", "1e9"])
def test_a_time_that_is_none_is_misuse(ledger: Ledger, time: str) -> None:
    answer = ledger.type("key", "new", "--scope", "agent", "--expires", time)

    assert answer.code == 2
    assert "90d" in answer.err


@pytest.mark.parametrize(
    ("options", "code"),
    [([], 2), (["--scope", "root"], 1), (["--scope", "worker:"], 1), (["--scope", "Admin"], 1)],
)
def test_a_key_without_a_scope_that_means_something_is_refused(
    ledger: Ledger, options: list[str], code: int
) -> None:
    assert ledger.type("key", "new", *options).code == code
    assert ledger.type("key", "list").out == ""


def test_a_revoked_key_works_no_longer(ledger: Ledger) -> None:
    id_, text = new(ledger)

    answer = ledger.type("key", "revoke", id_, "--why", "lost", "--json")

    assert (answer.code, answer.record["state"]) == (0, "revoked")
    assert checked(text) is None
    assert ledger.type("key", "list").rows[0][1] == "revoked"
    assert ledger.type("key", "revoke", id_).code == 0


def test_a_key_that_is_not_there_is_exit_code_3(ledger: Ledger) -> None:
    answer = ledger.type("key", "revoke", "key_nothing", "--json")

    assert answer.code == 3
    assert answer.error["code"] == "not_found"


def test_a_key_of_another_tenant_looks_like_none(ledger: Ledger) -> None:
    ledger.type("tenant", "new", "acme")
    id_, text = new(ledger, "--scope", "admin", "--tenant", "acme")

    foreign = ledger.type("key", "revoke", id_)
    missing = ledger.type("key", "revoke", "key_nothing")

    assert (foreign.code, foreign.err) == (missing.code, missing.err)
    assert ledger.type("key", "list").out == ""
    assert ledger.type("key", "list", "--tenant", "acme", "--quiet").out.strip() == id_
    found = checked(text)
    assert found is not None
    assert found.tenant == "acme"


def test_a_key_for_no_tenant_is_exit_code_3(ledger: Ledger) -> None:
    answer = ledger.type("key", "new", "--scope", "admin", "--tenant", "nobody")

    assert answer.code == 3
    assert "oncebox tenant new" in answer.err


def test_the_tenant_may_be_named_by_the_environment(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.type("tenant", "new", "acme")
    monkeypatch.setenv("ONCEBOX_TENANT", "acme")
    _, text = new(ledger)

    found = checked(text)
    assert found is not None
    assert found.tenant == "acme"


def test_the_first_key_may_be_made_before_there_is_a_database(bare: Ledger, tmp_path: Path) -> None:
    new(bare)

    assert (tmp_path / "data" / "oncebox.db").exists()


# tenants


def test_tenants_are_made_once_and_listed(ledger: Ledger) -> None:
    assert ledger.type("tenant", "new", "acme").out == "acme\n"
    again = ledger.type("tenant", "new", "acme")
    assert (again.code, "already" in again.err) == (4, True)
    assert ledger.type("tenant", "new", "default").code == 4
    assert ledger.type("tenant", "new", "A B").code == 1
    assert ledger.type("tenant", "new", "beta", "--json").record["name"] == "beta"

    assert [row[0] for row in ledger.type("tenant", "list").rows] == ["default", "acme", "beta"]
    assert ledger.type("tenant", "list", "--quiet").out.split() == ["default", "acme", "beta"]
    records = ledger.type("tenant", "list", "--json").records
    assert [each["name"] for each in records] == ["default", "acme", "beta"]
