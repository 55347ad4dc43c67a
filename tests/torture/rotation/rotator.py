"""One rotation of the master key, as `oncebox key rotate-master`, for which no process waits."""

import sys

from oncebox.cli import main
from oncebox.ledger import master_key_rotation

if __name__ == "__main__":
    master_key_rotation.LEARN_WITHIN = 0
    sys.exit(main.run(["key", "rotate-master", "--json", *sys.argv[1:]]))
