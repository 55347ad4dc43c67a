"""Sealing: only the same key opens, and only for the same row."""

import base64
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncebox.core import encryption
from oncebox.core.encryption import MasterKey
from oncebox.errors import MasterKeyMissing, MasterKeyWrong

KEY = MasterKey(bytes(range(32)))
OTHER = MasterKey(bytes(32))


@given(st.binary(max_size=200), st.binary(max_size=50))
def test_what_is_sealed_opens_again(plain: bytes, bound_to: bytes) -> None:
    assert KEY.decrypt(KEY.encrypt(plain, bound_to=bound_to), bound_to=bound_to) == plain


@given(st.binary(max_size=50), st.data())
def test_what_was_changed_does_not_open(plain: bytes, data: st.DataObject) -> None:
    sealed = bytearray(KEY.encrypt(plain, bound_to=b"row"))
    sealed[data.draw(st.integers(0, len(sealed) - 1))] ^= data.draw(st.integers(1, 255))

    with pytest.raises(MasterKeyWrong):
        KEY.decrypt(bytes(sealed), bound_to=b"row")


@given(st.binary(max_size=40))
def test_what_never_was_sealed_does_not_open(garbage: bytes) -> None:
    with pytest.raises(MasterKeyWrong):
        KEY.decrypt(garbage, bound_to=b"row")


def test_another_key_or_another_row_does_not_open() -> None:
    sealed = KEY.encrypt(b"code", bound_to=b"row-1")

    with pytest.raises(MasterKeyWrong):
        OTHER.decrypt(sealed, bound_to=b"row-1")
    with pytest.raises(MasterKeyWrong, match="another row"):
        KEY.decrypt(sealed, bound_to=b"row-2")


def test_the_same_is_never_sealed_alike() -> None:
    assert len({KEY.encrypt(b"code", bound_to=b"") for _ in range(100)}) == 100


def test_a_key_shows_its_id_and_never_itself() -> None:
    secret = base64.b64encode(bytes(range(32))).decode()

    assert KEY.id in repr(KEY)
    assert secret not in repr(KEY)
    assert bytes(range(32)).hex()[:16] != KEY.id
    assert MasterKey(bytes(range(32))).id == KEY.id != OTHER.id


@pytest.mark.parametrize("size", [0, 16, 31, 33, 64])
def test_a_key_of_another_length_is_refused(size: int) -> None:
    with pytest.raises(MasterKeyMissing, match="openssl rand -base64 32"):
        MasterKey(bytes(size))


@pytest.mark.parametrize("text", ["", "????", "ä" * 44, "A" * 43])
def test_text_that_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(MasterKeyMissing, match="openssl rand -base64 32"):
        encryption.master_key_from_text(text)


def test_white_space_around_a_key_is_forgiven() -> None:
    text = base64.b64encode(bytes(range(32))).decode()

    assert encryption.master_key_from_text(f"\n {text}\n").id == KEY.id


def test_a_key_file_is_made_once_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "oncebox.key"

    first = encryption.load_or_create_master_key(path)
    again = encryption.load_or_create_master_key(path)

    assert first.id == again.id
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_racing_processes_agree_on_one_key(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from oncebox.core import encryption;"
        "print(encryption.load_or_create_master_key(Path(sys.argv[1])).id)"
    )
    racing = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path / "key")],
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]

    assert len({each.communicate()[0] for each in racing}) == 1
    assert list(tmp_path.iterdir()) == [tmp_path / "key"]


@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe", b"short"])
def test_a_key_file_that_holds_no_key_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "key"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(MasterKeyMissing):
        encryption.master_key_from_file(path)


def test_a_key_file_that_holds_no_key_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(b"short")

    with pytest.raises(MasterKeyMissing):
        encryption.load_or_create_master_key(path)
    assert path.read_bytes() == b"short"
