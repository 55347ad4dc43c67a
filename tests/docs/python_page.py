"""The page of what programs import, from signatures and docstrings."""

import dataclasses
import inspect
import re
from collections.abc import Iterator
from typing import Any, is_typeddict

import msgspec

import oncebox
from oncebox import client
from oncebox.client.inbox import Deed, Making, Reading
from oncebox.client.room import Listing, Now, Tailing, Verb
from oncebox.client.rooms import Rooms
from oncebox.errors import OnceboxError
from oncebox.model.asking import SendOptions
from oncebox.testing.personalities.personality import Taken
from oncebox.testing.personalities.resend import Resend
from oncebox.testing.provider import ScriptedProvider
from oncebox.testing.smtp import ScriptedSmtp
from oncebox.testing.smtp_session import Mail
from oncebox.wire.sends import SendAnswer
from tests.docs.markdown import meanings, page, plain, table

_INTRO = """\
What programs import from `oncebox`, `oncebox.client` and `oncebox.testing`.
[The client](../client.md), [concepts](../concepts.md) and [testing](../testing.md) show it in use.
Errors are not here: all of them are on [their own page](errors.md)."""
#: what stands on the page, in this order, under which heading
PARTS: dict[str, tuple[Any, ...]] = {
    "The client": (
        oncebox.Client, oncebox.AsyncClient, client.Inbox, client.Attempt, client.Action,
        client.Work,
    ),
    "Mail": (oncebox.Email, oncebox.Attachment, SendOptions, SendAnswer, client.wish),
    "The box": (
        oncebox.Oncebox, oncebox.Delivery, oncebox.Accepted, oncebox.Once, oncebox.SyncOnce,
        oncebox.Done, oncebox.Allow, oncebox.Hold, oncebox.Drop,
    ),
    "Webhooks that you receive yourself": (oncebox.verify,),
    "`oncebox.testing`": (ScriptedSmtp, Mail, ScriptedProvider, Resend, Taken),
}  # fmt: skip
VERBS = (Verb, Listing, Tailing, Making, Deed, Reading)
_NOTED = re.compile(r"Annotated\[(\w+), [^]]*\]")
_MODULES = re.compile(r"\b(?:[a-z_]\w*\.)+(?=[A-Za-z_])")
#: how a verb says inside what it returns outside
_INSIDE = (
    (re.compile(r"\*?<class '(\w+)'>"), r"\1"),
    (re.compile(r"Generator\[.*, (\w+(?:\[\w+\])?)\]$"), r"\1"),
    (re.compile(r"Call\[(.*)\]$"), r"\1"),
    (re.compile(r"Tail\[\w+, (\w+)\]$"), r"Iterator[\1]"),
    (re.compile(r"'(\w+)'$"), r"\1"),
)
#: what programs make themselves; the rest is handed to them
_MADE = (
    oncebox.Client,
    oncebox.AsyncClient,
    oncebox.Oncebox,
    ScriptedSmtp,
    ScriptedProvider,
    Resend,
)
_LONGEST = 88


def python_page() -> str:
    """Return the page."""
    parts = [f"## {title}\n\n{_part(things)}" for title, things in PARTS.items()]
    parts.insert(1, f"## What the client can be asked\n\n{_rooms()}")
    return page("Python", _INTRO, "\n\n".join(parts))


def missing() -> set[str]:
    """Return what can be imported by its public name and does not stand on the page."""
    shown = {thing.__name__ for things in PARTS.values() for thing in things}
    public = {
        name: getattr(module, name) for module in (oncebox, client) for name in module.__all__
    }
    return {
        name
        for name, value in public.items()
        if name not in shown
        and not (isinstance(value, type) and issubclass(value, OnceboxError))
        and not (name.startswith("Async") and name.removeprefix("Async") in shown)
    }


def _part(things: tuple[Any, ...]) -> str:
    return "\n\n".join(_thing(thing) for thing in things)


def _thing(thing: Any) -> str:
    if inspect.isfunction(thing):
        return f"### {thing.__name__}\n\n{_signature(thing.__name__, thing)}\n\n{_said(thing)}"
    parts = [f"### {thing.__name__}"]
    fields = list(_fields(thing))
    if thing in _MADE:
        parts.append(_signature(thing.__name__, thing.__init__))
    parts.append(_said(thing))
    if fields:
        parts.append(table(("field", "is", "default", "meaning"), fields))
    parts += _methods(thing)
    return "\n\n".join(parts)


