"""Process: an agent that waits for the code of its attempt and prints it."""

import sys

from oncebox.client.sync import Client
from oncebox.errors import OnceboxError


def main() -> None:
    """Play the agent: a line tells it service, key, attempt, and its claim if it is another."""
    url, key, attempt, *claim = sys.stdin.readline().split()
    with Client(url, key) as client:
        inbox = client.inboxes.create(attempt_id=attempt)
        try:
            grant = inbox.wait_for_code(claim_key=claim[0] if claim else None)
            said = grant.value
        except OnceboxError as error:
            said = error.code
    sys.stdout.write(f"{said}\n")
    sys.stdout.flush()
    sys.stdin.read()  # until it is killed, or the demo is gone


if __name__ == "__main__":
    main()
