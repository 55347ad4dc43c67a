"""Faults of one test's mail: what a service in test mode does to the mail of one inbox."""

import hashlib
from contextlib import suppress
from typing import Self

from oncebox.client.call import Call, path
from oncebox.client.failures import CallFailed
from oncebox.client.sync import Client
from oncebox.testing.chaos import Happened
from oncebox.testing.chaos_rules import MailRule, mail_rule
from oncebox.testing.drill_wire import FaultPlan, FaultReport


class MailFaults:
    """Faults that the mail of an inbox meets, by rules and a seed."""

    def __init__(self, client: Client, inbox_id: str, name: str) -> None:
        """Begin without a fault; the seed follows from a name, such as that of a test."""
        #: counts for the rules that are added from now on
        self.seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
        self.rules: list[MailRule] = []
        self._client = client
        self._path = path("test", "faults", inbox_id)

    def add(self, fault: str, **fields: float | str) -> None:
        """Let mail meet one more fault; all rules begin anew.

        ``fault`` is ``duplicate``, ``delay``, ``reorder``, ``421`` or ``drop_after_accept``.
        The fields are those of a rule: ``chance``, ``after``, ``every``, ``times``, ``seconds``,
        ``copies``, ``to``, ``sender``.

        Raises: ConfigInvalid.
        """
        self.rules.append(mail_rule(fault, **fields))
        self._ask("PUT", FaultPlan(seed=self.seed, rules=self.rules))

    def clear(self) -> None:
        """Let mail arrive as usual from now on, and what is held at once."""
        self.rules = []
        self._ask("DELETE")

    @property
    def happened(self) -> list[Happened]:
        """The faults that happened since the last rule was added, in their order."""
        return self._ask("GET").happened

    def told(self) -> str:
        """Say what has happened."""
        met = ", ".join(f"{each.fault} (mail {each.arrival})" for each in self.happened) or "none"
        return f"faults by seed {self.seed}: {met}"

    def __enter__(self) -> Self:
        """Return these faults."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Forget them."""
        with suppress(CallFailed):  # whoever could not be reached has told the test already
            self.clear()

    def __repr__(self) -> str:
        """Show what may happen, and by which seed."""
        faults = ", ".join(rule.fault for rule in self.rules) or "none"
        return f"MailFaults({faults}; seed {self.seed})"

    def _ask(self, method: str, body: FaultPlan | None = None) -> FaultReport:
        call = Call(method=method, path=self._path, answer=FaultReport, body=body, repeatable=True)
        return self._client._courier.carry(call)  # noqa: SLF001 - a call that users do not make
