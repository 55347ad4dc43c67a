"""Evidence: what providers tell of mail that they took, and what follows from it.

A word counts for a send that was handed over by the very way whose provider tells, and that the
provider's own name for it, or else our tag, leads to. Whatever does not fit changes nothing.
"""

from collections.abc import Sequence

from oncebox import ids
from oncebox.ledger.events import outbox
from oncebox.ledger.sends import sends, settlements
from oncebox.model.event import EventType, NewEvent
from oncebox.model.evidence import LISTED, Evidence, Heard, Told
from oncebox.model.outcome import Accepted
from oncebox.model.send import Send, SendWord
from oncebox.store.database import Transaction
from oncebox.store.queries import load

_sql = load(__package__, "evidence.sql")

#: the place of a word among those that are heard together, and the send it is about
_Found = dict[int, str]


def hear(
    tx: Transaction, words: Sequence[Evidence], now: int, new_id: ids.NewId = ids.new
) -> list[Heard]:
    """Record what providers tell; say for each word what came of it."""
    about = _about(tx, words)
    found = [(words[place], about[place]) for place in sorted(about)]
    proven = _prove(tx, found, now)
    news = _tell(tx, found, now, new_id)
    listed = _list(tx, found, now)
    return [
        Heard()
        if (id_ := about.get(place)) is None
        else Heard(id_, id_ in proven, (id_, word.what) in news, _count(listed, id_, word))
        for place, word in enumerate(words)
    ]


def hear_all(tx: Transaction, words: Sequence[Sequence[Evidence]], now: int) -> list[list[Heard]]:
    """Record what several webhooks tell, each of which may be about mail of several ways."""
    heard = iter(hear(tx, [each for some in words for each in some], now))
    return [[next(heard) for _ in some] for some in words]


def _about(tx: Transaction, words: Sequence[Evidence]) -> _Found:
    """Return which sends words are about.

    The provider's own name goes before our tag: anybody with an account there can write a tag.
    """
    named = [
        (place, each.tenant, each.transport, each.provider_id) for place, each in enumerate(words)
    ]
    known: _Found = dict(tx.many(_sql.known, named))
    tagged = [(*row, words[row[0]].send_id) for row in named if row[0] not in known]
    by_tag: _Found = dict(tx.many(_sql.tagged, tagged))
    about = {
        place: id_
        for place, id_ in {**by_tag, **known}.items()
        if words[place].send_id in {"", id_}
    }
    return _without_rivals(words, about)


def _without_rivals(words: Sequence[Evidence], about: _Found) -> _Found:
    """Leave out words that give one send two names: the first one heard is the one that counts."""
    names: dict[str, str] = {}
    return {
        place: about[place]
        for place in sorted(about)
        if names.setdefault(about[place], words[place].provider_id) == words[place].provider_id
    }


def _prove(tx: Transaction, found: Sequence[tuple[Evidence, str]], now: int) -> set[str]:
    """Record that mail was taken; return the sends of which nobody knew."""
    first = {id_: word for word, id_ in reversed(found)}
    proof = [
        SendWord(
            tenant=word.tenant, id=id_, fence=0, outcome=Accepted(provider_id=word.provider_id)
        )
        for id_, word in sorted(first.items())
    ]
    settled = settlements.settle(tx, proof, now) if proof else []
    adopted = [(word.tenant, id_, word.provider_id) for id_, word in sorted(first.items())]
    tx.run_many(_sql.adopt, adopted)
    return {each.send.id for each in settled if each is not None and each.counted}


def _tell(
    tx: Transaction, found: Sequence[tuple[Evidence, str]], now: int, new_id: ids.NewId
) -> set[tuple[str, Told]]:
    """Record what became of mail, where that is a stronger word than the last."""
    strongest: dict[str, Evidence] = {}
    for word, id_ in found:
        last = strongest.get(id_)
        if last is None or last.what.strength < word.what.strength:
            strongest[id_] = word
    rows = [
        (word.tenant, id_, word.provider_id, str(word.what), word.what.strength, word.at)
        for id_, word in sorted(strongest.items())
    ]
    changed = {id_ for (id_,) in tx.many(_sql.tell, rows)}
    stand = sends.by_ids(tx, [(strongest[id_].tenant, id_) for id_ in changed])
    outbox.record(tx, [_event(stand[place], now, new_id) for place in sorted(stand)])
    return {(id_, strongest[id_].what) for id_ in changed}


def _list(
    tx: Transaction, found: Sequence[tuple[Evidence, str]], now: int
) -> set[tuple[str, bytes]]:
    """Put recipients on the suppression list, each once for a send and a reason.

    So a word that is heard again does not undo what a person did since.
    """
    rows = {
        (word.tenant, id_, each.mark): (word, each.address)
        for word, id_ in sorted(found, key=lambda pair: pair[0].what.strength)
        if word.what in LISTED
        for each in word.addressees
    }
    wishes = [(*place, word.what.strength) for place, (word, _) in sorted(rows.items())]
    news = {(tenant, id_, bytes(mark)) for tenant, id_, mark in tx.many(_sql.note, wishes)}
    fresh = [
        (*place, address, LISTED[word.what])
        # in the order of their keys, so that nobody waits for who waits for him
        for place, (word, address) in sorted(rows.items(), key=lambda item: item[0][::2])
        if place in news
    ]
    return {(id_, bytes(mark)) for id_, mark in tx.many(_sql.suppress, fresh, now=now)}


def _count(listed: set[tuple[str, bytes]], id_: str, word: Evidence) -> int:
    return sum((id_, each.mark) in listed for each in word.addressees if word.what in LISTED)


def _event(send: Send, now: int, new_id: ids.NewId) -> NewEvent:
    return NewEvent(
        id=new_id("evt"),
        tenant=send.tenant,
        type=EventType.SEND_DELIVERY,
        attempt_id=send.attempt_id,
        subject_id=send.id,
        at=now,
        data={
            "delivery": send.delivery,
            "event_type": send.event_type,
            "transport": send.transport,
            "message_id": send.message_id,
            "provider_id": send.provider_id,
        },
    )
