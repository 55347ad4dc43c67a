"""The five demo scenes: what a naive program does, what Oncebox does, what is promised."""

import re
import smtplib
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from signal import SIGKILL
from typing import NamedTuple

import msgspec

from oncebox.cli.demo.environment import (
    DemoEnvironment,
    DemoProcess,
    code_mail,
    deliver_mail,
    new_code,
    new_secret,
    post_webhook,
)
from oncebox.cli.demo.programs import SideEffects
from oncebox.client.webhooks import verify
from oncebox.model.inboxes.artifact import ArtifactState
from oncebox.model.sends.email import Email
from oncebox.testing.smtp import ScriptedSmtp

_PROGRAMS = "oncebox.cli.demo.programs"
_WEBHOOK_COPIES = 400
_CONNECTIONS = 8
#: two replies are lost; a third try would succeed
_RELAY_SCRIPT = ("accept_then_drop", "accept_then_drop")


class Result(msgspec.Struct, frozen=True):
    """What a program came to; it really ran."""

    came_to: str
    #: how the naive program works, or what was done to Oncebox
    detail: str
    #: what was counted of the naive program
    figures: dict[str, int | str] = {}
    #: what was counted of Oncebox, and what is promised
    checks: dict[str, tuple[int | str, int | str]] = {}

    @property
    def broken(self) -> list[str]:
        """The promises that did not hold."""
        return [
            f"{what}: {counted}, promised was {promised}"
            for what, (counted, promised) in self.checks.items()
            if counted != promised
        ]


class Scene(NamedTuple):
    """A failure: its name on the command line, its title, and the programs it happens to."""

    name: str
    title: str
    naive: Callable[[DemoEnvironment], Result]
    oncebox: Callable[[DemoEnvironment], Result]


class Reporter:
    """Shows the demo while it runs; this one shows nothing."""

    def note(self, text: str) -> None:
        """Show what is happening now."""

    def begin(self, scene: Scene) -> None:
        """Show that a scene begins."""

    def show(self, result: Result) -> None:
        """Show the result of the naive program, then that of Oncebox."""


def _count(number: int, noun: str, plural: str = "") -> str:
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


def _naive_code(env: DemoEnvironment) -> Result:
    """Treat every mail as new."""
    mail = code_mail("agent@naive.example", new_code())
    with ScriptedSmtp() as server:
        for copy in (1, 2, 3):
            env.note(f"mailing copy {copy} to a plain mail server")
            deliver_mail(mail, server.host, server.port)
        codes = sum(bool(re.search(rb"\b[0-9]{6}\b", each.message)) for each in server.accepted)
    came_to = f"{_count(codes, 'code')} handed on"
    return Result(came_to, "passes on the code of every mail", {"codes handed on": codes})


def _oncebox_code(env: DemoEnvironment) -> Result:
    inbox = env.client.inboxes.create(attempt_id="signup-1")
    mail, accepted = code_mail(inbox.email, new_code()), 0
    for copy in (1, 2, 3):
        env.note(f"mailing copy {copy} to {inbox.email}")
        accepted += deliver_mail(mail, *env.smtp) == 250  # noqa: PLR2004 - accepted, in SMTP
    env.note("waiting until every mail is parsed")
    env.settled(type_="")
    inbox.wait_for_code(sender="shop.example")

    messages = env.client.inboxes.stats(inbox.id).messages
    artifacts = list(env.client.artifacts.list(inbox.id))
    codes, grants = len(artifacts), sum(each.state is ArtifactState.CLAIMED for each in artifacts)
    return Result(
        f"{_count(messages, 'message')}, {_count(codes, 'code')}, {_count(grants, 'grant')}",
        f"{_count(accepted, 'mail')} accepted",
        checks={
            "mails accepted": (accepted, 3),
            "messages": (messages, 1),
            "codes": (codes, 1),
            "grants": (grants, 1),
        },
    )


def _naive_crash(env: DemoEnvironment) -> Result:
    mailbox = env.folder / "naive-mailbox"
    mailbox.mkdir()
    code = new_code()
    (mailbox / "1").write_bytes(code_mail("agent@naive.example", code).as_bytes())
    found = _without_code(_kill_and_restart(env, "naive_agent", mailbox).read_line(), code)
    detail = "removes the mail when it reads it"
    return Result(f"finds {found}", detail, {"the next run finds": found})


