"""Writes the pages and tables that come from the code: ``python -m tests.docs.reference``."""

import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from prometheus_client.metrics import MetricWrapperBase

from oncebox import artifact_errors, errors, mail_errors, refusals, send_errors
from oncebox.cli.failures import exit_code
from oncebox.client import failures
from oncebox.config import Settings
from oncebox.edge.http import openapi
from oncebox.edge.http.application import ROUTES
from oncebox.edge.http.route import Route
from oncebox.errors import OnceboxError
from oncebox.mail.warnings import MEANINGS
from oncebox.model import action, artifact, inbox, source_table
from oncebox.model.action import ActionState
from oncebox.model.artifact import ArtifactState
from oncebox.model.choice import CONFLICTS
from oncebox.model.delivery import TRANSITIONS, State
from oncebox.model.effect import EffectState
from oncebox.model.inbox import InboxState
from oncebox.model.inbox_policy import InboxPolicy
from oncebox.model.send import SendState
from oncebox.model.sighting import REJECTS, REPEATS, Rule, Sighting
from oncebox.model.source import Source
from oncebox.model.verdict import DETAILS, Result
from oncebox.signature import schemes
from oncebox.signature.scheme import Options, Place, Scheme
from oncebox.signature.verification import REASONS
from oncebox.telemetry import Telemetry
from tests.docs.cli_page import cli_page
from tests.docs.decisions_page import decisions_page
from tests.docs.markdown import meanings as _meanings
from tests.docs.markdown import page as _page
from tests.docs.markdown import plain
from tests.docs.markdown import table as _table
from tests.docs.python_page import python_page
from tests.docs.remedies import LABELS, REMEDIES
from tests.house.tree import ROOT

T = TypeVar("T", bound=StrEnum)

DOCS = ROOT / "docs"
_API = """\
Every call but the open ones needs `Authorization: Bearer KEY`; an admin's key may do them all.
A call that creates needs an `Idempotency-Key`.
A repeat within 24 hours gets the first answer, marked `Idempotency-Replayed: true`; with another
body it is 422, and while the first is running 409.
Times are milliseconds since 1970, durations are seconds, bodies of deliveries are base64.
Refusals are problems as in RFC 9457; their codes are in [errors](errors.md).
The same as OpenAPI 3.1 is at `/openapi.json`, and in [openapi.json](../openapi.json)."""
_TABLE = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


@cache
def pages() -> dict[Path, str]:
    """Return every page as it should be."""
    from tests.docs import reference_mcp  # noqa: PLC0415 - it is written with what is below

    names = (
        "actions", "artifacts", "concepts", "glossary", "inboxes", "mail", "mail-senders",
        "sightings", "sources",
    )  # fmt: skip
    with_tables = [DOCS / f"{name}.md" for name in names]
    return {
        DOCS / "decisions" / "README.md": decisions_page(),
        DOCS / "reference" / "cli.md": cli_page(),
        DOCS / "reference" / "python.md": python_page(),
        DOCS / "reference" / "errors.md": _errors(),
        DOCS / "reference" / "settings.md": _settings(),
        DOCS / "reference" / "metrics.md": _metrics(),
        DOCS / "reference" / "schemes.md": _schemes(),
        DOCS / "reference" / "api.md": _api(),
        DOCS / "reference" / "mcp.md": reference_mcp.page(),
        DOCS / "openapi.json": _openapi(),
        **{page: _with_tables(page.read_text()) for page in with_tables},
    }


def main() -> None:
    """Write every page."""
    for path, text in pages().items():
        path.write_text(text)


def _with_tables(page: str) -> str:
    tables: dict[str, Callable[[], str]] = {
        "states": lambda: _states(State),
        "transitions": lambda: _transitions(TRANSITIONS),
        "effect_states": lambda: _states(EffectState),
        "send_states": lambda: _states(SendState),
        "inbox_states": lambda: _states(InboxState),
        "inbox_transitions": lambda: _transitions(inbox.TRANSITIONS),
        "inbox_policy": _inbox_policy,
        "action_states": lambda: _states(ActionState),
        "action_transitions": lambda: _transitions(action.TRANSITIONS),
        "source": _source,
        "sightings": _sightings,
        "repeats": lambda: _rules(REPEATS),
        "rejects": lambda: _rules(REJECTS),
        "results": _results,
        "details": _details,
        "warnings": _warnings,
        "artifact_states": lambda: _states(ArtifactState),
        "artifact_transitions": lambda: _transitions(artifact.TRANSITIONS),
        "artifact_conflicts": lambda: _codes(CONFLICTS),
        "artifact_warnings": lambda: _codes(artifact.WARNINGS),
    }
    return _TABLE.sub(lambda found: f"{found[1]}{tables[found[2]]()}\n{found[3]}", page)


def _warnings() -> str:
    return _codes(MEANINGS)


def _codes(meanings: Mapping[Any, str]) -> str:
    rows = ((f"`{code}`", meaning) for code, meaning in meanings.items())
    return _table(("code", "meaning"), rows)


