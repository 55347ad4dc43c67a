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

from oncebox import errors
from oncebox.cli.output.failures import exit_code
from oncebox.client import errors as client_errors
from oncebox.core.metrics import Metric, Telemetry
from oncebox.errors import OnceboxError
from oncebox.errors import http as http_errors
from oncebox.errors import mail as mail_errors
from oncebox.errors import sends as send_errors
from oncebox.mail.limits import WARNING_MEANINGS
from oncebox.mailboxes.failures import IMAP_FAILURES
from oncebox.model import attempts
from oncebox.model.attempts import ActionState
from oncebox.model.deliveries.delivery import TRANSITIONS, DeliveryState
from oncebox.model.deliveries.duplicates import (
    DUPLICATE_RULES,
    REJECTION_RULES,
    ClassRule,
    DuplicateClass,
)
from oncebox.model.deliveries.effects import EffectState
from oncebox.model.inboxes import artifact, inbox
from oncebox.model.inboxes.artifact import CONFLICTS, ArtifactState
from oncebox.model.inboxes.inbox import InboxPolicy, InboxState
from oncebox.model.inboxes.received_mail import VERDICT_DETAILS, AuthResult
from oncebox.model.mailboxes.mailbox_fields import LocalMailboxFields, MailboxFields
from oncebox.model.sends.send import SendState
from oncebox.model.webhooks import source
from oncebox.model.webhooks.source import Source
from oncebox.server.api import openapi
from oncebox.server.application import ROUTES
from oncebox.server.http.routing import Route
from oncebox.settings import Settings
from oncebox.webhooks import inbound, registry
from oncebox.webhooks.scheme import FieldPath, Scheme, SchemeOptions
from oncebox.webhooks.verification import REASONS
from tests.docs.cli_page import cli_page
from tests.docs.decisions_page import decisions_page
from tests.docs.markdown import meanings as _meanings
from tests.docs.markdown import page as _page
from tests.docs.markdown import plain
from tests.docs.markdown import table as _table
from tests.docs.python_page import python_page
from tests.docs.remedies import LABELS, REMEDIES
from tests.project.tree import ROOT

T = TypeVar("T", bound=StrEnum)

DOCS = ROOT / "docs"
_API = """\
Every call except the open ones needs `Authorization: Bearer KEY`; an admin key may make all calls.
A call that creates needs an `Idempotency-Key`, which is valid for one tenant and route.
A repeat within 24 hours gets the first answer, marked `Idempotency-Replayed: true`; with another
body it is 422, and while the first is running 409.
Times are milliseconds since 1970, durations are seconds, bodies of deliveries are base64.
Errors are problems as in RFC 9457; their codes are in [errors](errors.md).
The same as OpenAPI 3.1 is at `/openapi.json`, and in [openapi.json](../openapi.json)."""
_TABLE = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


@cache
def pages() -> dict[Path, str]:
    """Return every page as it should be."""
    from tests.docs import reference_mcp  # noqa: PLC0415 - it is written with what is below

    names = (
        "concepts", "duplicates", "extraction", "imap", "inbound-webhooks", "inboxes",
        "mail-senders",
    )  # fmt: skip
    with_tables = [DOCS / f"{name}.md" for name in names]
    return {
        DOCS / "decisions" / "README.md": decisions_page(),
        DOCS / "reference" / "cli.md": cli_page(),
        DOCS / "reference" / "python.md": python_page(),
        DOCS / "reference" / "errors.md": _errors(),
        DOCS / "reference" / "settings.md": _settings(),
        DOCS / "reference" / "metrics.md": _metrics(),
        DOCS / "reference" / "alerts.md": _alerts(),
        DOCS / "reference" / "schemes.md": _schemes(),
        DOCS / "reference" / "api.md": _api(),
        DOCS / "reference" / "mcp.md": reference_mcp.page(),
        DOCS / "reference" / "states.md": _states_page(),
        DOCS / "openapi.json": _openapi(),
        **{page: _with_tables(page.read_text()) for page in with_tables},
    }


def main() -> None:
    """Write every page."""
    for path, text in pages().items():
        path.write_text(text)


#: the parts of the page of states: their titles, the guides that explain them, their tables
_STATES: dict[str, tuple[str, tuple[str, ...]]] = {
    "Deliveries": ("concepts", ("states", "transitions")),
    "Effects": ("concepts", ("effect_states",)),
    "Inboxes": ("inboxes", ("inbox_states", "inbox_transitions")),
    "Codes and links": (
        "extraction",
        ("artifact_states", "artifact_transitions", "artifact_conflicts", "artifact_warnings"),
    ),
    "Actions": ("actions", ("action_states", "action_transitions")),
    "Sends": ("sending", ("send_states",)),
    "Warnings of parsed mail": ("mail", ("warnings",)),
    "Details of sender authentication": ("mail-senders", ("details",)),
}


