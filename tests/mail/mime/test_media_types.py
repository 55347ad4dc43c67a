"""Media types: what an attachment is by its name, alike everywhere."""

import mimetypes

import pytest

from oncebox.mail.compose import media_types
from oncebox.model.sends.email import Attachment, Email, check_email


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("report.pdf", "application/pdf"),
        ("PHOTO.JPEG", "image/jpeg"),
        ("mail.eml", media_types.OCTET_STREAM),
        ("page.mht", media_types.OCTET_STREAM),
        ("all.tar.gz", media_types.OCTET_STREAM),
        ("//[x.html", "text/html"),
        ("http://[x", media_types.OCTET_STREAM),
        (".pdf", media_types.OCTET_STREAM),
        ("nothing", media_types.OCTET_STREAM),
    ],
)
def test_a_file_is_what_its_name_says_and_can_be_sent(name: str, kind: str) -> None:
    attachment = Attachment(name=name, content=b"x", media_type=media_types.media_type_of(name))

    assert attachment.media_type == kind
    check_email(Email(sender="a@example.com", to="b@example.com", attachments=[attachment]))


def test_what_a_machine_calls_files_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(mimetypes.types_map, ".pdf", "application/x-other")

    assert media_types.media_type_of("a.pdf") == "application/pdf"
