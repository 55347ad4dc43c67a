"""imap-tools fetches every mail of a mailbox, and keeps nothing."""

from __future__ import annotations

import argparse
import time

from imap_tools import MailBoxUnencrypted

from bench import load


def main() -> None:
    """Report how many mails are fetched a second, from the connection to the last mail."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("user")
    parser.add_argument("password")
    parser.add_argument("--bulk", type=int, default=0)
    options = parser.parse_args()
    began = time.perf_counter()
    count = size = 0
    with MailBoxUnencrypted("127.0.0.1", options.port).login(options.user, options.password) as box:
        for mail in box.fetch(mark_seen=False, bulk=options.bulk or False):
            count += 1
            size += mail.size_rfc822
    seconds = time.perf_counter() - began
    assert count
    assert size > 4_000 * count
    setting = f"{options.bulk} at a time" if options.bulk else "one at a time"
    load.report(count / seconds, setting)


if __name__ == "__main__":
    main()
