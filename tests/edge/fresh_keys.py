"""A hook for schemathesis: every wish has an Idempotency-Key of its own, as the API asks for."""

from typing import Any
from uuid import uuid4

import schemathesis

NAME = "Idempotency-Key"


@schemathesis.hook
def before_call(_context: Any, case: Any, _kwargs: Any) -> None:
    """Replace a good key; one that is missing or wrong on purpose stays so."""
    meta = case.meta
    good = meta is None or "negative" not in str(meta.generation.mode).lower()
    if good and case.headers and NAME in case.headers:
        case.headers[NAME] = str(uuid4())
