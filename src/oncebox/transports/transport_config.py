"""Transport configurations, stored encrypted; opening a transport from one; log transport."""

from typing import Annotated

import msgspec

from oncebox.core.connecting import client_tls
from oncebox.errors import ConfigInvalid
from oncebox.model.inboxes.addresses import domain_key
from oncebox.model.sends.transports import SendAccepted, SendOutcome
from oncebox.transports.dkim_signing import DkimKey, DkimSigningTransport
from oncebox.transports.resend import ResendConfig, ResendTransport
from oncebox.transports.smtp import FINAL_REPLY_TIMEOUT, GREYLIST_RETRY_MS, SmtpTransport
from oncebox.transports.smtp_connection import Relay, check_relay
from oncebox.transports.transport import (
    CAPABILITIES,
    Capability,
    HandoverMarker,
    MailTransport,
    OutgoingMail,
)


class LogTransport:
    """Accepts every mail and delivers none; the ledger stores it anyway."""

    capability: Capability = CAPABILITIES["log"]

    async def send(
        self, mail: OutgoingMail, before_point_of_no_return: HandoverMarker
    ) -> SendOutcome:
        """Report acceptance without delivery (``capability.delivers`` is false).

        There is no point of no return, so no marker is committed: the settlement makes the
        marker's checks. See docs/decisions/0031-use-a-marker-before-the-point-of-no-return.md.
        """
        del mail, before_point_of_no_return
        return SendAccepted()

    async def probe(self, deadline: float) -> None:
        """Report no failure: nothing is connected."""
        del deadline

    async def close(self) -> None:
        """Do nothing: nothing is open."""


class SmtpConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="smtp"):
    """A mail relay."""

    relay: Relay
    dkim: tuple[DkimKey, ...] = ()
    #: PEM certificates trusted in addition to the system's
    ca: str = ""
    #: seconds for the reply to the dot; less than RFC 5321 requires causes unknown outcomes
    answer_within: Annotated[float, msgspec.Meta(gt=0, le=3_600)] = FINAL_REPLY_TIMEOUT
    #: milliseconds until a greylisting server is tried again
    greylisted_for: Annotated[int, msgspec.Meta(ge=0, le=86_400_000)] = GREYLIST_RETRY_MS

    def __repr__(self) -> str:
        return f"SmtpConfig({self.relay!r})"


class LogConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="log"):
    """Accepts every mail and sends none."""


TransportConfig = SmtpConfig | ResendConfig | LogConfig

_CONFIG_DECODER = msgspec.json.Decoder(TransportConfig)


def encode_config(config: TransportConfig) -> bytes:
    """Return a configuration as it is encrypted."""
    return msgspec.json.encode(config)


def decode_config(data: bytes | None) -> TransportConfig:
    """Return a decrypted configuration; None is ``log``, which needs none.

    Raises: ConfigInvalid.
    """
    if data is None:
        return LogConfig()
    try:
        found: TransportConfig = _CONFIG_DECODER.decode(data)
    except msgspec.MsgspecError:
        # The decoder's message may quote a password.
        raise ConfigInvalid(
            "the configuration of the transport is invalid; write it again with: "
            "oncebox transport change"
        ) from None
    return found


def transport_kind(config: TransportConfig) -> str:
    """Return the kind of a transport, as in its row and in ``CAPABILITIES``."""
    return str(config.__struct_config__.tag)


def signing_domains(config: TransportConfig) -> tuple[str, ...]:
    """Return the domains that a transport has DKIM keys for."""
    if not isinstance(config, SmtpConfig):
        return ()
    return tuple(sorted({domain_key(each.domain) for each in config.dkim}))


def open_transport(config: TransportConfig) -> MailTransport:
    """Return the transport of a configuration; nothing is connected yet.

    Raises: ConfigInvalid, SigningInvalid.
    """
    if isinstance(config, SmtpConfig):
        return _open_smtp(config)
    if isinstance(config, ResendConfig):
        return ResendTransport(config)
    return LogTransport()


def _open_smtp(config: SmtpConfig) -> MailTransport:
    check_relay(config.relay)
    transport = SmtpTransport(
        config.relay,
        tls=client_tls(config.ca),
        answer_within=config.answer_within,
        greylisted_for=config.greylisted_for,
    )
    return DkimSigningTransport(transport, config.dkim) if config.dkim else transport
