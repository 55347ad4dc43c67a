"""A driver's errors in our own words: each has its code, and nothing of the driver leaks."""

import asyncio

import psycopg
import pytest
from psycopg import errors as pg

from oncebox import errors
from oncebox.db.postgres import translate_error


@pytest.mark.parametrize(
    ("error", "ours"),
    [
        (pg.DiskFull("x"), errors.DiskFull),
        (pg.ReadOnlySqlTransaction("x"), errors.DatabaseReadOnly),
        (pg.UndefinedTable("x"), errors.SchemaOutdated),
        (pg.UniqueViolation("x"), errors.RowRefused),
        (pg.CheckViolation("x"), errors.RowRefused),
        (pg.CharacterNotInRepertoire("x"), errors.RowRefused),
        (pg.NumericValueOutOfRange("x"), errors.RowRefused),
        (OverflowError("x"), errors.RowRefused),
        (pg.AdminShutdown("x"), errors.DatabaseUnreachable),
        (psycopg.OperationalError("x"), errors.DatabaseUnreachable),
    ],
)
def test_each_error_of_the_driver_has_one_of_ours(
    error: Exception, ours: type[errors.StoreError]
) -> None:
    assert type(translate_error(error)) is ours


@pytest.mark.parametrize(
    "error",
    [
        errors.LeaseLost("x"),
        pg.DeadlockDetected("x"),
        pg.SerializationFailure("x"),
        ZeroDivisionError("x"),
        asyncio.CancelledError(),
        KeyboardInterrupt(),
    ],
)
def test_what_is_ours_or_the_users_or_repeated_inside_stays_as_it_is(error: BaseException) -> None:
    assert translate_error(error) is error


def test_the_drivers_words_are_not_repeated() -> None:
    """They may quote the row."""
    assert "secret" not in str(translate_error(pg.UniqueViolation("Key (key)=(secret) exists")))
