"""Replay, hold and release: aware of effects, audited, and able to be rehearsed."""

import shlex

import pytest

from oncebox.errors import Permanent
from oncebox.model.deliveries.delivery import Delivery
from oncebox.model.deliveries.effects import NO_RESULT
from oncebox.workers.deliveries.once import Once
from tests.cli.ledger import Ledger

calls: list[str] = []


@pytest.fixture(autouse=True)
def no_calls() -> None:
    calls.clear()


async def charge_then_fail(delivery: Delivery, once: Once) -> None:
    await once.do("charge", calls.append, "charge")
    raise Permanent("broken after the charge")


async def charge_and_mail(delivery: Delivery, once: Once) -> None:
    await once.do("charge", calls.append, "charge")
    await once.do("mail", calls.append, "mail")


async def lose_the_answer(delivery: Delivery, once: Once) -> None:
    def call() -> None:
        calls.append("charge")
        raise OSError("the answer was lost")

    await once.do("charge", call)


def replay(ledger: Ledger, id_: str, *options: str) -> int:
    return ledger.type("delivery", "replay", id_, "--why", "mended", *options).code


def test_a_replay_runs_only_what_is_not_done(ledger: Ledger) -> None:
    id_ = ledger.accept("k1")
    ledger.work(charge_then_fail)

    assert replay(ledger, id_) == 0
    ledger.work(charge_and_mail)
    assert calls == ["charge", "mail"]
    assert ledger.state(id_) == "done"


def test_a_dry_run_says_what_is_done_and_changes_nothing(ledger: Ledger) -> None:
    id_ = ledger.accept("k1")
    ledger.work(charge_then_fail)
    before = ledger.inspect(id_)

    plain = ledger.type("delivery", "replay", id_, "--dry-run")
    as_json = ledger.type("delivery", "replay", id_, "--dry-run", "--json").record

    assert plain.code == 0
    assert ["done", "charge", "will not run again; its stored result is used"] in plain.rows
    assert as_json == {"id": id_, "would_run": True, "done": ["charge"], "may_run": []}
    assert ledger.inspect(id_) == before


def test_a_dry_run_says_that_it_would_be_refused(ledger: Ledger) -> None:
    id_ = ledger.accept("k1")
    answer = ledger.type("delivery", "replay", id_, "--dry-run")

    assert answer.code == 4
    assert answer.rows[0][0] == "would be refused"
    assert (
        ledger.type("delivery", "replay", id_, "--dry-run", "--json").record["would_run"] is False
    )


def test_every_deed_is_audited_with_who_and_why(ledger: Ledger) -> None:
    id_ = ledger.accept("k1")
    ledger.type("delivery", "hold", id_, "--why", "a look first", "--who", "ada")
    ledger.type("delivery", "release", id_, "--why", "looked")
    hold, release = ledger.inspect(id_)["audit"]

    assert (hold["action"], hold["who"], hold["why"]) == ("hold", "ada", "a look first")
    assert (release["action"], release["why"]) == ("release", "looked")
    assert "@" in release["who"]


@pytest.mark.parametrize("deed", ["replay", "hold", "release", "drop"])
def test_a_deed_without_a_reason_is_refused(ledger: Ledger, deed: str) -> None:
    id_ = ledger.accept("k1")
    answer = ledger.type("delivery", deed, id_, "--why", " ")

    assert answer.code == 2
    assert "--why" in answer.err
    assert ledger.inspect(id_)["audit"] == []


@pytest.mark.parametrize("deed", ["replay", "release", "drop"])
def test_a_deed_that_does_not_fit_the_state_is_exit_code_4(ledger: Ledger, deed: str) -> None:
    id_ = ledger.accept("k1")
    answer = ledger.type("delivery", deed, id_, "--why", "try", "--json")

    assert answer.code == 4
    assert answer.error["code"] == "state_conflict"


