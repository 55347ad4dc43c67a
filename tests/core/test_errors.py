"""Errors: one tree, stable codes, and a word on whether to try again."""

import re

from oncebox import errors
from oncebox.errors import OnceboxError, StoreUnavailable
from oncebox.errors import mail as mail_errors
from oncebox.errors import sends as send_errors


def _tree(kind: type[OnceboxError] = OnceboxError) -> list[type[OnceboxError]]:
    return [kind, *(inner for child in kind.__subclasses__() for inner in _tree(child))]


def _ours() -> list[type[OnceboxError]]:
    files = {errors.__name__, mail_errors.__name__, send_errors.__name__}
    return [kind for kind in _tree() if kind.__module__ in files]


def test_every_code_is_its_own_and_fit_for_machines() -> None:
    codes = [kind.code for kind in _ours()]

    assert len(codes) == len(set(codes))
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", code) for code in codes)


def test_the_codes_are_stable() -> None:
    """Programs compare them; taking one away or renaming it breaks somebody."""
    assert {kind.code for kind in _ours()} >= {
        "body_too_large",
        "commit_unknown",
        "config_invalid",
        "database_busy",
        "database_corrupt",
        "database_login_refused",
        "database_read_only",
        "database_unreachable",
        "database_unsafe",
        "disk_full",
        "effect_outcome_unknown",
        "effect_misused",
        "effect_name_reused",
        "handler_registered_twice",
        "header_invalid",
        "key_invalid",
        "key_fetch_required",
        "lease_lost",
        "master_key_missing",
        "master_key_wrong",
        "migration_changed",
        "not_done",
        "not_found",
        "permanent",
        "row_refused",
        "schema_outdated",
        "schema_too_new",
        "scheme_invalid",
        "signature_invalid",
        "secret_unavailable",
        "state_conflict",
        "store_unavailable",
        "transient",
        "unknown_scheme",
    }


def test_trying_again_is_safe_exactly_where_nothing_was_decided() -> None:
    safe = {kind.code for kind in _ours() if kind.retry_safe}

    assert safe == {kind.code for kind in _tree(StoreUnavailable)} | {
        "artifact_in_flight",
        "data_key_unknown",
        "dns_unavailable",
        "egress_failed",
        "key_fetch_required",
        "not_done",
        "parser_unavailable",
        "send_budget_spent",
        "transient",
    }


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    drawn = {
        name
        for file in (errors, mail_errors, send_errors)
        for name in re.findall(r"^[ │├└─]*([A-Z]\w+)", file.__doc__ or "", re.MULTILINE)
        if hasattr(file, name)
    }

    assert drawn == {kind.__name__ for kind in _ours()}


def test_every_error_says_what_it_means() -> None:
    assert [kind.__name__ for kind in _ours() if not kind.__doc__] == []
