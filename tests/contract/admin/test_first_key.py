"""The first key: made once, left for its owner alone, and never a file that lies."""

import asyncio
from pathlib import Path

import pytest

from oncebox.core import credentials
from oncebox.core.credentials import Credentials
from oncebox.db.database import Database
from oncebox.errors import ConfigInvalid
from oncebox.ledger.admin import api_keys
from oncebox.ledger.admin.api_keys import ApiKeyCache, FirstKey, ensure_first_key
from oncebox.ledger.admin.audit import AuditEntry
from oncebox.model.admin import access as texts

URL = "http://127.0.0.1:8808"


async def _ensure(database: Database, folder: Path) -> FirstKey:
    return await ensure_first_key(database, folder, tenant="default", url=URL)


async def _ids(database: Database) -> list[str]:
    return [each.id for each in await database.read(api_keys.list_all, "default")]


async def test_the_first_start_leaves_an_admin_key(database: Database, tmp_path: Path) -> None:
    first = await _ensure(database, tmp_path)

    assert (first.new, first.known, first.path) == (True, True, credentials.path(tmp_path))
    assert credentials.read(tmp_path) == first.credentials
    assert first.path.stat().st_mode & 0o777 == 0o600
    found = await ApiKeyCache(database).check(first.credentials.key)
    assert found is not None
    assert (found.scopes, found.tenant) == (("admin",), "default")
    assert first.credentials.key not in repr(first)


async def test_later_starts_change_nothing(database: Database, tmp_path: Path) -> None:
    first = await _ensure(database, tmp_path)
    content = first.path.read_bytes()

    again = await _ensure(database, tmp_path)

    assert (again.new, again.known, again.credentials) == (False, True, first.credentials)
    assert first.path.read_bytes() == content
    assert len(await _ids(database)) == 1


async def test_racing_starts_agree_on_one_key(database: Database, tmp_path: Path) -> None:
    started = await asyncio.gather(*(_ensure(database, tmp_path) for _ in range(6)))

    assert len({each.credentials.key for each in started}) == 1
    assert sum(each.new for each in started) == 1
    assert len(await _ids(database)) == 1


async def test_starting_over_with_an_empty_database_keeps_the_file_true(
    database: Database, tmp_path: Path
) -> None:
    text = texts.make_key_text(bytes(20))
    credentials.write(tmp_path, Credentials(url=URL, key=text))

    first = await _ensure(database, tmp_path)

    assert (first.new, first.known) == (False, True)
    assert await ApiKeyCache(database).check(text) is not None


async def test_a_file_of_another_database_is_left_alone_and_told(
    database: Database, tmp_path: Path
) -> None:
    await _ensure(database, tmp_path / "here")
    text = texts.make_key_text(bytes(20))
    credentials.write(tmp_path / "there", Credentials(url=URL, key=text))

    found = await _ensure(database, tmp_path / "there")

    assert (found.new, found.known, found.credentials.key) == (False, False, text)
    assert await ApiKeyCache(database).check(text) is None
    assert len(await _ids(database)) == 1


async def test_a_revoked_first_key_is_not_brought_back(database: Database, tmp_path: Path) -> None:
    first = await _ensure(database, tmp_path)
    (id_,) = await _ids(database)
    deed = AuditEntry(id="aud_1", tenant="default", at=database.clock(), who="eve", why="")
    await database.write(api_keys.revoke, id_, deed)

    await _ensure(database, tmp_path)

    assert await ApiKeyCache(database).check(first.credentials.key) is None


@pytest.mark.parametrize("key", ["", "obx_nothing", "secret"])
async def test_a_file_with_no_key_in_it_is_told(
    database: Database, tmp_path: Path, key: str
) -> None:
    credentials.write(tmp_path, Credentials(url=URL, key=key))

    assert not (await _ensure(database, tmp_path)).known
    assert await _ids(database) == []


async def test_a_folder_that_cannot_be_written_leaves_no_key_behind(
    database: Database, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ConfigInvalid):
        await _ensure(database, tmp_path / "file" / "folder")

    assert await _ids(database) == []
