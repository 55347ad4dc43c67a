"""What the report of a test that failed says of its mail; nothing in it is a secret or a text."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType

import oncebox
from oncebox.client.failures import CallFailed, WaitEnded
from oncebox.errors import OnceboxError

_HOUSE = Path(oncebox.__file__).parent

#: tells of something that a test had
Fact = Callable[[], str]


def trim(error: BaseException) -> None:
    """Leave our own frames out of our own errors: they help nobody, and know keys."""
    for each in _chain(error):
        if isinstance(each, OnceboxError):
            _cut(each.__traceback__)
            if isinstance(each, CallFailed):  # it says in plain words what the network said
                each.__cause__, each.__suppress_context__ = None, True


def _cut(traceback: TracebackType | None) -> None:
    """Take our own frames out of a traceback, all but a first one."""
    while traceback is not None:
        behind = traceback.tb_next
        while behind is not None and _is_ours(behind):
            behind = behind.tb_next
        traceback.tb_next = behind
        traceback = behind


def told(error: BaseException, facts: Iterable[Fact]) -> str:
    """Return why each message did not fit, and what else is known of the mail of a test."""
    lines = [str(each) for each in _chain(error) if isinstance(each, WaitEnded)]
    for fact in facts:
        try:
            lines.append(fact())
        except OnceboxError as trouble:
            lines.append(f"the service could not be asked: {trouble.code}")
        except Exception as trouble:  # noqa: BLE001 - a report must not end the whole run
            lines.append(f"the service could not be asked: {type(trouble).__name__}")
    return "\n".join(lines)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Go from an error to what caused it."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _is_ours(traceback: TracebackType) -> bool:
    return _HOUSE in Path(traceback.tb_frame.f_code.co_filename).parents
