"""What the page says to copy works as it stands there, but for the key."""

import json
import re
from typing import Any

from oncebox.cli.commands.mcp import mcp
from tests.docs.reference import DOCS
from tests.mcp.agents import Agent, over_http
from tests.mcp.conftest import House

PAGE = (DOCS / "mcp.md").read_text()


def _snippets() -> list[dict[str, Any]]:
    blocks = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    found = [json.loads(block) for block in blocks]
    return [(each.get("mcpServers") or each["servers"])["oncebox"] for each in found]


def test_snippets_for_stdio_start_the_command_that_there_is() -> None:
    (stdio,) = [each for each in _snippets() if "command" in each]

    assert [stdio["command"], *stdio["args"]] == ["oncebox", "mcp"]
    # As the agents of these tests start it.
    assert set(stdio["env"]) <= {"ONCEBOX_URL", "ONCEBOX_API_KEY"}
    options = {name for each in mcp.params for name in each.opts}
    assert set(re.findall(r"`(--[a-z-]+)`", PAGE)) <= options


def test_snippets_for_http_connect(house: House, key: str) -> None:
    found = [each for each in _snippets() if "url" in each]
    assert len(found) == 2
    for each in found:
        (name, value) = next(iter(each["headers"].items()))
        url = each["url"].replace("http://127.0.0.1:8808", house.url).removesuffix("/mcp")
        assert (name, value) == ("Authorization", "Bearer obx_…")
        with over_http(url, key) as agent:
            assert len(agent.tools) == 11


def test_the_page_names_every_tool_and_quotes_a_real_refusal(house: House, by_http: Agent) -> None:
    inbox = by_http.get("open_inbox", attempt_id=house.name())
    house.post(inbox["email"], "Your code is 118822")
    by_http.get("wait_for_code", inbox_id=inbox["inbox_id"])
    with house.http(house.key("operator")) as rival:
        words = rival.refused("wait_for_code", inbox_id=inbox["inbox_id"])

    assert all(f"`{name}`" in PAGE for name in by_http.tools)
    assert f"```text\n{words}\n```" in PAGE
