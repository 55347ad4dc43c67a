"""A worker is killed between two effects of a handler."""

from signal import SIGKILL

from oncebox.cli.demo.hook import new_hook, send_once
from oncebox.cli.demo.scene import Fact, Naive, Ours, Scene, several
from oncebox.cli.demo.stage import Stage
from oncebox.cli.demo.world import World


def _naive(stage: Stage) -> Naive:
    """Run the same two steps without a journal, as a queue does that delivers again."""
    folder = stage.folder / "naive-world"
    world, module = World(folder), "oncebox.cli.demo.naive_worker"
    first = stage.start(module, str(folder))
    first.hear()
    stage.note("kill -9 of the naive worker, which has charged and not shipped")
    first.kill()
    again = stage.start(module, str(folder))
    again.hear()
    again.tell("go on")
    again.hear()
    charged, shipped = world.count("charged"), world.count("shipped")
    return Naive(
        came_to=_told(charged, shipped),
        ran="run again what did not end",
        figures={"charged": charged, "shipped": shipped},
    )


def _play(stage: Stage) -> Ours:
    url, secret = stage.shop
    stage.note("a webhook says that an order is paid")
    send_once(url, new_hook(secret, "order.paid", "order-1"))
    stage.until(lambda: stage.world.count("between") > 0)
    pid = stage.world.doers("between")[-1]
    (worker,) = [each for each in stage.workers if each.pid == pid]
    stage.note("kill -9 of the worker, which has charged and not shipped")
    died_of = worker.kill()
    stage.world.do("go on")
    stage.note("the other worker takes over when the lease has run out")
    states = [str(each.delivery.state) for each in stage.settled("order.paid")]
    charged, shipped = stage.world.count("charged"), stage.world.count("shipped")
    return Ours(
        came_to=_told(charged, shipped),
        after=f"kill -{died_of}",
        facts=[
            Fact(what="the worker died of signal", counted=died_of, promised=int(SIGKILL)),
            Fact(what="the delivery is", counted=", ".join(states), promised="done"),
            Fact(what="charged", counted=charged, promised=1),
            Fact(what="shipped", counted=shipped, promised=1),
        ],
    )


def _told(charged: int, shipped: int) -> str:
    return f"charged {several(charged, 'time')}, shipped {several(shipped, 'time')}"


SCENE = Scene(
    name="worker",
    title="A worker is killed after it charged, before it shipped",
    naive=_naive,
    play=_play,
    prepare=lambda stage: stage.workers,
)
