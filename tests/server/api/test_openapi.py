"""The description of the API is true: it is what is served, and what is served keeps to it."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncebox.server.api import openapi
from oncebox.server.application import ROUTES
from tests.cli.services import Services
from tests.project.tree import ROOT
from tests.support.api import Api
from tests.torture.processes import Children


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Services]:
    with Children(tmp_path) as children:
        yield Services(tmp_path, children)


async def test_the_service_describes_itself(api: Api) -> None:
    served = (await api.call("GET", "/openapi.json", key="")).json()

    assert served == json.loads(json.dumps(openapi.openapi_document(ROUTES)))


def test_the_checked_in_description_is_up_to_date() -> None:
    """If this fails, run `python -m tests.docs.reference`; the difference is what clients see."""
    checked_in = json.loads((ROOT / "docs" / "openapi.json").read_text())

    assert checked_in == json.loads(json.dumps(openapi.openapi_document(ROUTES)))


def test_every_field_of_a_question_is_described_or_speaks_for_itself() -> None:
    document = openapi.openapi_document(ROUTES)
    ids = [
        operation["operationId"]
        for operations in document["paths"].values()
        for operation in operations.values()
    ]

    assert len(ids) == len(set(ids))
    assert all("." not in name for name in document["components"]["schemas"])


def test_a_field_description_of_several_lines_is_complete() -> None:
    document = openapi.openapi_document(ROUTES)
    described = document["components"]["schemas"]["BeginActionResult"]["properties"]["state"]

    assert described["description"].startswith("`begun`: perform it;")
    assert described["description"].endswith("`held`: an operator decides")


@pytest.mark.timeout(900)
def test_schemathesis_finds_nothing(services: Services, tmp_path: Path) -> None:
    """Every check, every route, good and bad data, also in sequence."""
    services.set("ONCEBOX_HTTP__WRONG_KEYS", "0")
    service = services.serve()
    ended = subprocess.run(
        [
            str(Path(sys.executable).parent / "schemathesis"),
            "run",
            f"{service.url}/openapi.json",
            *("--header", f"Authorization: Bearer {service.key}"),
            *("--max-examples", "6"),
            *("--seed", "8808"),
            *("--warnings", "off"),
            "--no-color",
        ],
        capture_output=True,
        check=False,
        cwd=tmp_path,
        env={
            "PATH": "",
            "PYTHONPATH": str(ROOT),
            "SCHEMATHESIS_HOOKS": "tests.server.fresh_keys",
            "OWN_KEY": service.json("/v1/self")["key"]["id"],
            "HOME": str(tmp_path),
        },
        text=True,
    )

    assert ended.returncode == 0, ended.stdout[-5_000:] + ended.stderr[-2_000:]
    assert "No issues found" in ended.stdout
    assert service.json("/v1/self"), "the key was revoked; what came after it was not checked"
