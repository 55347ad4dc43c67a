"""The log takes everything and sends nothing; the table says what each way promises."""

import re

from oncebox.model.sends.transports import SendAccepted
from oncebox.transports.transport import CAPABILITIES, Idempotency, MailTransport
from oncebox.transports.transport_config import LogTransport
from tests.transports.handover import Marks, parcel


async def test_the_log_goes_nowhere_and_needs_no_marker() -> None:
    way, marks = LogTransport(), Marks()
    is_transport: MailTransport = way

    assert await is_transport.send(parcel(), marks) == SendAccepted()
    assert (marks.asked, way.capability.delivers) == (0, False)
    await way.close()


def test_every_way_with_keys_says_how_long_and_in_which_form() -> None:
    for name, each in CAPABILITIES.items():
        has_keys = each.idempotency in {Idempotency.REPLAY, Idempotency.REJECT}
        assert each.name == name
        assert (
            has_keys == bool(each.window_ms) == bool(each.key_pattern) == bool(each.max_key_length)
        )
        assert not has_keys or re.fullmatch(each.key_pattern, "a" * 52)
        assert not has_keys or not re.fullmatch(each.key_pattern, "a" * (each.max_key_length + 1))
