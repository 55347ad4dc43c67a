"""Handshakes: registrations are answered, and nobody gets a signature out of an answer."""

import base64
import json
from typing import Any

import pytest

from oncebox.errors import KeyFetchRequired
from oncebox.webhooks import registry
from oncebox.webhooks.handshakes import answer_handshake
from oncebox.webhooks.http_request import WebhookRequest
from oncebox.webhooks.scheme import HandshakeReply, SchemeOptions, SubscriptionConfirmation
from tests.webhooks import senders
from tests.webhooks.senders import NOW, SECONDS, SECRET, Sent, mac


def ask(sent: Sent) -> HandshakeReply | SubscriptionConfirmation | None:
    return answer_handshake(
        sent.table, sent.request, sent.secrets, now=NOW, options=sent.options, keys=sent.keys
    )


def get(
    scheme: str, query: str, **options: Any
) -> HandshakeReply | SubscriptionConfirmation | None:
    request = WebhookRequest(method="GET", url=f"https://x.test/in/a?{query}")
    return answer_handshake(
        registry.find_scheme(scheme), request, [SECRET], now=NOW, options=SchemeOptions(**options)
    )


def signed(name: str, content: object) -> Sent:
    """Return a request of Slack's or Zoom's with another body, rightly signed."""
    sent = senders.SENDERS[name]()
    body = json.dumps(content).encode()
    value = mac(b"v0:" + SECONDS.encode() + b":" + body).hex()
    return sent.but(body=body).signed_as(f"v0={value}")


@pytest.mark.parametrize("scheme", registry.BUILT_IN_SCHEMES)
def test_a_look_at_the_address_is_answered(scheme: str) -> None:
    for method in ("HEAD", "head"):
        reply = answer_handshake(
            registry.find_scheme(scheme), WebhookRequest(method=method), [], now=NOW
        )
        assert isinstance(reply, HandshakeReply)
        assert (reply.status, reply.body) == (200, b"")


@pytest.mark.parametrize("name", senders.SENDERS)
def test_an_event_is_no_handshake(name: str) -> None:
    assert ask(senders.SENDERS[name]()) is None


def test_slack_hears_its_challenge() -> None:
    sent = signed("slack", {"type": "url_verification", "challenge": "3eZbrw1a", "token": "x"})
    reply = ask(sent)

    assert isinstance(reply, HandshakeReply)
    assert reply.body == b"3eZbrw1a"
    assert ("content-type", "text/plain; charset=utf-8") in reply.headers
    assert ask(sent.signed_as("v0=00")) is None
    assert ask(sent.but(headers={})) is None


@pytest.mark.parametrize("challenge", ["<script>", "a b", "", "x" * 257, 'a"b', "a\n"])
def test_only_plain_words_are_echoed(challenge: str) -> None:
    assert ask(signed("slack", {"type": "url_verification", "challenge": challenge})) is None


ZOOM = {"event": "endpoint.url_validation", "payload": {"plainToken": "qgg8vlvZRS6UYooatFL8Aw"}}


def test_zoom_hears_its_token_hashed() -> None:
    sent = signed("zoom", ZOOM)
    expected = {
        "plainToken": "qgg8vlvZRS6UYooatFL8Aw",
        "encryptedToken": mac(b"qgg8vlvZRS6UYooatFL8Aw").hex(),
    }

    for asked in (sent, sent.but(headers={})):
        reply = ask(asked)
        assert isinstance(reply, HandshakeReply)
        assert json.loads(reply.body) == expected
    assert ask(sent.signed_as("v0=00")) is None
    assert ask(sent.but(secrets=("",), headers={})) is None


def test_zooms_answer_is_no_signature_of_an_event() -> None:
    """Whoever could have `v0:time:body` hashed could sign whatever he likes."""
    for token in (f'v0:{SECONDS}:{{"event":"x"}}', "v0:1:{}", "{}", "a:b", "", "é"):
        payload = {"plainToken": token}
        unsigned = signed("zoom", ZOOM | {"payload": payload}).but(headers={})
        assert ask(unsigned) is None


def test_x_hears_its_token_hashed() -> None:
    reply = get("x", "crc_token=abc123&nonce=1")
    digest = base64.b64encode(mac(b"abc123")).decode()

    assert isinstance(reply, HandshakeReply)
    assert json.loads(reply.body) == {"response_token": f"sha256={digest}"}
    assert get("x", "") is None


