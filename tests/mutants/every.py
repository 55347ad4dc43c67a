"""Every planted fault."""

from tests.mutants.actions import ACTIONS
from tests.mutants.artifacts import ARTIFACTS
from tests.mutants.client import CLIENT
from tests.mutants.codes import CODES
from tests.mutants.deadlines import DEADLINES
from tests.mutants.doors import DOORS
from tests.mutants.endpoints import ENDPOINTS
from tests.mutants.events import EVENTS
from tests.mutants.fail_open import FAIL_OPEN
from tests.mutants.fairness import FAIRNESS
from tests.mutants.group_commit import GROUP_COMMIT
from tests.mutants.guards import GUARDS
from tests.mutants.http import HTTP
from tests.mutants.http_mailboxes import HTTP_MAILBOXES
from tests.mutants.imap import IMAP
from tests.mutants.immediate_leases import IMMEDIATE_LEASES
from tests.mutants.inbound import INBOUND
from tests.mutants.inboxes import INBOXES
from tests.mutants.intake import INTAKE
from tests.mutants.keys import KEYS
from tests.mutants.links import LINKS
from tests.mutants.mailbox_management import MAILBOX_MANAGEMENT
from tests.mutants.mailboxes import MAILBOXES
from tests.mutants.messages import MESSAGES
from tests.mutants.mutants import MUTANTS
from tests.mutants.observing import OBSERVING
from tests.mutants.operators import OPERATORS
from tests.mutants.pipelines import PIPELINES
from tests.mutants.plugin import PLUGIN
from tests.mutants.polling import POLLING
from tests.mutants.reading import READING
from tests.mutants.resend import RESEND
from tests.mutants.senders import SENDERS
from tests.mutants.sending import SENDING
from tests.mutants.sends import SENDS
from tests.mutants.sends_worker import SENDS_WORKER
from tests.mutants.service import SERVICE
from tests.mutants.smtp import SMTP
from tests.mutants.upkeep import UPKEEP
from tests.mutants.vault import VAULT
from tests.mutants.waiting import WAITING

EVERY = (
    *MUTANTS,
    *SERVICE,
    *HTTP,
    *INTAKE,
    *GROUP_COMMIT,
    *DEADLINES,
    *CLIENT,
    *INBOUND,
    *INBOXES,
    *SENDERS,
    *MESSAGES,
    *MAILBOXES,
    *ENDPOINTS,
    *READING,
    *SMTP,
    *FAIRNESS,
    *EVENTS,
    *VAULT,
    *KEYS,
    *ARTIFACTS,
    *CODES,
    *LINKS,
    *WAITING,
    *PIPELINES,
    *ACTIONS,
    *SENDS,
    *DOORS,
    *SENDING,
    *RESEND,
    *GUARDS,
    *FAIL_OPEN,
    *SENDS_WORKER,
    *IMMEDIATE_LEASES,
    *PLUGIN,
    *UPKEEP,
    *OBSERVING,
    *IMAP,
    *MAILBOX_MANAGEMENT,
    *HTTP_MAILBOXES,
    *OPERATORS,
    *POLLING,
)
