"""The five demo scenes: what a naive program does, what Oncebox does, what is asserted."""

import re
import smtplib
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from signal import SIGKILL
from threading import BrokenBarrierError
from typing import Protocol

import msgspec

from oncebox.cli.demo.environment import DemoEnvironment, DemoFailed
from oncebox.cli.demo.side_effects import SideEffects
from oncebox.cli.demo.traffic import (
    CONNECTIONS,
    code_mail,
    deliver_mail,
    new_code,
    new_secret,
    new_webhook,
    post_copies,
    post_once,
)
from oncebox.client.webhooks import verify
from oncebox.model.inboxes.artifact import ArtifactState
from oncebox.model.sends.email import Email
from oncebox.testing.smtp import ScriptedSmtp

Figure = int | str


class Assertion(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was counted, and what was promised of it."""

    what: str
    counted: Figure
    promised: Figure

    @property
    def held(self) -> bool:
        """Whether the promise held."""
        return self.counted == self.promised


class NaiveResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a naive program came to; it was really run."""

    came_to: str
    #: the program, in a few words
    ran: str
    figures: dict[str, Figure]


class OnceboxResult(msgspec.Struct, frozen=True, kw_only=True):
    """What Oncebox came to."""

    came_to: str
    #: what was done to it
    after: str
    facts: list[Assertion]

    @property
    def broken(self) -> list[Assertion]:
        """The promises that did not hold."""
        return [fact for fact in self.facts if not fact.held]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """An accident that can be played."""

    #: what is typed to see only this one
    name: str
    title: str
    naive: Callable[[DemoEnvironment], NaiveResult]
    play: Callable[[DemoEnvironment], OnceboxResult]
    #: starts what takes a while and is needed later
    prepare: Callable[[DemoEnvironment], object] = bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SceneResult:
    """A scene that was played."""

    scene: Scene
    naive: NaiveResult
    ours: OnceboxResult


def count_of(number: int, noun: str, nouns: str = "") -> str:
    """Return such as ``1 mail`` or ``3 mails``."""
    return f"{number} {noun if number == 1 else nouns or f'{noun}s'}"


_MAIL_COPIES = 3
_SMTP_ACCEPTED = 250
_CODE = re.compile(rb"\b[0-9]{6}\b")


def _code_mailed_naive(stage: DemoEnvironment) -> NaiveResult:
    """Take every mail for a new one."""
    mail = code_mail("agent@naive.example", new_code())
    with ScriptedSmtp() as server:
        for copy in range(_MAIL_COPIES):
            stage.note(f"mailing copy {copy + 1} to a plain mail server")
            deliver_mail(mail, server.host, server.port)
        handed_on = [found[0] for each in server.accepted if (found := _CODE.search(each.message))]
    number = len(handed_on)
    return NaiveResult(
        came_to=f"{count_of(number, 'code')} handed on",
        ran="for every mail: find its code, hand it on",
        figures={"codes handed on": number},
    )


def _code_mailed_oncebox(stage: DemoEnvironment) -> OnceboxResult:
    inbox = stage.client.inboxes.create(attempt_id="signup-1")
    mail, taken = code_mail(inbox.email, new_code()), 0
    for copy in range(_MAIL_COPIES):
        stage.note(f"mailing copy {copy + 1} to {inbox.email}")
        taken += deliver_mail(mail, *stage.smtp) == _SMTP_ACCEPTED
    stage.note("waiting until everything that came is read")
    stage.settled(type_="")
    inbox.wait_for_code(sender="shop.example")

    messages = stage.client.inboxes.stats(inbox.id).messages
    codes = list(stage.client.artifacts.list(inbox.id))
    grants = sum(code.state is ArtifactState.CLAIMED for code in codes)
    return OnceboxResult(
        came_to=f"{count_of(messages, 'message')}, {count_of(len(codes), 'code')}, "
        f"{count_of(grants, 'grant')}",
        after=f"{count_of(taken, 'mail')} taken",
        facts=[
            Assertion(what="mails taken", counted=taken, promised=_MAIL_COPIES),
            Assertion(what="messages", counted=messages, promised=1),
            Assertion(what="codes", counted=len(codes), promised=1),
            Assertion(what="grants", counted=grants, promised=1),
        ],
    )


CODE_MAILED = Scene(
    name="code",
    title="A code is mailed 3 times",
    naive=_code_mailed_naive,
    play=_code_mailed_oncebox,
)


def _agent_crash_naive(stage: DemoEnvironment) -> NaiveResult:
    """Take the mail out of the mailbox, which is how two agents are kept from reading it."""
    mailbox = stage.folder / "naive-mailbox"
    mailbox.mkdir()
    code = new_code()
    (mailbox / "1").write_bytes(code_mail("agent@naive.example", code).as_bytes())
    module = "oncebox.cli.demo.naive_agent"
    first = stage.start(module, str(mailbox))
    first.hear()
    stage.note("kill -9 of the naive agent")
    first.kill()
    found = _agent_answer(stage.start(module, str(mailbox)).hear(), code)
    return NaiveResult(
        came_to=f"finds {found}",
        ran="take the mail out of the mailbox",
        figures={"the next run finds": found},
    )


def _agent_crash_oncebox(stage: DemoEnvironment) -> OnceboxResult:
    # Python takes a while to start; an agent knows nothing before it is told its attempt.
    first, again, other = (stage.start("oncebox.cli.demo.agent") for _ in range(3))
    code, key = new_code(), stage.client.keys.make(["agent"]).key
    told = (stage.url, key, "signup-2")
    inbox = stage.client_of(key).inboxes.create(attempt_id="signup-2")
    deliver_mail(code_mail(inbox.email, code), *stage.smtp)
    stage.note("an agent waits for its code")
    first.tell(*told)
    given = _agent_answer(first.hear(), code)
    stage.note("kill -9 of the agent, which has the code")
    died_of = first.kill()
    stage.note("the agent runs again, and a second one beside it")
    again.tell(*told)
    other.tell(*told, "another-agent")
    read, refused = _agent_answer(again.hear(), code), _agent_answer(other.hear(), code)
    return OnceboxResult(
        came_to=f"finds {read}; a second agent: {refused}",
        after=f"kill -{died_of}",
        facts=[
            Assertion(what="the agent is given", counted=given, promised="the same code"),
            Assertion(what="the agent died of signal", counted=died_of, promised=int(SIGKILL)),
            Assertion(what="the next run finds", counted=read, promised="the same code"),
            Assertion(what="a second agent is told", counted=refused, promised="already_claimed"),
        ],
    )


def _agent_answer(said: str, code: str) -> str:
    """Return what an agent said, without the code itself."""
    if said == code:
        return "the same code"
    return "another code" if said.isdigit() else said


AGENT_CRASH = Scene(
    name="crash",
    title="An agent is killed with its code in hand, and runs again",
    naive=_agent_crash_naive,
    play=_agent_crash_oncebox,
)


_CROWD_TIMEOUT = 5.0


class NaiveShop(ThreadingHTTPServer):
    """A web server whose handler remembers which ids it has handled."""

    daemon_threads = True

    def __init__(self, secret: str) -> None:
        """Listen on a free port."""
        super().__init__(("127.0.0.1", 0), _NaiveShopHandler)
        self.url = f"http://127.0.0.1:{self.server_port}/"
        self.secret = secret
        self.handled: set[str] = set()
        self.runs: list[str] = []
        # The work takes so long that every connection's first copy comes while it lasts.
        self._crowd = threading.Barrier(CONNECTIONS)

    def work(self, id_: str) -> None:
        """Do what the webhook asks for, which takes its time."""
        self.runs.append(id_)
        try:
            self._crowd.wait(_CROWD_TIMEOUT)
        except threading.BrokenBarrierError:
            return


class _NaiveShopHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: NaiveShop

    def do_POST(self) -> None:
        """Handle a webhook once, as many programs do."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        verify(self.headers.items(), body, self.server.secret)
        id_ = self.headers["webhook-id"]
        if id_ not in self.server.handled:
            self.server.work(id_)
            self.server.handled.add(id_)
        self.send_response(202)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_anything: object) -> None:
        """Be silent."""


@contextmanager
def naive_shop(secret: str) -> Iterator[NaiveShop]:
    """Serve as long as the block lasts."""
    with NaiveShop(secret) as shop:
        thread = threading.Thread(target=shop.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield shop
        finally:
            shop.shutdown()


_WEBHOOK_COPIES = 400
_SUCCESS_STATUSES = range(200, 300)


def _webhook_storm_naive(stage: DemoEnvironment) -> NaiveResult:
    secret = new_secret()
    with naive_shop(secret) as shop:
        post_copies(
            shop.url, new_webhook(secret, "invoice.paid", "invoice-1"), _WEBHOOK_COPIES, stage.note
        )
        runs = len(shop.runs)
    return NaiveResult(
        came_to=f"the handler ran {count_of(runs, 'time')}",
        ran="is the id new? then work, then note the id",
        figures={"handler runs": runs},
    )


def _webhook_storm_oncebox(stage: DemoEnvironment) -> OnceboxResult:
    url, secret = stage.shop
    answers = post_copies(
        url, new_webhook(secret, "invoice.paid", "invoice-1"), _WEBHOOK_COPIES, stage.note
    )
    taken = sum(answer in _SUCCESS_STATUSES for answer in answers)
    stage.note("waiting for the handler")
    deliveries = stage.settled("invoice.paid")
    again = sum(seen.count for each in deliveries for seen in each.sightings)
    runs = stage.world.count("invoice handled")
    return OnceboxResult(
        came_to=f"{count_of(len(deliveries), 'delivery', 'deliveries')}, "
        f"the handler ran {count_of(runs, 'time')}",
        after=f"{taken} answered 2xx, {again} known as copies",
        facts=[
            Assertion(what="copies answered 2xx", counted=taken, promised=_WEBHOOK_COPIES),
            Assertion(what="deliveries", counted=len(deliveries), promised=1),
            Assertion(what="known as copies", counted=again, promised=_WEBHOOK_COPIES - 1),
            Assertion(what="handler runs", counted=runs, promised=1),
        ],
    )


WEBHOOK_STORM = Scene(
    name="storm",
    title=f"A signed webhook comes {_WEBHOOK_COPIES} times over {CONNECTIONS} connections",
    naive=_webhook_storm_naive,
    play=_webhook_storm_oncebox,
    prepare=lambda stage: stage.workers,
)


def _killed_worker_naive(stage: DemoEnvironment) -> NaiveResult:
    """Run the same two steps without a journal, as a queue does that delivers again."""
    folder = stage.folder / "naive-world"
    world, module = SideEffects(folder), "oncebox.cli.demo.naive_worker"
    first = stage.start(module, str(folder))
    first.hear()
    stage.note("kill -9 of the naive worker, which has charged and not shipped")
    first.kill()
    again = stage.start(module, str(folder))
    again.hear()
    again.tell("go on")
    again.hear()
    charged, shipped = world.count("charged"), world.count("shipped")
    return NaiveResult(
        came_to=_effects_text(charged, shipped),
        ran="run again what did not end",
        figures={"charged": charged, "shipped": shipped},
    )


def _killed_worker_oncebox(stage: DemoEnvironment) -> OnceboxResult:
    url, secret = stage.shop
    stage.note("a webhook says that an order is paid")
    post_once(url, new_webhook(secret, "order.paid", "order-1"))
    stage.until(lambda: stage.world.count("between") > 0)
    pid = stage.world.processes("between")[-1]
    (worker,) = [each for each in stage.workers if each.pid == pid]
    stage.note("kill -9 of the worker, which has charged and not shipped")
    died_of = worker.kill()
    stage.world.do("go on")
    stage.note("the other worker takes over when the lease has run out")
    states = [str(each.delivery.state) for each in stage.settled("order.paid")]
    charged, shipped = stage.world.count("charged"), stage.world.count("shipped")
    return OnceboxResult(
        came_to=_effects_text(charged, shipped),
        after=f"kill -{died_of}",
        facts=[
            Assertion(what="the worker died of signal", counted=died_of, promised=int(SIGKILL)),
            Assertion(what="the delivery is", counted=", ".join(states), promised="done"),
            Assertion(what="charged", counted=charged, promised=1),
            Assertion(what="shipped", counted=shipped, promised=1),
        ],
    )


def _effects_text(charged: int, shipped: int) -> str:
    return f"charged {count_of(charged, 'time')}, shipped {count_of(shipped, 'time')}"


KILLED_WORKER = Scene(
    name="worker",
    title="A worker is killed after it charged, before it shipped",
    naive=_killed_worker_naive,
    play=_killed_worker_oncebox,
    prepare=lambda stage: stage.workers,
)


#: twice the reply is lost; the third time all would go well
_SCRIPT = ("accept_then_drop", "accept_then_drop")
_TRIES = 3


def _lost_reply_naive(stage: DemoEnvironment) -> NaiveResult:
    """Take every error for a mail that was not sent."""
    mail = code_mail("ann@example.com", new_code())
    with ScriptedSmtp() as server:
        server.script(*_SCRIPT)
        for number in range(_TRIES):
            stage.note(f"the naive sender's try number {number + 1}")
            try:
                deliver_mail(mail, server.host, server.port)
            except (smtplib.SMTPException, OSError):
                continue
            break
        taken = len(server.accepted)
    return NaiveResult(
        came_to=f"the server took {count_of(taken, 'mail')}",
        ran="on every error, send again",
        figures={"mails taken": taken},
    )


def _lost_reply_oncebox(stage: DemoEnvironment) -> OnceboxResult:
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
    said = ", ".join(f"{status} {count_of(number, 'time')}" for status, number in told.items())
    return OnceboxResult(
        came_to=f"the server took {count_of(taken, 'mail')}",
        after=f"asked {_TRIES} times, told {said}",
        facts=[
            Assertion(what="told unknown", counted=told["unknown"], promised=_TRIES),
            Assertion(what="mails taken", counted=taken, promised=1),
        ],
    )


LOST_REPLY = Scene(
    name="reply",
    title="A mail server takes a mail, and its reply is lost",
    naive=_lost_reply_naive,
    play=_lost_reply_oncebox,
    prepare=lambda stage: stage.relay,
)


SCENES = (
    CODE_MAILED,
    AGENT_CRASH,
    WEBHOOK_STORM,
    KILLED_WORKER,
    LOST_REPLY,
)


class Reporter(Protocol):
    """Whoever is shown the story."""

    def note(self, text: str) -> None:
        """Hear what happens at the moment."""

    def begin(self, scene: Scene) -> None:
        """Hear which scene is next."""

    def show_naive(self, scene: Scene, naive: NaiveResult) -> None:
        """Hear what the naive way came to."""

    def show_oncebox(self, scene: Scene, ours: OnceboxResult) -> None:
        """Hear what Oncebox came to."""


def run_scenes(
    scenes: Sequence[Scene], stage: DemoEnvironment, audience: Reporter
) -> list[SceneResult]:
    """Play scenes; return what came of each.

    Raises: DemoFailed, OnceboxError.
    """
    for scene in scenes:
        scene.prepare(stage)
    return [_run_scene(scene, stage, audience) for scene in scenes]


def _run_scene(scene: Scene, stage: DemoEnvironment, audience: Reporter) -> SceneResult:
    audience.begin(scene)
    with _as_demo_failure(scene):
        naive = scene.naive(stage)
    audience.show_naive(scene, naive)
    with _as_demo_failure(scene):
        ours = scene.play(stage)
    audience.show_oncebox(scene, ours)
    return SceneResult(scene=scene, naive=naive, ours=ours)


@contextmanager
def _as_demo_failure(scene: Scene) -> Iterator[None]:
    """Say in our words that a connection or a process was not what it should be."""
    try:
        yield
    except (OSError, HTTPException, BrokenBarrierError) as error:
        raise DemoFailed(
            f"the scene {scene.name!r} broke off: {type(error).__name__}: {error}"
        ) from error
