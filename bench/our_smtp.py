"""Our side of the mail: `oncebox serve --role edge` as it comes, and a hundred inboxes."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile

from bench import mailload
from bench.ours import MASTER_KEY
from oncebox.core import clock, ids
from oncebox.db.database import Transaction
from tests.support.databases import Place

ONCEBOX = (sys.executable, "-m", "oncebox")
SERVE = (*ONCEBOX, "serve", "--role", "edge", "--port", "0")
_DOMAIN = "INSERT INTO oncebox_domains (name, tenant, created_at) VALUES ('{}', 'default', {})"
_INBOX = """
INSERT INTO oncebox_inboxes (id, tenant, email, address, state, created_at, metadata, policy)
VALUES ('{id}', 'default', '{email}', '{email}', 'active', {now}, {empty}, {empty})
"""


def main() -> None:
    """Prepare a database, serve it, and report how many mails are accepted a second."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--seconds", type=float, default=mailload.SECONDS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="oncebox-bench-") as folder:
        given = {
            "ONCEBOX_DATABASE_URL": options.url,
            "ONCEBOX_DATA_DIR": folder,
            "ONCEBOX_MASTER_KEY": MASTER_KEY,
            "ONCEBOX_SMTP__PORT": "0",
        }
        environment = {**os.environ, **given}
        subprocess.run(
            [*ONCEBOX, "migrate"], check=True, env=environment, stdout=subprocess.DEVNULL
        )
        _make_inboxes(options.url)
        setting = f"{mailload.CONNECTIONS} connections"
        mailload.measure(SERVE, setting, environment=given, seconds=options.seconds)


def _make_inboxes(url: str) -> None:
    place = Place(url.partition(":")[0].removesuffix("ql"), url)
    session = place.session()
    empty = "CAST('{}' AS BLOB)" if place.kind == "sqlite" else "'{}'::bytea"

    def write(tx: Transaction) -> None:
        now = clock.system()
        tx.execute(_DOMAIN.format(mailload.DOMAIN, now))
        for number in range(mailload.INBOXES):
            email = f"{mailload.inbox(number)}@{mailload.DOMAIN}"
            tx.execute(_INBOX.format(id=ids.new("inb"), email=email, now=now, empty=empty))

    session.run(write)
    session.close()


if __name__ == "__main__":
    main()
