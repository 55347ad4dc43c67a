"""The Playwright tests of the example pass, in a real Chromium, beside a service of their own."""

import os
import subprocess
import sys

import pytest

from tests.examples.stage import EXAMPLES
from tests.support.debian import program

#: named, because those of other packages take seconds to load
PLUGINS = ("pytest_playwright.pytest_playwright", "oncebox.testing.plugin")


@pytest.mark.timeout(900)  # the browser is installed when it is first asked for
def test_a_signup_in_a_browser_passes() -> None:
    pytest.importorskip("oncebox.testing.plugin")
    program("chromium", "chromium")
    plugins = [word for plugin in PLUGINS for word in ("-p", plugin)]
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugins),
            EXAMPLES / "playwright_signup",
        ],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""},
        text=True,
        timeout=300,
    )

    assert ended.returncode == 0, ended.stdout
    assert "1 passed" in ended.stdout
