"""Configurations of transports: kept whole, shown without secrets, refused when they are wrong."""

import base64
from collections.abc import Mapping

import dkim
import pytest

from oncebox.errors import ConfigInvalid
from oncebox.mail.dkim_sign import published, read_key
from oncebox.model.outcome import Accepted
from oncebox.send_errors import SigningInvalid
from oncebox.testing.smtp import ScriptedSmtp
from oncebox.transport.email import config
from oncebox.transport.email.config import (
    DkimKey,
    LogConfig,
    ResendConfig,
    SmtpConfig,
    TransportConfig,
)
from oncebox.transport.email.log import Log
from oncebox.transport.email.relay import Relay, Security
from tests.transport.handover import Marks, parcel

_SEED = base64.b64encode(bytes(range(32))).decode()
_SECRET = "s3cret"
_MAIL = (
    b"From: Ann <ann@example.com>\r\nTo: bob@example.net\r\nSubject: x\r\n"
    b"Message-ID: <one@example.com>\r\nDate: Mon, 16 Nov 2026 10:00:00 +0000\r\n\r\nhello\r\n"
)
_RELAY = Relay(host="relay.example.com", username="ann", password=_SECRET)


def _signed(domain: str, relay: Relay = _RELAY) -> SmtpConfig:
    keys = tuple(DkimKey(domain=domain, selector=f"s{n}", key=_SEED) for n in range(2))
    return SmtpConfig(relay=relay, dkim=keys)


@pytest.mark.parametrize(
    "given",
    [_signed("example.com"), ResendConfig(api_key=_SECRET, source="resend"), LogConfig()],
    ids=["smtp", "resend", "log"],
)
def test_a_configuration_comes_back_as_it_was_and_shows_no_secret(given: TransportConfig) -> None:
    kept = config.written(given)
    assert config.read(kept) == given
    assert _SECRET not in repr(given)
    assert _SEED not in repr(given)


def test_without_a_configuration_nothing_is_sent() -> None:
    assert isinstance(config.opened(config.read(None)), Log)


@pytest.mark.parametrize("wrong", [b"", b"{}", b'{"type":"fax"}', b'{"type":"smtp","pass":"x"}'])
def test_a_configuration_that_cannot_be_read_is_not_quoted(wrong: bytes) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        config.read(wrong)
    assert refused.value.__cause__ is None


@pytest.mark.parametrize(
    "wrong",
    [
        SmtpConfig(relay=Relay(host="")),
        SmtpConfig(relay=_RELAY, ca="no certificate"),
        _signed("not a domain"),
        SmtpConfig(relay=_RELAY, dkim=(DkimKey(domain="example.com", selector="_", key=_SEED),)),
    ],
    ids=["host", "ca", "domain", "selector"],
)
def test_a_way_that_cannot_work_is_refused_when_it_is_opened(wrong: SmtpConfig) -> None:
    with pytest.raises(ConfigInvalid):
        config.opened(wrong)


def test_a_key_that_cannot_be_read_is_refused() -> None:
    wrong = SmtpConfig(relay=_RELAY, dkim=(DkimKey(domain="a.example", selector="s", key="x"),))
    with pytest.raises(SigningInvalid):
        config.opened(wrong)


@pytest.mark.parametrize(
    ("domain", "signatures"), [("example.com", 2), ("mail.example.com", 0), ("other.example", 0)]
)
async def test_mail_is_signed_by_the_keys_of_its_domain(
    server: ScriptedSmtp, domain: str, signatures: int
) -> None:
    relay = Relay(host=server.host, port=server.port, security=Security.NONE)
    way = config.opened(_signed(domain, relay))
    assert isinstance(await way.send(parcel(message=_MAIL), Marks()), Accepted)
    await way.close()

    (taken,) = server.accepted
    assert taken.message.endswith(_MAIL)
    assert taken.message.count(b"DKIM-Signature:") == signatures
    record = published(read_key(_SEED.encode())).encode()

    def look_up(_name: object, timeout: float = 5) -> bytes:
        return record

    verified: Mapping[int, bool] = {
        at: dkim.DKIM(taken.message).verify(at, dnsfunc=look_up) for at in range(signatures)
    }
    assert all(verified.values())
