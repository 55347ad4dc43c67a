"""Where ``oncebox mcp`` finds the service, and whose key it takes along."""

import os
from pathlib import Path

import pytest

from oncebox.cli.commands.mcp import _service_credentials
from oncebox.cli.context import CommandContext
from oncebox.cli.output.printer import Printer
from oncebox.core import credentials
from oncebox.core.credentials import Credentials
from oncebox.errors import ConfigInvalid

FILED = Credentials(url="http://127.0.0.1:8808", key="obx_filed")


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user with settings for another service."""
    for name in [each for each in os.environ if each.startswith("ONCEBOX_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("ONCEBOX_URL", "https://elsewhere.example")
    monkeypatch.setenv("ONCEBOX_API_KEY", "obx_elsewhere")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder with the key that the service made."""
    credentials.write(tmp_path, FILED)
    return tmp_path


def _call(folder: Path | None = None) -> CommandContext:
    out = Printer(as_json=False, quiet=False)
    return CommandContext(database=None, data_dir=None if folder is None else str(folder), out=out)


def test_the_environment_says_where_and_by_which_key() -> None:
    assert _service_credentials(_call(), None, None) == Credentials(
        url="https://elsewhere.example", key="obx_elsewhere"
    )


def test_a_folder_on_the_command_line_beats_the_environment(folder: Path) -> None:
    assert _service_credentials(_call(folder), None, None) == FILED


def test_the_key_of_a_folder_goes_to_its_own_service_only(folder: Path) -> None:
    with pytest.raises(ConfigInvalid, match="no API key"):
        _service_credentials(_call(folder), "https://evil.example", None)


def test_a_file_with_a_key_beats_the_environment(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("obx_file\n")
    found = _service_credentials(_call(), "https://oncebox.example", str(tmp_path / "key"))

    assert found == Credentials(url="https://oncebox.example", key="obx_file")
