"""The pytest plugin: an inbox per test, on one service for all workers of a run.

Loading it costs nothing but this page: whatever a fixture needs is imported when it is used.
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

#: the folder that the controller of xdist has chosen, and what keeps its service alive
_FOLDER = pytest.StashKey[Path]()
_ALIVE_LOCK = pytest.StashKey[IO[bytes]]()
#: what tells of the mail of a test, should it fail
_REPORT_SECTIONS = pytest.StashKey[tuple[Callable[[], str], ...]]()
_WORKER_INPUT = "oncebox_folder"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add our options."""
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
        help="Let mail_faults throw other dice.  [0]",
    )


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of xdist in which folder the service of this run lies."""
    stash = node.config.stash
    if _FOLDER not in stash:
        try:
            from oncebox.testing import server_lifetime  # noqa: PLC0415 - only with xdist

            folder = server_lifetime.new_folder()
            # Held as long as the whole run: workers come and go.
            stash[_ALIVE_LOCK] = server_lifetime.hold_alive_lock(folder)
        except (ImportError, OSError):
            return  # no folder, or no locks of files: whoever needs them will say so
        stash[_FOLDER] = folder
    node.workerinput[_WORKER_INPUT] = str(stash[_FOLDER])


def pytest_unconfigure(config: pytest.Config) -> None:
    """Let go of the service."""
    if _ALIVE_LOCK not in config.stash:
        return
    from oncebox.testing import server_lifetime  # noqa: PLC0415 - as above

    server_lifetime.release_alive_lock(config.stash[_FOLDER], config.stash[_ALIVE_LOCK])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to the report of a test with an inbox that failed what is known of its mail."""
    if call.excinfo is None or _REPORT_SECTIONS not in item.stash:
        return (yield)
    from oncebox.testing import fixtures  # noqa: PLC0415 - only where something failed

    fixtures.trim_traceback(call.excinfo.value)
    report = yield
    if report.failed:
        facts = item.stash[_REPORT_SECTIONS]
        report.sections.append(("oncebox", fixtures.failure_report(call.excinfo.value, facts)))
    return report


@pytest.fixture(scope="session")
def oncebox_server(pytestconfig: pytest.Config) -> "Iterator[OnceboxServer]":
    """A service in test mode, one for all workers of the run; or the one that was named."""
    from oncebox.testing import server_lifetime, shared_server  # noqa: PLC0415 - as the others

    url = pytestconfig.getoption("--oncebox-url") or os.environ.get("ONCEBOX_URL")
    if url:
        with _fail_without_traceback():
            attached = shared_server.existing_server(url)
        yield attached
        return
    told = getattr(pytestconfig, "workerinput", {}).get(_WORKER_INPUT)
    with ExitStack() as stack:
        with _fail_without_traceback():
            shared = shared_server.shared_server(
                Path(told) if told else server_lifetime.new_folder()
            )
            started = stack.enter_context(shared)
        yield started


@pytest.fixture(scope="session")
def oncebox_client(oncebox_server: "OnceboxServer") -> "Iterator[Client]":
    """A client of the service, with all rights."""
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
    later = _is_async(request)
    with ExitStack() as stack:
        with _fail_without_traceback():
            making = fixtures.open_inbox(oncebox_client, node.nodeid, node.name, later=later)
            opened = stack.enter_context(making)
        node.stash[_REPORT_SECTIONS] = (lambda: fixtures.inbox_summary(oncebox_client, opened),)
        yield opened


@pytest.fixture
def wait_for_code(inbox: "Inbox | AsyncInbox") -> Callable[..., Any]:
    """``inbox.wait_for_code``."""
    wait: Callable[..., Any] = inbox.wait_for_code
    return wait


@pytest.fixture
def wait_for_link(inbox: "Inbox | AsyncInbox") -> Callable[..., Any]:
    """``inbox.wait_for_link``."""
    wait: Callable[..., Any] = inbox.wait_for_link
    return wait


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
    """Faults that the mail of this test's inbox meets, and no other."""
    from oncebox.testing.fixtures import MailFaults  # noqa: PLC0415 - as the others

    seed: int = request.config.getoption("--oncebox-seed")
    with MailFaults(oncebox_client, inbox.id, f"{seed}/{request.node.nodeid}") as faults:
        request.node.stash[_REPORT_SECTIONS] += (faults.summary,)
        yield faults


@contextmanager
def _fail_without_traceback() -> Iterator[None]:
    """Say in one sentence what is wrong, without a traceback: its frames know keys."""
    from oncebox.errors import OnceboxError  # noqa: PLC0415 - as the others

    try:
        yield
    except OnceboxError as error:
        pytest.fail(f"oncebox: {error.code}: {error}", pytrace=False)


def _is_async(request: pytest.FixtureRequest) -> bool:
    """Say whether a test is a coroutine, which must not be kept waiting."""
    return inspect.iscoroutinefunction(getattr(request, "function", None))
