"""How calls to the service fail; the branch of the error tree that only clients see.

    OnceboxError
    └── CallFailed
        ├── NoAnswer
        │   ├── ServiceUnreachable
        │   └── DeadlinePassed
        ├── AnswerUnreadable          something else answered
        ├── ServiceRefused            with a code this version does not know
        ├── WorkMisused
        ├── ActionMisused
        ├── ActionInFlight            somebody else is doing it
        ├── ActionHeld                a person must say whether it happened
        ├── ClientClosed
        └── WaitEnded                 a wait that nothing was granted to
            ├── WaitTimedOut
            ├── WaitContested         an ArtifactConflict: nobody can know which one is meant
            └── InboxClosed           nothing can come any more

What the service itself refuses comes as the same class that the service raised.
"""

from collections.abc import Iterable, Sequence

from oncebox.artifact_errors import ArtifactConflict
from oncebox.errors import OnceboxError, StateConflict
from oncebox.wire.waits import WaitConflict, WaitReport

#: messages that are listed when a wait tells why it ended
_MOST_LISTED = 10


class CallFailed(OnceboxError):
    """A call to the service could not be made, or its answer could not be used."""

    code = "call_failed"


class NoAnswer(CallFailed):
    """No answer came; ``sent`` says whether the service may have heard the call all the same."""

    code = "no_answer"

    def __init__(self, message: str = "", *, sent: bool = True) -> None:
        """Say whether anything of the call may have arrived."""
        super().__init__(message)
        self.sent = sent


class ServiceUnreachable(NoAnswer):
    """There is no connection to the service, or it broke."""

    code = "service_unreachable"


class DeadlinePassed(NoAnswer):
    """The service did not answer in time."""

    code = "deadline_passed"


class AnswerUnreadable(CallFailed):
    """The answer is not one of this service; something else may be listening there."""

    code = "answer_unreadable"


class ServiceRefused(CallFailed):
    """The service refused with a ``code`` that this version of the client does not know."""

    code = "service_refused"


class WorkMisused(CallFailed):
    """Work that was fetched was not used inside ``with``, or used twice."""

    code = "work_misused"


class ActionMisused(CallFailed):
    """An action was ended that was not begun or is not this program's, or cannot be kept."""

    code = "action_misused"


class ActionInFlight(CallFailed):
    """Somebody else is doing this action; ask again later."""

    code = "action_in_flight"
    retry_safe = True


class ActionHeld(CallFailed):
    """Nobody knows whether this action happened; a person resolves it: ``oncebox action``."""

    code = "action_held"


class ClientClosed(CallFailed):
    """This program has closed the client."""

    code = "client_closed"


class WaitEnded(CallFailed):
    """Nothing was granted; ``reports`` says of each inbox what was seen there, and why not."""

    code = "wait_ended"

    def __init__(self, message: str, reports: Sequence[WaitReport] = ()) -> None:
        """Keep the reports, and tell of them."""
        super().__init__("\n".join([message, *_told(reports)]))
        self.reports = list(reports)

    @property
    def report(self) -> WaitReport | None:
        """The report of the first inbox."""
        return self.reports[0] if self.reports else None


class WaitTimedOut(WaitEnded):
    """Nothing that fits came in time; waiting again is safe, and finds what comes later."""

    code = "wait_timed_out"
    retry_safe = True

    def __init__(
        self,
        kind: str,
        within: float,
        reports: Sequence[WaitReport] = (),
        *,
        resume: str | None = None,
    ) -> None:
        """Say what was waited for, and how long; ``resume`` goes on with the same wait."""
        super().__init__(f"no {kind} that fits came within {within:g} s", reports)
        self.resume = resume


class WaitContested(WaitEnded, ArtifactConflict):
    """Several fit equally, so that nobody can know which one is meant; ``conflict`` names them."""

    code = "wait_contested"

    def __init__(self, conflict: WaitConflict, reports: Sequence[WaitReport] = ()) -> None:
        """Keep what is in conflict."""
        named = ", ".join(conflict.artifact_ids)
        super().__init__(
            f"several fit in {conflict.inbox_id} ({conflict.why}): {named}; narrow the wait by "
            "sender, purpose or subject, or let a person choose",
            reports,
        )
        self.conflict = conflict


class InboxClosed(WaitEnded, StateConflict):
    """The inbox takes no more mail, and has nothing that fits; make a new one."""

    code = "inbox_closed"

    def __init__(self, reports: Sequence[WaitReport] = ()) -> None:
        """Tell of what was seen."""
        message = "the inbox takes no more mail, and nothing in it fits; make or rotate one"
        super().__init__(message, reports)


def _told(reports: Iterable[WaitReport]) -> Iterable[str]:
    """Say in plain words what was seen; nothing of it is a sender's text."""
    for each in reports:
        attempt = "" if each.attempt_id is None else f", attempt {each.attempt_id}"
        yield (
            f"{each.inbox_id} ({each.state}{attempt}): {each.messages_inspected} messages "
            f"inspected, last number {each.cursor}; {_seen_by_smtp(each)}"
        )
        left_out = len(each.seen) - _MOST_LISTED
        if left_out > 0:
            yield f"  ({left_out} earlier ones are in .reports)"
        for message in each.seen[-_MOST_LISTED:]:
            yield f"  {message.message_id} (number {message.sequence}): {message.why}"


def _seen_by_smtp(report: WaitReport) -> str:
    if report.unread:
        return f"{report.unread} mails were taken and are not read yet"
    return "SMTP has taken mail for it" if report.smtp_saw else "SMTP has taken no mail for it"
