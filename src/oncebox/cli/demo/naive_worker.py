"""The naive worker: charges, waits to be told, ships; started again, it begins at the beginning."""

import sys
from pathlib import Path

from oncebox.cli.demo.world import World


def main() -> None:
    """Play the worker; the argument is the folder of the world."""
    world = World(Path(sys.argv[1]))
    world.do("charged")
    sys.stdout.write("charged\n")
    sys.stdout.flush()
    if sys.stdin.readline():  # nothing: the demo is gone
        world.do("shipped")
        sys.stdout.write("shipped\n")


if __name__ == "__main__":
    main()
