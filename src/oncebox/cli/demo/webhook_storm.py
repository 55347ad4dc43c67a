"""One signed webhook comes four hundred times, over several connections at once."""

from oncebox.cli.demo.hook import CONNECTIONS, new_hook, new_secret, storm
from oncebox.cli.demo.naive_shop import naive_shop
from oncebox.cli.demo.scene import Fact, Naive, Ours, Scene, several
from oncebox.cli.demo.stage import Stage

_COPIES = 400
_TAKEN = range(200, 300)


def _naive(stage: Stage) -> Naive:
    secret = new_secret()
    with naive_shop(secret) as shop:
        storm(shop.url, new_hook(secret, "invoice.paid", "invoice-1"), _COPIES, stage.note)
        runs = len(shop.runs)
    return Naive(
        came_to=f"the handler ran {several(runs, 'time')}",
        ran="is the id new? then work, then note the id",
        figures={"handler runs": runs},
    )


def _play(stage: Stage) -> Ours:
    url, secret = stage.shop
    answers = storm(url, new_hook(secret, "invoice.paid", "invoice-1"), _COPIES, stage.note)
    taken = sum(answer in _TAKEN for answer in answers)
    stage.note("waiting for the handler")
    deliveries = stage.settled("invoice.paid")
    again = sum(seen.count for each in deliveries for seen in each.sightings)
    runs = stage.world.count("invoice handled")
    return Ours(
        came_to=f"{several(len(deliveries), 'delivery', 'deliveries')}, "
        f"the handler ran {several(runs, 'time')}",
        after=f"{taken} answered 2xx, {again} known as copies",
        facts=[
            Fact(what="copies answered 2xx", counted=taken, promised=_COPIES),
            Fact(what="deliveries", counted=len(deliveries), promised=1),
            Fact(what="known as copies", counted=again, promised=_COPIES - 1),
            Fact(what="handler runs", counted=runs, promised=1),
        ],
    )


SCENE = Scene(
    name="storm",
    title=f"A signed webhook comes {_COPIES} times over {CONNECTIONS} connections",
    naive=_naive,
    play=_play,
    prepare=lambda stage: stage.workers,
)
