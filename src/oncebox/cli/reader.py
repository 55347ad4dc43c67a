"""``Reader``: the database of a read-only command; nothing is migrated, locked or created."""

import os
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from oncebox.core.encryption import MasterKey
from oncebox.db import startup
from oncebox.db.database import Transaction
from oncebox.settings import Settings

if TYPE_CHECKING:  # few commands decrypt anything or look at sources
    from oncebox.ledger.admin.source_cache import SourceCatalog
    from oncebox.ledger.ciphers import MailCipher, SendCipher

P = ParamSpec("P")
T = TypeVar("T")


class Reader:
    """One read-only connection, the settings, and the ciphers once they are needed."""

    def __init__(self, settings: Settings, *, check_schema: bool = True) -> None:
        """Open the database."""
        self.settings = settings
        self.session = startup.open_read_only(settings.database, check_schema=check_schema)

    def read(
        self,
        function: Callable[Concatenate[Transaction, P], T],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run a ledger function in one read transaction."""
        return self.session.read(function, *args, **kwargs)

    def clock(self) -> int:
        """Milliseconds since 1970 by the clock of the database."""
        return self.session.clock()

    def close(self) -> None:
        """Close the connection."""
        self.session.close()

    @cached_property
    def master_key(self) -> MasterKey:
        """The master key of this database."""
        if self.read(startup.stored_key_id) is None:  # nothing is encrypted yet: any key works
            return MasterKey(os.urandom(32))
        key = startup.load_master_key(self.settings, may_create=False)
        self.read(startup.read_data_keys, key, self.clock())
        return key

    @cached_property
    def mail_cipher(self) -> "MailCipher":
        """Decrypts received mail."""
        from oncebox.ledger.ciphers import MailCipher  # noqa: PLC0415

        return MailCipher(self.master_key)

    @cached_property
    def send_cipher(self) -> "SendCipher":
        """Decrypts outgoing mail, addresses and transport settings."""
        from oncebox.ledger.ciphers import SendCipher  # noqa: PLC0415

        return SendCipher(self.master_key)

    def sources(self) -> "SourceCatalog":
        """Return the sources of the settings file and the database."""
        from oncebox.components import scheme_lookup  # noqa: PLC0415
        from oncebox.ledger.admin import source_cache, sources  # noqa: PLC0415

        settings, key = self.settings, self.master_key
        decrypter = source_cache.SourceDecrypter(
            key, scheme_lookup(), process=sources.COMMAND_ABOUT_SERVICE
        )
        configured = source_cache.read_configured(settings.sources, settings.tenant, key)
        _, stored = self.read(sources.read_all)
        return source_cache.SourceCatalog.build(decrypter, configured, stored, self.clock())
