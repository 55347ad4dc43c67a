"""Where the service is and the key to it."""

import subprocess
import sys
from pathlib import Path

import pytest

from oncebox.client.asynchronous import AsyncClient
from oncebox.client.core import network
from oncebox.client.sync import Client
from oncebox.core import credentials
from oncebox.core.credentials import Credentials
from oncebox.errors import ConfigInvalid

URL = "https://oncebox.example.com"


def _filed(folder: Path, url: str = "http://127.0.0.1:9999", key: str = "obx_filed") -> None:
    credentials.write(folder, Credentials(url=url, key=key))


def test_what_is_given_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    _filed(tmp_path)
    folder = {"ONCEBOX_DATA_DIR": str(tmp_path)}
    environ = {**folder, "ONCEBOX_URL": URL, "ONCEBOX_API_KEY": "obx_env"}

    assert network.find("http://given", "obx_given", environ) == Credentials(
        url="http://given", key="obx_given"
    )
    assert network.find(None, None, environ) == Credentials(url=URL, key="obx_env")
    assert network.find(None, None, folder) == Credentials(
        url="http://127.0.0.1:9999", key="obx_filed"
    )


def test_a_key_can_lie_in_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("obx_secret\n")
    environ = {"ONCEBOX_URL": URL, "ONCEBOX_API_KEY_FILE": str(tmp_path / "key")}

    assert network.find(None, None, environ).key == "obx_secret"
    with pytest.raises(ConfigInvalid, match="ONCEBOX_API_KEY_FILE"):
        network.find(None, None, {**environ, "ONCEBOX_API_KEY_FILE": str(tmp_path / "none")})


def test_the_filed_key_is_not_sent_anywhere_else(tmp_path: Path) -> None:
    _filed(tmp_path)
    folder = {"ONCEBOX_DATA_DIR": str(tmp_path)}

    with pytest.raises(ConfigInvalid, match="no API key"):
        network.find(URL, None, folder)
    assert network.find("http://127.0.0.1:9999/", None, folder).key == "obx_filed"


def test_the_folder_may_be_named_in_the_settings_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _filed(tmp_path / "data")
    (tmp_path / "oncebox.toml").write_text(f'data_dir = "{tmp_path / "data"}"\n')
    monkeypatch.chdir(tmp_path)

    assert network.find(None, None, {}).key == "obx_filed"
    settings = {"ONCEBOX_CONFIG": str(tmp_path / "oncebox.toml")}
    monkeypatch.chdir("/")
    assert network.find(None, None, settings).key == "obx_filed"


def test_a_key_alone_is_for_the_service_on_this_machine(tmp_path: Path) -> None:
    environ = {"ONCEBOX_DATA_DIR": str(tmp_path), "ONCEBOX_API_KEY": "obx_env"}

    assert network.find(None, None, environ).url == "http://127.0.0.1:8808"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "oncebox.example.com",
        "ftp://x",
        "http://",
        "https://me:pw@x",
        "https://x?a=1",
        "http://[::",
    ],
)
def test_an_address_that_is_none_is_refused_without_being_quoted(url: str, tmp_path: Path) -> None:
    environ = {"ONCEBOX_DATA_DIR": str(tmp_path), "ONCEBOX_URL": url, "ONCEBOX_API_KEY": "obx_x"}
    if not url:  # as if it were not set
        assert network.find(None, None, environ).url == "http://127.0.0.1:8808"
        return
    with pytest.raises(ConfigInvalid) as caught:
        network.find(None, None, environ)
    assert "pw" not in str(caught.value)


def test_an_address_without_its_scheme_is_shown_and_is_checked_before_the_key(
    tmp_path: Path,
) -> None:
    environ = {"ONCEBOX_DATA_DIR": str(tmp_path), "ONCEBOX_URL": "127.0.0.1:8808"}

    with pytest.raises(ConfigInvalid, match="http:// or https:// is missing") as caught:
        network.find(None, None, environ)
    assert "'127.0.0.1:8808'" in str(caught.value)


@pytest.mark.parametrize("key", ["two words", "two\nlines", "é", "\x7f"])
def test_a_key_that_fits_no_header_is_refused_without_being_quoted(key: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        network.find(URL, key, {})
    assert key not in str(caught.value)


def test_a_broken_credentials_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "credentials.json").write_text("{")
    with pytest.raises(ConfigInvalid, match=r"credentials\.json"):
        network.find(None, None, {"ONCEBOX_DATA_DIR": str(tmp_path)})


def test_no_client_shows_its_key() -> None:
    client = Client(URL, "obx_canary")
    later = AsyncClient(URL, "obx_canary")

    shown = f"{client!r} {later!r} {vars(client)!r} {vars(client._runner)!r}"
    assert "obx_canary" not in shown
    client.close()


def test_the_client_does_not_bring_the_server_along() -> None:
    program = """
import sys
import oncebox.client
from oncebox import AsyncClient, Client, Email
Email(to="ann@example.com")
Client("http://127.0.0.1:1", "obx_x").close()
server = ("starlette", "httptools", "apsw", "psycopg", "prometheus_client", "structlog", "click",
    "oncebox.db", "oncebox.ledger", "oncebox.server", "oncebox.workers", "oncebox.wiring",
    "oncebox.box", "oncebox.settings", "oncebox.core.metrics", "oncebox.service",
    "jinja2", "aiosmtplib", "oncebox.mail", "oncebox.transports")
print([name for name in sys.modules if name in server])
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert ended.stdout.strip() == "[]"
