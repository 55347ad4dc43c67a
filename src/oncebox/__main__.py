"""``python -m oncebox``: the same as the ``oncebox`` command."""

from oncebox.cli.main import main

main()
