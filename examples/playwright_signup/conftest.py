"""What the tests need besides inbox and page: the site under test, and which browser to use."""

import shutil
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from examples.site import Site


@pytest.fixture(scope="session")
def base_url(oncebox_server: Any) -> Iterator[str]:
    """The site, configured to send its mail to the service of the tests."""
    with Site(f"{oncebox_server.smtp_host}:{oncebox_server.smtp_port}") as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        yield site.url
        site.shutdown()


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, Any]) -> dict[str, Any]:
    """Take the Chromium of the system where there is one, and let it call nobody."""
    quiet = ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    found = {"executable_path": chromium} if (chromium := shutil.which("chromium")) else {}
    return {**browser_type_launch_args, "args": quiet, **found}
