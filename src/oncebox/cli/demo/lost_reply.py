"""A mail server takes a mail, and its reply is lost."""

import smtplib
from collections import Counter

from oncebox.cli.demo.letter import deliver, letter, new_code
from oncebox.cli.demo.scene import Fact, Naive, Ours, Scene, several
from oncebox.cli.demo.stage import Stage
from oncebox.model.email import Email
from oncebox.testing.smtp import ScriptedSmtp

#: twice the reply is lost; the third time all would go well
_SCRIPT = ("accept_then_drop", "accept_then_drop")
_TRIES = 3


def _naive(stage: Stage) -> Naive:
    """Take every error for a mail that was not sent."""
    mail = letter("ann@example.com", new_code())
    with ScriptedSmtp() as server:
        server.script(*_SCRIPT)
        for number in range(_TRIES):
            stage.note(f"the naive sender's try number {number + 1}")
            try:
                deliver(mail, server.host, server.port)
            except (smtplib.SMTPException, OSError):
                continue
            break
        taken = len(server.accepted)
    return Naive(
        came_to=f"the server took {several(taken, 'mail')}",
        ran="on every error, send again",
        figures={"mails taken": taken},
    )


def _play(stage: Stage) -> Ours:
    email = Email(sender="shop@example.com", to="ann@example.com", subject="Paid", text="Thanks.")
    server, clerk = stage.relay
    clerk.hear()
    server.script(*_SCRIPT)
    told: Counter[str] = Counter()
    for number in range(_TRIES):
        stage.note(f"asking for the mail, {number + 1} of {_TRIES} times")
        answer = stage.client.send(email, event_type="order.paid", entity_id="order-1")
        told[answer.status] += 1
    taken = len(server.accepted)
    said = ", ".join(f"{status} {several(number, 'time')}" for status, number in told.items())
    return Ours(
        came_to=f"the server took {several(taken, 'mail')}",
        after=f"asked {_TRIES} times, told {said}",
        facts=[
            Fact(what="told unknown", counted=told["unknown"], promised=_TRIES),
            Fact(what="mails taken", counted=taken, promised=1),
        ],
    )


SCENE = Scene(
    name="reply",
    title="A mail server takes a mail, and its reply is lost",
    naive=_naive,
    play=_play,
    prepare=lambda stage: stage.relay,
)
