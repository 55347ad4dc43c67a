"""Settings: arguments before environment before file before defaults; mistakes are named."""

import re
from pathlib import Path

import msgspec
import pytest

from oncebox.errors import ConfigInvalid
from oncebox.settings import Settings
from oncebox.settings_loading import RENAMED_SETTINGS, all_settings, expectation, load_settings


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No settings file is found by chance."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_there_is_a_default_for_everything() -> None:
    settings = load_settings({})

    assert settings == Settings()
    assert settings.database.startswith("sqlite:///")
    assert settings.folder.is_absolute()


def test_the_environment_is_read_with_nesting_by_two_underscores() -> None:
    settings = load_settings(
        {
            "ONCEBOX_TENANT": "acme",
            "ONCEBOX_WORKER__LEASE": "12.5",
            "ONCEBOX_WORKER__CONCURRENCY": "7",
            "ONCEBOX_LIMITS__BODY": "99",
        }
    )

    assert (settings.tenant, settings.worker.lease) == ("acme", 12.5)
    assert (settings.worker.concurrency, settings.limits.body) == (7, 99)
    assert settings.worker.poll == Settings().worker.poll


def test_the_file_is_read_where_it_lies_or_where_it_is_said_to(elsewhere: Path) -> None:
    (elsewhere / "oncebox.toml").write_text('tenant = "here"')
    (elsewhere / "other.toml").write_text('tenant = "there"\n[retry]\ntries = 2')

    assert load_settings({}).tenant == "here"
    named = load_settings({"ONCEBOX_CONFIG": str(elsewhere / "other.toml")})
    assert (named.tenant, named.retry.tries) == ("there", 2)


def test_arguments_go_before_environment_before_file_before_default(elsewhere: Path) -> None:
    (elsewhere / "oncebox.toml").write_text(
        'tenant = "file"\ndata_dir = "file"\nmaster_key = "file"\n[worker]\nlease = 1\npoll = 2'
    )
    environ = {
        "ONCEBOX_TENANT": "environment",
        "ONCEBOX_DATA_DIR": "environment",
        "ONCEBOX_WORKER__LEASE": "3",
    }

    settings = load_settings(environ, tenant="argument", database_url=None)

    assert (settings.tenant, settings.data_dir, settings.master_key) == (
        "argument",
        "environment",
        "file",
    )
    assert (settings.worker.lease, settings.worker.poll) == (3, 2)
    assert (settings.worker.concurrency, settings.database_url) == (100, "")


def test_a_database_url_goes_before_the_data_folder() -> None:
    environ = {"ONCEBOX_DATABASE_URL": "postgresql://host/db", "ONCEBOX_DATA_DIR": "/data"}

    assert load_settings(environ).database == "postgresql://host/db"


