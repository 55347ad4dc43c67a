"""Topics of notifications; see ``Ledger.notify`` and ``Ledger.subscribe``."""

#: events were recorded and can be numbered
EVENTS = "events"
#: events were numbered and can be read
STREAM = "stream"
#: a delivery became due
DUE = "due"
#: a mail arrived; its delivery is due
MAIL = "mail"
#: a mailbox on another server became due
MAILBOXES = "mailboxes"
#: a message was filed, or an inbox or artifact changed
MESSAGES = "messages"
#: there is something to send, or a send has changed
SENDS = "sends"
