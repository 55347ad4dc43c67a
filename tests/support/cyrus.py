"""A real Cyrus with JMAP: its own configuration, mail and ports, ended for sure. It needs root.

Debian's package conflicts with other IMAP servers, so it is unpacked and not installed.
"""

import contextlib
import imaplib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self

from tests.support.debian import unpacked
from tests.support.ports import free_port

_READY_WITHIN = 30.0
#: Cyrus does not run as root.
_USER, _GROUP = "nobody", "nogroup"
_PACKAGES = (
    "cyrus-imapd", "cyrus-common", "cyrus-caldav", "cyrus-admin", "libcyrus-imap-perl",
    "libclamav12", "libical3", "libpcre3", "libshp2", "libwrap0", "libxapian30", "libzephyr4",
)  # fmt: skip
_FOLDERS = ("db", "socket", "proc", "log", "msg", "user", "quota", "sieve", "lock")
_IMAPD = """\
configdirectory: {folder}/conf
partition-default: {folder}/spool
defaultpartition: default
admins: admin
cyrus_user: {user}
cyrus_group: {group}
sasl_pwcheck_method: alwaystrue
sasl_mech_list: PLAIN LOGIN
allowplaintext: yes
virtdomains: userid
defaultdomain: example.test
unixhierarchysep: yes
altnamespace: yes
conversations: yes
conversations_db: twoskip
httpmodules: jmap
httpallowcompress: no
autocreate_post: yes
autocreate_quota: 0
autocreate_inbox_folders: Drafts|Sent|Trash
mboxname_lockpath: {folder}/conf/lock
proc_path: {folder}/conf/proc
idlesocket: {folder}/conf/socket/idle
notifysocket: {folder}/conf/socket/notify
lmtpsocket: {folder}/conf/socket/lmtp
defaultsearchtier: t1
"""
_MASTER = """\
START {{
  recover cmd="{bin}/ctl_cyrusdb -C {folder}/imapd.conf -r"
}}
SERVICES {{
  imap cmd="{bin}/imapd -C {folder}/imapd.conf -U 30" listen="127.0.0.1:{imap}" prefork=0
  http cmd="{bin}/httpd -C {folder}/imapd.conf -U 30" listen="127.0.0.1:{http}" prefork=0
}}
EVENTS {{
}}
"""


class Cyrus:
    """A JMAP server for any user with any password; leaving the block ends it."""

    def __init__(self) -> None:
        self.imap_port, self.http_port = free_port(), free_port()
        self._folder = Path(tempfile.mkdtemp(prefix="oncebox-cyrus-"))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The session resource."""
        return f"http://127.0.0.1:{self.http_port}/jmap/"

    def __enter__(self) -> Self:
        root = unpacked("cyrus", *_PACKAGES)
        programs = root / "usr" / "lib" / "cyrus" / "bin"
        self._configure(programs)
        libraries = [root / "usr" / "lib" / "x86_64-linux-gnu", root / "lib" / "x86_64-linux-gnu"]
        words = ["-C", f"{self._folder}/imapd.conf", "-M", f"{self._folder}/cyrus.conf"]
        words += ["-p", f"{self._folder}/run/pid", "-L", f"{self._folder}/log"]
        environment = {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(map(str, libraries))}
        with (self._folder / "out").open("wb") as out:
            self._process = subprocess.Popen(
                [str(programs / "master"), *words], stdout=out, stderr=out, env=environment,
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
                with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                    os.killpg(self._process.pid, each)
                    self._process.wait(10)
        shutil.rmtree(self._folder, ignore_errors=True)

    def deliver(self, user: str, mail: bytes, folder: str = "INBOX") -> None:
        """Let a mail arrive; the first makes the mailbox."""
        with imaplib.IMAP4("127.0.0.1", self.imap_port, timeout=30) as client:
            client.login(user, "any")
            status, said = client.append(folder, "", "", mail)
            assert status == "OK", said

    def log(self) -> str:
        """Return what it wrote so far."""
        texts = (self._folder / name for name in ("out", "log"))
        return "".join(path.read_text(errors="replace") for path in texts if path.is_file())

    def _configure(self, programs: Path) -> None:
        self._folder.chmod(0o755)
        for name in ("spool", "run", *(f"conf/{each}" for each in _FOLDERS)):
            (self._folder / name).mkdir(parents=True)
        names = {"folder": self._folder, "user": _USER, "group": _GROUP, "bin": programs}
        (self._folder / "imapd.conf").write_text(_IMAPD.format(**names))
        ports = {"imap": self.imap_port, "http": self.http_port}
        (self._folder / "cyrus.conf").write_text(_MASTER.format(**names, **ports))
        for path in (self._folder, *self._folder.rglob("*")):
            shutil.chown(path, _USER, _GROUP)

    def _wait(self) -> None:
        give_up = time.monotonic() + _READY_WITHIN
        while True:
            try:
                with socket.create_connection(("127.0.0.1", self.imap_port), timeout=10) as line:
                    if line.recv(4) == b"* OK":
                        return
            except OSError:
                pass
            assert self._process is not None
            if time.monotonic() > give_up or self._process.poll() is not None:
                message = f"Cyrus did not start:\n{self.log()}"
                raise AssertionError(message)
            time.sleep(0.05)
