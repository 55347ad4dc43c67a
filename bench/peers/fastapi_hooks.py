"""Webhooks in the usual way: FastAPI, a SQLAlchemy async session, one transaction per request."""

from __future__ import annotations

import argparse
import hmac
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from sqlalchemy.ext.asyncio import async_sessionmaker

from bench import hookload
from bench.peers.sqlalchemy_session import Base, delivery_row, engine_for, statements
from bench.peers.uvicorn_server import serve


def application(options: argparse.Namespace) -> FastAPI:
    """Return the app on the given database."""
    engine = engine_for(options.url, options.driver, options.pool)
    sessions = async_sessionmaker(engine, expire_on_commit=False)
    once, payload = statements(engine.dialect.name)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async with engine.begin() as connection:
            await connection.run_sync(Base.metadata.create_all)
        yield
        await engine.dispose()

    app = FastAPI(lifespan=lifespan)

    @app.post("/in/{source}")
    async def take(source: str, request: Request) -> dict[str, str]:
        body = await request.body()
        check(body, request.headers.get("x-hub-signature-256", ""))
        json.loads(body)
        key = request.headers["x-github-delivery"]
        row = {**delivery_row(key), "source": source, "type": request.headers["x-github-event"]}
        async with sessions() as session, session.begin():
            done: Any = await session.execute(once, row)
            if done.rowcount == 1:
                headers = json.dumps(request.headers.items())
                kept = {"id": row["payload"], "body": body, "headers": headers}
                await session.execute(payload, kept)
        return {"status": "accepted"}

    return app


def check(body: bytes, given: str) -> None:
    """Refuse what GitHub did not sign."""
    signature = hmac.digest(hookload.SECRET, body, "sha256").hex()
    if not hmac.compare_digest(f"sha256={signature}", given):
        raise HTTPException(401)


def main() -> None:
    """Measure and report, or serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--pool", type=int, default=10)
    parser.add_argument("--driver", choices=("asyncpg", "psycopg"), default="asyncpg")
    parser.add_argument("--serve", action="store_true")
    parser.add_argument("--seconds", type=float, default=hookload.SECONDS)
    options = parser.parse_args()
    if options.serve:
        serve(application(options), lifespan="on")
        return
    driver = "aiosqlite" if options.url.startswith("sqlite") else options.driver
    server = [sys.executable, "-m", "bench.peers.fastapi_hooks", *sys.argv[1:], "--serve"]
    hookload.measure(server, f"{driver}, pool of {options.pool}", seconds=options.seconds)


if __name__ == "__main__":
    main()
