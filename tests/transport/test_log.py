"""The log takes everything and sends nothing; the table says what each way promises."""

import re

from oncebox.model.outcome import Accepted
from oncebox.transport.email.capability import ALL, Idempotency
from oncebox.transport.email.log import Log
from oncebox.transport.email.parcel import Transport
from tests.transport.handover import Marks, parcel


async def test_the_log_goes_nowhere_and_needs_no_marker() -> None:
    way, marks = Log(), Marks()
    is_transport: Transport = way

    assert await is_transport.send(parcel(), marks) == Accepted()
    assert (marks.asked, way.capability.delivers) == (0, False)
    await way.close()


def test_every_way_with_keys_says_how_long_and_in_which_form() -> None:
    for name, each in ALL.items():
        has_keys = each.idempotency in {Idempotency.REPLAY, Idempotency.REJECT}
        assert each.name == name
        assert has_keys == bool(each.window_ms) == bool(each.key_pattern) == bool(each.key_longest)
        assert not has_keys or re.fullmatch(each.key_pattern, "a" * 52)
        assert not has_keys or not re.fullmatch(each.key_pattern, "a" * (each.key_longest + 1))