def _states_page() -> str:
    parts = [
        f"## {title}\n\nExplained in [{guide}.md](../{guide}.md).\n\n"
        + "\n\n".join(f"<!-- table: {name} -->\n<!-- end -->" for name in names)
        for title, (guide, names) in _STATES.items()
    ]
    intro = "All states with their transitions, and the codes that messages and codes may have."
    return _page("States, transitions and codes", intro, _with_tables("\n\n".join(parts)))


def _with_tables(page: str) -> str:
    tables: dict[str, Callable[[], str]] = {
        "states": lambda: _states(DeliveryState),
        "transitions": lambda: _transitions(TRANSITIONS),
        "effect_states": lambda: _states(EffectState),
        "send_states": lambda: _states(SendState),
        "inbox_states": lambda: _states(InboxState),
        "inbox_transitions": lambda: _transitions(inbox.TRANSITIONS),
        "inbox_policy": _inbox_policy,
        "action_states": lambda: _states(ActionState),
        "action_transitions": lambda: _transitions(attempts.TRANSITIONS),
        "sightings": _sightings,
        "repeats": lambda: _rules(DUPLICATE_RULES),
        "rejects": lambda: _rules(REJECTION_RULES),
        "results": _results,
        "details": _details,
        "warnings": _warnings,
        "artifact_states": lambda: _states(ArtifactState),
        "artifact_transitions": lambda: _transitions(artifact.TRANSITIONS),
        "artifact_conflicts": lambda: _codes(CONFLICTS),
        "artifact_warnings": lambda: _codes(artifact.ARTIFACT_WARNINGS),
        "inbound_answers": _inbound_answers,
        "imap_failures": _imap_failures,
    }
    return _TABLE.sub(lambda found: f"{found[1]}{tables[found[2]]()}\n{found[3]}", page)


def _inbound_answers() -> str:
    head = ("provider", "what it does", "unrouted", "refused", "temporary", "not verified")
    rows = []
    for each in inbound.PROVIDERS.values():
        answers = each.answers
        statuses = (answers.unrouted, answers.refused, answers.temporary, answers.unverified)
        shown = (str(status) if status else "closed" for status in statuses)
        rows.append((each.title, answers.meaning, *shown))
    return _table(head, rows)


def _imap_failures() -> str:
    rows = ((", ".join(f"`{code}`" for code in codes), told) for codes, told in IMAP_FAILURES)
    return _table(("code", "meaning and remedy"), rows)


def _warnings() -> str:
    return _codes(WARNING_MEANINGS)


def _codes(meanings: Mapping[Any, str]) -> str:
    rows = ((f"`{code}`", meaning) for code, meaning in meanings.items())
    return _table(("code", "meaning"), rows)


def _results() -> str:
    rows = [(f"`{AuthResult[name]}`", meaning) for name, meaning in _meanings(AuthResult)]
    return _table(("result", "meaning"), rows)


def _details() -> str:
    rows = [(f"`{code}`", meaning) for code, meaning in VERDICT_DETAILS.items()]
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
    for field in source.SOURCE_FIELDS:
        value = getattr(plain, field)
        shown = value / 1000 if field.endswith("_wait") and value is not None else value
        default = "" if field == "scheme" or not shown else f"`{shown}`"
        rows.append((f"`{field}`", default, meanings[field]))
    return _table(("field", "default", "meaning"), rows)


def _mailbox() -> str:
    meanings = dict([*_meanings(MailboxFields), *_meanings(LocalMailboxFields)])
    rows = (
        (f"`{name}`", f"`{value}`" if (value := getattr(plain, name)) else "", meanings[name])
        for plain in (LocalMailboxFields(),)
        for name in plain.__struct_fields__
    )
    return _table(("field", "default", "meaning"), rows)


def _sightings() -> str:
    rows = ((f"`{DuplicateClass[name]}`", meaning) for name, meaning in _meanings(DuplicateClass))
    return _table(("class", "meaning"), rows)


def _rules(rules: Sequence[ClassRule]) -> str:
    rows = (
        (str(place), rule.when, f"`{rule.duplicate_class}`") for place, rule in enumerate(rules, 1)
    )
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
        "Every error has a stable code.\n*Retry* says whether repeating the same call is safe "
        "and may help; the exit code is that of the `oncebox` command.",
        _table(("code", "retry", "exit code", "meaning", "remedy"), rows),
    )


