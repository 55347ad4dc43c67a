"""Mail by Postfix: its durable queue before the 250, then its discard transport."""

from __future__ import annotations

import argparse

from bench import mailload
from tests.support.postfix import Postfix


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--seconds", type=float, default=mailload.SECONDS)
    options = parser.parse_args()
    mails = mailload.made(options.seconds)
    with Postfix.discarding() as postfix:
        mailload.report(postfix.port, postfix.pid, "discard", mails, options.seconds)


if __name__ == "__main__":
    main()
