"""Standard Webhooks, which many providers share; they differ in names and in their secrets."""

from msgspec.structs import replace

from oncebox.signature.odd import standard
from oncebox.signature.scheme import Scheme, signed

STANDARD = Scheme(
    name="standard-webhooks",
    title="Standard Webhooks",
    header="webhook-signature",
    content="{id}.{timestamp}.{body}",
    algorithm="HMAC-SHA-256 or Ed25519",
    encoding="base64",
    key="whsec",
    window=300,
    covers=("id", "time", "body"),
    id=(signed("standard:id"),),
    type=(signed("$.type"),),
    verifier=standard.verify,
)

SVIX = replace(STANDARD, name="svix", title="Svix", header="svix-signature")
