"""Process: a naive worker that charges, waits, ships, and starts over when restarted."""

import sys
from pathlib import Path

from oncebox.cli.demo.side_effects import SideEffects


def main() -> None:
    """Play the worker; the argument is the folder of the world."""
    world = SideEffects(Path(sys.argv[1]))
    world.do("charged")
    sys.stdout.write("charged\n")
    sys.stdout.flush()
    if sys.stdin.readline():  # nothing: the demo is gone
        world.do("shipped")
        sys.stdout.write("shipped\n")


if __name__ == "__main__":
    main()
