"""Agents of every make are killed, retried and repeat themselves; the site sees each deed once."""

from collections.abc import Iterator

import pytest

from oncebox.cli import main
from oncebox.testing.smtp import ScriptedSmtp
from tests.examples.stage import Stage, staged

#: other people's packages take their time to load where everything is slow
pytestmark = pytest.mark.timeout(300)
ONE_SIGNUP = {"mail": 1, "account": 1}
STEPS = ["done: open_inbox", "done: sign_up", "done: wait_for_code", "done: verify"]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One service and one site for all examples."""
    with staged(tmp_path_factory.mktemp("examples")) as opened:
        yield opened


def test_a_loop_agent_that_is_killed_goes_on_without_a_second_code(stage: Stage) -> None:
    assert stage.play_until_killed("loop_agent.py", "wait_for_code") == STEPS[:-1]
    printed = stage.play("loop_agent.py")

    assert printed[:-1] == STEPS
    assert printed[-1].startswith("signed up as ")
    assert stage.seen_by_the_site("signup-42") == ONE_SIGNUP


def test_a_langgraph_node_that_is_retried_does_not_repeat_its_deed(stage: Stage) -> None:
    printed = stage.play("langgraph_agent.py")

    assert printed == ["called: verify", "called: verify", "the agent says: verify: ok"]
    assert stage.seen_by_the_site("signup-43") == ONE_SIGNUP


def test_a_pydantic_ai_model_that_repeats_itself_opens_one_account(stage: Stage) -> None:
    printed = stage.play("pydantic_ai_agent.py")

    assert printed == ["the agent says: verify: ok and verify: ok"] * 2
    assert stage.seen_by_the_site("signup-44") == ONE_SIGNUP


def test_a_dbos_step_that_is_killed_and_recovered_sends_one_mail(stage: Stage) -> None:
    book = stage.folder / "reservations.txt"
    with ScriptedSmtp() as relay:
        add = ("transport", "add", "relay", "--kind", "smtp", "--security", "none")
        place = ("--host", relay.host, "--port", str(relay.port))
        assert main.run([*add, *place, "--data-dir", str(stage.data)]) == 0
        killed = stage.play_until_killed("dbos_step.py", "order_1", DIE="1")
        assert len(relay.accepted) == 1
        printed = stage.play("dbos_step.py", "order_1")

        assert len(relay.accepted) == 1
    assert [line for line in killed if "mail is" in line] == [
        "order_1 is reserved, the mail is sent"
    ]
    assert [line for line in printed if "mail is" in line] == [
        "order_1 is reserved, the mail is duplicate"
    ]
    assert printed[-1] == "the workflow has ended: duplicate"
    assert book.read_text() == "order_1\n"
