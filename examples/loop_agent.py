"""A plain loop agent: it signs up at a site, is killed halfway, and resumes where it was.

    oncebox serve                                    # one terminal
    python -m examples.site                          # another
    python examples/loop_agent.py wait_for_code     # dies after this step
    python examples/loop_agent.py

The agent keeps nothing. When it starts again it takes every step again, and is answered what was
done already: the same address, the same code, no second mail and no second account.
"""

import os
import signal
import sys
from typing import Any

import httpx2

from oncebox.client.sync import Client

SITE = os.environ.get("SITE", "http://127.0.0.1:8000")
TOOLS = ("open_inbox", "sign_up", "wait_for_code", "verify")


def next_tool(known: dict[str, Any]) -> str | None:
    """Stand for the model: choose what to do by what is known."""
    return next((tool for tool in TOOLS if tool not in known), None)


def use(tool: str, known: dict[str, Any], client: Client) -> Any:
    """Use a tool; what must not happen twice is an action of the attempt."""
    attempt = client.attempt("signup-42")
    if tool == "open_inbox":
        return client.inboxes.create(attempt_id=attempt.id)
    inbox = known["open_inbox"]
    if tool == "sign_up":
        return attempt.do("sign-up", post, f"{SITE}/signup", email=inbox.email)
    if tool == "wait_for_code":
        return inbox.wait_for_code(sender="shop.example", within=60).value
    code = known["wait_for_code"]
    return attempt.do("verify", post, f"{SITE}/verify", email=inbox.email, code=code)


def post(url: str, **fields: str) -> int:
    """Post a form, as a browser would; a refusal (4xx) proves that nothing happened."""
    return httpx2.post(url, data=fields, timeout=20).raise_for_status().status_code


def main(die_after: str | None = None) -> None:
    known: dict[str, Any] = {}
    with Client() as client:
        while tool := next_tool(known):
            known[tool] = use(tool, known, client)
            print("done:", tool, flush=True)
            if tool == die_after:
                os.kill(os.getpid(), signal.SIGKILL)
    print("signed up as", known["open_inbox"].email)


if __name__ == "__main__":
    main(*sys.argv[1:])
