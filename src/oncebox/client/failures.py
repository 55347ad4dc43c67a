"""How calls to the service fail; the branch of the error tree that only clients see.

    OnceboxError
    └── CallFailed
        ├── NoAnswer
        │   ├── ServiceUnreachable
        │   └── DeadlinePassed
        ├── AnswerUnreadable          something else answered
        ├── ServiceRefused            with a code this version does not know
        ├── WorkMisused
        └── ClientClosed

What the service itself refuses comes as the same class that the service raised.
"""

from oncebox.errors import OnceboxError


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


class ClientClosed(CallFailed):
    """This program has closed the client."""

    code = "client_closed"
