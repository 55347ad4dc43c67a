"""Errors that only clients raise: no answer, unreadable answer, misuse, wait ended.

Errors of the service itself have the class that the service raised.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from oncebox.errors import OnceboxError, StateConflict
from oncebox.errors.mail import ArtifactConflict, ArtifactInFlight

if TYPE_CHECKING:
    from oncebox.schemas import artifacts as schemas
    from oncebox.schemas.artifacts import InspectedMessage, WaitConflict, WaitReport

#: messages listed in the text of an error
_MAX_LISTED = 10


class CallFailed(OnceboxError):
    """A call could not be made, or its answer could not be used."""

    code = "call_failed"


class NoAnswer(CallFailed):
    """No answer came; ``sent``: the service may have received the call."""

    code = "no_answer"

    def __init__(self, message: str = "", *, sent: bool = True) -> None:
        super().__init__(message)
        self.sent = sent


class ServiceUnreachable(NoAnswer):
    """The connection to the service failed or broke."""

    code = "service_unreachable"


class DeadlinePassed(NoAnswer):
    """The service did not answer in time."""

    code = "deadline_passed"


class AnswerUnreadable(CallFailed):
    """The answer is not from Oncebox; another program may be listening there."""

    code = "answer_unreadable"


class ServiceRefused(CallFailed):
    """The service answered with a ``code`` that this version of the client does not know."""

    code = "service_refused"


class WorkMisused(CallFailed):
    """Claimed work was not used inside ``with``, or used twice."""

    code = "work_misused"


class ActionMisused(CallFailed):
    """An action has invalid options, was not begun, or belongs to another caller."""

    code = "action_misused"


class ActionInFlight(CallFailed):
    """Another caller is doing this action; try again later."""

    code = "action_in_flight"
    retry_safe = True


class ActionHeld(CallFailed):
    """The outcome of this action is unknown; a person resolves it: ``oncebox action``."""

    code = "action_held"


class PollMisused(CallFailed):
    """A ``Poller`` has invalid options, or its list function returned something unusable."""

    code = "poll_misused"


class MailboxInUse(CallFailed):
    """Another loop polls this mailbox; ``retry_after`` is what is left of its lease."""

    code = "mailbox_in_use"
    retry_safe = True


class ClientClosed(CallFailed):
    """The client was closed."""

    code = "client_closed"


class WaitEnded(CallFailed):
    """Nothing was granted; ``reports`` lists for each inbox what was seen and why not."""

    code = "wait_ended"

    def __init__(self, message: str, reports: "Sequence[WaitReport]" = ()) -> None:
        super().__init__("\n".join([message, *_report_lines(reports)]))
        self.reports = list(reports)

    @property
    def report(self) -> "WaitReport | None":
        """The report of the first inbox."""
        return self.reports[0] if self.reports else None


class WaitTimedOut(WaitEnded):
    """No match arrived in time; it is safe to wait again, and ``resume`` continues this wait."""

    code = "wait_timed_out"
    retry_safe = True

    def __init__(
        self,
        kind: str,
        within: float,
        reports: "Sequence[WaitReport]" = (),
        *,
        resume: str | None = None,
        criteria: str = "",
        why: str = "",
    ) -> None:
        wanted = f" ({criteria})" if criteria else ""
        super().__init__(why or f"no matching {kind} arrived within {within:g} s{wanted}", reports)
        self.resume = resume
        #: what was waited for, as one line
        self.criteria = criteria


class WaitInFlight(WaitTimedOut, ArtifactInFlight):
    """It arrived, and another worker of the same attempt holds it; do not request another one."""

    code = "wait_in_flight"

    def __init__(
        self,
        kind: str,
        within: float,
        reports: "Sequence[WaitReport]" = (),
        *,
        resume: str | None,
        in_flight: "schemas.WaitInFlight",
    ) -> None:
        why = (
            f"another worker of this attempt holds the {kind} for {in_flight.seconds_left:.0f} s "
            f"more ({in_flight.artifact_id}); do not request another one, but wait again"
        )
        super().__init__(kind, within, reports, resume=resume, why=why)
        self.artifact_id = in_flight.artifact_id
        self.retry_after = in_flight.seconds_left


class WaitContested(WaitEnded, ArtifactConflict):
    """Several artifacts match equally; ``conflict`` names them."""

    code = "wait_contested"

    def __init__(self, conflict: "WaitConflict", reports: "Sequence[WaitReport]" = ()) -> None:
        named = ", ".join(conflict.artifact_ids)
        super().__init__(
            f"several match in {conflict.inbox_id} ({conflict.why}): {named}; narrow the wait by "
            "sender, purpose or subject, or let a person choose",
            reports,
        )
        self.conflict = conflict


class InboxClosed(WaitEnded, StateConflict):
    """The inbox accepts no more mail, and nothing in it matches; create a new one."""

    code = "inbox_closed"

    def __init__(self, reports: "Sequence[WaitReport]" = ()) -> None:
        message = "the inbox accepts no more mail, and nothing in it matches; create or rotate one"
        super().__init__(message, reports)


def _report_lines(reports: "Iterable[WaitReport]") -> Iterable[str]:
    """Return the reports as text, without anything that a sender wrote."""
    for each in reports:
        attempt = "" if each.attempt_id is None else f", attempt {each.attempt_id}"
        count = each.messages_inspected
        yield (
            f"{each.inbox_id} ({each.state}{attempt}): {count} message{'' if count == 1 else 's'} "
            f"inspected, last number {each.cursor}; {_arrival_summary(each)}"
        )
        if each.warnings:
            yield f"  warning: {', '.join(each.warnings)}"
        left_out = len(each.seen) - _MAX_LISTED
        if left_out > 0:
            yield f"  ({left_out} earlier ones are in .reports)"
        for message in each.seen[-_MAX_LISTED:]:
            yield (
                f"  {message.message_id} (number {message.sequence}): {message.why}"
                f"{_sender_summary(message)}"
            )


def _sender_summary(message: "InspectedMessage") -> str:
    """Return the domain of a sender that does not match, and the rules, which are ours."""
    if not message.sender_rules:
        return ""
    return f" ({message.sender_domain or 'no domain'}; allowed: {', '.join(message.sender_rules)})"


def _arrival_summary(report: "WaitReport") -> str:
    if report.unread == 1:
        return "1 mail was accepted and is not processed yet"
    if report.unread:
        return f"{report.unread} mails were accepted and are not processed yet"
    return "mail arrived for it" if report.smtp_saw else "no mail arrived for it"
