"""Payments and shops: Stripe, Paddle, Square, GoCardless, Plaid, Polar, Shopify, WooCommerce."""

from msgspec.structs import replace

from oncebox.signature.odd import plaid
from oncebox.signature.providers.standard import STANDARD
from oncebox.signature.scheme import Scheme, signed, unsigned

SCHEMES = (
    Scheme(
        name="stripe",
        title="Stripe",
        header="Stripe-Signature",
        separator=",",
        marks=(("v1=", "sha256"),),
        stamp="t=",
        content="{timestamp}.{body}",
        window=300,
        covers=("time", "body"),
        id=(signed("$.id"),),
        type=(signed("$.type"),),
        volatile=("$.pending_webhooks",),
    ),
    Scheme(
        name="paddle",
        title="Paddle Billing",
        header="Paddle-Signature",
        separator=";",
        marks=(("h1=", "sha256"),),
        stamp="ts=",
        content="{timestamp}:{body}",
        window=5,
        late="run",
        covers=("time", "body"),
        id=(signed("$.event_id"),),
        type=(signed("$.event_type"),),
        note="five seconds are soon over, so what is late runs",
    ),
    Scheme(
        name="square",
        title="Square",
        header="X-Square-HmacSha256-Signature",
        content="{url}{body}",
        encoding="base64",
        covers=("address", "body"),
        id=(signed("$.event_id"),),
        type=(signed("$.type"),),
        takes=("public_url",),
    ),
    Scheme(
        name="gocardless",
        title="GoCardless",
        header="Webhook-Signature",
        id=(signed("$.id"),),
        type=(signed("$.resource_type+$.action"),),
        batch="$.events[*]",
    ),
    Scheme(
        name="plaid",
        title="Plaid",
        header="Plaid-Verification",
        content="JWT with the SHA-256 of {body}",
        algorithm="ES256",
        encoding="JWT",
        window=300,
        covers=("time", "body"),
        type=(signed("$.webhook_type?+$.webhook_code"),),
        keyless=True,
        verifier=plaid.verify,
        note="the key is fetched by its id, or configured as a JWK",
    ),
    replace(
        STANDARD,
        name="polar",
        title="Polar",
        key="utf8",
        note="Standard Webhooks, but the secret is used as it is written",
    ),
    Scheme(
        name="shopify",
        title="Shopify",
        header="X-Shopify-Hmac-Sha256",
        encoding="base64",
        # One action of a merchant gives several topics the same event id.
        id=(
            unsigned("header:X-Shopify-Event-Id+header:X-Shopify-Topic?"),
            unsigned("header:X-Shopify-Webhook-Id"),
        ),
        type=(unsigned("header:X-Shopify-Topic"),),
    ),
    Scheme(
        name="shopify-events",
        title="Shopify, the newer headers",
        header="Shopify-Hmac-Sha256",
        encoding="base64",
        id=(
            unsigned("header:Shopify-Event-Id+header:Shopify-Topic?+header:Shopify-Action?"),
            unsigned("header:Shopify-Webhook-Id"),
        ),
        type=(unsigned("header:Shopify-Topic+header:Shopify-Action?"),),
    ),
    Scheme(
        name="woocommerce",
        title="WooCommerce",
        header="X-WC-Webhook-Signature",
        encoding="base64",
        id=(unsigned("header:X-WC-Webhook-Delivery-ID"),),
        type=(unsigned("header:X-WC-Webhook-Topic"),),
    ),
)
