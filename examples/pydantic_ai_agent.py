"""A Pydantic AI agent whose model calls a tool twice at once, run twice: one account.

    pip install pydantic-ai-slim                     # `make setup` has it
    oncebox serve                                    # one terminal
    python -m examples.site                          # another
    python examples/pydantic_ai_agent.py

Models repeat themselves, and a run that failed is begun anew. The tools say what must happen once
by naming it; the attempt they belong to comes from the program, never from the model.
A function that plays a script stands in for the real model.
"""

import asyncio
import os
from dataclasses import dataclass

import httpx2
from pydantic_ai import Agent, ModelMessage, ModelResponse, RunContext, TextPart, ToolCallPart
from pydantic_ai.messages import ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from oncebox.client import AsyncInbox
from oncebox.client.asynchronous import AsyncClient

SITE = os.environ.get("SITE", "http://127.0.0.1:8000")


@dataclass(frozen=True)
class Signup:
    """What the tools are handed besides the model's words."""

    client: AsyncClient
    attempt_id: str

    async def inbox(self) -> AsyncInbox:
        return await self.client.inboxes.create(attempt_id=self.attempt_id)

    async def once(self, page: str, **fields: str) -> str:
        fields["email"] = (await self.inbox()).email
        return str(await self.client.attempt(self.attempt_id).do(page, post, page, fields))


async def post(page: str, fields: dict[str, str]) -> str:
    async with httpx2.AsyncClient(timeout=20) as browser:
        (await browser.post(f"{SITE}/{page}", data=fields)).raise_for_status()
    return f"{page}: ok"


def script(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """Play the model: sign up, wait, hand the code in twice in one breath, then speak."""
    parts = [part for each in messages for part in each.parts]
    heard = [str(part.content) for part in parts if isinstance(part, ToolReturnPart)]
    if len(heard) < 2:
        return ModelResponse(parts=[ToolCallPart(("sign_up", "wait_for_code")[len(heard)])])
    if len(heard) == 2:
        return ModelResponse(parts=[ToolCallPart("verify", {"code": heard[-1]}) for _ in range(2)])
    return ModelResponse(parts=[TextPart(" and ".join(heard[2:]))])


agent = Agent(FunctionModel(script), deps_type=Signup)


@agent.tool
async def sign_up(context: RunContext[Signup]) -> str:
    """Ask the site to mail a code."""
    return await context.deps.once("signup")


@agent.tool
async def wait_for_code(context: RunContext[Signup]) -> str:
    """Wait for the code that the site mails."""
    inbox = await context.deps.inbox()
    return str((await inbox.wait_for_code(sender="shop.example", within=60)).value)


@agent.tool
async def verify(context: RunContext[Signup], code: str) -> str:
    """Hand the code in."""
    return await context.deps.once("verify", code=code)


async def main() -> None:
    async with AsyncClient() as client:
        for _ in range(2):
            ended = await agent.run("Sign me up.", deps=Signup(client, "signup-44"))
            print("the agent says:", ended.output)


if __name__ == "__main__":
    asyncio.run(main())
