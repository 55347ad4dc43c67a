"""A webhook endpoint process, to be killed: ``… inbound_receiver URL --port=N --keeper=H:P``."""

import argparse
import asyncio
import signal

import uvloop

from oncebox.core.egress import Egress
from oncebox.server.http.http_server import HttpServer, listen
from oncebox.wiring import open_components
from tests.support.databases import Place
from tests.support.hookserver import HTTP, _nothing_here, endpoint
from tests.support.program import settings

READY = "listening on "


async def receive(url: str, port: int, keeper: str) -> None:
    """Serve until told to stop."""
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    place = Place(url.partition(":")[0].removesuffix("ql"), url)
    rooms = await open_components(settings(place))
    await rooms.sources.refresh()
    hooks = endpoint(rooms, Egress(local=[keeper]))
    sockets = listen("127.0.0.1", port)
    async with HttpServer(_nothing_here, sockets, HTTP, rooms.telemetry, hooks):
        print(f"{READY}{port}", flush=True)  # noqa: T201 - the parent waits for it
        await stopping.wait()
    await rooms.close()


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--port", type=int)
    parser.add_argument("--keeper")
    options = parser.parse_args()
    uvloop.run(receive(options.url, options.port, options.keeper))


if __name__ == "__main__":
    main()
