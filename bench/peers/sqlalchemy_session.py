"""Accepting by an ORM: a SQLAlchemy async session and one transaction per call."""

from __future__ import annotations

import argparse
import time
import uuid
from typing import Any

import uvloop
from sqlalchemy import BigInteger, Index, UniqueConstraint, event, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncEngine, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from bench import load

HEADERS = str(load.HEADERS)


class Base(DeclarativeBase):
    """The tables."""


class Payload(Base):
    """The raw bytes."""

    __tablename__ = "payload"

    id: Mapped[str] = mapped_column(primary_key=True)
    body: Mapped[bytes]
    headers: Mapped[str]


class Delivery(Base):
    """The row that makes it once."""

    __tablename__ = "delivery"
    __table_args__ = (
        UniqueConstraint("tenant", "source", "key"),
        Index(
            "delivery_due",
            "due_at",
            sqlite_where=text("state = 'received'"),
            postgresql_where=text("state = 'received'"),
        ),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    tenant: Mapped[str]
    source: Mapped[str]
    key: Mapped[str]
    type: Mapped[str]
    state: Mapped[str]
    payload: Mapped[str]
    received_at: Mapped[int] = mapped_column(BigInteger)
    due_at: Mapped[int] = mapped_column(BigInteger)
    tries: Mapped[int] = mapped_column(default=0)


def durable(engine: AsyncEngine) -> None:
    """Give every SQLite connection WAL and synchronous=FULL."""

    @event.listens_for(engine.sync_engine, "connect")
    def pragmas(connection: Any, _record: object) -> None:
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.close()


def engine_for(url: str, driver: str, pool: int) -> AsyncEngine:
    """Return an engine with `pool` connections."""
    scheme, rest = url.split("://", 1)
    if scheme == "postgresql":
        return create_async_engine(f"postgresql+{driver}://{rest}", pool_size=pool, max_overflow=0)
    engine = create_async_engine(
        f"sqlite+aiosqlite://{rest}",
        pool_size=pool,
        max_overflow=0,
        pool_timeout=60,
        connect_args={"timeout": 30},
    )
    durable(engine)
    return engine


def delivery_row(key: str) -> dict[str, Any]:
    """Return the parameters of one delivery."""
    now = time.time_ns() // 1_000_000
    return {
        "id": f"dlv_{uuid.uuid4().hex}",
        "tenant": "main",
        "source": load.SOURCE,
        "key": key,
        "type": load.TYPE,
        "state": "received",
        "payload": f"pay_{key}",
        "received_at": now,
        "due_at": now,
        "tries": 0,
    }


def statements(dialect: str) -> tuple[Any, Any]:
    """Return the idempotent insert of a delivery and the insert of its payload."""
    insert: Any = sqlite.insert if dialect == "sqlite" else postgresql.insert
    once = insert(Delivery.__table__).on_conflict_do_nothing(
        index_elements=["tenant", "source", "key"]
    )
    return once, insert(Payload.__table__)


async def measure(options: argparse.Namespace) -> float:
    """Return accepts per second."""
    engine = engine_for(options.url, options.driver, options.pool)
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    sessions = async_sessionmaker(engine, expire_on_commit=False)
    once, payload = statements(engine.dialect.name)

    async def accept(key: str, body: bytes) -> bool:
        row = delivery_row(key)
        async with sessions() as session, session.begin():
            done: Any = await session.execute(once, row)
            if done.rowcount == 1:
                kept = {"id": row["payload"], "body": body, "headers": HEADERS}
                await session.execute(payload, kept)
            return bool(done.rowcount == 1)

    try:
        return await load.rate(accept, seconds=options.seconds)
    finally:
        await engine.dispose()


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--pool", type=int, default=10)
    parser.add_argument("--driver", choices=("asyncpg", "psycopg"), default="asyncpg")
    parser.add_argument("--seconds", type=float, default=load.SECONDS)
    options = parser.parse_args()
    driver = "aiosqlite" if options.url.startswith("sqlite") else options.driver
    load.report(uvloop.run(measure(options)), f"{driver}, pool of {options.pool}")


if __name__ == "__main__":
    main()
