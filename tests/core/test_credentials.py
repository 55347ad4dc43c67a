"""The credentials file: its owner's alone, written once, and never overwritten."""

from pathlib import Path

import pytest

from oncebox.core import credentials
from oncebox.core.credentials import Credentials
from oncebox.errors import ConfigInvalid

MINE = Credentials(url="http://127.0.0.1:8808", key="obx_CANARY")


def test_what_is_written_is_read_again_and_only_its_owner_may(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"

    assert credentials.write(folder, MINE) == MINE
    assert credentials.read(folder) == MINE
    assert credentials.path(folder).stat().st_mode & 0o777 == 0o600
    assert list(folder.iterdir()) == [credentials.path(folder)]


def test_a_file_that_is_there_is_never_overwritten(tmp_path: Path) -> None:
    credentials.write(tmp_path, MINE)
    other = Credentials(url="http://elsewhere", key="obx_other")

    assert credentials.write(tmp_path, other) == MINE
    assert credentials.read(tmp_path) == MINE


def test_no_file_means_no_credentials(tmp_path: Path) -> None:
    assert credentials.read(tmp_path) is None


@pytest.mark.parametrize("content", [b"", b"{}", b"obx_CANARY", b'{"url": 1, "key": "obx_CANARY"}'])
def test_a_file_that_cannot_be_read_is_named_and_not_quoted(tmp_path: Path, content: bytes) -> None:
    credentials.path(tmp_path).write_bytes(content)

    with pytest.raises(ConfigInvalid, match=r"credentials\.json") as caught:
        credentials.read(tmp_path)
    assert "CANARY" not in str(caught.value)
    with pytest.raises(ConfigInvalid):
        credentials.write(tmp_path, MINE)
    assert credentials.path(tmp_path).read_bytes() == content


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ConfigInvalid, match="ONCEBOX_DATA_DIR"):
        credentials.write(tmp_path / "file" / "folder", MINE)


def test_the_key_is_shown_by_nothing_that_prints_it() -> None:
    assert "CANARY" not in f"{MINE!r} {MINE} {MINE.__rich_repr__()}"
