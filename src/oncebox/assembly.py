"""Assembly: settings into rooms, top to bottom; the only place that knows them all."""

from dataclasses import dataclass
from pathlib import Path

from oncebox import seal
from oncebox.config import Settings
from oncebox.errors import DatabaseReadOnly, MasterKeyMissing
from oncebox.ledger.deliveries.desk import Desk
from oncebox.ledger.deliveries.intake import Intake
from oncebox.seal import MasterKey
from oncebox.store import opening
from oncebox.store.database import Database
from oncebox.telemetry import Telemetry


@dataclass(frozen=True, slots=True)
class Rooms:
    """Everything a process needs to take in, look at and work on deliveries."""

    settings: Settings
    database: Database
    telemetry: Telemetry
    master_key: MasterKey
    intake: Intake
    desk: Desk

    async def close(self) -> None:
        """Let go of the database."""
        await self.database.close()


async def open_rooms(
    settings: Settings, telemetry: Telemetry | None = None, *, migrate: bool | None = None
) -> Rooms:
    """Open the database and put the rooms together.

    A SQLite database migrates itself; PostgreSQL waits for ``oncebox migrate`` unless told.

    Raises: ConfigInvalid, StoreError.
    """
    telemetry = telemetry or Telemetry()
    is_sqlite = settings.database.startswith("sqlite:")
    if not is_sqlite:
        _master_key(settings, may_make=False)  # missing or malformed is said before connecting
    database = opening.connect(settings.database, connections=settings.connections)
    try:
        wanted = is_sqlite if migrate is None else migrate
        await opening.prepare(database, telemetry, migrate=wanted)
        known = await opening.master_key_id(database)
        key = _master_key(settings, may_make=is_sqlite and known is None)
        await opening.check_key(database, key)
    except BaseException:
        await database.close()
        raise
    intake = Intake(database, telemetry, tenant=settings.tenant, limits=settings.limits)
    return Rooms(settings, database, telemetry, key, intake, Desk(database))


def _master_key(settings: Settings, *, may_make: bool) -> MasterKey:
    """Return the configured key; only a new SQLite installation may make its own."""
    if settings.master_key:
        return seal.from_text(settings.master_key)
    if settings.master_key_file:
        return seal.from_file(Path(settings.master_key_file))
    if not settings.database.startswith("sqlite:"):
        message = (
            "PostgreSQL needs a master key that all hosts share: set ONCEBOX_MASTER_KEY or "
            "ONCEBOX_MASTER_KEY_FILE; make one with: openssl rand -base64 32"
        )
        raise MasterKeyMissing(message)
    path = opening.sqlite_path(settings.database).with_suffix(".key")
    if not may_make:
        return seal.from_file(path)
    try:
        return seal.from_file_or_new(path)
    except OSError as error:
        message = "the folder of the database cannot be written; choose one with ONCEBOX_DATA_DIR"
        raise DatabaseReadOnly(message) from error
