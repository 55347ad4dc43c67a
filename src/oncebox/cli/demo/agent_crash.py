"""An agent is killed with its code in hand, and runs again."""

from signal import SIGKILL

from oncebox.cli.demo.letter import deliver, letter, new_code
from oncebox.cli.demo.scene import Fact, Naive, Ours, Scene
from oncebox.cli.demo.stage import Stage


def _naive(stage: Stage) -> Naive:
    """Take the mail out of the mailbox, which is how two agents are kept from reading it."""
    mailbox = stage.folder / "naive-mailbox"
    mailbox.mkdir()
    code = new_code()
    (mailbox / "1").write_bytes(letter("agent@naive.example", code).as_bytes())
    module = "oncebox.cli.demo.naive_agent"
    first = stage.start(module, str(mailbox))
    first.hear()
    stage.note("kill -9 of the naive agent")
    first.kill()
    found = _said(stage.start(module, str(mailbox)).hear(), code)
    return Naive(
        came_to=f"finds {found}",
        ran="take the mail out of the mailbox",
        figures={"the next run finds": found},
    )


def _play(stage: Stage) -> Ours:
    # Python takes a while to start; an agent knows nothing before it is told its attempt.
    first, again, other = (stage.start("oncebox.cli.demo.agent") for _ in range(3))
    code, key = new_code(), stage.client.keys.make(["agent"]).key
    told = (stage.url, key, "signup-2")
    inbox = stage.client_of(key).inboxes.create(attempt_id="signup-2")
    deliver(letter(inbox.email, code), *stage.smtp)
    stage.note("an agent waits for its code")
    first.tell(*told)
    given = _said(first.hear(), code)
    stage.note("kill -9 of the agent, which has the code")
    died_of = first.kill()
    stage.note("the agent runs again, and a second one beside it")
    again.tell(*told)
    other.tell(*told, "another-agent")
    read, refused = _said(again.hear(), code), _said(other.hear(), code)
    return Ours(
        came_to=f"finds {read}; a second agent: {refused}",
        after=f"kill -{died_of}",
        facts=[
            Fact(what="the agent is given", counted=given, promised="the same code"),
            Fact(what="the agent died of signal", counted=died_of, promised=int(SIGKILL)),
            Fact(what="the next run finds", counted=read, promised="the same code"),
            Fact(what="a second agent is told", counted=refused, promised="already_claimed"),
        ],
    )


def _said(said: str, code: str) -> str:
    """Return what an agent said, without the code itself."""
    if said == code:
        return "the same code"
    return "another code" if said.isdigit() else said


SCENE = Scene(
    name="crash",
    title="An agent is killed with its code in hand, and runs again",
    naive=_naive,
    play=_play,
)
