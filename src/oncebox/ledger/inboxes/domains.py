"""Domains: which ones mail is taken for, and whose they are."""

from oncebox.errors import NotFound
from oncebox.ledger.office import audit, tenants
from oncebox.mail_errors import DomainTaken
from oncebox.model.domain import Domain
from oncebox.store.database import Transaction
from oncebox.store.queries import load

_sql = load(__package__, "domains.sql")


def add(tx: Transaction, name: str, deed: audit.Deed, detail: str = "") -> None:
    """Keep a new domain.

    Raises: NotFound, when there is no such tenant; DomainTaken.
    """
    tenants.require(tx, deed.tenant)
    if not tx.run(_sql.add, name=name, tenant=deed.tenant, now=deed.at):
        raise taken()
    audit.record(tx, deed, "domain add", f"domain:{name}", detail)


def claim(tx: Transaction, name: str, tenant: str, now: int) -> None:
    """Make sure that a tenant has a domain that is there by itself; nothing if it has.

    Raises: DomainTaken, when it is somebody else's.
    """
    if is_of(tx, tenant, name):
        return
    tx.run(_sql.add, name=name, tenant=tenant, now=now)
    if not is_of(tx, tenant, name):
        raise taken()


def is_of(tx: Transaction, tenant: str, name: str) -> bool:
    """Say whether a domain is a tenant's."""
    return tx.one(_sql.one, name=name, tenant=tenant) is not None


def find(tx: Transaction, tenant: str, name: str) -> Domain:
    """Return one domain of a tenant.

    Raises: NotFound.
    """
    row = tx.one(_sql.one, name=name, tenant=tenant)
    if row is None:
        raise missing()
    return Domain(*row)


def all_(tx: Transaction, tenant: str) -> list[Domain]:
    """Return the domains of a tenant, by name."""
    return [Domain(*row) for row in tx.all(_sql.of_tenant, tenant=tenant)]


def set_catch_all(tx: Transaction, name: str, tenant: str, inbox_id: str) -> None:
    """Let an inbox have what no inbox of the domain has.

    Raises: DomainTaken, when another has it already.
    """
    if not tx.run(_sql.set_catch_all, name=name, tenant=tenant, catch_all=inbox_id):
        raise taken()


def remove(tx: Transaction, name: str, deed: audit.Deed) -> None:
    """Take no more mail for a domain.

    Raises: NotFound.
    """
    if not tx.run(_sql.remove, name=name, tenant=deed.tenant):
        raise missing()
    audit.record(tx, deed, "domain remove", f"domain:{name}")


def missing() -> NotFound:
    """Return the refusal of a domain that is not there, or not the caller's."""
    return NotFound("there is no such domain; list them with: oncebox domain list")


def taken() -> DomainTaken:
    """Return the refusal of a domain that somebody has; it does not say who."""
    return DomainTaken("this domain is in the installation already; choose another")