def _results() -> str:
    rows = [(f"`{Result[name]}`", meaning) for name, meaning in _meanings(Result)]
    return _table(("result", "meaning"), rows)


def _details() -> str:
    rows = [(f"`{code}`", meaning) for code, meaning in DETAILS.items()]
    return _table(("code", "meaning"), rows)


def _states(kind: type[StrEnum]) -> str:
    rows = [(f"`{name}`", meaning) for name, meaning in _meanings(kind)]
    return _table(("state", "meaning"), ((name.lower(), meaning) for name, meaning in rows))


def _transitions(table: Mapping[tuple[T, T], str]) -> str:
    rows = ((f"`{before}`", f"`{after}`", why) for (before, after), why in table.items())
    return _table(("from", "to", "when"), rows)


def _inbox_policy() -> str:
    fields = {each.name: each.default for each in msgspec.structs.fields(InboxPolicy)}
    rows = (
        (f"`{name}`", f"`{fields[name]}`" if fields[name] else "", meaning)
        for name, meaning in _meanings(InboxPolicy)
    )
    return _table(("field", "default", "meaning"), rows)


def _source() -> str:
    meanings = dict(_meanings(Source))
    plain = Source(tenant="default", name="x", public_id="x", scheme="x")
    rows = []
    for field in source_table.FIELDS:
        value = getattr(plain, field)
        shown = value / 1000 if field.endswith("_wait") and value is not None else value
        default = "" if field == "scheme" or not shown else f"`{shown}`"
        rows.append((f"`{field}`", default, meanings[field]))
    return _table(("field", "default", "meaning"), rows)


def _sightings() -> str:
    rows = ((f"`{Sighting[name]}`", meaning) for name, meaning in _meanings(Sighting))
    return _table(("class", "meaning"), rows)


def _rules(rules: Sequence[Rule]) -> str:
    rows = ((str(place), rule.when, f"`{rule.sighting}`") for place, rule in enumerate(rules, 1))
    return _table(("", "when", "class"), rows)


def _errors() -> str:
    rows = (
        (
            f"`{kind.code}`",
            "yes" if kind.retry_safe else "no",
            str(exit_code(kind)),
            plain(_doc(kind)),
            REMEDIES.get(kind.code, ""),
        )
        for kind in error_kinds()
    )
    return _page(
        "Errors",
        "Every error has a stable code.\n*Try again* says whether repeating the same call is safe "
        "and may help.\nThe exit code is what the `oncebox` command ends with.",
        _table(("code", "try again", "exit code", "meaning", "what helps"), rows),
    )


def _settings() -> str:
    intro = (
        "A setting is taken from what the program passes, else from the environment, else from "
        "the file, else it has its default.\nThe file is `oncebox.toml` in the current folder, or "
        "the one named by `ONCEBOX_CONFIG`.\nTimes are in seconds."
    )
    rows = (
        (f"`{'.'.join(path)}`", f"`ONCEBOX_{'__'.join(path).upper()}`", default, meaning)
        for path, default, meaning in _fields(Settings)
    )
    return _page(
        "Settings", intro, _table(("in the file", "environment", "default", "meaning"), rows)
    )


def metrics() -> list[tuple[str, str, Sequence[str], str]]:
    """Return every metric: its name, kind, labels and meaning."""
    telemetry = Telemetry()
    rows: list[tuple[str, str, Sequence[str], str]] = [
        (each._name, str(each._type), each._labelnames, each._documentation)
        for each in vars(telemetry).values()
        if isinstance(each, MetricWrapperBase)
    ]
    rows += [
        (each.name, each.type, each._labelnames, each.documentation)  # type: ignore[attr-defined]
        for each in telemetry.http.collect()
    ]
    return sorted(
        (f"{name}{'_total' if kind == 'counter' else ''}", kind, labels, meaning)
        for name, kind, labels, meaning in rows
    )


def _metrics() -> str:
    labels = {label for _, _, labels, _ in metrics() for label in labels}
    tables = (
        _table(
            ("name", "kind", "labels", "meaning"),
            (
                (f"`{name}`", kind, ", ".join(f"`{label}`" for label in labels), meaning)
                for name, kind, labels, meaning in metrics()
            ),
        ),
        "## Labels",
        _table(
            ("label", "says"),
            ((f"`{label}`", LABELS.get(label, "")) for label in sorted(labels)),
        ),
        "Which of them to watch is in [monitoring](../monitoring.md).",
    )
    return _page(
        "Metrics",
        "Each process has its own, in Prometheus's text form: a service has them at `/metrics`, "
        "`oncebox worker --metrics 127.0.0.1:9464` serves them, and `box.metrics()` returns them.\n"
        "No label holds a key, a body or anything else that a sender wrote.",
        "\n\n".join(tables),
    )


