"""Errors about addresses, inboxes, received mail, DNS, and claiming codes and links.

OnceboxError
├── InputRefused
│   ├── AddressInvalid
│   └── InboxInvalid
├── NotFound
│   └── DomainUnknown
├── StateConflict
│   ├── DomainTaken
│   ├── DomainUnproven            no proof that the tenant owns it, or another has it
│   ├── DomainRequired            there is no default
│   ├── AddressTaken
│   ├── InboxConflict             the attempt has another inbox of that label
│   ├── MailDecryptionFailed
│   ├── ResendLimitReached
│   └── QuotaExceeded             the tenant stores as much mail as it may
├── ResolverError                 DNS
│   ├── DnsRecordNotFound
│   └── ResolverUnavailable       may be retried
└── ParserUnavailable             may be retried

OnceboxError
└── StateConflict
    ├── AlreadyClaimed            another claim holds it
    ├── ArtifactInFlight          another worker of the claim holds it; may be retried
    ├── ArtifactUsed              a worker of the claim has used it
    ├── ArtifactSuperseded        a newer one replaced it
    ├── ArtifactUnmatched         its message is not what the inbox expects
    ├── ArtifactPurged            its value was overwritten
    ├── ArtifactConflict          several match equally well
    └── LinkRefused               by the link policy
"""

from oncebox.errors import InputRefused, NotFound, OnceboxError, StateConflict


class AddressInvalid(InputRefused):
    """The address or domain cannot receive mail."""

    code = "address_invalid"


class InboxInvalid(InputRefused):
    """The attempt, the label, the metadata or the policy of an inbox cannot be used."""

    code = "inbox_invalid"


class DomainUnknown(NotFound):
    """The domain does not exist in this installation."""

    code = "domain_unknown"


class DomainTaken(StateConflict):
    """The domain, one above it or one below it is in this installation already."""

    code = "domain_taken"


class DomainUnproven(StateConflict):
    """The domain is not proven to be the tenant's by DNS, or another tenant has it."""

    code = "domain_unproven"


class DomainRequired(StateConflict):
    """There is no default domain; name the domain of the address."""

    code = "domain_required"


class AddressTaken(StateConflict):
    """The address belongs or belonged to an inbox; addresses are not reused."""

    code = "address_taken"


class InboxConflict(StateConflict):
    """The attempt has an inbox of this label, with other options or of another key."""

    code = "inbox_conflict"


class MailDecryptionFailed(StateConflict):
    """A stored mail cannot be decrypted: damaged, or encrypted for another key or row."""

    code = "mail_decryption_failed"


class ResendLimitReached(StateConflict):
    """The attempt has used all resends that its inboxes' policy allows."""

    code = "resend_limit_reached"


class QuotaExceeded(StateConflict):
    """The tenant stores as much mail as it may."""

    code = "quota_exceeded"


class ResolverError(OnceboxError):
    """A DNS query failed."""

    code = "resolver_error"


class DnsRecordNotFound(ResolverError):
    """The name does not exist, or has no such records."""

    code = "dns_record_not_found"


class ResolverUnavailable(ResolverError):
    """No name server gave a usable answer in time; the query may be retried."""

    code = "dns_unavailable"
    retry_safe = True


class ParserUnavailable(OnceboxError):
    """No parser process can be started; it may be retried."""

    code = "parser_unavailable"
    retry_safe = True


class AlreadyClaimed(StateConflict):
    """Another claim holds this code or link; it is granted once."""

    code = "already_claimed"


class ArtifactInFlight(StateConflict):
    """Another worker of the same attempt holds this code or link; try again after its lease."""

    code = "artifact_in_flight"
    retry_safe = True

    def __init__(self, message: str = "", *, retry_after: float | None = None) -> None:
        """Take the seconds until the lease ends."""
        super().__init__(message)
        self.retry_after = retry_after


class ArtifactUsed(StateConflict):
    """A worker of the same attempt has used this code or link."""

    code = "artifact_used"


class ArtifactSuperseded(StateConflict):
    """A newer code or link of the same sender and purpose replaced this one."""

    code = "artifact_superseded"


class ArtifactUnmatched(StateConflict):
    """The message of this code or link does not match its inbox's policy."""

    code = "artifact_unmatched"


class ArtifactPurged(StateConflict):
    """The value of this code or link was overwritten after its retention period."""

    code = "artifact_purged"


class ArtifactConflict(StateConflict):
    """Several codes or links match equally well; Oncebox does not guess."""

    code = "artifact_conflict"


class LinkRefused(StateConflict):
    """The link policy refuses this link; it stays available."""

    code = "link_refused"
