"""What can go wrong with addresses, inboxes and the reading of mail; a part of the error tree.

OnceboxError
├── InputRefused
│   ├── AddressInvalid            no address or domain that mail is taken for
│   └── InboxInvalid
├── NotFound
│   └── DomainUnknown             there is none of that name to make an address of
├── StateConflict
│   ├── DomainTaken
│   ├── DomainNeeded              there are none or several to choose from
│   ├── AddressTaken
│   ├── InboxDiffers              the attempt has another inbox of that label
│   ├── MailNotOpened             a stored mail is damaged, or sealed for somewhere else
│   └── ResendsUsedUp             the mail was asked for again as often as it may be
├── ResolverError                 the domain name system
│   ├── NoSuchRecord              there is no such name or record
│   └── ResolverTrouble           nobody has answered; it may be asked again
└── ParserUnavailable             mail cannot be read just now
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


class DomainNeeded(StateConflict):
    """There is no default domain; say which one the address shall have."""

    code = "domain_needed"


class AddressTaken(StateConflict):
    """The address belongs to an inbox, or did; an address is given out once."""

    code = "address_taken"


class InboxDiffers(StateConflict):
    """The attempt has an inbox of this label already, made by other words or by another key."""

    code = "inbox_differs"


class MailNotOpened(StateConflict):
    """A stored mail cannot be opened: damaged, or sealed with another key or for another row."""

    code = "mail_not_opened"


class ResendsUsedUp(StateConflict):
    """The mail of this attempt was asked for again as often as its inboxes' policy allows."""

    code = "resends_used_up"


class ResolverError(OnceboxError):
    """The domain name system has not answered a question."""

    code = "resolver_error"


class NoSuchRecord(ResolverError):
    """There is no such name, or it has no such records."""

    code = "dns_no_record"


class ResolverTrouble(ResolverError):
    """No name server has given a usable answer in time; it may be asked again."""

    code = "dns_trouble"
    retry_safe = True


class ParserUnavailable(OnceboxError):
    """No process can be started to read mail with; it may work later."""

    code = "parser_unavailable"
    retry_safe = True
