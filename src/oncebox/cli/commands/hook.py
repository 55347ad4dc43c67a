"""`oncebox hook verify|schemes`: check a webhook signature, explain it, run test vectors."""

import base64
import json
import os
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec.structs import replace

from oncebox.cli.context import CommandContext, examples, with_context
from oncebox.cli.options import check_one_body, header_option
from oncebox.cli.output import failures
from oncebox.cli.output.progress import with_progress
from oncebox.core import clock
from oncebox.errors import (
    ConfigInvalid,
    KeyFetchRequired,
    OnceboxError,
    SchemeInvalid,
    SignatureInvalid,
    UnknownScheme,
)
from oncebox.webhooks import registry
from oncebox.webhooks.explanation import explain
from oncebox.webhooks.handshakes import answer_handshake
from oncebox.webhooks.http_request import WebhookRequest
from oncebox.webhooks.scheme import FieldPath, Scheme, SchemeOptions
from oncebox.webhooks.verification import REASONS, check_scheme, verify_fresh

#: schemes that vectors call by the names used here
_SAME_NAMES = (
    "aws-sns", "discord", "elevenlabs", "github", "hook0", "linear", "mandrill", "outpost",
    "paddle", "pagerduty", "plaid", "shopify", "slack", "square", "standard-webhooks", "stripe",
    "twilio", "twitch", "typeform", "webflow", "zendesk", "zoom",
)  # fmt: skip
#: providers with a scheme of their own name here, by the format that vectors name
_PROVIDERS_BY_FORMAT = {
    "basic-auth": ("postmark",),
    "github": ("meta",),
    "github-legacy": ("bitbucket-server", "intercom"),
    "hmac-b64-header": ("hookdeck", "woocommerce"),
    "hmac-b64-sha512": ("generic-hmac",),
    "hmac-hex-header": ("calcom", "gitea", "gocardless", "gogs", "mailersend", "nylas"),
    "hmac-hex-header-sha1": ("vercel",),
    "hmac-hex-sha1": ("generic-hmac",),
    "hmac-hex-sha256": ("generic-hmac",),
    "hmac-hex-sha512": ("generic-hmac",),
    "mailgun-form": ("mailgun-inbound",),
    "mailgun-json": ("mailgun",),
    "sendgrid-ecdsa": ("sendgrid-inbound",),
    "standard-webhooks": ("openai", "resend", "svix"),
    "standard-webhooks-rawsecret": ("polar",),
    "token-header": ("gitlab",),
    "unisender-md5": ("unisender-go",),
    "zoom-crc": ("zoom",),
}
#: the scheme of each provider and format in vectors
SCHEME_NAMES: dict[tuple[str, str], str] = {
    **{(name, name): name for name in _SAME_NAMES},
    **{(name, form): name for form, names in _PROVIDERS_BY_FORMAT.items() for name in names},
    ("basic-auth", "basic-auth"): "basic",
    ("github", "github-legacy"): "github-legacy",
    ("gitlab", "standard-webhooks"): "gitlab-signing",
    ("hubspot", "hubspot-v1"): "hubspot-v1",
    ("hubspot", "hubspot-v2"): "hubspot-v2",
    ("hubspot", "hubspot-v3"): "hubspot",
    ("sendgrid-event", "sendgrid-ecdsa"): "sendgrid",
    ("shopify", "shopify-events"): "shopify-events",
    ("x-twitter", "twitter"): "x",
    ("zendesk", "zendesk-legacy-order"): "zendesk-legacy-order",
}
#: options of generic-hmac, by the format that vectors name
_HMAC_OPTIONS = {
    "hmac-b64-sha512": SchemeOptions(algorithm="sha512", encoding="base64"),
    "hmac-hex-sha1": SchemeOptions(algorithm="sha1"),
    "hmac-hex-sha256": SchemeOptions(algorithm="sha256"),
    "hmac-hex-sha512": SchemeOptions(algorithm="sha512"),
}


