"""What the project carries, and what it must not."""

import re
import tomllib
import zipfile
from pathlib import Path

import pytest
from hatchling import build
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.project.tree import PACKAGE, ROOT, name, project_files

REGISTRY = re.compile(
    r"pypi\.(?:org|python\.org)|pythonhosted\.org|npmjs\.(?:com|org)|yarnpkg\.com", re.IGNORECASE
)
# A folder of one person's machine; the same words inside a URL are preceded by a host.
PERSONAL_FOLDER = re.compile(r"(?<![\w.~*-])/(?:home|root|Users|work)/[\w.-]")
PIN = re.compile(r"(?P<name>[\w.-]+)==(?P<version>\S+)(?: ; .*)? \\")
HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}(?: \\)?")


def test_no_file_names_a_registry_or_somebodys_folder() -> None:
    found = [
        f"{name(path)}: {match[0]}"
        for path in project_files()
        for pattern in (REGISTRY, PERSONAL_FOLDER)
        if (match := pattern.search(path.read_text(errors="replace")))
    ]

    assert found == []


def test_the_changelog_has_a_place_for_what_comes_next() -> None:
    assert "\n## [Unreleased]\n" in (ROOT / "CHANGELOG.md").read_text()


def test_every_pinned_requirement_carries_its_hashes_and_no_index() -> None:
    strange = [
        f"{name(path)}:{number} {line}"
        for path in sorted((ROOT / "requirements").glob("*.txt"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if not (line.startswith("#") or PIN.fullmatch(line) or HASH.fullmatch(line))
    ]

    assert strange == []


@pytest.mark.parametrize(
    ("lock", "with_tools"), [("run.txt", False), ("dev.txt", True)], ids=["run", "dev"]
)
def test_the_pins_fulfil_what_the_project_asks_for(lock: str, *, with_tools: bool) -> None:
    """If this fails, run `make lock`."""
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text())
    texts = [
        *asked["project"]["dependencies"],
        *(each for extra in asked["project"]["optional-dependencies"].values() for each in extra),
        *(asked["dependency-groups"]["dev"] if with_tools else ()),
    ]
    pins = {
        canonicalize_name(pin["name"]): pin["version"]
        for line in (ROOT / "requirements" / lock).read_text().splitlines()
        if (pin := PIN.fullmatch(line))
    }

    unmet = [
        str(wanted)
        for wanted in map(Requirement, texts)
        if not wanted.specifier.contains(pins.get(canonicalize_name(wanted.name), "0"))
    ]
    assert unmet == []


def test_the_wheel_holds_every_file_of_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SQL, the typing marker and the docs are no Python, and are easily left behind."""
    monkeypatch.chdir(ROOT)
    wheel = tmp_path / build.build_wheel(str(tmp_path))
    with zipfile.ZipFile(wheel) as opened:
        packed = {file for file in opened.namelist() if file.startswith("oncebox/")}

    present = {
        path.relative_to(PACKAGE.parent).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    pages = {f"oncebox/{name(path)}" for path in (ROOT / "docs").rglob("*") if path.is_file()}
    assert packed == present | pages
    assert {"oncebox/py.typed", "oncebox/docs/waiting.md"} <= packed
