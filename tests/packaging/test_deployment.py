"""Dockerfile, compose file and systemd unit: as far as they can be tried without their engines."""

import configparser
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from oncebox.settings_loading import load_settings
from tests.cli.services import Services
from tests.docs.page import blocks
from tests.docs.reference import DOCS
from tests.packaging.dockerfile import listed, read
from tests.packaging.environments import UV, run, tree
from tests.project.tree import ROOT
from tests.torture.processes import Children

BUILD, FINAL = read(ROOT / "Dockerfile")
COMPOSE = YAML(typ="safe").load(ROOT / "compose.yaml")
UNIT = ROOT / "packaging" / "oncebox.service"
#: what the test types in place of what the image types: uv for pip, whose cache it has
INSTEAD = {
    "python -m venv --without-pip ": f"{UV} venv --quiet --python {sys.executable} ",
    "python -m venv ": f"{UV} venv --quiet --python {sys.executable} ",
    "/opt/build/bin/pip --python /opt/oncebox/bin/python install --no-cache-dir": (
        f"{UV} pip install --quiet --python /opt/oncebox/bin/python"
    ),
    "/opt/build/bin/pip install --no-cache-dir": (
        f"{UV} pip install --quiet --python /opt/build/bin/python"
    ),
    "/opt/build/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /dist .": (
        "/opt/build/bin/python -m hatchling build -t wheel -d /dist"
    ),
    "--only-binary :all:": "",
}


def test_the_commands_of_the_image_leave_a_working_program(tmp_path: Path) -> None:
    """The first stage, step by step, in a folder that stands for the root of the image."""
    source, image = tree(tmp_path / "project"), tmp_path / "image"
    for instruction, rest in BUILD.steps:
        if instruction == "COPY":
            _copy(source, image / "src", rest.split())
        elif instruction == "RUN":
            run("bash", "-ec", _translated(rest, image), folder=image / "src")
    program = image / "opt" / "oncebox" / "bin" / "oncebox"

    assert run(program, "--version", folder=tmp_path) == "oncebox 0.1.0\n"
    assert not (program.parent / "pip").exists()


def _copy(source: Path, folder: Path, words: list[str]) -> None:
    *wanted, place = words
    for name in wanted:
        there = folder / place / name if place == "./" else folder / place
        if (source / name).is_dir():
            shutil.copytree(source / name, folder / place)
        else:
            target = there if place == "./" else there / Path(name).name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / name, target)


def _translated(command: str, image: Path) -> str:
    for typed, instead in INSTEAD.items():
        command = command.replace(typed, instead)
    return re.sub(r"(?<![\w/.])/(opt|dist)\b", rf"{image}/\1", command)


def test_the_image_installs_nothing_that_is_not_pinned() -> None:
    installs = [
        part for rest in BUILD.every("RUN") for part in rest.split("&&") if " install " in part
    ]

    assert len(installs) == 3
    assert all("--require-hashes" in each or "--no-deps --no-index" in each for each in installs)
    assert re.fullmatch(r"python:3\.\d+-slim-\w+", BUILD.base)
    assert FINAL.base == BUILD.base
    assert not any("pip" in rest or "apt" in rest for rest in FINAL.every("RUN"))


def test_the_image_runs_as_nobody_special_and_keeps_its_data_in_a_volume() -> None:
    words = [word for word, _ in FINAL.steps]
    settings = load_settings(FINAL.settings)

    assert FINAL.every("USER") == ["10001"]
    assert words.index("USER") < words.index("ENTRYPOINT")
    assert FINAL.every("VOLUME") == [settings.data_dir]
    assert FINAL.every("EXPOSE") == [f"{settings.http.port} {settings.smtp.port}"]
    assert (settings.http.host, settings.smtp.host) == ("0.0.0.0", "0.0.0.0")  # noqa: S104
    assert [listed(*FINAL.every(word)) for word in ("ENTRYPOINT", "CMD")] == [
        ["oncebox"],
        ["serve"],
    ]


def test_the_health_of_the_image_is_that_of_the_service(tmp_path: Path) -> None:
    (check,) = FINAL.every("HEALTHCHECK")
    python, option, program = listed(check)
    assert python == "python"
    with Children(tmp_path) as children:
        port = Services(tmp_path, children).serve().url.rpartition(":")[2]
        asked = [sys.executable, option, program.replace("8808", port)]
        assert subprocess.run(asked, check=False).returncode == 0
    assert subprocess.run(asked, check=False, stderr=subprocess.DEVNULL).returncode == 1