def test_other_variables_are_left_alone() -> None:
    environ = {
        "ONCEBOX_FAULTS": "",
        "ONCEBOX_NOTHING": "1",
        "ONCEBOX_STRIPE_SECRET": "whsec_1",
        "ONCEBOX_URL": "http://localhost",
        "ONCEBOX_WALK": "1",
        "ONCEBOX_TEST_SCRATCH": "/tmp",
        "WORKER__LEASE": "1",
        "xONCEBOX_TENANT": "x",
    }

    assert load_settings(environ) == Settings()


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        (
            "ONCEBOX_WORKER__LEASE",
            "long",
            "ONCEBOX_WORKER__LEASE must be a number above 0 and up to 3000000000",
        ),
        (
            "ONCEBOX_WORKER__LEASE",
            "0",
            "ONCEBOX_WORKER__LEASE must be a number above 0 and up to 3000000000",
        ),
        (
            "ONCEBOX_WORKER__LEASE",
            "-1",
            "ONCEBOX_WORKER__LEASE must be a number above 0 and up to 3000000000",
        ),
        (
            "ONCEBOX_WORKER__LEASE",
            "nan",
            "ONCEBOX_WORKER__LEASE must be a number above 0 and up to 3000000000",
        ),
        (
            "ONCEBOX_WORKER__LEASE",
            "inf",
            "ONCEBOX_WORKER__LEASE must be a number above 0 and up to 3000000000",
        ),
        ("ONCEBOX_WORKER__POLL", "0", "ONCEBOX_WORKER__POLL must be a number above 0"),
        (
            "ONCEBOX_WORKER__CONCURRENCY",
            "0",
            "ONCEBOX_WORKER__CONCURRENCY must be a whole number, at least 1",
        ),
        (
            "ONCEBOX_WORKER__CONCURRENCY",
            "1.5",
            "ONCEBOX_WORKER__CONCURRENCY must be a whole number, at least 1",
        ),
        (
            "ONCEBOX_WORKER__CONCURRENCY",
            "",
            "ONCEBOX_WORKER__CONCURRENCY must be a whole number, at least 1",
        ),
        (
            "ONCEBOX_WORKER__LEASE__MORE",
            "1",
            "ONCEBOX_WORKER__LEASE must be a number above 0 and up to 3000000000",
        ),
        ("ONCEBOX_WORKER", "fast", "ONCEBOX_WORKER is a section"),
        ("ONCEBOX_RETRY__TRIES", "0", "ONCEBOX_RETRY__TRIES must be a whole number, at least 1"),
        (
            "ONCEBOX_RETRY__BUDGET",
            "-1",
            "ONCEBOX_RETRY__BUDGET must be a number from 0 to 3000000000",
        ),
        ("ONCEBOX_CONNECTIONS", "0", "ONCEBOX_CONNECTIONS must be a whole number, at least 1"),
        (
            "ONCEBOX_LIMITS__BODY",
            "25 MB",
            "ONCEBOX_LIMITS__BODY must be a whole number, at least 0",
        ),
        (
            "ONCEBOX_LIMITS__WAITING",
            "0",
            "ONCEBOX_LIMITS__WAITING must be a whole number, at least 1",
        ),
        (
            "ONCEBOX_HTTP__PORT",
            "65536",
            "ONCEBOX_HTTP__PORT must be a whole number from 0 to 65535",
        ),
        ("ONCEBOX_HTTP__PORT", "abc", "ONCEBOX_HTTP__PORT must be a whole number from 0 to 65535"),
        ("ONCEBOX_HTTP__PORT", "-1", "ONCEBOX_HTTP__PORT must be a whole number from 0 to 65535"),
        (
            "ONCEBOX_HTTP__CONNECTIONS",
            "0",
            "ONCEBOX_HTTP__CONNECTIONS must be a whole number, at least 1",
        ),
        (
            "ONCEBOX_HTTP__HEADERS_WITHIN",
            "0",
            "ONCEBOX_HTTP__HEADERS_WITHIN must be a number above 0",
        ),
        ("ONCEBOX_HTTP__PUBLIC_URL", "hooks.example.com", "ONCEBOX_HTTP__PUBLIC_URL must be a URL"),
        ("ONCEBOX_SOURCES", "stripe", "ONCEBOX_SOURCES must be tables [sources.NAME]"),
        ("ONCEBOX_MAILBOXES", "support", "ONCEBOX_MAILBOXES must be tables [mailboxes.NAME]"),
        (
            "ONCEBOX_MAILBOXES__SUPPORT__COLOUR",
            "red",
            "ONCEBOX_MAILBOXES has a mailbox that cannot be used: colour of mailbox 'support'",
        ),
        (
            "ONCEBOX_SOURCES__STRIPE",
            "stripe",
            "ONCEBOX_SOURCES must be tables [sources.NAME]",
        ),
    ],
)
def test_a_bad_value_names_its_variable_and_what_is_expected(
    variable: str, value: str, said: str
) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        load_settings({variable: value})

    assert str(caught.value).startswith(said)


