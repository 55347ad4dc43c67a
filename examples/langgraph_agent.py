"""A LangGraph agent whose node crashes after its action and is retried: it happens once.

    pip install langgraph                            # `make setup` has it
    oncebox serve                                    # one terminal
    python -m examples.site                          # another
    python examples/langgraph_agent.py

LangGraph runs a node again when it failed, and cannot know what the node did before. Here the
answer of the site is lost once; the tool is called again, and Oncebox returns the stored result.
A model that plays a script stands in for the real one.
"""

import os
from typing import Any

import httpx2
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import RetryPolicy

from oncebox.client.sync import Client

SITE = os.environ.get("SITE", "http://127.0.0.1:8000")
client = Client()
attempt = client.attempt("signup-43")  # the model neither sees nor chooses it
inbox = client.inboxes.create(attempt_id=attempt.id)
crashes = [ConnectionError("the node dies after the call")]


def post(page: str, **fields: str) -> str:
    httpx2.post(f"{SITE}/{page}", data=fields, timeout=20).raise_for_status()
    return f"{page}: ok"


@tool
def sign_up() -> str:
    """Ask the site to mail a code."""
    return str(attempt.do("sign-up", post, "signup", email=inbox.email))


@tool
def wait_for_code() -> str:
    """Wait for the code that the site mails."""
    return inbox.wait_for_code(sender="shop.example", within=60).value


@tool
def verify(code: str) -> str:
    """Hand the code in."""
    done = attempt.do("verify", post, "verify", email=inbox.email, code=code)
    print("called: verify", flush=True)
    if crashes:
        raise crashes.pop()
    return str(done)


class Script(BaseChatModel):
    """Calls one tool after the other, and hands the code that it heard to the last."""

    _llm_type = "script"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        heard = [str(each.content) for each in messages if isinstance(each, ToolMessage)]
        last = heard[-1] if heard else ""
        play = [("sign_up", {}), ("wait_for_code", {}), ("verify", {"code": last})]
        calls = [{"name": name, "args": args, "id": name} for name, args in play[len(heard) :]]
        said = AIMessage(content=last, tool_calls=calls[:1])
        return ChatResult(generations=[ChatGeneration(message=said)])


graph = StateGraph(MessagesState)
graph.add_node("model", lambda state: {"messages": [Script().invoke(state["messages"])]})
graph.add_node(
    "tools",
    ToolNode([sign_up, wait_for_code, verify], handle_tool_errors=False),
    retry_policy=RetryPolicy(initial_interval=0.1, retry_on=ConnectionError),
)
graph.add_edge(START, "model")
graph.add_conditional_edges("model", tools_condition)
graph.add_edge("tools", "model")
ended = graph.compile().invoke({"messages": [HumanMessage("Sign me up.")]})
print("the agent says:", ended["messages"][-1].content)
client.close()