@pytest.mark.parametrize("deed", ["replay", "hold", "release", "drop"])
def test_a_deed_to_nothing_is_exit_code_3(ledger: Ledger, deed: str) -> None:
    assert ledger.type("delivery", deed, "dlv_nothing", "--why", "try").code == 3


def test_a_held_one_does_not_run_until_released(ledger: Ledger) -> None:
    id_ = ledger.accept("k1")
    ledger.type("delivery", "hold", id_, "--why", "wait")
    ledger.work(charge_and_mail)
    assert calls == []

    ledger.type("delivery", "release", id_, "--why", "go")
    ledger.work(charge_and_mail)
    assert calls == ["charge", "mail"]


def test_an_effect_in_doubt_waits_for_a_persons_word(ledger: Ledger) -> None:
    id_ = ledger.accept("k1")
    ledger.work(lose_the_answer)
    assert ledger.state(id_) == "held"

    refused = ledger.type("delivery", "release", id_, "--why", "go")
    assert refused.code == 4
    assert "--effect charge=done" in refused.err

    word = ("--effect", "charge=done")
    assert ledger.type("delivery", "release", id_, "--dry-run", *word).code == 0
    assert ledger.type("delivery", "release", id_, "--why", "seen there", *word).code == 0
    ledger.work(charge_and_mail)
    assert calls == ["charge", "mail"]
    assert ledger.inspect(id_)["audit"][0]["detail"] == "charge=done"


def _held(ledger: Ledger, *keys: str) -> list[str]:
    ids = [ledger.accept(key) for key in keys]
    for id_ in ids:
        ledger.type("delivery", "hold", id_, "--why", "wait")
    return ids


def test_a_held_one_is_dropped_and_never_runs(ledger: Ledger) -> None:
    (id_,) = _held(ledger, "k1")

    answer = ledger.type("delivery", "drop", id_, "--why", "a test", "--who", "ada")
    ledger.work(charge_and_mail)

    record = ledger.inspect(id_)
    assert (answer.code, answer.rows, calls) == (0, [[id_, "dropped"]], [])
    assert (record["delivery"]["state"], record["delivery"]["outcome"]) == ("done", "dropped")
    audit = record["audit"][-1]
    assert (audit["action"], audit["who"], audit["why"]) == ("drop", "ada", "a test")


def test_held_ones_are_dropped_by_name_or_all_of_a_source_together(ledger: Ledger) -> None:
    one, two, three, four = _held(ledger, "k1", "k2", "k3", "k4")
    waiting = ledger.accept("k5")

    by_name = ledger.type("delivery", "drop", one, three, "--why", "tests")
    none = ledger.type("delivery", "drop", "--all", "--source", "nobody", "--why", "tests")
    together = ledger.type("delivery", "drop", "--all", "--why", "tests", "--json")

    assert by_name.rows == [[one, "dropped"], [three, "dropped"]]
    assert (none.code, none.out) == (0, "")
    assert [each["id"] for each in together.records] == [two, four]
    assert ledger.state(waiting) == "received"


def test_a_drop_can_be_rehearsed(ledger: Ledger) -> None:
    one, two = _held(ledger, "k1", "k2")

    answer = ledger.type("delivery", "drop", "--all", "--dry-run")

    assert answer.rows == [[one, "would be dropped"], [two, "would be dropped"]]
    assert {ledger.state(one), ledger.state(two)} == {"held"}
    assert len(ledger.inspect(one)["audit"]) == 1


@pytest.mark.parametrize(
    "arguments",
    [[], ["dlv_1", "--all"], ["--all", "--effect", "x=done"], ["a", "b", "--effect", "x=done"]],
)
def test_which_held_ones_are_meant_must_be_said(ledger: Ledger, arguments: list[str]) -> None:
    assert ledger.type("delivery", "drop", *arguments, "--why", "x").code == 2