def test_a_bad_value_in_the_file_names_its_key_and_is_not_quoted(elsewhere: Path) -> None:
    (elsewhere / "oncebox.toml").write_text("master_key = ['CANARY']\n")
    with pytest.raises(ConfigInvalid) as caught:
        load_settings({})
    assert str(caught.value) == "master_key in the settings file must be text, and is a list"

    (elsewhere / "oncebox.toml").write_text("[http]\nport = 'CANARY'\n")
    with pytest.raises(ConfigInvalid) as caught:
        load_settings({})
    assert str(caught.value) == (
        "http.port in the settings file must be a whole number from 0 to 65535, and is text"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[http]\nport = "8808"', "http.port .* must be a whole number .*, and is 8808"),
        ("[smtp]\nenabled = 1", "smtp.enabled .* must be true or false, and is a whole number"),
        ("[parser]\nmemory = 1", "parser.memory .* must be 0 or .* at least 64, and is 1"),
        ("[worker]\nmemory_limit = 5", "worker.memory_limit .* at least 256, and is 5"),
        ('tenant = "x y"', "tenant .* must be a name of small letters.*, and is another text"),
        ("tenant = 5", "tenant .* must be a name .*, and is a whole number"),
        ('[inboxes]\ndomain = "x y"', "inboxes.domain .* must be a domain"),
        ('[inboxes]\nhost = "x y"', "inboxes.host .* must be a host name"),
        ('[http]\nhost = "x y"', "http.host .* must be an address to listen on"),
        ('[http]\nproxies = "10.0.0.0/99"', "http.proxies .* must be addresses or networks"),
        ('[http]\nhosts = "a b"', "http.hosts .* must be host names"),
        ('[mail]\ndns_servers = "9.9.9.9:70000"', "mail.dns_servers .* must be name servers"),
        ('[sends]\nsender = "nobody"', "sends.sender .* must be an address"),
        ('database_url = "mysql://x"', "database_url .* must be sqlite:///path"),
        ("[retention]\nsends = 99999999999", "retention.sends .* must be a whole number"),
        ("[sources.x]\nscheme = 5", "sources .*scheme of source 'x' .*expected `str`, got `int`"),
        ("[sources.x]", "sources .*scheme of source 'x' cannot be used: it is missing"),
        (
            '[sources.x]\nscheme = "stripe"\nsecrets = [5]',
            "sources .*secrets of 'x' must be a list",
        ),
        ('[sources.x]\nscheme = "stripe"\ntries = 0', "sources .*tries of source 'x'"),
        ("[mailboxes]\nlease = 5", "mailboxes .* must be tables"),
        ("[mailboxes.x]\npassword = 5", "password of mailbox 'x' .*expected `str`, got `int`"),
        ('[mailboxes.x]\nkind = "pop3"', "kind of mailbox 'x' .*write imap, jmap"),
        ('[mailboxes.x]\nsince = "then"', "since of mailbox 'x' .*now, all or a number of days"),
        ("[mailboxes.x]\npoll_every = 0", "poll_every of mailbox 'x'"),
        ("[mailboxes.x]\nfolders = [5]", "folders of mailbox 'x'"),
        ('[mailboxes.x]\napi = "mailpit"', "api of mailbox 'x' .*no such field"),
        ('[mailboxes." x"]\nurl = "x"', "the name of a mailbox"),
    ],
)
def test_a_wrong_type_or_range_is_refused_with_name_finding_and_expectation(
    elsewhere: Path, text: str, said: str
) -> None:
    (elsewhere / "oncebox.toml").write_text(text)

    with pytest.raises(ConfigInvalid, match=said):
        load_settings({})


def test_what_the_rules_of_single_settings_allow() -> None:
    environ = {
        "ONCEBOX_TENANT": "acme-2",
        "ONCEBOX_INBOXES__DOMAIN": "",
        "ONCEBOX_INBOXES__HOST": "mail.example.com",
        "ONCEBOX_HTTP__HOST": "::1",
        "ONCEBOX_HTTP__HOSTS": "a.example, [::1]:8808,",
        "ONCEBOX_HTTP__PROXIES": "10.0.0.0/8, ::1",
        "ONCEBOX_MAIL__DNS_SERVERS": "9.9.9.9, [::1]:5353, 2620:fe::fe",
        "ONCEBOX_SENDS__SENDER": "Acme <hello@acme.com>",
        "ONCEBOX_PARSER__MEMORY": "0",
        "ONCEBOX_SMTP__ENABLED": "1",
    }

    assert load_settings(environ).mail.dns_servers == environ["ONCEBOX_MAIL__DNS_SERVERS"]


