"""Our side of the webhooks: `oncebox serve --role edge` as it comes, and a source for GitHub."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile

from bench import hookload
from bench.ours import MASTER_KEY

ONCEBOX = (sys.executable, "-m", "oncebox")
SERVE = (*ONCEBOX, "serve", "--role", "edge", "--port", "0")


def main() -> None:
    """Prepare a database, serve it, and report how many webhooks are accepted a second."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--storm", action="store_true", help="one event again and again")
    parser.add_argument("--proxied", action="store_true", help="many clients behind a proxy")
    parser.add_argument("--seconds", type=float, default=hookload.SECONDS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="oncebox-bench-") as folder:
        given = {
            "ONCEBOX_DATABASE_URL": options.url,
            "ONCEBOX_DATA_DIR": folder,
            "ONCEBOX_MASTER_KEY": MASTER_KEY,
            "ONCEBOX_SMTP__ENABLED": "false",
        }
        if options.proxied:
            given["ONCEBOX_HTTP__PROXIES"] = "127.0.0.0/8"
        _type(given, "migrate")
        _type(given, "source", "add", "github", "--scheme", "github", "--secret", "-")
        what = "one event" if options.storm else "distinct events"
        what += ", behind a proxy" if options.proxied else ""
        hookload.measure(
            SERVE,
            f"{hookload.CONNECTIONS} connections, {what}",
            repeat=options.storm,
            proxied=options.proxied,
            environment=given,
            seconds=options.seconds,
        )


def _type(environment: dict[str, str], *words: str) -> None:
    """Type a command; whichever asks for a secret gets it."""
    subprocess.run(
        [*ONCEBOX, *words],
        check=True,
        env={**os.environ, **environment},
        input=hookload.SECRET,
        stdout=subprocess.DEVNULL,
    )


if __name__ == "__main__":
    main()
