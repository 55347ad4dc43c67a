"""Artifacts by the client: the same errors as the service raises, and nothing in their text."""

from typing import Any

import pytest

from oncebox.errors import NotFound
from oncebox.errors.mail import AlreadyClaimed
from tests.client.conftest import Speaker
from tests.support.finds import bring, code
from tests.support.running import Running
from tests.support.sorter import Sorter

INBOX = "inb_1"


def test_an_artifact_is_found_claimed_once_and_released(service: Running, speaker: Speaker) -> None:
    service.call(Sorter(service.box).add_inbox(INBOX))
    (id_,) = service.call(bring(service.box, INBOX, code("481920")))

    def ask(question: Any) -> Any:
        return speaker.ask(service.url, question, key=service.key)

    (listed,) = ask(lambda c: c.artifacts.list(INBOX, kind="code", state="available"))
    grant = ask(lambda c: c.artifacts.claim(id_))
    again = ask(lambda c: c.artifacts.claim(id_))
    with pytest.raises(AlreadyClaimed) as refused:
        ask(lambda c: c.artifacts.claim(id_, claim_key="other"))
    with pytest.raises(NotFound):
        ask(lambda c: c.artifacts.claim("art_none"))
    released = ask(lambda c: c.artifacts.release(id_, why="agent died"))

    assert (listed.id, ask(lambda c: c.artifacts.get(id_)).id) == (id_, id_)
    assert (grant.value, grant.repeated, again.repeated) == ("481920", False, True)
    assert "481920" not in repr(grant) + str(refused.value)
    assert (refused.value.retry_safe, released.state) == (False, "available")
