"""Faults in group commit: batches that the writer takes late, and bulk inserts that begin early."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection

_GROUP = "src/oncebox/db/group_commit.py"
_TAKE = (
    "                if self._untaken is batch:\n"
    "                    self._untaken = None\n"
    "                batch.pending = self._next_batch()\n"
)


def _tests(*names: str) -> tuple[Selection, ...]:
    file = "tests/contract/db/test_group_commit.py"
    return tuple(Selection((f"{file}::{name}",)) for name in names)


GROUP_COMMIT = (
    Mutant(
        "a batch that collects while it is taken",
        (
            Patch(
                _GROUP,
                _TAKE,
                "                batch.pending = self._next_batch()\n"
                "                if self._untaken is batch:\n"
                "                    self._untaken = None\n",
            ),
        ),
        _tests("test_whoever_comes_while_the_writer_takes_a_batch_begins_the_next_one"),
    ),
    Mutant(
        "a batch that collects after it was taken",
        (Patch(_GROUP, _TAKE, "                batch.pending = self._next_batch()\n"),),
        _tests("test_whoever_comes_while_the_writer_takes_a_batch_begins_the_next_one"),
    ),
    Mutant(
        "a batch that is taken when it begins",
        (
            Patch(
                _GROUP,
                "        batch: _Batch[Item, Result] = _Batch()\n        self._untaken = batch\n",
                "        batch: _Batch[Item, Result] = _Batch(self._next_batch())\n",
            ),
        ),
        _tests("test_whoever_comes_before_the_writer_is_free_is_in_its_next_batch"),
    ),
    Mutant(
        "a batch that is taken again",
        (
            Patch(
                _GROUP,
                "            if batch.pending is None:\n",
                "            if batch.pending is None or self._pending:\n",
            ),
        ),
        _tests(
            "test_whoever_comes_during_a_commit_does_not_get_its_answers",
            "test_a_stop_answers_those_whom_the_writer_has_not_taken_and_leaves_others_alone",
        ),
    ),
    Mutant(
        "a batch that two threads take",
        (
            Patch(
                _GROUP,
                "        with self._taking:\n            if batch.pending is None:\n",
                "        if self._taking:\n            if batch.pending is None:\n",
            ),
        ),
        _tests("test_a_stop_while_the_writer_takes_a_batch_answers_all_of_it"),
    ),
    Mutant(
        "a failed commit that answers only those it has taken",
        (
            Patch(
                _GROUP,
                "            self._fail(self._take(batch), error)\n",
                "            self._fail(batch.pending or [], error)\n",
            ),
        ),
        _tests("test_a_closed_database_leaves_no_caller_waiting"),
    ),
    Mutant(
        "a stop that answers only those who were taken",
        (
            Patch(
                _GROUP,
                "            self._fail(self._take(batch), stopping)\n",
                "            self._fail(batch.pending or [], stopping)\n",
            ),
        ),
        _tests("test_a_stop_answers_those_whom_the_writer_has_not_taken_and_leaves_others_alone"),
    ),
    Mutant(
        "a bulk insert that is begun and forgotten",
        (
            Patch(
                _GROUP,
                "        if not self._commits_without_fast or batch.inserting is not None:\n",
                "        if not self._commits_without_fast:\n",
            ),
        ),
        _tests("test_no_bulk_insert_that_has_begun_is_forgotten"),
    ),
    Mutant(
        "items without a row that are left out of a bulk insert",
        (
            Patch(
                _GROUP,
                "            if len(found) < len(self._take(batch)):\n"
                "                return None\n",
                "",
            ),
            Patch(
                _GROUP,
                "self._insert.results(items) if inserted == len(items) else None",
                "self._insert.results(items) if inserted >= 0 else None",
            ),
        ),
        _tests("test_an_item_that_needs_more_than_a_row_is_left_to_the_function"),
    ),
)