def test_what_is_copied_into_the_image_is_not_ignored() -> None:
    kept = [
        line[1:]
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    ]
    copied = [name for rest in BUILD.every("COPY") for name in rest.split()[:-1]]

    assert all((ROOT / name).exists() for name in copied)
    assert all(any(Path(name).match(pattern) for pattern in kept) for name in copied)


def test_the_compose_file_is_one() -> None:
    run(
        Path(sys.executable).with_name("check-jsonschema"),
        *("--builtin-schema", "vendor.compose-spec", "compose.yaml"),
        folder=ROOT,
    )


def test_each_profile_is_whole() -> None:
    services = COMPOSE["services"]
    for profile, names in {
        "sqlite": {"oncebox"},
        "postgres": {"migrate", "edge", "worker", "postgres"},
    }.items():
        members = {name for name, each in services.items() if profile in each["profiles"]}
        assert members == names
        assert all(set(services[name].get("depends_on", ())) <= members for name in members)
    secrets = {secret for each in services.values() for secret in each.get("secrets", ())}

    assert secrets == set(COMPOSE["secrets"])
    assert services["postgres"]["healthcheck"]["test"][1] == "pg_isready"
    assert services["migrate"]["depends_on"]["postgres"]["condition"] == "service_healthy"


def test_the_compose_file_gives_secrets_by_files_and_ports_to_this_machine_only() -> None:
    ours = {name: each for name, each in COMPOSE["services"].items() if name != "postgres"}
    settings = {name for each in ours.values() for name in each.get("environment", {})}
    ports = [port for each in COMPOSE["services"].values() for port in each.get("ports", ())]

    assert settings == {"ONCEBOX_MASTER_KEY_FILE"}
    assert all(port.startswith("127.0.0.1:") for port in ports)
    # The shell that reads the URL hands everything else on.
    shell, option, script, name = ours["edge"]["entrypoint"]
    secret = script.replace("$$", "$").replace("/run/secrets/database-url", "/dev/null")
    typed = [shell, option, secret.replace("exec oncebox", "exec echo"), name, "serve", "a b"]
    assert run(*typed, folder=ROOT) == "serve a b\n"


def test_the_commands_of_the_page_name_what_is_there() -> None:
    docker, sqlite, postgres, systemd = blocks(DOCS / "installing.md", "sh")[5:]
    files = {each["file"].removeprefix("./") for each in COMPOSE["secrets"].values()}

    assert "docker build --tag oncebox ." in docker
    assert COMPOSE["services"]["edge"]["image"] == "oncebox"
    assert "--profile sqlite" in sqlite
    assert set(re.findall(r"> (secrets/\S+)", postgres)) == files
    assert f"packaging/{UNIT.name}" in systemd
    assert "/opt/oncebox/bin/oncebox" in UNIT.read_text()


def test_the_secrets_of_the_page_are_made_as_printed(tmp_path: Path) -> None:
    if not shutil.which("openssl"):
        pytest.skip("there is no openssl")
    commands = blocks(DOCS / "installing.md", "sh")[7].splitlines()
    run("bash", "-euc", "\n".join(commands[:-1]), folder=tmp_path)
    key = (tmp_path / "secrets" / "master-key").read_text()
    url = (tmp_path / "secrets" / "database-url").read_text().strip()

    assert load_settings({"ONCEBOX_MASTER_KEY": key}).master_key == key
    assert re.fullmatch(r"postgresql://oncebox:[0-9a-f]{48}@postgres/oncebox", url)


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd")
def test_systemd_understands_the_unit_and_finds_it_tight(tmp_path: Path) -> None:
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace("/opt/oncebox/bin/oncebox", "/usr/bin/env"))
    verified = subprocess.run(
        ["systemd-analyze", "verify", copy], capture_output=True, check=False, text=True
    )
    judged = run(
        "systemd-analyze", "security", "--offline=true", "--threshold=20", copy, folder=tmp_path
    )

    assert UNIT.name not in verified.stderr
    assert "Overall exposure level" in judged


def test_the_unit_waits_as_long_as_a_stop_may_take() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(UNIT)
    settings = load_settings({})
    longest = (
        max(settings.http.stop_within, settings.smtp.stop_within)
        + settings.worker.stop_within
        + settings.worker.lease
    )

    assert float(unit["Service"]["TimeoutStopSec"]) > longest
    assert COMPOSE["services"]["oncebox"]["stop_grace_period"] == "90s"
    assert unit["Service"]["ExecStart"] == "/opt/oncebox/bin/oncebox serve"
