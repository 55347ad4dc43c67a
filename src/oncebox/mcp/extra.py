"""Whether the package of the protocol is there: it is an extra."""

from importlib.util import find_spec

from oncebox.errors import ExtraMissing


def check() -> None:
    """Make sure that the tools can be loaded.

    Raises: ExtraMissing.
    """
    if find_spec("mcp") is None:
        message = "the tools for agents are not installed; run: pip install 'oncebox[mcp]'"
        raise ExtraMissing(message)