def _oncebox_crash(env: DemoEnvironment) -> Result:
    # Python takes a while to start; the agents wait for their arguments.
    first, again, other = (env.start(_PROGRAMS, "agent") for _ in range(3))
    code, key = new_code(), env.client.keys.make(["agent"]).key
    arguments = (env.url, key, "signup-2")
    inbox = env.new_client(key).inboxes.create(attempt_id="signup-2")
    deliver_mail(code_mail(inbox.email, code), *env.smtp)
    env.note("an agent waits for its code")
    first.write_line(*arguments)
    given = _without_code(first.read_line(), code)
    env.note("kill -9 of the agent, which has the code")
    signal = first.kill_and_wait()
    env.note("the agent runs again, and a second one beside it")
    again.write_line(*arguments)
    other.write_line(*arguments, "another-agent")
    found, refused = _without_code(again.read_line(), code), _without_code(other.read_line(), code)
    return Result(
        f"finds {found}; a second agent: {refused}",
        f"kill -{signal}",
        checks={
            "the agent gets": (given, "the same code"),
            "the agent died of signal": (signal, int(SIGKILL)),
            "the next run finds": (found, "the same code"),
            "a second agent gets": (refused, "already_claimed"),
        },
    )


def _kill_and_restart(env: DemoEnvironment, program: str, folder: Path) -> DemoProcess:
    """Start a naive program, kill it after its first line of output, and start it again."""
    process = env.start(_PROGRAMS, program, str(folder))
    process.read_line()
    env.note(f"kill -9 of the {program.replace('_', ' ')}")
    process.kill_and_wait()
    return env.start(_PROGRAMS, program, str(folder))


def _without_code(answer: str, code: str) -> str:
    """Return the answer of an agent without the code itself."""
    if answer == code:
        return "the same code"
    return "another code" if answer.isdigit() else answer


def _naive_storm(env: DemoEnvironment) -> Result:
    secret = new_secret()
    with _naive_shop(secret) as (url, runs):
        _post_copies(env, url, secret)
    came_to = f"the handler ran {_count(len(runs), 'time')}"
    return Result(came_to, "checks the id, works, stores the id", {"handler runs": len(runs)})


@contextmanager
def _naive_shop(secret: str) -> Iterator[tuple[str, list[str]]]:
    """Serve a handler that remembers which ids it has handled; yield its URL and its runs."""
    handled, runs = set[str](), list[str]()
    # The work lasts until the first copy of every connection has arrived.
    arrivals = threading.Barrier(_CONNECTIONS)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            verify(self.headers.items(), body, secret)
            id_ = self.headers["webhook-id"]
            if id_ not in handled:
                runs.append(id_)
                with suppress(threading.BrokenBarrierError):
                    arrivals.wait(5)
                handled.add(id_)
            self.send_response(202)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/", runs
        finally:
            server.shutdown()


def _oncebox_storm(env: DemoEnvironment) -> Result:
    env.note(f"starting {len(env.workers)} workers")
    codes = _post_copies(env, *env.shop)
    accepted = sum(code in range(200, 300) for code in codes)
    env.note("waiting for the handler")
    inspections = env.settled("invoice.paid")
    copies = sum(seen.count for each in inspections for seen in each.sightings)
    deliveries, runs = len(inspections), env.world.count("invoice handled")
    came_to = _count(deliveries, "delivery", "deliveries")
    return Result(
        f"{came_to}, the handler ran {_count(runs, 'time')}",
        f"{accepted} answered 2xx, {copies} recognised as copies",
        checks={
            "copies answered 2xx": (accepted, _WEBHOOK_COPIES),
            "deliveries": (deliveries, 1),
            "recognised as copies": (copies, _WEBHOOK_COPIES - 1),
            "handler runs": (runs, 1),
        },
    )


def _post_copies(env: DemoEnvironment, url: str, secret: str) -> list[int]:
    env.note(f"posting {_WEBHOOK_COPIES} copies of a webhook")
    copies = {"copies": _WEBHOOK_COPIES, "connections": _CONNECTIONS}
    return post_webhook(url, secret, "invoice.paid", "invoice-1", **copies)


