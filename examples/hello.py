"""A handler to try out: `make run`, then the command that it prints."""

from oncebox.box import Oncebox
from oncebox.model.deliveries.delivery import Delivery
from oncebox.workers.deliveries.once import Once

box = Oncebox()


def greet(name: str) -> str:
    """Stand in for something in the outside world that must not happen twice."""
    print(f"Hello, {name}!", flush=True)
    return f"greeted {name}"


@box.on("hello")
async def hello(delivery: Delivery, once: Once) -> None:
    await once.do("greet", greet, delivery.json["name"])
