"""The pytest plugin: an inbox per test, on one service for all workers of a run.

Loading it is cheap: a fixture imports what it needs when it is used.
"""

import inspect
import os
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from oncebox.client import AsyncInbox, Inbox
    from oncebox.client.sync import Client
    from oncebox.testing.fixtures import MailFaults
    from oncebox.testing.shared_server import OnceboxServer

#: the folder that the controller of xdist chose, and the lock that keeps its service running
_FOLDER = pytest.StashKey[Path]()
_ALIVE_LOCK = pytest.StashKey[IO[bytes]]()
#: functions that describe the mail of a test for the report of a failure
_REPORT_SECTIONS = pytest.StashKey[tuple[Callable[[], str], ...]]()
_WORKER_INPUT = "oncebox_folder"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("oncebox", "mail for tests")
    group.addoption(
        "--oncebox-url",
        metavar="URL",
        help="Use this service, started by: oncebox serve --test (ONCEBOX_URL).",
    )
    group.addoption(
        "--oncebox-seed",
        metavar="N",
        type=int,
        default=0,
        help="Seed of the faults of mail_faults.  [0]",
    )
    parser.addini(
        "oncebox_link_origins",
        "Origins whose links every inbox hands out, such as http://staging.internal:3000.",
        type="linelist",
    )


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Pass the folder of the service of this run to a worker of xdist."""
    stash = node.config.stash
    if _FOLDER not in stash:
        try:
            from oncebox.testing import server_lifetime  # noqa: PLC0415 - only with xdist

            folder = server_lifetime.new_folder()
            # Held during the whole run: workers come and go.
            stash[_ALIVE_LOCK] = server_lifetime.hold_alive_lock(folder)
        except (ImportError, OSError):
            return  # no folder or no file locks: the fixture that needs them fails
        stash[_FOLDER] = folder
    node.workerinput[_WORKER_INPUT] = str(stash[_FOLDER])


def pytest_unconfigure(config: pytest.Config) -> None:
    """Release the service."""
    if _ALIVE_LOCK not in config.stash:
        return
    from oncebox.testing import server_lifetime  # noqa: PLC0415 - as above

    server_lifetime.release_alive_lock(config.stash[_FOLDER], config.stash[_ALIVE_LOCK])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add facts about its mail to the report of a failed test with an inbox."""
    if call.excinfo is None or _REPORT_SECTIONS not in item.stash:
        return (yield)
    from oncebox.testing import fixtures  # noqa: PLC0415 - only after a failure

    fixtures.trim_traceback(call.excinfo.value)
    report = yield
    if report.failed:
        facts = item.stash[_REPORT_SECTIONS]
        report.sections.append(("oncebox", fixtures.failure_report(call.excinfo.value, facts)))
    return report


@pytest.fixture(scope="session")
def oncebox_server(pytestconfig: pytest.Config) -> "Iterator[OnceboxServer]":
    """A service in test mode, one for all workers of the run; or the one of --oncebox-url."""
    from oncebox.testing import server_lifetime, shared_server  # noqa: PLC0415 - as the others

    url = pytestconfig.getoption("--oncebox-url") or os.environ.get("ONCEBOX_URL")
    if url:
        with _fail_without_traceback():
            existing = shared_server.existing_server(url)
        yield existing
        return
    given = getattr(pytestconfig, "workerinput", {}).get(_WORKER_INPUT)
    with ExitStack() as stack:
        with _fail_without_traceback():
            folder = Path(given) if given else server_lifetime.new_folder()
            started = stack.enter_context(shared_server.shared_server(folder))
        yield started


@pytest.fixture(scope="session")
def oncebox_client(oncebox_server: "OnceboxServer") -> "Iterator[Client]":
    """A client of the service with an admin key."""
    from oncebox.client.sync import Client  # noqa: PLC0415 - as the others

    with Client(oncebox_server.url, oncebox_server.api_key) as client:
        yield client


@pytest.fixture
def inbox(
    request: pytest.FixtureRequest, oncebox_client: "Client"
) -> "Iterator[Inbox | AsyncInbox]":
    """A fresh inbox, named after the test and closed after it; in an async test, to be awaited."""
    from oncebox.testing import fixtures  # noqa: PLC0415 - as the others

    node = request.node
    opening = fixtures.open_inbox(
        oncebox_client,
        node.nodeid,
        node.name,
        later=_is_async(request),
        link_origins=request.config.getini("oncebox_link_origins"),
    )
    with ExitStack() as stack:
        with _fail_without_traceback():
            opened = stack.enter_context(opening)
        node.stash[_REPORT_SECTIONS] = (lambda: fixtures.inbox_summary(oncebox_client, opened),)
        yield opened


@pytest.fixture
def wait_for_code(inbox: "Inbox | AsyncInbox") -> Callable[..., Any]:
    """``inbox.wait_for_code``."""
    return inbox.wait_for_code


@pytest.fixture
def wait_for_link(inbox: "Inbox | AsyncInbox") -> Callable[..., Any]:
    """``inbox.wait_for_link``."""
    return inbox.wait_for_link


@pytest.fixture
def wait_for_message(inbox: "Inbox | AsyncInbox") -> Callable[..., Any]:
    """``inbox.wait_for_message``."""
    return inbox.wait_for_message


@pytest.fixture
def assert_no_mail(
    request: pytest.FixtureRequest, inbox: "Inbox | AsyncInbox", oncebox_client: "Client"
) -> Callable[..., Any]:
    """Fails the test if mail has come to its inbox; with ``within``, or comes in that time."""
    from oncebox.testing import fixtures  # noqa: PLC0415 - as the others

    return fixtures.make_assert_no_mail(oncebox_client, inbox, later=_is_async(request))


@pytest.fixture
def mail_faults(
    request: pytest.FixtureRequest, inbox: "Inbox | AsyncInbox", oncebox_client: "Client"
) -> "Iterator[MailFaults]":
    """Faults in the mail of this test's inbox."""
    from oncebox.testing.fixtures import MailFaults  # noqa: PLC0415 - as the others

    seed: int = request.config.getoption("--oncebox-seed")
    with MailFaults(oncebox_client, inbox.id, f"{seed}/{request.node.nodeid}") as faults:
        request.node.stash[_REPORT_SECTIONS] += (faults.summary,)
        yield faults


@contextmanager
def _fail_without_traceback() -> Iterator[None]:
    """Fail with the message only: the frames of a traceback contain keys."""
    from oncebox.errors import OnceboxError  # noqa: PLC0415 - as the others

    try:
        yield
    except OnceboxError as error:
        pytest.fail(f"oncebox: {error.code}: {error}", pytrace=False)


def _is_async(request: pytest.FixtureRequest) -> bool:
    """Return whether a test is a coroutine, whose event loop must not be blocked."""
    return inspect.iscoroutinefunction(getattr(request, "function", None))
