"""``oncebox migrate``: what it says while it converts rows, and after an interruption."""

from pathlib import Path

import pytest

from oncebox.core import faults
from oncebox.db import migrate
from tests.cli.ledger import Ledger
from tests.support import old_schema
from tests.support.clerk import Clerk
from tests.support.databases import empty_sqlite, fresh_sqlite


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """A database of the version before in ``data``; how many deliveries it has."""
    (tmp_path / "new").mkdir()
    clerk = Clerk(fresh_sqlite(tmp_path / "new"))
    old_schema.every_kind(clerk)
    Path("data").mkdir(mode=0o700)
    place = empty_sqlite(Path("data").absolute())
    old_schema.create(place)
    old_schema.copy(clerk, place)
    count = len(clerk.all())
    clerk.close()
    monkeypatch.setattr(migrate, "BATCH_ROWS", 5)
    return count


def test_migrate_reports_its_progress_and_goes_on(bare: Ledger, old: int) -> None:
    faults.arm("migrate.batch-committed:2:raise")
    with pytest.raises(faults.InjectedFault):
        bare.type("migrate")
    faults.disarm()
    refused = bare.type("delivery", "list")
    again = bare.type("migrate")

    assert "oncebox migrate" in refused.err
    assert again.code == 0
    assert again.err.startswith(f"migrated 5 of {old - 10} rows\n")
    newer = [each.name for each in migrate.shipped_migrations("sqlite") if each.number >= 10]
    assert again.out == "".join(f"applied {name}\n" for name in newer)
    assert bare.type("migrate").out == "nothing to do\n"