def _schemes() -> str:
    intro = (
        "How each provider signs, and what its signature covers.\n"
        "An id or a type marked `*` is not signed: anybody on the way could have written it.\n"
        "`$` is the JSON of an event, `^` that of the whole request; `+` joins, `?` may be "
        "missing.\nThe window is in seconds, both ways."
    )
    head = ("scheme", "signature in", "signed content", "algorithm", "window", "id", "type", "note")
    names = sorted(schemes.BUILT_IN)
    tables = (
        _table(head, (_scheme(schemes.BUILT_IN[name]) for name in names)),
        (
            "## Batches and volatile members\n\nA batch becomes one delivery per event. Volatile "
            "members change from one attempt to the next, and are no part of the fingerprint."
        ),
        _table(("scheme", "events at", "volatile"), _batches(names)),
        "## Options\n\nEvery scheme takes `window`, `id`, `type`, `batch` and `volatile`.",
        _table(("option", "meaning", "taken by"), _options(names)),
        "## Reasons\n\nWhy a request is refused, in one word.",
        _table(("reason", "meaning"), ((f"`{name}`", text) for name, text in REASONS.items())),
    )
    return _page("Signature schemes", intro, "\n\n".join(tables))


def _scheme(scheme: Scheme) -> tuple[str, ...]:
    return (
        f"`{scheme.name}`<br>{scheme.title}",
        f"`{scheme.header}`" if scheme.header else "",
        f"`{scheme.content}`" if scheme.covers else "nothing",
        f"{scheme.hashes}, {scheme.encoding}" if scheme.covers else scheme.hashes,
        "" if scheme.window is None else str(scheme.window),
        _places(scheme.id),
        _places(scheme.type),
        scheme.note,
    )


def _places(places: Iterable[Place]) -> str:
    return "<br>".join(f"`{place.path}`{'' if place.signed else '*'}" for place in places)


def _batches(names: Iterable[str]) -> Iterator[tuple[str, ...]]:
    for scheme in (schemes.BUILT_IN[name] for name in names):
        if scheme.batch or scheme.volatile:
            volatile = ", ".join(f"`{path}`" for path in scheme.volatile)
            yield f"`{scheme.name}`", f"`{scheme.batch}`" if scheme.batch else "", volatile


def _options(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for option, meaning in _meanings(Options):
        takers = [f"`{name}`" for name in names if option in schemes.BUILT_IN[name].takes]
        yield f"`{option}`", meaning, ", ".join(takers) or "all"


# the API


def _openapi() -> str:
    return json.dumps(openapi.document(ROUTES), indent=2) + "\n"


def _api() -> str:
    rows = [
        (
            f"`{route.method} {route.path}`",
            ", ".join(sorted(route.scopes)) or "open",
            "yes" if route.creates else "",
            route.summary,
        )
        for route in ROUTES
    ]
    table = _table(("call", "scopes", "creates", "does"), rows)
    schemas = openapi.schemas(ROUTES)
    details = "\n\n".join(_call(route, schemas) for route in ROUTES if route.body or route.query)
    return _page("API", _API, f"{table}\n\n{details}")


def _call(route: Route, schemas: dict[str, Any]) -> str:
    kinds = [kind.__name__ for kind in (route.query, route.body) if kind is not None]
    rows = [
        (f"`{name}`", _kind(schema, schemas), "yes" if name in required else "", _said(schema))
        for kind in kinds
        for required in [schemas[kind].get("required", ())]
        for name, schema in schemas[kind].get("properties", {}).items()
    ]
    table = _table(("field", "is", "needed", "meaning"), rows)
    return f"## {route.method} {route.path}\n\n{route.summary}\n\n{table}"


def _kind(schema: dict[str, Any], schemas: dict[str, Any]) -> str:
    """Say in few words what a field may be."""
    if "$ref" in schema:
        return _kind(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    if "anyOf" in schema:
        return " or ".join(_kind(each, schemas) for each in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema['items'], schemas)}"
    return str(schema.get("type", "anything"))


def _said(schema: dict[str, Any]) -> str:
    inner = [schema, *schema.get("anyOf", ())]
    return next((str(each["description"]) for each in inner if "description" in each), "")


def error_kinds() -> list[type[OnceboxError]]:
    """Return every kind of error."""
    return list(dict.fromkeys(_below(OnceboxError)))


def _below(kind: type[OnceboxError]) -> Iterator[type[OnceboxError]]:
    """Yield a kind of error and all kinds of it, in the order they are written."""
    yield kind
    written = (errors, mail_errors, artifact_errors, send_errors, refusals, failures)
    files = [each.__name__ for each in written]
    known = [each for each in kind.__subclasses__() if each.__module__ in files]
    # Whichever file was imported first: they come in this order.
    for each in sorted(known, key=lambda one: files.index(one.__module__)):
        yield from _below(each)


def _doc(kind: type) -> str:
    return (inspect.getdoc(kind) or "").splitlines()[0]


def _fields(
    kind: type[msgspec.Struct], above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], str, str]]:
    meanings = dict(_meanings(kind))
    for field in msgspec.structs.fields(kind):
        if isinstance(field.default, msgspec.Struct):
            yield from _fields(type(field.default), (*above, field.name))
        else:
            empty = field.default in ("", msgspec.NODEFAULT)
            default = "" if empty else f"`{field.default}`"
            yield (*above, field.name), default, meanings[field.name]


if __name__ == "__main__":
    main()
