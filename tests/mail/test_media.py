"""Media types: what an attachment is by its name, alike everywhere."""

import mimetypes

import pytest

from oncebox.mail import media
from oncebox.model.email import Attachment, Email, checked


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("report.pdf", "application/pdf"),
        ("PHOTO.JPEG", "image/jpeg"),
        ("mail.eml", media.OCTETS),
        ("page.mht", media.OCTETS),
        ("all.tar.gz", media.OCTETS),
        ("//[x.html", "text/html"),
        ("http://[x", media.OCTETS),
        (".pdf", media.OCTETS),
        ("nothing", media.OCTETS),
    ],
)
def test_a_file_is_what_its_name_says_and_can_be_sent(name: str, kind: str) -> None:
    attachment = Attachment(name=name, content=b"x", media_type=media.of_name(name))

    assert attachment.media_type == kind
    checked(Email(sender="a@example.com", to="b@example.com", attachments=[attachment]))


def test_what_a_machine_calls_files_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(mimetypes.types_map, ".pdf", "application/x-other")

    assert media.of_name("a.pdf") == "application/pdf"
