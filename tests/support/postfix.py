"""A real Postfix: its own configuration, queue and port, ended for sure. It must run as root."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self

from tests.support.debian import program
from tests.support.ports import free_port

_READY_WITHIN = 30.0
_MASTER = """\
127.0.0.1:{port} inet n - n - - smtpd
pickup unix n - n 60 1 pickup
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
tlsmgr unix - - n 1000? 1 tlsmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
verify unix - - n - 1 verify
flush unix n - n 1000? 0 flush
proxymap unix - - n - - proxymap
proxywrite unix - - n - 1 proxymap
smtp unix - - n - - smtp
relay unix - - n - - smtp
showq unix n - n - - showq
error unix - - n - - error
retry unix - - n - - error
discard unix - - n - - discard
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
postlog unix-dgram n - n - 1 postlogd
"""
_MAIN = {
    "compatibility_level": "3.6",
    "myhostname": "relay.oncebox.test",
    "mydestination": "",
    "mynetworks": "127.0.0.0/8",
    "inet_interfaces": "127.0.0.1",
    "inet_protocols": "ipv4",
    "local_recipient_maps": "",
    "alias_maps": "",
    "alias_database": "",
    "smtpd_recipient_restrictions": "permit_mynetworks, reject",
    "smtpd_client_connection_rate_limit": "0",
    "smtpd_client_connection_count_limit": "0",
    "smtpd_client_message_rate_limit": "0",
    "message_size_limit": "52428800",
    "smtputf8_enable": "yes",
    "notify_classes": "",
    # What fails is tried again at once.
    "queue_run_delay": "1s",
    "minimal_backoff_time": "1s",
    "maximal_backoff_time": "1s",
    "transport_retry_time": "1s",
    "smtp_connect_timeout": "5s",
    "in_flow_delay": "0s",
}


class Postfix:
    """A mail server that hands on what it gets; leaving the block ends it."""

    def __init__(self, **settings: str) -> None:
        self._settings = settings
        self.port = free_port()
        self._folder = Path(tempfile.mkdtemp(prefix="oncebox-postfix-"))
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def relaying(cls, port: int, **settings: str) -> Self:
        """Hand everything on to a server on this machine."""
        where = f"smtp:[127.0.0.1]:{port}"
        return cls(default_transport=where, relay_transport=where, **settings)

    @classmethod
    def discarding(cls, **settings: str) -> Self:
        """Keep everything in a durable queue, then throw it away."""
        return cls(default_transport="discard:", relay_transport="discard:", **settings)

    @property
    def pid(self) -> int:
        """The process all others descend from."""
        return self._master()

    def __enter__(self) -> Self:
        postfix = program("postfix", "postfix")
        self._folder.chmod(0o755)
        conf, data = self._folder / "conf", self._folder / "data"
        for each in (conf, data, self._folder / "queue"):
            each.mkdir()
        shutil.chown(data, "postfix")
        settings = {
            **_MAIN,
            **self._settings,
            "queue_directory": str(self._folder / "queue"),
            "data_directory": str(data),
            "maillog_file": str(self._folder / "log"),
            "maillog_file_prefixes": str(self._folder),
        }
        lines = "".join(f"{name} = {value}\n" for name, value in settings.items())
        (conf / "main.cf").write_text(lines)
        (conf / "master.cf").write_text(_MASTER.format(port=self.port))
        with (self._folder / "out").open("wb") as out:
            self._process = subprocess.Popen(
                [postfix, "-c", str(conf), "start-fg"], stdout=out, stderr=out,
                start_new_session=True, env={**os.environ, "MAIL_CONFIG": str(conf)},
            )  # fmt: skip
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        master = self._master()
        for signal_ in (signal.SIGTERM, signal.SIGKILL) if master else ():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(master, signal_)
            self._wait_until_gone(master)
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _master(self) -> int:
        """Return the process all others descend from; it leads a group of its own."""
        file = self._folder / "queue" / "pid" / "master.pid"
        return int(file.read_text()) if file.exists() else 0

    def _wait_until_gone(self, pid: int) -> None:
        give_up = time.monotonic() + 5
        while Path(f"/proc/{pid}").exists() and time.monotonic() < give_up:
            time.sleep(0.02)

    def log(self) -> str:
        """Return what it wrote so far."""
        texts = (self._folder / name for name in ("out", "log"))
        return "".join(path.read_text(errors="replace") for path in texts if path.exists())

    def try_again(self) -> None:
        """Let it try now what it would try later."""
        words = [program("postqueue", "postfix"), "-c", str(self._folder / "conf"), "-f"]
        subprocess.run(words, check=False, capture_output=True, timeout=30)

    def queued(self) -> int:
        """Return how many mails it still has."""
        folders = (self._folder / "queue" / name for name in ("incoming", "active", "deferred"))
        return sum(path.is_file() for folder in folders for path in folder.rglob("*"))

    def _wait(self) -> None:
        give_up = time.monotonic() + _READY_WITHIN
        while True:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=5) as line:
                    if line.recv(3) == b"220":
                        return
            except OSError:
                pass
            assert self._process is not None
            if time.monotonic() > give_up or self._process.poll() is not None:
                message = f"Postfix did not start:\n{self.log()}"
                raise AssertionError(message)
            time.sleep(0.05)
