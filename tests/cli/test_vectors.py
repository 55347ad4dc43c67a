"""The vectors from outside agree, through the public command."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from oncebox.cli.commands.hook import (
    SCHEME_NAMES,
    Vector,
    _vector_request,
    _vector_scheme,
    _vector_secrets,
)
from oncebox.webhooks import registry
from oncebox.webhooks.handshakes import answer_handshake
from oncebox.webhooks.scheme import HandshakeReply
from tests.cli.ledger import Ledger
from tests.support.shared import shared

FILE = "data/webhook-vectors.json"
ROW = re.compile(r"^\| ([\w-]+) \| ([\w, -]+) \|$", re.MULTILINE)


@pytest.fixture
def vectors() -> dict[str, Any]:
    return {each["id"]: each for each in json.loads(shared(FILE).read_bytes())}


def test_every_vector_agrees_through_the_public_command(
    bare: Ledger, vectors: dict[str, Any]
) -> None:
    answer = bare.type("hook", "verify", "--batch", str(shared(FILE)), "--json")
    verdicts = {record["id"]: record["verdict"] for record in answer.records}

    assert answer.code == 0
    assert answer.err == ""
    assert len(vectors) >= 142
    assert verdicts == {name: vector["expect"] for name, vector in vectors.items()}
    assert all(set(record) == {"id", "verdict", "reason"} for record in answer.records)


def test_every_published_name_is_known() -> None:
    page = shared("data/webhook-vectors.README.md").read_text()
    pairs = {
        (provider, scheme)
        for provider, several in ROW.findall(page)
        if provider != "provider"
        for scheme in several.split(", ")
    }

    assert len(pairs) >= 59
    assert pairs == set(SCHEME_NAMES)
    assert set(SCHEME_NAMES.values()) <= set(registry.BUILT_IN_SCHEMES)


def test_the_answer_to_a_challenge_is_the_expected_one(vectors: dict[str, Any]) -> None:
    expected = [each for each in vectors.values() if each.get("expected_response")]
    assert expected
    for each in expected:
        vector = msgspec.convert(each, Vector)
        reply = answer_handshake(
            _vector_scheme(vector)[0], _vector_request(vector), _vector_secrets(vector), now=None
        )
        assert isinstance(reply, HandshakeReply)
        assert json.loads(reply.body) == each["expected_response"]


def test_an_unknown_name_is_an_error_and_hides_no_other_verdict(
    bare: Ledger, tmp_path: Path
) -> None:
    good = {"id": "a", "provider": "github", "scheme": "github", "secret_or_key": "s"}
    bad = {"id": "b", "provider": "nobody", "scheme": "github"}
    file = tmp_path / "vectors.json"
    file.write_text(json.dumps([bad, good]))
    answer = bare.type("hook", "verify", "--batch", str(file), "--json")

    assert answer.code == 1
    assert answer.error["code"] == "unknown_scheme"
    assert "b: nothing is called nobody / github" in answer.error["message"]
    assert answer.record == {"id": "a", "verdict": "invalid", "reason": "missing_header"}