def _settings() -> str:
    intro = (
        "Precedence: what the program passes, the environment, the file, the default.\n"
        "The file is `oncebox.toml` in the current folder, or the one named by "
        "`ONCEBOX_CONFIG`.\nTimes are in seconds."
    )
    sources = (
        "## Source fields\n\nFields of a [webhook source](../sources.md), in the file below "
        "`[sources.NAME]`, which also has `secrets` and `public_id`."
    )
    mailboxes = (
        "## Mailbox fields\n\nFields of a [mailbox](../mailboxes.md), in the file below "
        "`[mailboxes.NAME]`. The password, the keys and `ca` may be references, `env:NAME` or "
        "`file:PATH`."
    )
    rows = (
        (f"`{'.'.join(path)}`", f"`ONCEBOX_{'__'.join(path).upper()}`", default, meaning)
        for path, default, meaning in _fields(Settings)
    )
    settings = _table(("in the file", "environment", "default", "meaning"), rows)
    tables = f"{sources}\n\n{_source()}\n\n{mailboxes}\n\n{_mailbox()}"
    return _page("Settings", intro, f"{settings}\n\n{tables}")


def metrics() -> list[tuple[str, str, Sequence[str], str]]:
    """Return every metric: its name, kind, labels and meaning."""
    rows: list[tuple[str, str, Sequence[str], str]] = [
        (each.name, each.kind.__name__.lower(), each.labels, each.meaning)
        for each in vars(Telemetry).values()
        if isinstance(each, Metric)
    ]
    rows += [
        (each.name, each.type, each._labelnames, each.documentation)  # type: ignore[attr-defined]
        for each in Telemetry().http.collect()
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
        "Which metrics to watch is in [monitoring](../monitoring.md).",
    )
    return _page(
        "Metrics",
        "Every process exports its own metrics in Prometheus's text format: a service at "
        "`/metrics`, a worker with `--metrics 127.0.0.1:9464`, a program by `box.metrics()`.\n"
        "No label contains a key, a body or anything else that a sender wrote.",
        "\n\n".join(tables),
    )


def _alerts() -> str:
    rules = (ROOT / "packaging" / "prometheus" / "oncebox.rules.yml").read_text()
    return _page(
        "Alerts",
        "The rules for Prometheus, in the repository `packaging/prometheus/oncebox.rules.yml`.\n"
        "How to scrape is in [monitoring](../monitoring.md#prometheus).\n"
        "Change the thresholds to what is normal for you.",
        f"```yaml\n{rules}```",
    )


def _schemes() -> str:
    intro = (
        "How each provider signs, and what its signature covers.\n"
        "An id or a type marked `*` is not signed, so it can be forged.\n"
        "`$` is the JSON of an event, `^` that of the whole request; `+` joins, `?` may be "
        "missing.\nThe window is in seconds, both ways."
    )
    head = ("scheme", "signature in", "signed content", "algorithm", "window", "id", "type", "note")
    names = sorted(registry.BUILT_IN_SCHEMES)
    tables = (
        _table(head, (_scheme(registry.BUILT_IN_SCHEMES[name]) for name in names)),
        (
            "## Batches and volatile members\n\nA batch becomes one delivery per event. Volatile "
            "members change between attempts and are excluded from the fingerprint."
        ),
        _table(("scheme", "events at", "volatile"), _batches(names)),
        "## Options\n\nEvery scheme takes `window`, `id`, `type`, `batch` and `volatile`.",
        _table(("option", "meaning", "taken by"), _options(names)),
        "## Reasons\n\nWhy a request is rejected.",
        _table(("reason", "meaning"), ((f"`{name}`", text) for name, text in REASONS.items())),
    )
    return _page("Signature schemes", intro, "\n\n".join(tables))


def _scheme(scheme: Scheme) -> tuple[str, ...]:
    return (
        f"`{scheme.name}`<br>{scheme.title}",
        f"`{scheme.header}`" if scheme.header else "",
        f"`{scheme.content}`" if scheme.covers else "nothing",
        f"{scheme.algorithm_label}, {scheme.encoding}" if scheme.covers else scheme.algorithm_label,
        "" if scheme.window is None else str(scheme.window),
        _places(scheme.id),
        _places(scheme.type),
        scheme.note,
    )


def _places(places: Iterable[FieldPath]) -> str:
    return "<br>".join(f"`{place.path}`{'' if place.signed else '*'}" for place in places)


def _batches(names: Iterable[str]) -> Iterator[tuple[str, ...]]:
    for scheme in (registry.BUILT_IN_SCHEMES[name] for name in names):
        if scheme.batch or scheme.volatile:
            volatile = ", ".join(f"`{path}`" for path in scheme.volatile)
            yield f"`{scheme.name}`", f"`{scheme.batch}`" if scheme.batch else "", volatile


def _options(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for option, meaning in _meanings(SchemeOptions):
        takers = [
            f"`{name}`"
            for name in names
            if option in registry.BUILT_IN_SCHEMES[name].accepted_options
        ]
        yield f"`{option}`", meaning, ", ".join(takers) or "all"


# the API


def _openapi() -> str:
    return json.dumps(openapi.openapi_document(ROUTES), indent=2) + "\n"


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
    return _page("HTTP API", _API, f"{table}\n\n{details}")


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
    if "prefixItems" in schema:
        return "pair"
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
    written = (errors, mail_errors, send_errors, http_errors, client_errors)
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