class Vector(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded request, and what is needed to judge it."""

    id: str
    scheme: str
    provider: str | None = None
    #: one secret, several, or a key: PEM, certificate or JWK
    secret_or_key: Any = None
    method: str | None = None
    headers: dict[str, str | list[str]] | list[tuple[str, str]] = {}
    content_type: str | None = None
    body_base64: str | None = None
    #: seconds since 1970; without, no time is judged
    now_epoch_if_needed: float | None = None
    #: seconds; without, the scheme's own
    tolerance_seconds: float | None = None
    url_if_needed: str | None = None
    signature_header: str | None = None
    topic_arn_allowlist: list[str] | None = None


class VectorVerdict(msgspec.Struct, frozen=True):
    """The verdict on a vector."""

    id: str
    #: ``valid``, ``invalid`` or ``challenge``
    verdict: str
    reason: str | None


def load_vectors(path: Path) -> list[Vector]:
    """Return the vectors of a file: a JSON list, or an object a line."""
    text = path.read_bytes()
    try:
        if text.lstrip().startswith(b"["):
            return msgspec.json.decode(text, type=list[Vector])
        lines = (line for line in text.splitlines() if line.strip())
        return [msgspec.json.decode(line, type=Vector) for line in lines]
    except msgspec.DecodeError as error:
        raise ConfigInvalid(f"{path} is not a list of vectors: {error}") from error


def judge_vector(vector: Vector) -> VectorVerdict:
    """Return whether a vector is valid and fresh, a handshake, or invalid.

    Raises: UnknownScheme; ConfigInvalid, if it is not a request.
    """
    scheme, options = _vector_scheme(vector)
    request, secrets = _vector_request(vector), _vector_secrets(vector)
    now = None if vector.now_epoch_if_needed is None else int(vector.now_epoch_if_needed * 1000)
    found = _verify_request(scheme, request, secrets, options, now)
    return VectorVerdict(vector.id, found.verdict, found.reason)


def _vector_scheme(vector: Vector) -> tuple[Scheme, SchemeOptions]:
    known = SCHEME_NAMES.get((vector.provider or "", vector.scheme))
    if known is None and vector.provider not in {None, vector.scheme}:
        raise UnknownScheme(f"{vector.id}: nothing is called {vector.provider} / {vector.scheme}")
    scheme = registry.find_scheme(known or vector.scheme)
    if vector.signature_header and scheme.header:
        scheme = replace(scheme, header=vector.signature_header)
    window = vector.tolerance_seconds
    return scheme, replace(
        _HMAC_OPTIONS.get(vector.scheme, SchemeOptions()),
        window=None if window is None else int(window),
        topics=tuple(vector.topic_arn_allowlist or ()),
    )


def _vector_request(vector: Vector) -> WebhookRequest:
    headers = vector.headers
    if isinstance(headers, dict):
        headers = [
            (name, value)
            for name, values in headers.items()
            for value in ([values] if isinstance(values, str) else values)
        ]
    if vector.content_type and all(name.lower() != "content-type" for name, _ in headers):
        headers = [*headers, ("Content-Type", vector.content_type)]
    try:
        body = base64.b64decode(vector.body_base64 or "", validate=True)
    except ValueError as error:
        raise ConfigInvalid(f"{vector.id}: the body is not base64") from error
    return WebhookRequest(
        method=vector.method or "POST",
        url=vector.url_if_needed or "",
        headers=tuple(headers),
        body=body,
    )


def _vector_secrets(vector: Vector) -> list[str]:
    given = vector.secret_or_key
    several = given if isinstance(given, list) else [given]
    return [
        each if isinstance(each, str) else json.dumps(each) for each in several if each is not None
    ]


_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_HANDSHAKE = "It is a handshake, which Oncebox answers."


class _VerifyResult(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on one request."""

    verdict: str
    reason: str | None = None
    #: the number of the matching secret, counted from one
    secret: int | None = None
    freshness: str | None = None
    signed_at: int | None = None
    explanation: list[str] | None = None


@click.command(
    "verify",
    epilog=examples(
        "oncebox hook verify --scheme github --secret env:GITHUB_SECRET "
        "--header 'X-Hub-Signature-256: sha256=…' --body-file push.json --explain",
        "oncebox hook verify --batch vectors.json --json",
    ),
)
@click.argument("stdin", required=False, type=click.Choice(["-"]), metavar="[-]")
@click.option(
    "--scheme", "name", metavar="NAME", help="Scheme; list them with: oncebox hook schemes."
)
@click.option(
    "--secret",
    "secrets",
    multiple=True,
    metavar="SECRET",
    help="Secret: env:NAME, file:PATH or the secret itself. Repeatable.",
)
@header_option
@click.option("--body", metavar="TEXT", help="Body.")
@click.option(
    "--body-file",
    type=_FILE,
    metavar="FILE",
    help="File with the raw body; - alone reads standard input.",
)
@click.option("--method", default="POST", show_default=True, metavar="METHOD", help="HTTP method.")
@click.option("--url", default="", metavar="URL", help="URL as the sender knows it.")
@click.option(
    "--now", metavar="TIME", help="Time of arrival: seconds since 1970, or a date.  [now]"
)
@click.option(
    "--option",
    "tuning",
    multiple=True,
    metavar="NAME=VALUE",
    help="An option of the scheme, such as window=600 or header=X-Sig; repeatable.",
)
@click.option("--explain", "wordy", is_flag=True, help="Explain why verification fails.")
@click.option("--batch", type=_FILE, metavar="FILE", help="Verify recorded requests instead.")
@with_context
def verify(  # noqa: PLR0913 - a request simply has this many sides
    call: CommandContext,
    *,
    stdin: str | None,
    name: str | None,
    secrets: tuple[str, ...],
    headers: list[tuple[str, str]],
    body: str | None,
    body_file: Path | None,
    method: str,
    url: str,
    now: str | None,
    tuning: tuple[str, ...],
    wordy: bool,
    batch: Path | None,
) -> int:
    """Verify that a request is authentic and fresh.

    The exit code is 1 if it is not. With --batch, one line is printed for each recorded request,
    and the exit code is 1 only if one of them names a scheme that does not exist.

    """
    if batch is not None:
        return _verify_batch(call, batch)
    if name is None:
        raise click.UsageError("name the scheme with --scheme, or recorded requests with --batch")
    scheme, options = registry.find_scheme(name), _parse_options(tuning)
    keys = [_read_secret(text) for text in secrets]
    check_scheme(scheme, keys, options)
    request = WebhookRequest(
        method=method,
        url=url,
        headers=tuple(headers),
        body=_read_body(stdin=stdin, text=body, file=body_file),
    )
    at = _parse_time(now)
    found = _verify_request(scheme, request, keys, options, at)
    if wordy:
        is_handshake = found.verdict == "challenge"
        said = (
            [_HANDSHAKE]
            if is_handshake
            else explain(scheme, request, keys, now=at, options=options)
        )
        found = replace(found, explanation=said)
    call.out.result(found, *_result_cells(found))
    if not (call.out.as_json or call.out.quiet):
        for sentence in found.explanation or ():
            call.out.line(sentence)
    return failures.ERROR if found.verdict == "invalid" else failures.OK


@click.command("schemes", epilog=examples("oncebox hook schemes --json | jq -r .name"))
@with_context
def list_schemes(call: CommandContext) -> int:
    """List the signature schemes and what they sign.

    A * marks an id or type that is not signed and could be forged.

    """
    broken: list[OnceboxError] = []
    found: list[Scheme] = []
    for name in registry.scheme_names():
        try:
            found.append(registry.find_scheme(name))
        except SchemeInvalid as error:
            broken.append(error)
    columns = ("scheme", "signature in", "signed", "algorithm", "window", "id", "type", "note")
    call.out.listing(
        found, columns, _scheme_row, record=_scheme_record, name=lambda scheme: scheme.name
    )
    for each in broken:
        failures.print_error(each, as_json=call.out.as_json)
    return failures.ERROR if broken else failures.OK


def _verify_batch(call: CommandContext, path: Path) -> int:
    failed = False
    for vector in with_progress(call.out, "judged", load_vectors(path)):
        try:
            found = judge_vector(vector)
        except OnceboxError as error:
            # One that cannot be judged is an error; it does not hide the verdicts on the others.
            failures.print_error(error, as_json=call.out.as_json)
            failed = True
            continue
        if call.out.as_json:
            call.out.record(found)
        else:
            call.out.line(found.id, found.verdict, found.reason)
    return failures.ERROR if failed else failures.OK


def _verify_request(
    scheme: Scheme,
    request: WebhookRequest,
    secrets: list[str],
    options: SchemeOptions,
    now: int | None,
) -> _VerifyResult:
    try:
        if answer_handshake(scheme, request, secrets, now=now, options=options) is not None:
            return _VerifyResult(verdict="challenge")
        verdict = verify_fresh(scheme, request, secrets, now=now, options=options)
    except SignatureInvalid as error:
        return _VerifyResult(verdict="invalid", reason=error.reason)
    except KeyFetchRequired as error:
        return _VerifyResult(verdict="invalid", reason=error.code)
    return _VerifyResult(
        verdict="valid",
        secret=verdict.secret_index + 1 or None,
        freshness=verdict.freshness,
        signed_at=verdict.signed_at,
    )


def _result_cells(found: _VerifyResult) -> list[str]:
    """Return the verdict as the cells of a line; a full explanation says the reason itself."""
    if found.reason is None:
        which = f"secret {found.secret}" if found.secret else ""
        return [each for each in (found.verdict, found.freshness, which) if each]
    if found.explanation:
        return [found.verdict, found.reason]
    return [found.verdict, found.reason, REASONS.get(found.reason, "")]


def _read_secret(text: str) -> str:
    kind, _, rest = text.partition(":")
    if kind == "env":
        value = os.environ.get(rest)
        if value is None:
            raise ConfigInvalid(f"the environment has no {rest}")
        return value
    if kind == "file":
        try:
            return Path(rest).read_text().removesuffix("\n").removesuffix("\r")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigInvalid(f"the secret in {rest} cannot be read") from error
    return text


def _read_body(*, stdin: str | None, text: str | None, file: Path | None) -> bytes:
    check_one_body(stdin, text, file, required=False)
    if file is not None:
        return file.read_bytes()
    if stdin is not None:
        return sys.stdin.buffer.read()
    return (text or "").encode("utf-8", "surrogateescape")


def _parse_time(text: str | None) -> int:
    if text is None:
        return clock.system()
    try:
        if text.replace(".", "", 1).isdecimal():
            return int(float(text) * 1000)
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError) as error:
        raise click.BadParameter(
            "a time looks like 1700000000 or 2026-01-31T12:00:00Z", param_hint="--now"
        ) from error


