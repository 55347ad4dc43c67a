"""Mail by Node: npm's smtp-server, which keeps nothing, installed in a temporary folder."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
from pathlib import Path

from bench import mailload
from tests.support.debian import program

VERSION = "3.21.1"
SERVER = """
const {SMTPServer} = require("smtp-server");
const server = new SMTPServer({
  authOptional: true, disabledCommands: ["AUTH", "STARTTLS"], disableReverseLookup: true,
  onData(stream, session, callback) { stream.on("data", () => {}); stream.on("end", callback); },
});
server.on("error", () => {});
server.listen(0, "127.0.0.1", () =>
  console.log("smtp: 127.0.0.1:" + server.server.address().port));
"""


def main() -> None:
    """Install, measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--seconds", type=float, default=mailload.SECONDS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="oncebox-npm-") as folder:
        _install(Path(folder))
        (Path(folder) / "server.js").write_text(SERVER)
        server = [program("node", "nodejs"), f"{folder}/server.js"]
        mailload.measure(server, f"smtp-server {VERSION}", seconds=options.seconds)


def _install(folder: Path) -> None:
    """Install the package; those who run many rounds get it from npm's own cache."""
    npm = shutil.which("npm") or program("npm", "npm")
    words = [npm, "install", "--prefix", str(folder), "--prefer-offline", "--no-audit", "--no-fund"]
    subprocess.run(
        [*words, "--ignore-scripts", f"smtp-server@{VERSION}"],
        check=True,
        stdout=subprocess.DEVNULL,
    )


if __name__ == "__main__":
    main()
