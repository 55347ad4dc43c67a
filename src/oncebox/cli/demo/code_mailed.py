"""A code is mailed three times, as mail servers do that did not hear the answer."""

import re

from oncebox.cli.demo.letter import deliver, letter, new_code
from oncebox.cli.demo.scene import Fact, Naive, Ours, Scene, several
from oncebox.cli.demo.stage import Stage
from oncebox.model.artifact import ArtifactState
from oncebox.testing.smtp import ScriptedSmtp

_COPIES = 3
_TAKEN = 250
_CODE = re.compile(rb"\b[0-9]{6}\b")


def _naive(stage: Stage) -> Naive:
    """Take every mail for a new one."""
    mail = letter("agent@naive.example", new_code())
    with ScriptedSmtp() as server:
        for copy in range(_COPIES):
            stage.note(f"mailing copy {copy + 1} to a plain mail server")
            deliver(mail, server.host, server.port)
        handed_on = [found[0] for each in server.accepted if (found := _CODE.search(each.message))]
    number = len(handed_on)
    return Naive(
        came_to=f"{several(number, 'code')} handed on",
        ran="for every mail: find its code, hand it on",
        figures={"codes handed on": number},
    )


def _play(stage: Stage) -> Ours:
    inbox = stage.client.inboxes.create(attempt_id="signup-1")
    mail, taken = letter(inbox.email, new_code()), 0
    for copy in range(_COPIES):
        stage.note(f"mailing copy {copy + 1} to {inbox.email}")
        taken += deliver(mail, *stage.smtp) == _TAKEN
    stage.note("waiting until everything that came is read")
    stage.settled(type_="")
    inbox.wait_for_code(sender="shop.example")

    messages = stage.client.inboxes.stats(inbox.id).messages
    codes = list(stage.client.artifacts.list(inbox.id))
    grants = sum(code.state is ArtifactState.CLAIMED for code in codes)
    return Ours(
        came_to=f"{several(messages, 'message')}, {several(len(codes), 'code')}, "
        f"{several(grants, 'grant')}",
        after=f"{several(taken, 'mail')} taken",
        facts=[
            Fact(what="mails taken", counted=taken, promised=_COPIES),
            Fact(what="messages", counted=messages, promised=1),
            Fact(what="codes", counted=len(codes), promised=1),
            Fact(what="grants", counted=grants, promised=1),
        ],
    )


SCENE = Scene(name="code", title="A code is mailed 3 times", naive=_naive, play=_play)