def test_a_drop_of_all_refuses_those_with_an_effect_in_doubt(ledger: Ledger) -> None:
    doubtful = ledger.accept("k1")
    ledger.work(lose_the_answer)
    (id_,) = _held(ledger, "k2")

    together = ledger.type("delivery", "drop", "--all", "--why", "old")
    word = ("--effect", "charge=done", "--result", '{"id": "ch_1"}')
    alone = ledger.type("delivery", "drop", doubtful, *word, "--why", "seen there")

    assert (together.code, together.rows) == (4, [[id_, "dropped"]])
    assert "--effect charge=done" in together.err
    assert (alone.code, ledger.state(doubtful)) == (0, "done")
    assert ledger.inspect(doubtful)["effects"][0]["result"] == {"id": "ch_1"}


def test_a_word_that_it_did_not_happen_lets_it_run_again(ledger: Ledger) -> None:
    id_ = ledger.accept("k1")
    ledger.work(lose_the_answer)
    ledger.type("delivery", "release", id_, "--why", "not there", "--effect", "charge=not-done")
    ledger.work(charge_and_mail)

    assert calls == ["charge", "charge", "mail"]


results: list[object] = []


async def charge_and_keep_the_result(delivery: Delivery, once: Once) -> None:
    results.append(await once.do("charge", calls.append, "charge"))


def _lost_charge(ledger: Ledger) -> str:
    results.clear()
    id_ = ledger.accept("k1")
    ledger.work(lose_the_answer)
    return id_


@pytest.mark.parametrize("typed", ['{"id": "ch_1"}', 'charge={"id": "ch_1"}'])
def test_a_released_effect_returns_the_result_a_person_gave(ledger: Ledger, typed: str) -> None:
    id_ = _lost_charge(ledger)
    word = ("--effect", "charge=done", "--result", typed, "--why", "seen there")

    assert ledger.type("delivery", "release", id_, *word).code == 0
    ledger.work(charge_and_keep_the_result)

    assert (calls, results) == (["charge"], [{"id": "ch_1"}])
    assert ledger.inspect(id_)["effects"][0]["result"] == {"id": "ch_1"}


def _printed(ledger: Ledger, id_: str, lead: str) -> list[str]:
    """Return the command of the next action, with a reason and a result filled in."""
    command = ledger.inspect(id_)["next_action"].partition(lead)[2].partition("; ")[0]
    _oncebox, *words = shlex.split(command.replace("…", "seen there").replace("JSON", "[7]"))
    return words


@pytest.mark.parametrize(
    ("lead", "state", "result"),
    [("if it happened: ", "done", [7]), ("if not: ", "not_done", None)],
)
def test_the_command_of_the_next_action_ends_the_doubt_as_it_is_printed(
    ledger: Ledger, lead: str, state: str, result: object
) -> None:
    id_ = _lost_charge(ledger)

    assert ledger.type(*_printed(ledger, id_, lead)).code == 0

    effect = ledger.inspect(id_)["effects"][0]
    assert (ledger.state(id_), effect["state"], effect["result"]) == ("received", state, result)


def test_the_next_action_of_a_held_one_names_the_command_that_discards_it(ledger: Ledger) -> None:
    (id_,) = _held(ledger, "k1")

    assert ledger.type(*_printed(ledger, id_, "discard it with: ")).code == 0
    assert ledger.state(id_) == "done"


def test_a_handler_can_tell_that_a_released_effect_has_no_result(ledger: Ledger) -> None:
    id_ = _lost_charge(ledger)

    ledger.type("delivery", "release", id_, "--effect", "charge=done", "--why", "seen there")
    ledger.work(charge_and_keep_the_result)

    assert (calls, results) == (["charge"], [NO_RESULT])
    assert results[0] is NO_RESULT