def test_xs_answer_is_no_signature_of_an_event() -> None:
    for token in ("%7B%22tweet%22%3A1%7D", "%5B%5D", "%22a%22", "a%20b"):
        assert get("x", f"crc_token={token}") is None


def test_meta_hears_its_challenge_if_it_knows_the_token() -> None:
    query = "hub.mode=subscribe&hub.verify_token=t0ken&hub.challenge=1158201444"
    reply = get("meta", query, verify_token="t0ken")

    assert isinstance(reply, HandshakeReply)
    assert reply.body == b"1158201444"
    assert get("meta", query, verify_token="other") is None
    assert get("meta", query) is None
    assert get("meta", "hub.mode=subscribe&hub.verify_token=&hub.challenge=1") is None
    assert get("meta", query.replace("subscribe", "x"), verify_token="t0ken") is None


def test_nylas_hears_its_challenge() -> None:
    reply = get("nylas", "challenge=bc609b38-c81f")

    assert isinstance(reply, HandshakeReply)
    assert reply.body == b"bc609b38-c81f"
    assert get("nylas", "challenge=%3Cb%3E") is None


def discord(content: object) -> Sent:
    sent = senders.discord()
    body = json.dumps(content).encode()
    signature = senders._ed25519().sign(SECONDS.encode() + body).hex()
    return sent.but(body=body).signed_as(signature)


def test_discord_is_answered_only_if_the_signature_holds() -> None:
    """It sends bad ones on purpose, and takes an address away that accepts them."""
    ping = ask(discord({"type": 1, "id": "1"}))
    assert isinstance(ping, HandshakeReply)
    assert (ping.status, json.loads(ping.body)) == (200, {"type": 1})

    event = ask(discord({"version": 1, "application_id": "1", "type": 0}))
    assert isinstance(event, HandshakeReply)
    assert (event.status, event.body) == (204, b"")
    assert ask(discord({"type": 1}).signed_as("00" * 64)) is None
    assert ask(discord({"type": 2, "id": "1"})) is None


def test_twitch_hears_its_challenge_if_it_signed_it() -> None:
    sent = senders.twitch()
    body = b'{"challenge":"pogchamp-kappa"}'
    headers = sent.headers | {"Twitch-Eventsub-Message-Type": "webhook_callback_verification"}
    message = "e76c6bd4" + headers["Twitch-Eventsub-Message-Timestamp"]
    right = sent.but(body=body, headers=headers).signed_as(
        f"sha256={mac(message.encode() + body).hex()}"
    )
    reply = ask(right)

    assert isinstance(reply, HandshakeReply)
    assert reply.body == b"pogchamp-kappa"
    assert ask(right.signed_as("sha256=00")) is None


def test_unisender_may_look() -> None:
    assert get("unisender-go", "") == HandshakeReply()


def subscription(**changes: str | None) -> Sent:
    return senders.sns(
        Type="SubscriptionConfirmation",
        Token="tok+en/1",
        SubscribeURL="https://evil.example.net/?confirm",
        Subject=None,
        **changes,
    )


def test_an_allowed_topic_is_confirmed_at_an_address_of_our_making() -> None:
    assert ask(subscription()) == SubscriptionConfirmation(
        "https://sns.us-east-1.amazonaws.com/?Action=ConfirmSubscription"
        "&TopicArn=arn%3Aaws%3Asns%3Aus-east-1%3A123456789012%3Aorders&Token=tok%2Ben%2F1"
    )


def test_another_topic_is_not_confirmed() -> None:
    assert ask(subscription().but(options=SchemeOptions())) is None
    other = "arn:aws:sns:us-east-1:210987654321:orders"
    assert ask(subscription(TopicArn=other)) is None
    for odd in ("arn:aws:sns:evil.example.net/:123456789012:x", "x"):
        sent = subscription(TopicArn=odd)
        assert ask(sent.but(options=SchemeOptions(topics=(odd,)))) is None


def test_a_forged_subscription_is_not_confirmed() -> None:
    sent = subscription()

    assert ask(sent.but(body=sent.body.replace(b"tok+en", b"tok-en"))) is None
    with pytest.raises(KeyFetchRequired):
        ask(sent.but(secrets=()))