def test_a_value_that_is_no_number_is_never_quoted(elsewhere: Path) -> None:
    for text in ("tenant = 'CANARY x'", "master_key = 48291733", "[sends]\nsender = 'CANARY'"):
        (elsewhere / "oncebox.toml").write_text(text)
        with pytest.raises(ConfigInvalid) as caught:
            load_settings({})
        assert "CANARY" not in str(caught.value)
        assert "48291733" not in str(caught.value)


def test_every_setting_says_what_it_must_be() -> None:
    for path, _, _ in all_settings():
        assert expectation(path).startswith("must be ")


@pytest.mark.parametrize(
    ("variable", "remedy"),
    [
        ("ONCEBOX_HTPP__PORT", "did you mean ONCEBOX_HTTP__PORT?"),
        ("ONCEBOX_HTTP_PORT", "did you mean ONCEBOX_HTTP__PORT?"),
        ("ONCEBOX_PORT", "did you mean ONCEBOX_HTTP__PORT?"),
        ("ONCEBOX_DATADIR", "did you mean ONCEBOX_DATA_DIR?"),
        ("ONCEBOX_WORKER__LEASES", "did you mean ONCEBOX_WORKER__LEASE?"),
        ("ONCEBOX_QUUX__X", "list all settings with: oncebox config show"),
        ("ONCEBOX_SENDS__HAND_OVER_WITHIN", "renamed; use ONCEBOX_SENDS__TRANSPORT_TIMEOUT"),
    ],
)
def test_misspelt_variable_is_refused_with_the_right_name(variable: str, remedy: str) -> None:
    with pytest.raises(ConfigInvalid, match=re.escape(remedy)) as caught:
        load_settings({variable: "120"})

    assert str(caught.value).startswith(variable)


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("[sends]\nhand_over_within = 5", "renamed; use sends.transport_timeout"),
        ("[htpp]\nport = 1", "did you mean http.port?"),
        ("tenants = 'x'", "did you mean tenant?"),
        ("[worker]\nspeed = 1", "worker.speed in the settings file is not a setting"),
    ],
)
def test_misspelt_name_in_the_file_is_refused_with_the_right_name(
    elsewhere: Path, text: str, remedy: str
) -> None:
    (elsewhere / "oncebox.toml").write_text(text)

    with pytest.raises(ConfigInvalid, match=re.escape(remedy)):
        load_settings({})


def test_renamed_settings_lead_to_settings() -> None:
    names = {
        f"{section.name}.{name}"
        for section in msgspec.structs.fields(Settings)
        for name in getattr(section.type, "__struct_fields__", ())
    }

    assert set(RENAMED_SETTINGS.values()) <= names
    assert not set(RENAMED_SETTINGS) & names


def test_service_links_of_kubernetes_are_no_settings() -> None:
    environ = {
        "ONCEBOX_SERVICE_HOST": "10.0.0.1",
        "ONCEBOX_SERVICE_PORT_HTTP": "8808",
        "ONCEBOX_PORT": "tcp://10.0.0.1:8808",
        "ONCEBOX_HTTP_PORT": "tcp://10.0.0.1:8808",
        "ONCEBOX_PORT_8808_TCP_ADDR": "10.0.0.1",
    }

    assert load_settings(environ) == Settings()


@pytest.mark.parametrize("order", [1, -1])
def test_a_setting_that_is_a_group_and_a_value_is_named(order: int) -> None:
    given = [("ONCEBOX_WORKER", "fast"), ("ONCEBOX_WORKER__LEASE", "3")][::order]

    with pytest.raises(ConfigInvalid, match="ONCEBOX_WORKER is a section"):
        load_settings(dict(given))


