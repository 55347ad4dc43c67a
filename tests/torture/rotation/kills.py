"""kill -9 during the rotation of the master key: every value is read before, between and after."""

import asyncio
import base64
import os
import signal
from collections.abc import Callable
from pathlib import Path

from oncebox.core import ids
from oncebox.core.encryption import HEADER_BYTES
from oncebox.db.database import Transaction
from oncebox.errors import OnceboxError
from oncebox.ledger.admin.audit import AuditEntry
from oncebox.ledger.sends import suppressions
from oncebox.ledger.sends.suppressions import Suppression, SuppressionReason
from oncebox.settings import Settings
from oncebox.settings_loading import load_settings
from oncebox.wiring import open_components
from tests.support.databases import FAST, empty_postgres
from tests.support.postgres import PostgresServer
from tests.torture.checks import Violation
from tests.torture.processes import Child, Children
from tests.torture.scenario import Outcome, Plan

#: more than one batch
VALUES = 450
#: where it dies, and at one of how many passes
POINTS = {
    "rotation.begun": 1,
    "rotation.batch-committed": 12,
    "rotation.key-file-placed": 1,
}


class Installation:
    """A database with encrypted values, and the keys that open it."""

    def __init__(self, folder: Path, url: str = "") -> None:
        folder.mkdir()
        self.folder = folder
        self.keys = [folder / f"{number}.key" for number in range(2)]
        self.environment = {"ONCEBOX_DATA_DIR": str(folder)}
        if url:
            for path in self.keys:
                path.write_bytes(base64.b64encode(os.urandom(32)))
            self.environment |= {
                "ONCEBOX_DATABASE_URL": url,
                "ONCEBOX_MASTER_KEY_FILE": str(self.keys[0]),
            }

    @property
    def is_postgres(self) -> bool:
        return "ONCEBOX_DATABASE_URL" in self.environment

    def use_new_key(self) -> None:
        """Configure the new key, as an operator does after the first half."""
        self.environment["ONCEBOX_MASTER_KEY_FILE"] = str(self.keys[1])

    def arguments(self) -> list[str]:
        is_old = self.environment.get("ONCEBOX_MASTER_KEY_FILE") == str(self.keys[0])
        return ["--new-key-file", str(self.keys[1])] if is_old else []

    def settings(self) -> Settings:
        return load_settings(self.environment)

    def fill(self) -> None:
        asyncio.run(self._fill())

    def read(self) -> tuple[set[str], set[bytes]]:
        """Return all values, and what they begin with."""
        return asyncio.run(self._read())

    async def _fill(self) -> None:
        components = await open_components(self.settings(), migrate=True)
        cipher, tenant = components.send_cipher, components.settings.tenant

        def add(tx: Transaction) -> None:
            for address in ADDRESSES:
                new = Suppression(
                    fingerprint=cipher.address_fingerprint(tenant, address),
                    address=cipher.encrypt_address(tenant, address),
                    reason=SuppressionReason.MANUAL,
                    send_id=None,
                    created_at=0,
                )
                entry = AuditEntry(id=ids.new("aud"), tenant=tenant, at=0, who="", why="")
                suppressions.add(tx, new, entry)

        try:
            await components.database.write(add)
        finally:
            await components.close()

    async def _read(self) -> tuple[set[str], set[bytes]]:
        components = await open_components(self.settings())
        cipher, tenant = components.send_cipher, components.settings.tenant
        try:
            found = await components.database.read(
                suppressions.page, tenant, after=b"", most=VALUES + 1
            )
            for each in ADDRESSES:  # a mark that changed would let mail through
                mark = cipher.address_fingerprint(tenant, each)
                assert mark in {one.fingerprint for one in found}
            return (
                {cipher.decrypt_address(tenant, one.fingerprint, one.address) for one in found},
                {bytes(one.address[:HEADER_BYTES]) for one in found},
            )
        finally:
            await components.close()


ADDRESSES = frozenset(f"user{number}@example.com" for number in range(VALUES))


def kills(plan: Plan) -> Outcome:
    """Kill a rotation at each point in turn; then let it go on to its end."""
    outcome = Outcome()
    if plan.database == "sqlite":
        _play(plan, outcome, lambda _: "")
        return outcome
    with PostgresServer.start(settings=FAST) as server:
        _play(plan, outcome, lambda number: empty_postgres(server, f"rotation_{number}").url)
    return outcome


def _play(plan: Plan, outcome: Outcome, url: Callable[[int], str]) -> None:
    for number in range(plan.trials):
        installation = Installation(plan.folder / str(number), url(number))
        installation.fill()
        with Children(plan.folder) as children:
            outcome.violations += _trial(plan, outcome, installation, children, number)


def _trial(
    plan: Plan, outcome: Outcome, installation: Installation, children: Children, number: int
) -> list[Violation]:
    chance = plan.chance(number)
    # The operator places the key for PostgreSQL.
    points = list(POINTS)[: 2 if installation.is_postgres else None]
    point = points[number % len(points)]
    passes = chance.randint(1, POINTS[point])
    victim = _rotate(installation, children, f"{point}:{passes}:kill")
    outcome.trials += victim.wait(timeout=120) == -signal.SIGKILL
    found = _judge(installation, number, f"killed at {point}:{passes}")
    for _ in range(3):
        child = _rotate(installation, children)
        if child.wait(timeout=120) != 0:
            found.append(Violation("stuck", str(number), child.text()[-500:]))
        if installation.is_postgres and '"finished":false' in child.text().replace(" ", ""):
            installation.use_new_key()
            continue
        break
    return [*found, *_judge(installation, number, "ended", ended=True)]


def _rotate(installation: Installation, children: Children, faults: str = "") -> Child:
    environment = {**installation.environment, "ONCEBOX_FAULTS": faults}
    if not faults:
        del environment["ONCEBOX_FAULTS"]
    return children.python(
        "tests.torture.rotation.rotator", *installation.arguments(), environment=environment
    )


def _judge(
    installation: Installation, number: int, when: str, *, ended: bool = False
) -> list[Violation]:
    try:
        values, headers = installation.read()
    except (OnceboxError, AssertionError) as error:
        return [Violation("unreadable", str(number), f"{when}: {error!r}")]
    found = []
    if values != ADDRESSES:
        found.append(Violation("lost", str(number), f"{when}: {len(values)} of {VALUES}"))
    if ended and len(headers) != 1:
        found.append(Violation("mixed", str(number), f"{when}: {len(headers)} data keys"))
    return found
