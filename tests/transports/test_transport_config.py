"""Configurations of transports: kept whole, shown without secrets, refused when they are wrong."""

import base64
from collections.abc import Mapping

import dkim
import pytest

from oncebox.errors import ConfigInvalid
from oncebox.errors.sends import SigningInvalid
from oncebox.mail.auth.dkim_sign import read_signing_key
from oncebox.model.sends.transports import SendAccepted
from oncebox.testing.smtp import ScriptedSmtp
from oncebox.transports import transport_config
from oncebox.transports.dkim_signing import DkimKey
from oncebox.transports.resend import ResendConfig
from oncebox.transports.smtp_connection import Relay, RelaySecurity
from oncebox.transports.transport_config import (
    LogConfig,
    LogTransport,
    SmtpConfig,
    TransportConfig,
)
from tests.mail.signing import dkim_dns_record
from tests.transports.handover import Marks, parcel

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
    kept = transport_config.encode_config(given)
    assert transport_config.decode_config(kept) == given
    assert _SECRET not in repr(given)
    assert _SEED not in repr(given)


def test_without_a_configuration_nothing_is_sent() -> None:
    assert isinstance(
        transport_config.open_transport(transport_config.decode_config(None)), LogTransport
    )


@pytest.mark.parametrize("wrong", [b"", b"{}", b'{"type":"fax"}', b'{"type":"smtp","pass":"x"}'])
def test_a_configuration_that_cannot_be_read_is_not_quoted(wrong: bytes) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        transport_config.decode_config(wrong)
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
        transport_config.open_transport(wrong)


def test_a_key_that_cannot_be_read_is_refused() -> None:
    wrong = SmtpConfig(relay=_RELAY, dkim=(DkimKey(domain="a.example", selector="s", key="x"),))
    with pytest.raises(SigningInvalid):
        transport_config.open_transport(wrong)


@pytest.mark.parametrize(
    ("domain", "signatures"), [("example.com", 2), ("mail.example.com", 0), ("other.example", 0)]
)
async def test_mail_is_signed_by_the_keys_of_its_domain(
    server: ScriptedSmtp, domain: str, signatures: int
) -> None:
    relay = Relay(host=server.host, port=server.port, security=RelaySecurity.NONE)
    way = transport_config.open_transport(_signed(domain, relay))
    assert isinstance(await way.send(parcel(message=_MAIL), Marks()), SendAccepted)
    await way.close()

    (taken,) = server.accepted
    assert taken.message.endswith(_MAIL)
    assert taken.message.count(b"DKIM-Signature:") == signatures
    record = dkim_dns_record(read_signing_key(_SEED.encode())).encode()

    def look_up(_name: object, timeout: float = 5) -> bytes:
        return record

    verified: Mapping[int, bool] = {
        at: dkim.DKIM(taken.message).verify(at, dnsfunc=look_up) for at in range(signatures)
    }
    assert all(verified.values())