def _parse_options(texts: tuple[str, ...]) -> SchemeOptions:
    values: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise click.BadParameter("an option looks like name=value", param_hint="--option")
        if name in {"topics", "volatile"}:
            values.setdefault(name, []).append(value)
        else:
            values[name] = value
    try:
        return msgspec.convert(values, SchemeOptions, strict=False)
    except msgspec.ValidationError as error:
        raise click.BadParameter(str(error), param_hint="--option") from error


def _scheme_record(scheme: Scheme) -> dict[str, object]:
    return {
        "name": scheme.name,
        "title": scheme.title,
        "header": scheme.header or None,
        "content": scheme.content or None,
        "algorithm": scheme.algorithm_label,
        "encoding": scheme.encoding,
        "window": scheme.window,
        "late": scheme.late,
        "covers": list(scheme.covers),
        "id": [{"place": place.path, "signed": place.signed} for place in scheme.id],
        "id_signed": scheme.id_signed,
        "type": [{"place": place.path, "signed": place.signed} for place in scheme.type],
        "type_signed": scheme.type_signed,
        "batch": scheme.batch or None,
        "volatile": list(scheme.volatile),
        "takes": list(scheme.accepted_options),
        "note": scheme.note or None,
    }


def _scheme_row(scheme: Scheme) -> tuple[object, ...]:
    return (
        scheme.name,
        scheme.header or "the body",
        ", ".join(scheme.covers) or "nothing",
        scheme.algorithm_label,
        "" if scheme.window is None else f"{scheme.window} s",
        _place_names(scheme.id),
        _place_names(scheme.type),
        scheme.note,
    )


def _place_names(places: tuple[FieldPath, ...]) -> str:
    return ", ".join(f"{place.path}{'' if place.signed else '*'}" for place in places)