def _fields(kind: Any) -> Iterator[tuple[str, ...]]:
    """Yield the fields of a value."""
    said = dict(meanings(kind)) if _has_fields(kind) else {}
    defaults = _defaults(kind)
    for name, annotation in inspect.get_annotations(kind).items() if said else ():
        is_ = _NOTED.sub(r"\1", _MODULES.sub("", inspect.formatannotation(annotation)))
        default = defaults.get(name, "")
        yield f"`{name}`", f"`{is_}`", f"`{default}`" if default else "", said[name]


def _has_fields(kind: Any) -> bool:
    return is_typeddict(kind) or dataclasses.is_dataclass(kind) or issubclass(kind, msgspec.Struct)


def _defaults(kind: Any) -> dict[str, str]:
    if not issubclass(kind, msgspec.Struct):
        return {}
    return {
        each.name: repr(each.default) if each.default != "" else ""
        for each in msgspec.structs.fields(kind)
        if each.default is not msgspec.NODEFAULT
    }


def _methods(kind: Any) -> Iterator[str]:
    """Yield what can be called on a thing, and what can be asked of it."""
    for name, value in _own(kind):
        if isinstance(value, property):
            yield f"**`{name}`**: {_said(value)}"
        elif isinstance(value, VERBS) or inspect.isfunction(value):
            function = getattr(value, "_describe", value)
            yield f"{_signature(f'{kind.__name__}.{name}', function)}\n\n{_said(function)}"


def _own(kind: Any) -> Iterator[tuple[str, Any]]:
    """Yield a class's public members, with those of the classes it is made of behind them."""
    seen = set()
    for each in kind.__mro__:
        if not each.__module__.startswith("oncebox."):
            continue
        for name, value in vars(each).items():
            if not name.startswith("_") and name not in seen:
                seen.add(name)
                yield name, value


def _signature(name: str, function: Any) -> str:
    signature = inspect.signature(function)
    # An inbox in the hand knows which it is.
    known = ("self", *(("inbox_id", "inboxes") if name.startswith("Inbox.") else ()))
    given = [each for each in signature.parameters.values() if each.name not in known]
    text = _MODULES.sub("", str(signature.replace(parameters=given))).replace("~", "")
    head, arrow, returned = text.rpartition(" -> ")
    if function.__name__ == "__init__":
        arrow = returned = ""
    for pattern, outside in _INSIDE:
        head, returned = pattern.sub(outside, head), pattern.sub(outside, returned)
    prefix = "await " if inspect.iscoroutinefunction(function) else ""
    line = f"{prefix}{name}{head}{arrow}{returned}"
    return f"```py\n{line if len(line) <= _LONGEST else _wrapped(line, given)}\n```"


def _wrapped(line: str, given: list[inspect.Parameter]) -> str:
    """Return a long signature with a line for each parameter."""
    before, _, rest = line.partition("(")
    inner, _, after = rest.rpartition(")")
    parts = re.split(rf", (?=\*|/|{'|'.join(re.escape(each.name) for each in given)})", inner)
    return "\n".join((f"{before}(", *(f"    {part}," for part in parts), f"){after}"))


def _said(thing: Any) -> str:
    return plain(inspect.getdoc(thing) or "")


def _rooms() -> str:
    """Return the table of all rooms and their verbs."""
    rooms: Rooms[Now] = Rooms(None)  # type: ignore[arg-type]
    kinds = {name: type(room) for name, room in vars(rooms).items()}
    kinds["deliveries.effects"] = type(rooms.deliveries.effects)
    intro = (
        "Each noun is a room of the client. With `AsyncClient` the same verbs are awaited, and "
        "lists are gone through by `async for`."
    )
    parts = [intro]
    for name, kind in kinds.items():
        rows = [_verb(verb, value) for verb, value in vars(kind).items() if _is_verb(verb, value)]
        parts += [f"### client.{name}", table(("verb", "takes", "does"), rows)]
    return "\n\n".join(parts)


def _is_verb(name: str, value: Any) -> bool:
    return isinstance(value, VERBS) or (inspect.isfunction(value) and not name.startswith("_"))


def _verb(name: str, value: Any) -> tuple[str, str, str]:
    function = getattr(value, "_describe", value)
    given = inspect.signature(function).parameters.values()
    takes = ", ".join(f"`{_parameter(each)}`" for each in given if each.name != "self")
    return f"`{name}`", takes, " ".join(_said(function).split())


def _parameter(each: inspect.Parameter) -> str:
    stars: dict[object, str] = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}
    star = stars.get(each.kind, "")
    return f"{star}{each.name}{'' if each.default is each.empty else f'={each.default!r}'}"
