"""`oncebox config show` says where every setting comes from, and never what is secret."""

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from oncebox.cli.output.redaction import is_secret, redacted_url
from oncebox.settings import Settings
from oncebox.settings_loading import all_settings
from tests.cli.ledger import Ledger

CANARY = "CANARYSECRET"


def shown(ledger: Ledger, *options: str) -> dict[str, dict[str, Any]]:
    answer = ledger.type("config", "show", "--json", *options)
    assert answer.code == 0
    return {each["name"]: each for each in answer.record["settings"]}


@pytest.fixture
def clean(bare: Ledger, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """A ledger for which nothing is set."""
    for name in list(os.environ):
        if name.startswith("ONCEBOX_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_DATA_HOME", str(Path.cwd() / "share"))
    return bare


def texts() -> list[str]:
    """Every setting that can hold a text."""
    return [
        ".".join(path)
        for path, kind, _ in all_settings()
        if isinstance(msgspec.inspect.type_info(kind), msgspec.inspect.StrType)
    ]


# Secrets


@pytest.mark.parametrize("way", ["environment", "file"])
def test_config_show_never_shows_a_secret(
    clean: Ledger, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Every setting that can hold one does, alone or as the password of an address."""
    values = {
        name: f"{CANARY}-{number}" if is_secret(name) else f"https://u:{CANARY}@h/x?token={CANARY}"
        for number, name in enumerate(texts())
    }
    values["database_url"] = f"postgresql://ann:{CANARY}@db/name?password={CANARY}"
    if way == "environment":
        for name, value in values.items():
            monkeypatch.setenv(f"ONCEBOX_{name.replace('.', '__').upper()}", value)
        monkeypatch.setenv("ONCEBOX_SOURCES__SHOP__SECRETS", CANARY)
        monkeypatch.setenv("ONCEBOX_MAILBOXES__SUPPORT__PASSWORD", CANARY)
        for name in ("ONCEBOX_API_KEY", "ONCEBOX_UNKNOWN"):
            monkeypatch.setenv(name, CANARY)
        monkeypatch.setenv("ONCEBOX_URL", f"https://u:{CANARY}@h")
    else:
        lines = [f'{name} = "{value}"' for name, value in values.items()]
        sources = f'[sources.shop]\nsecrets = ["{CANARY}"]\n[strange]\npassword = "{CANARY}"\n'
        sources += f'[mailboxes.support]\npassword = "{CANARY}"\n'
        Path("oncebox.toml").write_text("\n".join([*lines, sources]))
    for options in ((), ("--json",), ("-q",)):
        answer = clean.type("config", "show", *options)
        assert answer.code == 0
        assert CANARY not in answer.out + answer.err
    found = shown(clean)

    assert found["master_key"]["value"] == "***"
    assert found["database_url"]["value"] == "postgresql://***@db/name?***"
    assert found["sources"]["value"] == "shop"
    assert found["mailboxes"]["value"] == "support"


def test_what_sounds_like_a_secret_is_hidden_unless_it_was_looked_at() -> None:
    """A new setting called so is hidden until somebody says that it is harmless."""
    hidden = {name for path, _, _ in all_settings() if is_secret(name := ".".join(path))}

    assert hidden == {"master_key"}
    assert all(map(is_secret, ("smtp.password", "api_key", "x.client_secret", "bot.tokens")))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://hooks.example.com/x", "https://hooks.example.com/x"),
        ("http://[::1]:8808", "http://[::1]:8808"),
        ("postgresql://ann:x@db:5432/name", "postgresql://***@db:5432/name"),
        ("postgresql://ann:a/b@c@db/name", "postgresql://***@db/name"),
        ("postgresql://db/name?user=a@b&password=x", "***"),
        ("postgresql://db/name?password=x", "postgresql://db/name?***"),
        ("postgresql://db/name?password=x@y", "***"),
        ("postgresql://ann:x#y@db/name", "postgresql://***@db/name"),
        ("https://token@host", "https://***@host"),
        ("https://host/a b", "***"),
        ("sqlite:////srv/a@b/oncebox.db", "sqlite:////srv/a@b/oncebox.db"),
        ("sqlite://u:x@host/file.db", "sqlite://***@host/file.db"),
    ],
)
def test_an_address_is_shown_without_what_lets_one_in(text: str, expected: str) -> None:
    assert redacted_url(text) == expected


# Origins


def test_every_setting_is_shown_with_its_default(clean: Ledger) -> None:
    found = shown(clean)
    wanted = {".".join(path): default for path, _, default in all_settings()}

    assert set(wanted) | {"client.url", "client.api_key"} == set(found)
    assert {each["origin"] for each in found.values()} == {"default"}
    assert found["worker.lease"]["value"] == Settings().worker.lease
    assert found["data_dir"]["value"] == str(Path.cwd() / "share/oncebox")
    assert found["database_url"]["value"] == f"sqlite:///{Path.cwd()}/share/oncebox/oncebox.db"


def test_an_option_beats_the_environment_and_that_the_file(
    clean: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("oncebox.toml").write_text(
        'data_dir = "filed"\ntenant = "filed"\n[worker]\nlease = 7\npoll = 2\n'
    )
    monkeypatch.setenv("ONCEBOX_DATA_DIR", "set")
    monkeypatch.setenv("ONCEBOX_WORKER__LEASE", "9")
    found, typed = shown(clean), shown(clean, "--data-dir", "typed")
    file = str(Path("oncebox.toml").absolute())

    def of(name: str) -> tuple[Any, str]:
        return found[name]["value"], found[name]["origin"]

    assert of("data_dir") == ("set", "ONCEBOX_DATA_DIR")
    assert of("tenant") == ("filed", file)
    assert of("worker.lease") == (9.0, "ONCEBOX_WORKER__LEASE")
    assert of("worker.poll") == (2.0, file)
    assert typed["data_dir"]["origin"] == typed["database_url"]["origin"] == "--data-dir"
    assert typed["database_url"]["value"] == f"sqlite:///{Path.cwd()}/typed/oncebox.db"


def test_what_is_shown_is_what_holds(clean: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    from oncebox.settings_loading import load_settings  # noqa: PLC0415 - it is the question

    Path("oncebox.toml").write_text("[http]\nport = 1\nrate = 2\n[sends]\nfail_open = true\n")
    monkeypatch.setenv("ONCEBOX_HTTP__PORT", "3")
    monkeypatch.setenv("ONCEBOX_SMTP__ENABLED", "false")
    holds = msgspec.to_builtins(load_settings())
    found = shown(clean)

    for section in ("http", "smtp", "sends", "worker", "retention"):
        for name, value in holds[section].items():
            if value != "":
                assert found[f"{section}.{name}"]["value"] == value


def test_a_key_in_a_file_is_told_as_that(clean: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("api-key").write_text(CANARY)
    monkeypatch.setenv("ONCEBOX_MASTER_KEY_FILE", "keys/master")
    monkeypatch.setenv("ONCEBOX_API_KEY_FILE", "api-key")
    found = shown(clean)

    assert found["master_key"]["origin"] == "ONCEBOX_MASTER_KEY_FILE"
    assert found["master_key_file"]["value"] == "keys/master"
    assert (found["client.api_key"]["value"], found["client.api_key"]["origin"]) == (
        "***", "ONCEBOX_API_KEY_FILE",
    )  # fmt: skip


# Trouble


def test_a_bad_value_is_shown_with_the_reason_and_fails_nothing(
    clean: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (
        ("ONCEBOX_WORKER__LEASE", "soon"),
        ("ONCEBOX_HTTP__PORT", "99999"),
        ("ONCEBOX_HTTP__PROT", "1"),
        ("ONCEBOX_DATADIR", "x"),
        ("ONCEBOX_SMTP", "off"),
    ):
        monkeypatch.setenv(name, value)
    found = shown(clean)
    troubled = {name for name, each in found.items() if each["problem"]}

    assert troubled == {"worker.lease", "http.port", "http.prot", "ONCEBOX_DATADIR", "smtp"}
    assert (found["worker.lease"]["value"], found["worker.lease"]["problem"]) == (
        "soon", "must be a number above 0 and up to 3000000000, and is text",
    )  # fmt: skip
    assert "did you mean ONCEBOX_HTTP__PORT?" in found["http.prot"]["problem"]
    assert "section" in found["smtp"]["problem"]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('[inboxes]\ndomain = "x y"', "inboxes.domain"),
        ("[parser]\nmemory = 1", "parser.memory"),
        ('tenant = "x y"', "tenant"),
        ("[sources.x]\nscheme = 5", "sources"),
    ],
)
def test_every_command_refuses_what_config_show_finds(clean: Ledger, text: str, name: str) -> None:
    Path("oncebox.toml").write_text(text)
    found = shown(clean)[name]["problem"]
    for command in (("delivery", "list"), ("migrate",), ("inbox", "new"), ("doctor",)):
        answer = clean.type(*command)
        assert answer.code != 0
        assert f"config_invalid: {name} in the settings file {found}" in answer.err


def test_an_unknown_name_is_also_an_error_line_as_serve_prints_it(
    clean: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONCEBOX_PORT", "9000")
    answer = clean.type("config", "show", "-q")

    said = "ONCEBOX_PORT is not a setting; did you mean ONCEBOX_HTTP__PORT?"
    assert answer.err.startswith(f"error: config_invalid: {said}")
    assert [row[0] for row in answer.rows if said in row[-1]] == ["ONCEBOX_PORT"]


def test_a_file_that_cannot_be_read_is_told_and_the_rest_is_shown(clean: Ledger) -> None:
    Path("oncebox.toml").write_text("this is no toml")
    answer = clean.type("config", "show", "--json").record
    files = {each["name"]: each for each in answer["files"]}

    assert "line 1" in files["settings"]["problem"]
    assert len(answer["settings"]) > 100


def test_the_files_that_are_looked_for_are_named(clean: Ledger) -> None:
    clean.type("migrate", "--data-dir", "here")
    clean.accept("k", "--data-dir", "here")
    answer = clean.type("config", "show", "--json", "--data-dir", "here").record
    files = {each["name"]: (each["path"], each["there"]) for each in answer["files"]}
    here = Path("here").absolute()

    assert files == {
        "settings": (str(Path("oncebox.toml").absolute()), False),
        "database": (str(here / "oncebox.db"), True),
        "master key": (str(here / "oncebox.key"), True),
        "credentials": (str(here / "credentials.json"), False),
        "templates": (str(here / "templates"), False),
    }


def test_quiet_shows_only_what_is_set(clean: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCEBOX_TENANT", "acme")
    first, *files = clean.type("config", "show", "-q").rows

    assert first == ["tenant", "acme", "ONCEBOX_TENANT", ""]
    assert all(": " in row[0] for row in files)
