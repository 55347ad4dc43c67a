"""A real Dovecot: its own configuration, mail and ports, ended for sure. It must run as root."""

import os
import shutil
import signal
import smtplib
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from tests.support import certificates
from tests.support.debian import program
from tests.support.ports import free_port

_READY_WITHIN = 30.0
#: Dovecot reads no mail as root.
_USER, _GROUP = "nobody", "nogroup"
PASSWORD = "secret"
_CONFIG = """\
base_dir = {folder}/run
state_dir = {folder}/state
log_path = {folder}/log
protocols = imap lmtp
listen = 127.0.0.1
ssl = yes
ssl_cert = <{folder}/certificate.pem
ssl_key = <{folder}/certificate.pem
disable_plaintext_auth = no
mail_location = maildir:{folder}/mail/%u
mailbox_idle_check_interval = 1 secs
mail_max_userip_connections = 1000
default_internal_user = {user}
default_login_user = {user}
default_internal_group = {group}
first_valid_uid = 1
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid={user} gid={group} home={folder}/mail/%u allow_all_users=yes
}}
service anvil {{
  chroot =
}}
service stats {{
  chroot =
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    port = {port}
  }}
  inet_listener imaps {{
    port = {tls_port}
  }}
}}
service lmtp {{
  inet_listener lmtp {{
    address = 127.0.0.1
    port = {lmtp_port}
  }}
}}
"""


class Dovecot:
    """An IMAP server for any user, with the password `PASSWORD`; leaving the block ends it."""

    def __init__(self) -> None:
        self.port, self.tls_port, self.lmtp_port = free_port(), free_port(), free_port()
        self.tls: ssl.SSLContext = ssl.create_default_context()
        self._folder = Path(tempfile.mkdtemp(prefix="oncebox-dovecot-"))
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        dovecot = program("dovecot", "dovecot-imapd", "dovecot-imapd", "dovecot-lmtpd")
        self._folder.chmod(0o755)
        for name in ("run", "mail", "state"):
            (self._folder / name).mkdir()
        _, self.tls = certificates.make(self._folder)
        config = self._folder / "dovecot.conf"
        config.write_text(
            _CONFIG.format(
                folder=self._folder, user=_USER, group=_GROUP, password=PASSWORD,
                port=self.port, tls_port=self.tls_port, lmtp_port=self.lmtp_port,
            )
        )  # fmt: skip
        for path in (self._folder, *self._folder.rglob("*")):
            shutil.chown(path, _USER, _GROUP)
        with (self._folder / "out").open("wb") as out:
            self._process = subprocess.Popen(
                [dovecot, "-F", "-c", str(config)], stdout=out, stderr=out,
                user=_USER, group=_GROUP, extra_groups=[], start_new_session=True,
                cwd=self._folder,
            )  # fmt: skip
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        if self._process is not None:
            for each in (signal.SIGTERM, signal.SIGKILL):
                try:
                    os.killpg(self._process.pid, each)
                    self._process.wait(10)
                except (ProcessLookupError, subprocess.TimeoutExpired):
                    continue
        shutil.rmtree(self._folder, ignore_errors=True)

    def deliver(self, user: str, mail: bytes) -> None:
        """Let a mail arrive by LMTP."""
        with smtplib.LMTP("127.0.0.1", self.lmtp_port, timeout=30) as client:
            client.sendmail("sender@example.com", [user], mail)

    def fill(self, user: str, mails: Iterable[bytes]) -> None:
        """Put mails into the INBOX of a user who has none yet; they are indexed before it ends."""
        folder = self._folder / "mail" / user
        for name in ("new", "cur", "tmp"):
            (folder / name).mkdir(parents=True)
        for number, mail in enumerate(mails, 1):
            # As Dovecot names them: with the size in bytes and as it is transmitted.
            size = f"S={len(mail)},W={len(mail)}"
            (folder / "cur" / f"{number:010}.M1P1.localhost,{size}:2,").write_bytes(mail)
        for path in (folder, *folder.rglob("*")):
            shutil.chown(path, _USER, _GROUP)
        self.doveadm("index", "-u", user, "INBOX")

    def doveadm(self, *words: str) -> None:
        """Change a mailbox by Dovecot's own tool."""
        config = str(self._folder / "dovecot.conf")
        command = [program("doveadm", "dovecot-core"), "-c", config, *words]
        done = subprocess.run(
            command, check=False, capture_output=True, timeout=30, user=_USER, group=_GROUP,
            extra_groups=[], cwd=self._folder,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr.decode(errors="replace")

    def flags(self, user: str) -> set[str]:
        """Return the flags of all mails in a user's INBOX, from the names of their files."""
        files = (self._folder / "mail" / user / "cur").glob("*")
        return {path.name.partition(":2,")[2] for path in files}

    def mail_count(self, user: str) -> int:
        """Return how many mails a user has in INBOX."""
        folder = self._folder / "mail" / user
        return sum(1 for name in ("new", "cur") for _ in (folder / name).glob("*"))

    def log(self) -> str:
        """Return what it wrote so far."""
        texts = (self._folder / name for name in ("out", "log"))
        return "".join(path.read_text(errors="replace") for path in texts if path.exists())

    def _wait(self) -> None:
        give_up = time.monotonic() + _READY_WITHIN
        while True:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=5) as line:
                    if line.recv(4) == b"* OK":
                        return
            except OSError:
                pass
            assert self._process is not None
            if time.monotonic() > give_up or self._process.poll() is not None:
                message = f"Dovecot did not start:\n{self.log()}"
                raise AssertionError(message)
            time.sleep(0.05)
