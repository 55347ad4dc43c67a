"""The folder of templates: files people edit, and nothing beside them."""

import os
from pathlib import Path
from typing import Any

import pytest

from oncebox.errors.sends import TemplateInvalid
from oncebox.ledger.sends.templates import TemplateFolder


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "templates"
    folder.mkdir()
    (folder / "receipt.subject").write_text("Paid: {{ number }}\n")
    (folder / "receipt.txt").write_text("Thank you.\n")
    (folder / "receipt.html").write_text("<p>Thank you.</p>\n")
    return folder


def test_a_template_is_three_files(path: Path) -> None:
    assert TemplateFolder(path).get("receipt") == (
        "Paid: {{ number }}",
        "Thank you.\n",
        "<p>Thank you.</p>\n",
    )


@pytest.mark.parametrize(("gone", "left"), [("txt", "html"), ("html", "txt")])
def test_text_or_html_may_be_missing(path: Path, gone: str, left: str) -> None:
    (path / f"receipt.{gone}").unlink()
    _, text, html = TemplateFolder(path).get("receipt")

    assert bool(text) is (left == "txt")
    assert bool(html) is (left == "html")


@pytest.mark.parametrize("gone", [("subject",), ("txt", "html")])
def test_what_is_missing_is_named_with_what_helps(path: Path, gone: tuple[str, ...]) -> None:
    for each in gone:
        (path / f"receipt.{each}").unlink()

    with pytest.raises(TemplateInvalid, match=r"receipt\.subject.*sends\.templates") as caught:
        TemplateFolder(path).get("receipt")
    assert str(path) not in str(caught.value)
    with pytest.raises(TemplateInvalid):
        TemplateFolder(path / "nowhere").get("receipt")


def test_a_change_is_seen_and_nothing_else_is_read_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, opened, real = TemplateFolder(path), [], os.open

    def counted(*args: Any) -> int:
        opened.append(args)
        return real(*args)

    monkeypatch.setattr(os, "open", counted)
    for _ in range(5):
        folder.get("receipt")
    assert len(opened) == 3
    (path / "receipt.txt").write_text("Thanks a lot.\n")
    assert folder.get("receipt")[1] == "Thanks a lot.\n"
    assert len(opened) == 6
    (path / "receipt.html").unlink()
    assert folder.get("receipt")[2] == ""
    (path / "receipt.subject").unlink()

    with pytest.raises(TemplateInvalid):
        folder.get("receipt")


@pytest.mark.parametrize(
    "name",
    [
        "", ".", "..", "../receipt", "a/../receipt", "/etc/passwd", "a\\b", "Receipt", "receipt\n",
        "receipt\0", ".hidden", "-x", "a" * 101, "réçu", "a b",
    ],
)  # fmt: skip
def test_a_name_is_no_path(path: Path, name: str) -> None:
    with pytest.raises(TemplateInvalid, match="the name of a template"):
        TemplateFolder(path).get(name)


def test_what_leads_out_of_the_folder_is_not_read(path: Path) -> None:
    secret = path.parent / "secret"
    secret.write_text("s3cret")
    (path / "receipt.txt").unlink()
    (path / "receipt.txt").symlink_to(secret)

    with pytest.raises(TemplateInvalid, match="leads out") as caught:
        TemplateFolder(path).get("receipt")
    assert "s3cret" not in str(caught.value)


def test_links_within_the_folder_and_to_the_folder_are_followed(path: Path) -> None:
    (path / "receipt.txt").rename(path / "other.txt")
    (path / "receipt.txt").symlink_to("other.txt")
    (path.parent / "link").symlink_to(path)

    assert TemplateFolder(path.parent / "link").get("receipt")[1] == "Thank you.\n"


@pytest.mark.parametrize("what", ["folder", "pipe", "loop", "large", "latin"])
def test_what_is_no_readable_file_is_refused_and_waits_for_nobody(path: Path, what: str) -> None:
    text = path / "receipt.txt"
    text.unlink()
    if what == "folder":
        text.mkdir()
    elif what == "pipe":
        os.mkfifo(text)
    elif what == "loop":
        text.symlink_to(text)
    else:
        text.write_bytes(b"x" * (1024 * 1024 + 1) if what == "large" else b"caf\xe9")

    with pytest.raises(TemplateInvalid, match=r"receipt\.txt"):
        TemplateFolder(path).get("receipt")


def test_memory_is_bounded(path: Path) -> None:
    folder = TemplateFolder(path)
    for number in range(450):
        for ending in ("subject", "txt"):
            (path / f"t{number}.{ending}").touch()
        folder.get(f"t{number}")

    assert len(folder._cached) <= 200
