"""`oncebox key rotate-master`: from the key in use to a new one, whatever interrupts it."""

import base64
import os
import shutil
import stat
from pathlib import Path

import pytest

from oncebox.core import encryption, faults
from oncebox.ledger import master_key_rotation
from tests.cli.ledger import Ledger

ADDRESS = "ann@example.com"


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other process must learn of the new data key."""
    monkeypatch.setattr(master_key_rotation, "LEARN_WITHIN", 0)


@pytest.fixture
def beside(bare: Ledger, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The key file beside the database, in which there is an encrypted value."""
    monkeypatch.delenv("ONCEBOX_MASTER_KEY")
    bare.type("suppression", "add", ADDRESS)
    return Path(os.environ["ONCEBOX_DATA_DIR"]) / "oncebox.key"


def key_id(path: Path) -> str:
    return encryption.master_key_from_file(path).id


def suppressed(ledger: Ledger) -> str:
    return str(ledger.type("suppression", "list", "--json").record["address"])


def test_the_key_beside_the_database_is_replaced_and_the_old_one_kept(
    bare: Ledger, beside: Path
) -> None:
    old = key_id(beside)
    answer = bare.type("key", "rotate-master", "--json", "--who", "ada", "--why", "leaked")

    new = key_id(beside)
    kept = Path(answer.record["old_key_file"])
    assert (answer.code, answer.record["finished"], answer.record["encrypted"]) == (0, True, 1)
    assert answer.record["master_key_id"] == new != old
    assert key_id(kept) == old
    assert {stat.S_IMODE(each.stat().st_mode) for each in (beside, kept)} == {0o600}
    assert suppressed(bare) == ADDRESS
    assert bare.audit(f"master-key:{new}") == [("ada", "key rotate-master", "leaked")]
    assert sorted(each.name for each in beside.parent.glob("oncebox.key*")) == [
        "oncebox.key",
        kept.name,
    ]


@pytest.mark.parametrize(
    "point", ["rotation.begun", "rotation.batch-committed", "rotation.key-file-placed"]
)
def test_an_interrupted_rotation_leaves_a_usable_database_and_goes_on(
    bare: Ledger, beside: Path, point: str
) -> None:
    faults.arm(f"{point}:1:raise")
    with pytest.raises(faults.InjectedFault):
        bare.type("key", "rotate-master")
    faults.disarm()
    between = suppressed(bare)
    warned = [row for row in bare.type("doctor").rows if "master key" in row]
    answer = bare.type("key", "rotate-master", "--json")

    assert between == suppressed(bare) == ADDRESS
    assert "oncebox key rotate-master" in str(warned)
    assert (answer.code, answer.record["finished"]) == (0, True)
    assert answer.record["master_key_id"] == key_id(beside)
    assert not beside.with_name("oncebox.key.new").exists()


def test_a_key_that_the_operator_sets_stays_until_the_new_one_is_set(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = os.environ["ONCEBOX_MASTER_KEY"], base64.b64encode(bytes([7] * 32)).decode()
    file = tmp_path / "new.key"
    file.write_text(new)
    ledger.type("suppression", "add", ADDRESS)
    refused = ledger.type("key", "rotate-master")
    begun = ledger.type("key", "rotate-master", "--new-key-file", str(file), "--json")
    both = [suppressed(ledger)]
    monkeypatch.setenv("ONCEBOX_MASTER_KEY", new)
    both.append(suppressed(ledger))
    ended = ledger.type("key", "rotate-master", "--json")
    last = suppressed(ledger)
    monkeypatch.setenv("ONCEBOX_MASTER_KEY", old)
    wrong = ledger.type("suppression", "list")

    assert "--new-key-file" in refused.err
    assert (begun.record["finished"], ended.record["finished"]) == (False, True)
    assert begun.record["master_key_id"] == ended.record["master_key_id"] == key_id(file)
    assert [*both, last] == [ADDRESS] * 3
    assert "master_key_wrong" in wrong.err
    assert key_id(file) in wrong.err
    assert old not in wrong.err


# a database that was restored to the middle of a rotation


def restored_in_the_middle(bare: Ledger, beside: Path, tmp_path: Path) -> Path:
    """Return the key that the restored database is being rotated to; that of before is in use."""
    faults.arm("rotation.begun:1:raise")
    with pytest.raises(faults.InjectedFault):
        bare.type("key", "rotate-master")
    faults.disarm()
    archive, target = tmp_path / "middle.tar", tmp_path / "target.key"
    assert bare.type("backup", str(archive)).code == 0
    old = key_id(beside)
    assert bare.type("key", "rotate-master").code == 0
    shutil.copy(beside, target)
    shutil.copy(beside.with_name(f"oncebox.key.{old}"), beside)  # as restore asks
    assert bare.type("restore", str(archive), "--force").code == 0
    return target


def stray_draft(beside: Path) -> Path:
    """Make a new key that no rotation has begun for."""
    draft = beside.with_name("oncebox.key.new")
    draft.write_text(base64.b64encode(bytes([9] * 32)).decode())
    return draft


def test_a_rotation_that_has_begun_goes_on_with_its_own_key_only_and_makes_no_other(
    bare: Ledger, beside: Path, tmp_path: Path
) -> None:
    target = restored_in_the_middle(bare, beside, tmp_path)
    other = tmp_path / "other.key"
    other.write_text(base64.b64encode(bytes([8] * 32)).decode())
    refused = bare.type("key", "rotate-master")
    wrong = bare.type("key", "rotate-master", "--new-key-file", str(other))
    left = beside.with_name("oncebox.key.new").exists()
    answer = bare.type("key", "rotate-master", "--new-key-file", str(target), "--json")

    assert (refused.code, wrong.code, left) == (1, 1, False)
    assert "master_key_rotating" in refused.err
    for each in (refused, wrong):
        assert "--new-key-file" in each.err
        assert key_id(target) in each.err
    assert (answer.code, answer.record["finished"]) == (0, True)
    assert key_id(beside) == key_id(target) == answer.record["master_key_id"]
    assert suppressed(bare) == ADDRESS


def test_the_key_of_a_rotation_takes_the_place_of_a_stray_one_which_is_kept(
    bare: Ledger, beside: Path, tmp_path: Path
) -> None:
    target = restored_in_the_middle(bare, beside, tmp_path)
    stray = key_id(stray_draft(beside))
    refused = bare.type("key", "rotate-master")
    answer = bare.type("key", "rotate-master", "--new-key-file", str(target))

    assert "master_key_rotating" in refused.err
    assert answer.code == 0, answer.err
    assert key_id(beside) == key_id(target)
    assert key_id(beside.with_name(f"oncebox.key.{stray}")) == stray
    assert suppressed(bare) == ADDRESS


def test_a_finished_rotation_leaves_the_key_that_opens_the_database(
    bare: Ledger, beside: Path, tmp_path: Path
) -> None:
    target = restored_in_the_middle(bare, beside, tmp_path)
    stray_draft(beside)
    shutil.copy(target, beside)  # both keys open the database
    answer = bare.type("key", "rotate-master", "--json")

    assert (answer.code, answer.record["finished"]) == (0, True)
    assert key_id(beside) == key_id(target) == answer.record["master_key_id"]
    assert suppressed(bare) == ADDRESS
