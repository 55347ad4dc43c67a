"""Word tables: the words that reveal codes, links and a mail's purpose; one TOML per language.

A file is named for the BCP 47 tag of its language and holds the words by which codes, links and
the purpose of a mail are recognised. The descriptions of the fields below are also the comments
in the files.
"""

import functools
import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import Annotated

import msgspec
from msgspec import Meta

Words = tuple[str, ...]


class CodeWords(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Words near a number that tell whether it is a one-time code."""

    name: Annotated[Words, Meta(description="What a one-time code is called.")]
    purpose: Annotated[Words, Meta(description="What the code is for: sign in, confirm, reset.")]
    instruction: Annotated[
        Words, Meta(description="What to do with the code, and where it is: enter, use, below.")
    ]
    validity: Annotated[
        Words, Meta(description="How long the code is valid, and that it must not be shared.")
    ]
    other_number: Annotated[
        Words, Meta(description="Other numbers: order, invoice, parcel, phone, error, postal code.")
    ]
    voucher: Annotated[
        Words, Meta(description="Vouchers, discounts and gifts, which are often called codes too.")
    ]
    password: Annotated[
        Words,
        Meta(description="Passwords and recovery codes, which are valid more than once."),
    ]
    event: Annotated[
        Words, Meta(description="Meetings, bookings and travel, which have codes of their own.")
    ] = ()


class LinkWords(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Words in or before a link that tell what it does."""

    action: Annotated[
        Words, Meta(description="Links made for one person: confirm, activate, reset password.")
    ] = ()
    possible_action: Annotated[
        Words, Meta(description="Such links and others: sign in, accept, join, continue.")
    ] = ()
    other_purpose: Annotated[
        Words, Meta(description="Other links: unsubscribe, privacy, help, download, shop.")
    ] = ()
    other_label: Annotated[
        Words, Meta(description="Other links too, but only in the text of the link itself.")
    ] = ()
    not_you: Annotated[
        Words,
        Meta(description="The reader did not ask for it; also in the sentence before a link."),
    ] = ()
    refusal: Annotated[
        Words, Meta(description="Refuse, report, undo; only in the text of the link itself.")
    ] = ()
    may_ignore: Annotated[Words, Meta(description="The mail may be ignored or deleted.")] = ()
    business: Annotated[
        Words, Meta(description="What else is confirmed or accepted: order, booking, payment.")
    ] = ()


class PurposeWords(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Words that tell the purpose of a mail; accents matter."""

    signup: Annotated[Words, Meta(description="An account is created or an address confirmed.")]
    login: Annotated[Words, Meta(description="Somebody signs in, by a code or by a link.")]
    reset: Annotated[Words, Meta(description="A password is set anew, or an account recovered.")]
    invite: Annotated[Words, Meta(description="Somebody is invited to a team or a product.")]
    unclear: Annotated[
        Words, Meta(description="A code or a link without its purpose; these words name none.")
    ] = ()


class Language(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The words of one language."""

    name: Annotated[str, Meta(description="The English name of the language.")]
    frequent: Annotated[
        Words, Meta(description="The most frequent words, by which the language is detected.")
    ] = ()
    code: CodeWords | None = None
    link: LinkWords | None = None
    purpose: PurposeWords | None = None


@functools.cache
def load_languages() -> Mapping[str, Language]:
    """Return the languages by tag, in the order of their tags."""
    files = sorted(resources.files(__package__).iterdir(), key=lambda file: file.name)
    return {
        file.name.removesuffix(".toml"): msgspec.convert(
            tomllib.loads(file.read_text("utf-8")), Language
        )
        for file in files
        if file.name.endswith(".toml")
    }
