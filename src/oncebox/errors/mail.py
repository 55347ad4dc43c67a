"""Errors about addresses, inboxes, received mail, DNS, and claiming codes and links.

OnceboxError
├── InputRefused
│   ├── AddressInvalid            no address or domain that mail is taken for
│   └── InboxInvalid
├── NotFound
│   └── DomainUnknown             there is none of that name to make an address of
├── StateConflict
│   ├── DomainTaken
│   ├── DomainRequired              there are none or several to choose from
│   ├── AddressTaken
│   ├── InboxConflict              the attempt has another inbox of that label
│   ├── MailDecryptionFailed             a stored mail is damaged, or sealed for somewhere else
│   └── ResendLimitReached             the mail was asked for again as often as it may be
├── ResolverError                 the domain name system
│   ├── DnsRecordNotFound              there is no such name or record
│   └── ResolverUnavailable           nobody has answered; it may be asked again
└── ParserUnavailable             mail cannot be read just now

OnceboxError
└── StateConflict
    ├── AlreadyClaimed            somebody else has it
    ├── ArtifactSuperseded        a newer one has taken its place
    ├── ArtifactUnmatched         its message is not what the inbox expects
    ├── ArtifactPurged            what it says was overwritten
    ├── ArtifactConflict          several are meant equally
    └── LinkRefused               the link policy does not let it out
"""

from oncebox.errors import InputRefused, NotFound, OnceboxError, StateConflict


class AddressInvalid(InputRefused):
    """This is no address or domain that mail can be taken for."""

    code = "address_invalid"


class InboxInvalid(InputRefused):
    """The attempt, the label, the metadata or the policy of an inbox cannot be used."""

    code = "inbox_invalid"


class DomainUnknown(NotFound):
    """There is no such domain here to make an address of."""

    code = "domain_unknown"


class DomainTaken(StateConflict):
    """The domain is in this installation already."""

    code = "domain_taken"


class DomainRequired(StateConflict):
    """There is no default domain; say which one the address shall have."""

    code = "domain_required"


class AddressTaken(StateConflict):
    """The address belongs to an inbox, or did; an address is given out once."""

    code = "address_taken"


class InboxConflict(StateConflict):
    """The attempt has an inbox of this label already, made by other words or by another key."""

    code = "inbox_conflict"


class MailDecryptionFailed(StateConflict):
    """A stored mail cannot be opened: damaged, or sealed with another key or for another row."""

    code = "mail_decryption_failed"


class ResendLimitReached(StateConflict):
    """The mail of this attempt was asked for again as often as its inboxes' policy allows."""

    code = "resend_limit_reached"


class ResolverError(OnceboxError):
    """The domain name system has not answered a question."""

    code = "resolver_error"


class DnsRecordNotFound(ResolverError):
    """There is no such name, or it has no such records."""

    code = "dns_record_not_found"


class ResolverUnavailable(ResolverError):
    """No name server has given a usable answer in time; it may be asked again."""

    code = "dns_unavailable"
    retry_safe = True


class ParserUnavailable(OnceboxError):
    """No process can be started to read mail with; it may work later."""

    code = "parser_unavailable"
    retry_safe = True


class AlreadyClaimed(StateConflict):
    """Another claim has this artifact; it is granted once."""

    code = "already_claimed"


class ArtifactSuperseded(StateConflict):
    """A newer artifact of the same sender and purpose has taken the place of this one."""

    code = "artifact_superseded"


class ArtifactUnmatched(StateConflict):
    """The message of this artifact is not what its inbox expects."""

    code = "artifact_unmatched"


class ArtifactPurged(StateConflict):
    """What this artifact says was overwritten when its time was over."""

    code = "artifact_purged"


class ArtifactConflict(StateConflict):
    """Several artifacts are meant equally, and none is chosen by guessing."""

    code = "artifact_conflict"


class LinkRefused(StateConflict):
    """The link policy does not let this link out; it stays available."""

    code = "link_refused"
