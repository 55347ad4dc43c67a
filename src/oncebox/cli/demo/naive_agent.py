"""Process: a naive agent that takes the oldest mail out of a mailbox and prints its code."""

import re
import sys
from pathlib import Path


def main() -> None:
    """Play the agent; the argument is the folder of mails."""
    said = "nothing"
    for mail in sorted(Path(sys.argv[1]).iterdir())[:1]:
        found = re.search(r"\b[0-9]{6}\b", mail.read_text())
        mail.unlink()
        said = found[0] if found else said
    sys.stdout.write(f"{said}\n")
    sys.stdout.flush()
    sys.stdin.read()  # until it is killed, or the demo is gone


if __name__ == "__main__":
    main()
