"""Signing: what goes out verifies, by one secret or by several side by side."""

import pytest

from oncebox.errors import SignatureInvalid
from oncebox.webhooks.signing import sign
from tests.webhooks.senders import BODY, NOW, WHSEC, Sent, b64, standard_public

PRIVATE = "whsk_" + b64(bytes(range(32)))


def sent(headers: dict[str, str], *secrets: str) -> Sent:
    return Sent("standard-webhooks", headers, secrets=secrets, signature="webhook-signature")


def test_the_published_example_comes_out() -> None:
    headers = sign(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        1_614_265_330_999,
        b'{"test": 2432232314}',
    )

    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


@pytest.mark.parametrize("private", [PRIVATE, PRIVATE + b64(bytes(32))], ids=["seed", "both"])
def test_several_secrets_sign_side_by_side(private: str) -> None:
    private = "whsk_" + b64(bytes(range(32)) + (b"" if private == PRIVATE else bytes(32)))
    other = "whsec_" + b64(b"another key, thirty bytes long")
    headers = sign([other, WHSEC, private], "msg_1", NOW, BODY)
    (public,) = standard_public().secrets

    assert [part.split(",")[0] for part in headers["webhook-signature"].split(" ")] == [
        "v1", "v1", "v1a",
    ]  # fmt: skip
    for secret in (other, WHSEC, public):
        assert sent(headers, secret).verify_strictly().secret_index == 0


@pytest.mark.parametrize("secret", ["", " ", "whsec_", "whsec_!", "whsk_", "whsk_AAAA", []])
def test_what_cannot_sign_says_so(secret: str | list[str]) -> None:
    with pytest.raises(SignatureInvalid) as caught:
        sign(secret, "msg_1", NOW, BODY)

    assert caught.value.reason in {"missing_secret", "unusable_secret"}
