"""Domains, as the outside sees them."""

from typing import Annotated

import msgspec

from oncebox.wire.fields import Moment, Page

_LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#: a domain in letters, digits and hyphens; others are taken, and written so
DOMAIN = rf"({_LABEL}\.)+[A-Za-z]([A-Za-z0-9-]{{0,61}}[A-Za-z0-9])?"

DomainName = Annotated[
    str,
    msgspec.Meta(
        min_length=3,
        max_length=253,
        description="a domain, such as inbox.example.com",
        # Said to the outside, but judged by the model, which knows other alphabets too.
        extra_json_schema={"pattern": f"^{DOMAIN}$"},
    ),
]


class NewDomain(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A domain to take mail for."""

    name: DomainName
    #: make an inbox for every address of it that no inbox has; else they are refused
    catch_all: bool = False


class DnsRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record to set in the DNS."""

    type: str
    name: str
    value: str


class Domain(msgspec.Struct, frozen=True, kw_only=True):
    """A domain that mail is taken for."""

    name: str
    #: the inbox for addresses that no inbox has; none: they are refused
    catch_all: str | None
    #: addresses are of this domain where none is named
    is_default: bool
    #: 0 for the default one, which is there by itself
    created_at: Moment
    #: what must be set in the DNS, so that mail comes here
    records: list[DnsRecord]


class DomainPage(Page, frozen=True, kw_only=True):
    """Some of the domains, by name."""

    data: list[Domain]
