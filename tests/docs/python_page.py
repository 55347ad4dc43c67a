"""The page of what programs import, from signatures and docstrings."""

import dataclasses
import inspect
import re
from collections.abc import Iterator
from typing import Any, is_typeddict

import msgspec

import oncebox
from oncebox import client
from oncebox.errors import OnceboxError
from oncebox.model.sends.intent import SendOptions
from oncebox.schemas.sends import SendAnswer
from oncebox.testing.imap import ScriptedImap
from oncebox.testing.provider import ScriptedProvider
from oncebox.testing.provider_protocol import ProviderMail
from oncebox.testing.resend import Resend
from oncebox.testing.smtp import ScriptedSmtp, SmtpMail
from tests.docs.markdown import meanings, page, plain, table
from tests.support.client_api import resources

_INTRO = """\
What programs import from `oncebox`, `oncebox.client` and `oncebox.testing`.
For use, see the [Python client](../client.md), [concepts](../concepts.md) and
[testing](../testing.md); for exceptions, see [errors](errors.md)."""
#: what stands on the page, in this order, under which heading
PARTS: dict[str, tuple[Any, ...]] = {
    "Client": (
        oncebox.Client, oncebox.AsyncClient, client.Inbox, client.Grant, client.MessageGrant,
        client.Attempt, client.Action, client.Work, client.submission,
        client.Poller, client.PolledMessage,
    ),
    "Mail": (
        oncebox.Email, oncebox.Attachment, SendOptions, SendAnswer, client.send_request,
        client.ManyResult, client.ManyProgress,
    ),
    "Embedded Oncebox": (
        oncebox.Oncebox, oncebox.Delivery, oncebox.Accepted, oncebox.Once, oncebox.SyncOnce,
        oncebox.Done, type(oncebox.NO_RESULT), oncebox.Allow, oncebox.Hold, oncebox.Drop,
    ),
    "Webhook verification": (oncebox.verify,),
    "`oncebox.testing`": (
        ScriptedSmtp, SmtpMail, ScriptedImap, ScriptedProvider, Resend, ProviderMail,
    ),
}  # fmt: skip
_NOTED = re.compile(r"Annotated\[(\w+), [^]]*\]")
_MODULES = re.compile(r"\b(?:[a-z_]\w*\.)+(?=[A-Za-z_])")
_SCHEMAS = re.compile(r"\boncebox\.schemas\.\w+\.(Inbox|Action)\b")
#: a forward reference, and the class in an unpacked TypedDict
_QUOTED = re.compile(r"'(\w+)'")
_UNPACKED = re.compile(r"\*?<class '(\w+)'>")
#: what programs make themselves; the rest is handed to them
_MADE = (
    oncebox.Client,
    oncebox.AsyncClient,
    oncebox.Oncebox,
    ScriptedSmtp,
    ScriptedImap,
    ScriptedProvider,
    Resend,
)
_LONGEST = 88


def python_page() -> str:
    """Return the page."""
    parts = [f"## {title}\n\n{_part(things)}" for title, things in PARTS.items()]
    parts.insert(1, f"## Client methods\n\n{_resources()}")
    return page("Python API", _INTRO, "\n\n".join(parts))


def missing() -> set[str]:
    """Return what can be imported by its public name and does not stand on the page."""
    shown = {thing.__name__ for things in PARTS.values() for thing in things}
    public = {
        name: getattr(module, name) for module in (oncebox, client) for name in module.__all__
    }
    return {
        name
        for name, value in public.items()
        if not {name, type(value).__name__} & shown
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
        elif inspect.isfunction(value):
            yield f"{_signature(f'{kind.__name__}.{name}', value)}\n\n{_said(value)}"


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
    given = [each for each in signature.parameters.values() if each.name != "self"]
    text = _short(str(signature.replace(parameters=given))).replace("~", "")
    head, arrow, returned = text.rpartition(" -> ")
    if function.__name__ == "__init__":
        arrow = returned = ""
    head, returned = _UNPACKED.sub(r"\1", head), _QUOTED.sub(r"\1", returned)
    prefix = "await " if inspect.iscoroutinefunction(function) else ""
    line = f"{prefix}{name}{head}{arrow}{returned}"
    return f"```py\n{line if len(line) <= _LONGEST else _wrapped(line, given)}\n```"


def _short(text: str) -> str:
    """Return types without their modules; a schema that shares its name with a handle keeps one."""
    return _MODULES.sub("", _SCHEMAS.sub(r"schemas:\1", text)).replace("schemas:", "schemas.")


def _wrapped(line: str, given: list[inspect.Parameter]) -> str:
    """Return a long signature with a line for each parameter."""
    before, _, rest = line.partition("(")
    inner, _, after = rest.rpartition(")")
    parts = re.split(rf", (?=\*|/|{'|'.join(re.escape(each.name) for each in given)})", inner)
    return "\n".join((f"{before}(", *(f"    {part}," for part in parts), f"){after}"))


def _said(thing: Any) -> str:
    return plain(inspect.getdoc(thing) or "")


def _resources() -> str:
    """Return a table of methods for every resource."""
    intro = (
        "Methods by resource. With `AsyncClient` they are awaited, and those that return an "
        "`Iterator` return an `AsyncIterator` for `async for`."
    )
    parts = [intro]
    for name, kind in resources().items():
        methods = [(each, value) for each, value in vars(kind).items() if _is_method(each, value)]
        rows = [_method_row(each, value) for each, value in methods]
        head = ("method", "parameters", "returns", "does")
        parts += [f"### client.{name}", table(head, rows)]
    return "\n\n".join(parts)


def _is_method(name: str, value: Any) -> bool:
    return inspect.isfunction(value) and not name.startswith("_")


def _method_row(name: str, function: Any) -> tuple[str, str, str, str]:
    signature = inspect.signature(function)
    given = [each for each in signature.parameters.values() if each.name != "self"]
    takes = ", ".join(f"`{_parameter(each)}`" for each in given)
    returned = _short(inspect.formatannotation(signature.return_annotation))
    return f"`{name}`", takes, f"`{_QUOTED.sub(chr(92) + '1', returned)}`", _one_line(function)


def _one_line(function: Any) -> str:
    return " ".join(_said(function).split())


def _parameter(each: inspect.Parameter) -> str:
    stars: dict[object, str] = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}
    star = stars.get(each.kind, "")
    return f"{star}{each.name}{'' if each.default is each.empty else f'={each.default!r}'}"
