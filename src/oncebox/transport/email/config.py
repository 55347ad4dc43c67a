"""Configurations of transports: what is sealed of a way out, and the way that is opened from it."""

import ssl
from typing import Annotated

import msgspec

from oncebox.errors import ConfigInvalid
from oncebox.mail.dkim_sign import SigningKey, read_key
from oncebox.transport.email.log import Log
from oncebox.transport.email.parcel import Transport
from oncebox.transport.email.relay import Relay, check
from oncebox.transport.email.resend import Resend, ResendConfig
from oncebox.transport.email.signing import Signed, Signer
from oncebox.transport.email.smtp import ANSWER_WITHIN, GREYLISTED_FOR, Smtp

__all__ = [
    "DkimKey",
    "LogConfig",
    "ResendConfig",
    "SmtpConfig",
    "TransportConfig",
    "kind",
    "opened",
    "read",
    "written",
]

_LONGEST_WAIT = 86_400_000


class DkimKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key that signs mail from one domain and those below it."""

    domain: str
    selector: str
    #: PEM without a password, or the base64 of an Ed25519 seed
    key: str

    def __repr__(self) -> str:
        """Say where its public half is."""
        return f"DkimKey({self.selector}._domainkey.{self.domain})"


class SmtpConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="smtp"):
    """A mail server that takes mail on."""

    relay: Relay
    dkim: tuple[DkimKey, ...] = ()
    #: certificates in PEM that are trusted beside the system's
    ca: str = ""
    #: seconds for the answer to the dot; less than RFC 5321 asks for makes doubt
    answer_within: Annotated[float, msgspec.Meta(gt=0, le=3_600)] = ANSWER_WITHIN
    #: milliseconds after which a server that greylists is asked again
    greylisted_for: Annotated[int, msgspec.Meta(ge=0, le=_LONGEST_WAIT)] = GREYLISTED_FOR

    def __repr__(self) -> str:
        """Leave out who logs in, and the keys."""
        return f"SmtpConfig({self.relay!r})"


class LogConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="log"):
    """Takes every mail and sends none."""


TransportConfig = SmtpConfig | ResendConfig | LogConfig

_DECODER = msgspec.json.Decoder(TransportConfig)


def written(config: TransportConfig) -> bytes:
    """Return a configuration as it is sealed."""
    return msgspec.json.encode(config)


def read(data: bytes | None) -> TransportConfig:
    """Return a configuration from what was sealed; nothing is ``log``, which needs none.

    Raises: ConfigInvalid.
    """
    if data is None:
        return LogConfig()
    try:
        found: TransportConfig = _DECODER.decode(data)
    except msgspec.MsgspecError:
        # What went wrong there may quote a password.
        message = "the configuration of the transport cannot be read; write it anew"
        raise ConfigInvalid(message) from None
    return found


def kind(config: TransportConfig) -> str:
    """Return the kind of a transport, as its row and the table of capabilities name it."""
    return str(config.__struct_config__.tag)


def opened(config: TransportConfig) -> Transport:
    """Return the way out of a configuration; it connects to nobody yet.

    Raises: ConfigInvalid, SigningInvalid.
    """
    if isinstance(config, SmtpConfig):
        return _smtp(config)
    if isinstance(config, ResendConfig):
        return Resend(config)
    return Log()


def _smtp(config: SmtpConfig) -> Transport:
    check(config.relay)
    way = Smtp(
        config.relay,
        tls=_trust(config.ca),
        answer_within=config.answer_within,
        greylisted_for=config.greylisted_for,
    )
    return Signed(way, [_signer(each) for each in config.dkim]) if config.dkim else way


def _trust(ca: str) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if ca:
        try:
            context.load_verify_locations(cadata=ca)
        except (ssl.SSLError, ValueError):
            message = "the certificates to trust cannot be read; give them in PEM"
            raise ConfigInvalid(message) from None
    return context


def _signer(dkim: DkimKey) -> Signer:
    key: SigningKey = read_key(dkim.key.encode())
    return Signer(domain=dkim.domain, selector=dkim.selector, key=key)
