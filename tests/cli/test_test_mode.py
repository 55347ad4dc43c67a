"""`oncebox serve --test` and `--chaos`: loud, never by accident, and as the rules say."""

import smtplib
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from oncebox.cli.main import run
from oncebox.client.sync import Client
from oncebox.errors import ConfigInvalid
from oncebox.errors.mail import LinkRefused
from oncebox.settings_loading import load_settings
from tests.cli.services import Running, Services
from tests.docs.page import blocks
from tests.docs.reference import DOCS
from tests.torture.processes import Children, until

RULES = """\
seed = 7

[[mail]]
fault = "421"
to = "*+busy@*"
times = 1

[[mail]]
fault = "reorder"
to = "*+held@*"
seconds = 3600

[[webhook]]
fault = "duplicate"
source = "twice"
copies = 2

[[webhook]]
fault = "503"
source = "busy"
times = 1

[[webhook]]
fault = "delay"
source = "late"
seconds = 0.2

[[webhook]]
fault = "drop_after_accept"
source = "cut"
times = 1
"""


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Services]:
    with Children(tmp_path) as children:
        yield Services(tmp_path, children)


@pytest.fixture(scope="module")
def chaos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One service with rules for all tests here."""
    folder = tmp_path_factory.mktemp("chaos")
    (folder / "rules.toml").write_text(RULES)
    with Children(folder) as children:
        yield Services(folder, children).serve("--chaos", str(folder / "rules.toml"))


@pytest.fixture
def client(chaos: Running) -> Iterator[Client]:
    with Client(chaos.url, chaos.key) as client:
        yield client


def send(service: Running, to: str, text: str) -> None:
    host, _, port = service.greeting["smtp"].rpartition(":")
    mail = f"From: a@acme.example\r\nTo: {to}\r\nSubject: Verify\r\n\r\n{text}\r\n"
    with smtplib.SMTP(host, int(port), timeout=60) as line:
        line.sendmail("a@acme.example", to, mail.encode())


def test_chaos_alone_offers_neither_login_nor_tls(chaos: Running) -> None:
    host, _, port = chaos.greeting["smtp"].rpartition(":")
    with smtplib.SMTP(host, int(port), timeout=60) as line:
        line.ehlo()
        assert not line.has_extn("auth")
        assert not line.has_extn("starttls")


def post(service: Running, client: Client, source: str, *, body: str = "{}") -> httpx2.Response:
    """Bring a webhook to a source, which is made where there is none."""
    if source not in [each.name for each in client.sources.list()]:
        client.sources.add(source, "none", allow_unsigned=True, mode="pull", public_id=source)
    for _ in until(30.0):
        answer = httpx2.post(f"{service.url}/in/{source}", content=body, timeout=60)
        if answer.status_code != 404:  # the source is seen within seconds
            return answer
    raise AssertionError(answer.text)


def count(client: Client, source: str) -> tuple[int, int]:
    """Return how many deliveries a source has, and how often they were seen again."""
    found = list(client.deliveries.list(source=source))
    seen = [each for one in found for each in client.deliveries.inspect(one.id).sightings]
    return len(found), sum(each.count for each in seen)


def test_chaos_is_loud(chaos: Running) -> None:
    text = chaos.child.text()

    assert "!! CHAOS: 6 rules, seed 7." in text
    assert "TEST MODE" not in text


def test_mail_meets_the_rules_it_fits(chaos: Running, client: Client) -> None:
    inbox = client.inboxes.create()
    local, _, domain = inbox.email.partition("@")
    with pytest.raises(smtplib.SMTPResponseException) as refused:
        send(chaos, f"{local}+busy@{domain}", "Your code is 510100.")
    send(chaos, inbox.email, "Your code is 510101.")

    assert refused.value.smtp_code == 421
    assert inbox.wait_for_code(within=60).value == "510101"


def test_a_webhook_that_is_repeated_is_one_delivery(chaos: Running, client: Client) -> None:
    assert post(chaos, client, "twice").status_code == 200
    assert count(client, "twice") == (1, 2)


def test_a_webhook_that_is_told_503_was_not_taken(chaos: Running, client: Client) -> None:
    first = post(chaos, client, "busy")
    taken = count(client, "busy")
    second = post(chaos, client, "busy")

    assert (first.status_code, first.headers["retry-after"]) == (503, "2")
    assert taken == (0, 0)
    assert second.status_code == 200
    assert count(client, "busy") == (1, 0)


def test_a_webhook_that_is_held_is_taken_in_the_end(chaos: Running, client: Client) -> None:
    assert post(chaos, client, "late").status_code == 200
    assert count(client, "late") == (1, 0)


def test_a_webhook_whose_answer_is_lost_is_there(chaos: Running, client: Client) -> None:
    with pytest.raises(httpx2.RemoteProtocolError):
        post(chaos, client, "cut")
    taken = count(client, "cut")
    again = post(chaos, client, "cut")

    assert taken == (1, 0)
    assert again.status_code == 200
    assert count(client, "cut") == (1, 1)


def test_chaos_alone_is_no_test_mode(chaos: Running, client: Client) -> None:
    inbox = client.inboxes.create()
    send(chaos, inbox.email, "Verify: http://localhost:3000/verify?token=a8f7d6s5a4f3d2s1a0f9d8")

    with pytest.raises(smtplib.SMTPRecipientsRefused):
        send(chaos, "ada@shop.example", "hello")
    with pytest.raises(LinkRefused):
        inbox.wait_for_link(within=60)
    with chaos.client() as http:
        assert http.get("/v1/test").status_code == 404


def test_it_is_loud_however_quiet_it_shall_be(services: Services, tmp_path: Path) -> None:
    """With the rules that are printed on the page of chaos."""
    (rules,) = blocks(DOCS / "testing.md", "toml")
    (tmp_path / "rules.toml").write_text(rules)
    options = ("--test", "--chaos", str(tmp_path / "rules.toml"), "--quiet")
    text = services.serve(*options).child.text()

    assert "!! TEST MODE: mail for ANY address is accepted" in text
    assert "!! CHAOS: 3 rules, seed 7." in text
    assert "url:" not in text


def test_what_is_held_arrives_when_the_service_stops(services: Services, tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text(RULES)
    service = services.serve("--chaos", str(tmp_path / "rules.toml"))
    with Client(service.url, service.key) as client:
        local, _, domain = client.inboxes.create().email.partition("@")
    send(service, f"{local}+held@{domain}", "Your code is 510200.")
    held = services.facts()
    service.child.terminate()

    assert service.child.wait(timeout=60) == 0
    assert held == []
    assert [each.type for each in services.facts()] == ["mail.received"]


def test_bad_rules_are_told_once_and_not_tried_again(services: Services, tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text("[[mail]]\nfault = 'explode'\n")
    child = services.start_command("serve", "--port", "0", "--chaos", str(path))

    assert child.wait(timeout=60) == 1
    assert child.text().startswith("error: config_invalid: the chaos rules in ")
    assert "mail rule 1, fault: Invalid enum value 'explode'" in child.text()
    assert child.text().count("\n") == 1


@pytest.mark.parametrize("option", [["--test"], ["--chaos", "rules.toml"]])
def test_a_worker_has_no_door_to_stand_before(
    option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["serve", "--role", "worker", *option]) == 2
    assert "a worker receives nothing" in capsys.readouterr().err


def test_no_file_and_no_environment_switches_test_mode_on(tmp_path: Path) -> None:
    """Whoever runs it in production by mistake has typed it."""
    (tmp_path / "oncebox.toml").write_text("test = true\n")

    with pytest.raises(ConfigInvalid, match="test in the settings file is not a setting"):
        load_settings({"ONCEBOX_CONFIG": str(tmp_path / "oncebox.toml")})
    assert load_settings({"ONCEBOX_TEST": "true", "ONCEBOX_CHAOS": "a"}) == load_settings({})