@pytest.mark.parametrize(
    "text", ["tenants = 'x'", "[worker]\nspeed = 1", "worker = 3", "tenant = 3", "tenant =", "\0"]
)
def test_a_mistake_in_the_file_is_refused(elsewhere: Path, text: str) -> None:
    (elsewhere / "oncebox.toml").write_text(text)

    with pytest.raises(ConfigInvalid):
        load_settings({})


def test_a_file_that_is_named_must_be_there(elsewhere: Path) -> None:
    with pytest.raises(ConfigInvalid, match=r"nothing\.toml"):
        load_settings({"ONCEBOX_CONFIG": str(elsewhere / "nothing.toml")})


def test_a_refusal_never_quotes_a_secret() -> None:
    with pytest.raises(ConfigInvalid) as caught:
        load_settings({"ONCEBOX_MASTER_KEY__X": "secret", "ONCEBOX_WORKER__LEASE": "secret"})

    assert "secret" not in str(caught.value)


def test_no_time_is_so_long_that_it_cannot_be_counted() -> None:
    century = str(100 * 365 * 86_400)
    for variable in ("ONCEBOX_RETRY__BUDGET", "ONCEBOX_WORKER__WATCHDOG"):
        with pytest.raises(ConfigInvalid):
            load_settings({variable: "1e300"})
        with pytest.raises(ConfigInvalid):
            load_settings({variable: century})


def test_the_limits_of_the_service_are_those_that_are_written_down() -> None:
    http = load_settings({}).http

    assert (http.host, http.port, http.public_url) == ("127.0.0.1", 8808, "")
    assert (http.body, http.headers, http.header_count) == (1024 * 1024, 32 * 1024, 100)
    assert (http.headers_within, http.body_rate, http.request_within) == (10, 1024, 30)
    assert (http.connections, http.rate) == (1_000, 0)


def test_sources_are_tables_that_the_environment_may_change(elsewhere: Path) -> None:
    (elsewhere / "oncebox.toml").write_text(
        '[sources.stripe]\nscheme = "stripe"\nsecrets = ["env:A"]\nexpect = { "$.account" = "x" }\n'
        '[sources."a.b"]\nscheme = "github"\n'
    )

    settings = load_settings({"ONCEBOX_SOURCES__STRIPE__RATE": "5"})

    assert settings.sources["stripe"] == {
        "scheme": "stripe",
        "secrets": ["env:A"],
        "expect": {"$.account": "x"},
        "rate": "5",
    }
    assert settings.sources["a.b"] == {"scheme": "github"}


def test_mailboxes_are_tables_that_the_environment_may_change(elsewhere: Path) -> None:
    (elsewhere / "oncebox.toml").write_text(
        '[mailboxes.support]\nurl = "imaps://ann@imap.example.com"\npassword = "env:A"\n'
        '[mailboxes."a.b"]\nkind = "rest"\napi = "generic-rest"\ntable = { list_path = "/" }\n'
    )

    settings = load_settings({"ONCEBOX_MAILBOXES__SUPPORT__POLL_EVERY": "5"})

    assert settings.mailboxes["support"] == {
        "url": "imaps://ann@imap.example.com",
        "password": "env:A",
        "poll_every": "5",
    }
    assert set(settings.mailboxes) == {"support", "a.b"}


def test_settings_show_nothing_that_may_be_a_secret() -> None:
    settings = load_settings(
        {
            "ONCEBOX_MASTER_KEY": "CANARY",
            "ONCEBOX_DATABASE_URL": "postgresql://user:CANARY@host/db",
            "ONCEBOX_SOURCES__STRIPE__SCHEME": "stripe",
            "ONCEBOX_SOURCES__STRIPE__SECRETS": "CANARY",
            "ONCEBOX_MAILBOXES__SUPPORT__PASSWORD": "CANARY",
            "ONCEBOX_TENANT": "acme",
        }
    )

    shown = f"{settings!r} {settings} {settings.__rich_repr__()}"
    assert "CANARY" not in shown
    assert "tenant='acme'" in shown
    assert "master_key=''" in repr(Settings())
