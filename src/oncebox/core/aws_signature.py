"""AWS Signature Version 4 for GET requests, such as S3 GetObject."""

import hashlib
import hmac
import re
from datetime import UTC, datetime
from urllib.parse import quote, urlsplit

import msgspec

_ALGORITHM = "AWS4-HMAC-SHA256"
_EMPTY = hashlib.sha256(b"").hexdigest()
_SPACES = re.compile(r" +")


class AwsCredentials(msgspec.Struct, frozen=True):
    """An access key; printed without its secret."""

    key_id: str
    secret: str
    #: of temporary credentials
    session: str = ""

    def __repr__(self) -> str:
        return f"AwsCredentials({self.key_id!r})"


def object_path(*parts: str) -> str:
    """Return a path for a URL, each character escaped as AWS expects it."""
    return "".join(f"/{quote(each, safe='/-._~')}" for each in parts)


def sign_get(
    url: str,
    credentials: AwsCredentials,
    *,
    region: str,
    service: str,
    now: int,
    headers: dict[str, str] | None = None,
) -> dict[str, str]:
    """Return the headers of a signed GET; ``now`` is in milliseconds, the path is escaped."""
    parts = urlsplit(url)
    at = datetime.fromtimestamp(now / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")
    signed = {
        "host": parts.netloc,
        "x-amz-content-sha256": _EMPTY,
        "x-amz-date": at,
        **({"x-amz-security-token": credentials.session} if credentials.session else {}),
        **(headers or {}),
    }
    names = ";".join(sorted(signed))
    lines = "".join(f"{name}:{_SPACES.sub(' ', signed[name].strip())}\n" for name in sorted(signed))
    request = "\n".join(("GET", parts.path or "/", parts.query, lines, names, _EMPTY))
    scope = f"{at[:8]}/{region}/{service}/aws4_request"
    hashed = hashlib.sha256(request.encode()).hexdigest()
    text = f"{_ALGORITHM}\n{at}\n{scope}\n{hashed}"
    key = f"AWS4{credentials.secret}".encode()
    for each in (at[:8], region, service, "aws4_request"):
        key = hmac.digest(key, each.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    authorization = (
        f"{_ALGORITHM} Credential={credentials.key_id}/{scope},SignedHeaders={names},"
        f"Signature={signature}"
    )
    return {**signed, "authorization": authorization}
