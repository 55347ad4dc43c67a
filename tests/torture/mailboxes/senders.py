"""Senders of one batch: SMTP and webhooks, each mail again until it is taken; mailbox servers."""

import http.client
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from tests.support.inbound import PROVIDERS, Letter
from tests.torture.history import History
from tests.torture.mail.postman import Postman
from tests.torture.mailboxes.mails import Channel, Mail, by_channel
from tests.torture.mailboxes.servers import MailboxServers

#: the sources of the webhooks, by provider; only one of them has ids
SOURCES = ("cloudflare", "mailgun")
#: how likely a provider posts a mail again that was acknowledged
_AGAIN = 0.1
_REST = 0.05
_TIMEOUT = 30.0
_OK, _LATER = 200, 500


class WebhookPoster:
    """A provider that posts mails until each is acknowledged."""

    def __init__(
        self, port: int, mails: Sequence[Mail], history: Path, dice: random.Random
    ) -> None:
        """Prepare; entering the block begins to post."""
        self._port = port
        self._posts = list(_posts(mails, dice))
        self._history = History(history)
        self._given_up = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        """Begin to post."""
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        """Give up what is left."""
        self._given_up.set()
        self._thread.join(_TIMEOUT + 1)
        self._history.close()

    def finish(self, timeout: float) -> bool:
        """Wait until everything was acknowledged; say whether it was."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        line: http.client.HTTPConnection | None = None
        for provider, mail, to in self._posts:
            while not self._given_up.is_set():
                line = line or http.client.HTTPConnection("127.0.0.1", self._port, timeout=_TIMEOUT)
                if self._is_told(line, provider, mail, to):
                    break
                line.close()
                line = None
                time.sleep(_REST)
        if line is not None:
            line.close()

    def _is_told(
        self, line: http.client.HTTPConnection, provider: str, mail: Mail, to: Sequence[str]
    ) -> bool:
        """Post once; say whether it need not be posted again."""
        call = self._history.invoke("webhook", mail.key)
        posted = PROVIDERS[provider].post(Letter(mail.by(Channel.WEBHOOK), to, id=mail.key))
        try:
            line.request("POST", f"/in/{provider}", posted.body, posted.headers)
            answer = line.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException) as error:
            call.info(type(error).__name__)
            return False
        if answer.status == _OK:
            call.ok()
        elif answer.status < _LATER:
            call.fail(str(answer.status))
        else:
            call.info(str(answer.status))
        return answer.status < _LATER


def _posts(
    mails: Sequence[Mail], dice: random.Random
) -> Iterator[tuple[str, Mail, tuple[str, ...]]]:
    """Yield what is posted; Cloudflare posts a mail for each recipient."""
    for mail in mails:
        provider = dice.choice(SOURCES)
        whole = [mail.recipients]
        every = [(each,) for each in mail.recipients] if provider == "cloudflare" else whole
        for _ in range(2 if dice.random() < _AGAIN else 1):
            yield from ((provider, mail, to) for to in every)


class BatchSenders:
    """Everything that brings one batch, all at once; leaving the block gives up."""

    def __init__(
        self,
        servers: MailboxServers,
        ports: tuple[int, int],
        batch: Sequence[Mail],
        history: Path,
        dice: random.Random,
    ) -> None:
        """Bring mails to the ports of SMTP and HTTP, and to the servers of mailboxes."""
        self._servers = servers
        self._dice = dice
        smtp, webhook, self._read = (by_channel(batch, each, dice) for each in Channel)
        relay = list(Channel).index(Channel.SMTP)
        self._postman = Postman(ports[0], [(each, relay) for each in smtp], history)
        self._poster = WebhookPoster(ports[1], webhook, history, dice)
        self._delivering = threading.Thread(target=self._deliver, daemon=True)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Begin to send."""
        self._stack.enter_context(self._postman)
        self._stack.enter_context(self._poster)
        self._delivering.start()
        return self

    def __exit__(self, *_error: object) -> None:
        """Give up what is left."""
        self._stack.close()
        self._delivering.join(_TIMEOUT)

    def finish(self, timeout: float) -> bool:
        """Wait until everything was taken; say whether it was."""
        self._delivering.join(timeout)
        done = [self._postman.finish(timeout), self._poster.finish(timeout)]
        return all(done) and not self._delivering.is_alive()

    def _deliver(self) -> None:
        for mail in self._read:
            self._servers.deliver(mail.mailbox, mail.by(Channel.MAILBOX), self._dice)