def _naive_worker(env: DemoEnvironment) -> Result:
    """Run the same two steps without a journal, as a queue does that delivers again."""
    folder = env.folder / "naive-world"
    worker = _kill_and_restart(env, "naive_worker", folder)
    worker.read_line()
    worker.write_line("go on")
    worker.read_line()
    charged, shipped, came_to = _count_effects(SideEffects(folder))
    figures: dict[str, int | str] = {"charged": charged, "shipped": shipped}
    return Result(came_to, "runs unfinished jobs again", figures)


def _oncebox_worker(env: DemoEnvironment) -> Result:
    env.note(f"an order is paid; {len(env.workers)} workers wait for it")
    post_webhook(*env.shop, "order.paid", "order-1")
    env.until(lambda: env.world.count("between") > 0)
    pid = env.world.processes("between")[-1]
    (worker,) = [each for each in env.workers if each.pid == pid]
    env.note("kill -9 of the worker, which has charged and not shipped")
    signal = worker.kill_and_wait()
    env.world.do("go on")
    env.note("the other worker takes over when the lease has expired")
    states = ", ".join(str(each.delivery.state) for each in env.settled("order.paid"))
    charged, shipped, came_to = _count_effects(env.world)
    return Result(
        came_to,
        f"kill -{signal}",
        checks={
            "the worker died of signal": (signal, int(SIGKILL)),
            "the delivery is": (states, "done"),
            "charged": (charged, 1),
            "shipped": (shipped, 1),
        },
    )


def _count_effects(world: SideEffects) -> tuple[int, int, str]:
    charged, shipped = world.count("charged"), world.count("shipped")
    text = f"charged {_count(charged, 'time')}, shipped {_count(shipped, 'time')}"
    return charged, shipped, text


def _naive_reply(env: DemoEnvironment) -> Result:
    """Take every error for a mail that was not sent."""
    mail = code_mail("ann@example.com", new_code())
    with ScriptedSmtp() as server:
        server.script(*_RELAY_SCRIPT)
        for number in (1, 2, 3):
            env.note(f"the naive sender's try number {number}")
            with suppress(smtplib.SMTPException, OSError):
                deliver_mail(mail, server.host, server.port)
                break
        accepted = len(server.accepted)
    came_to = f"the server accepted {_count(accepted, 'mail')}"
    return Result(came_to, "retries on every error", {"mails accepted": accepted})


def _oncebox_reply(env: DemoEnvironment) -> Result:
    email = Email(sender="shop@example.com", to="ann@example.com", subject="Paid", text="Thanks.")
    statuses: Counter[str] = Counter()
    with ScriptedSmtp() as server:
        env.note("adding the mail server as a transport")
        options = ("--host", server.host, "--port", str(server.port), "--security", "none")
        env.start("oncebox", "transport", "add", "relay", "--kind", "smtp", *options).read_line()
        server.script(*_RELAY_SCRIPT)
        for number in (1, 2, 3):
            env.note(f"requesting the mail, {number} of 3 times")
            answer = env.client.send(email, event_type="order.paid", entity_id="order-1")
            statuses[answer.status] += 1
        accepted = len(server.accepted)
    answers = ", ".join(f"{status} {_count(times, 'time')}" for status, times in statuses.items())
    return Result(
        f"the server accepted {_count(accepted, 'mail')}",
        f"requested 3 times, answered {answers}",
        checks={"answered unknown": (statuses["unknown"], 3), "mails accepted": (accepted, 1)},
    )


SCENES = (
    Scene("code", "A code is mailed 3 times", _naive_code, _oncebox_code),
    Scene("crash", "An agent is killed with its code, and restarted", _naive_crash, _oncebox_crash),
    Scene(
        "storm",
        f"A signed webhook arrives {_WEBHOOK_COPIES} times over {_CONNECTIONS} connections",
        _naive_storm,
        _oncebox_storm,
    ),
    Scene(
        "worker",
        "A worker is killed after it charged, before it shipped",
        _naive_worker,
        _oncebox_worker,
    ),
    Scene(
        "reply",
        "A mail server accepts a mail, and its reply is lost",
        _naive_reply,
        _oncebox_reply,
    ),
)
