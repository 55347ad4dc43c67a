"""``oncebox.verify``: one call for programs that receive webhooks themselves."""

import pytest

import oncebox
from oncebox.core import clock
from oncebox.errors import ConfigInvalid, SignatureInvalid, UnknownScheme
from oncebox.webhooks.signing import sign
from tests.webhooks.senders import BODY, NOW, SENDERS, WHSEC


def test_what_oncebox_signs_is_accepted_by_default() -> None:
    headers = sign(WHSEC, "msg_1", clock.system(), BODY)

    assert oncebox.verify(headers, BODY, WHSEC).secret_index == 0
    assert oncebox.verify(list(headers.items()), BODY, ["whsec_AAAA", WHSEC]).secret_index == 1


def test_any_scheme_may_be_named() -> None:
    for name in ("github", "stripe", "twilio", "slack"):
        sent = SENDERS[name]()
        verdict = oncebox.verify(
            sent.headers, sent.body, sent.secrets, scheme=name, url=sent.url, now=NOW
        )
        assert verdict.secret_index == 0


def test_another_body_is_refused() -> None:
    headers = sign(WHSEC, "msg_1", NOW, BODY)

    with pytest.raises(SignatureInvalid, match="signature_mismatch"):
        oncebox.verify(headers, BODY + b" ", WHSEC, now=NOW)


def test_what_is_old_is_refused() -> None:
    headers = sign(WHSEC, "msg_1", NOW, BODY)

    with pytest.raises(SignatureInvalid, match="stale"):
        oncebox.verify(headers, BODY, WHSEC)
    oncebox.verify(headers, BODY, WHSEC, now=NOW + 900_000, options={"window": 900})


def test_what_can_never_work_is_told_apart() -> None:
    with pytest.raises(ConfigInvalid, match="needs a secret"):
        oncebox.verify({}, BODY, "")
    with pytest.raises(UnknownScheme):
        oncebox.verify({}, BODY, "s", scheme="no-such")
    with pytest.raises(ConfigInvalid):
        oncebox.verify({}, BODY, "s", options={"no_such": 1})
    with pytest.raises(TypeError, match="bytes"):
        oncebox.verify({}, "text", "s")  # type: ignore[arg-type]
