"""All rooms of a client."""

from typing import Generic

from oncebox.client.artifacts import Artifacts
from oncebox.client.attempts import Attempts
from oncebox.client.deliveries import Deliveries
from oncebox.client.domains import Domains
from oncebox.client.events import Events
from oncebox.client.inboxes import Inboxes
from oncebox.client.keys import Keys
from oncebox.client.messages import Messages
from oncebox.client.quarantine import Quarantine
from oncebox.client.room import Carrier, When
from oncebox.client.sends import Sends
from oncebox.client.sources import Sources
from oncebox.client.suppressions import Suppressions
from oncebox.client.tenants import Tenants
from oncebox.client.transports import Transports


class Rooms(Generic[When]):
    """What can be asked of the service, by noun."""

    def __init__(self, carrier: Carrier) -> None:
        """Have every verb carried out by this carrier."""
        self.sources: Sources[When] = Sources(carrier)
        self.deliveries: Deliveries[When] = Deliveries(carrier)
        self.events: Events[When] = Events(carrier)
        self.inboxes: Inboxes[When] = Inboxes(carrier)
        self.attempts: Attempts[When] = Attempts(carrier)
        self.messages: Messages[When] = Messages(carrier)
        self.artifacts: Artifacts[When] = Artifacts(carrier)
        self.keys: Keys[When] = Keys(carrier)
        self.tenants: Tenants[When] = Tenants(carrier)
        self.quarantine: Quarantine[When] = Quarantine(carrier)
        self.domains: Domains[When] = Domains(carrier)
        self.sends: Sends[When] = Sends(carrier)
        self.transports: Transports[When] = Transports(carrier)
        self.suppressions: Suppressions[When] = Suppressions(carrier)
