"""The pages about mailboxes: IMAP names every setting and failure, the settings file is read."""

import re
from pathlib import Path

import msgspec

from oncebox.mailboxes.declared_mailboxes import read_declared
from oncebox.mailboxes.failures import REMEDIES
from oncebox.mailboxes.imap_config import ImapConfig
from oncebox.settings_loading import load_settings
from tests.docs.page import blocks
from tests.docs.reference import DOCS
from tests.project.tree import PACKAGE, ROOT

PAGE = (ROOT / "docs" / "imap.md").read_text()
_CODE = re.compile(r'MailboxFailure\(\s*"([a-z_]+)"|"([a-z]+_(?:refused|unavailable|closed))"')
_ROW = re.compile(r"`([a-z_]+)`")
#: a word of OAuth, which becomes a code of ours
_FOREIGN = {"temporarily_unavailable"}


def _codes(path: Path) -> set[str]:
    return {one or two for one, two in _CODE.findall(path.read_text())}


def test_the_page_names_every_setting() -> None:
    fields = {each.name for each in msgspec.structs.fields(ImapConfig)}

    assert {name for name in fields if f"`{name}`" not in PAGE} == set()


def test_the_page_names_every_failure() -> None:
    modules = (*(PACKAGE / "mailboxes").glob("imap*.py"), PACKAGE / "mailboxes/access_tokens.py")
    codes = set().union(*map(_codes, modules))

    assert len(codes) > 15
    assert {code for code in codes - _FOREIGN if f"`{code}`" not in PAGE} == set()


def test_every_failure_on_the_pages_has_its_remedy_in_the_code() -> None:
    apis = (DOCS / "reference" / "mailbox-apis.md").read_text().partition("## Failures")[2]
    codes = {
        code
        for line in apis.splitlines()
        if line[:1] == "|"
        for code in _ROW.findall(line.split(" | ")[0])
    }

    assert len(codes) > 12
    assert codes - REMEDIES.keys() == set()


def test_the_mailbox_in_the_settings_file_is_one(tmp_path: Path) -> None:
    (written,) = blocks(DOCS / "mailboxes.md", "toml")
    (tmp_path / "oncebox.toml").write_text(written)
    settings = load_settings({"ONCEBOX_CONFIG": str(tmp_path / "oncebox.toml")})
    declared = read_declared(settings.mailboxes, {"IMAP_PASSWORD": "s3cret"})

    assert [each.account for each in declared.drafts] == ["ann at imap.example.com"]