def test_a_stored_null_is_a_result(ledger: Ledger) -> None:
    id_ = _lost_charge(ledger)
    word = ("--effect", "charge=done", "--result", "null", "--why", "seen there")

    ledger.type("delivery", "release", id_, *word)
    ledger.work(charge_and_keep_the_result)

    assert results == [None]


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("--effect", "charge=done", "--result", "{"), "write JSON"),
        (("--effect", "charge=done", "--result", "NaN"), "write JSON"),
        (("--effect", "charge=not-done", "--result", "1"), "only a done effect has a result"),
        (("--result", "1"), "only a done effect has a result"),
        (("--effect", "charge=done", "--result", "1", "--result", "2"), "two results"),
        (("--effect", "a=done", "--effect", "b=done", "--result", "1"), "NAME=JSON"),
        (("--effect", "charge=done", "--result", '"' + "x" * 1_100_000 + '"'), "1 MiB"),
    ],
    ids=["torn", "nan", "not done", "no effect", "twice", "whose", "too large"],
)
def test_a_result_that_cannot_be_stored_releases_nothing(
    ledger: Ledger, words: tuple[str, ...], hint: str
) -> None:
    id_ = _lost_charge(ledger)
    before = ledger.inspect(id_)

    refused = ledger.type("delivery", "release", id_, "--why", "seen there", *words)

    assert refused.code == 2
    assert hint in refused.err
    assert ledger.inspect(id_) == before


@pytest.mark.parametrize("word", ["charge", "charge=maybe", "=done"])
def test_a_word_that_says_nothing_is_misuse(ledger: Ledger, word: str) -> None:
    id_ = ledger.accept("k1")

    assert replay(ledger, id_, "--effect", word) == 2


def test_a_key_that_means_several_is_not_guessed_at(ledger: Ledger) -> None:
    ids = {ledger.accept("k1", body="a"), ledger.accept("k1", body="b")}
    answer = ledger.type("delivery", "hold", "k1", "--why", "which?")

    assert answer.code == 2
    assert all(id_ in answer.err for id_ in ids)


def test_the_dead_are_replayed_by_name_or_all_together(ledger: Ledger) -> None:
    ids = [ledger.accept(f"k{number}") for number in range(4)]
    ledger.work(charge_then_fail)

    by_name = ledger.type("dead", "replay", ids[0], ids[2], "--why", "mended")
    together = ledger.type("dead", "replay", "--all", "--why", "mended", "--json")

    assert by_name.rows == [[ids[0], "replayed"], [ids[2], "replayed"]]
    assert [each["id"] for each in together.records] == [ids[1], ids[3]]
    assert ledger.type("dead", "list").out == ""
    assert ledger.type("dead", "replay", "--all", "--why", "mended").code == 0


def test_one_refusal_among_the_dead_stops_no_other(ledger: Ledger) -> None:
    dead = ledger.accept("k1")
    ledger.work(charge_then_fail)
    waiting = ledger.accept("k2")
    answer = ledger.type("dead", "replay", "dlv_nothing", waiting, dead, "--why", "mended")

    assert answer.code == 4
    assert answer.rows == [[dead, "replayed"]]
    assert [line.split(":")[1].strip() for line in answer.err.splitlines()] == [
        "not_found",
        "state_conflict",
    ]


@pytest.mark.parametrize("arguments", [[], ["dlv_1", "--all"]])
def test_which_dead_are_meant_must_be_said(ledger: Ledger, arguments: list[str]) -> None:
    assert ledger.type("dead", "replay", *arguments, "--why", "x").code == 2


def test_the_dead_are_marked_as_seen_by_name_or_all_together(ledger: Ledger) -> None:
    ids = [ledger.accept(key) for key in ("k1", "k2", "k3")]
    ledger.work(charge_then_fail)

    by_name = ledger.type("dead", "seen", ids[0], "--why", "known")
    together = ledger.type("dead", "seen", "--all", "--why", "known")

    assert by_name.rows == [[ids[0], "seen"]]
    assert [row[0] for row in together.rows] == ids
    record = ledger.inspect(ids[1])
    assert record["delivery"]["seen_at"] is not None
    assert [each["action"] for each in record["audit"]] == ["see"]
    assert ledger.type("dead", "seen", "--why", "which?").code == 2
