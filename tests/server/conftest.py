"""An API to call, on each database in turn."""

from collections.abc import AsyncIterator

import pytest

from tests.support.api import Api, calling
from tests.support.databases import Place


@pytest.fixture
async def api(place: Place) -> AsyncIterator[Api]:
    """The API of a fresh box."""
    async with calling(place) as opened:
        yield opened
