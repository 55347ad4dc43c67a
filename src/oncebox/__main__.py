"""``python -m oncebox``: the same as ``oncebox``."""

from oncebox.cli.main import main

main()
