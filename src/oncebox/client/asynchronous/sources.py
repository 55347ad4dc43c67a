"""`client.sources`: add, change, pause and remove webhook sources and their secrets."""

from collections.abc import AsyncIterator, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import UNSET, UnsetType

from oncebox.client.asynchronous.runner import AsyncResource
from oncebox.client.core.calls import (
    Call,
    api_path,
    create_call,
    delete_call,
    get_call,
    page_call,
    post_call,
)
from oncebox.schemas.fields import ListQuery, ReasonBody
from oncebox.schemas.sources import (
    CreatedSource,
    NewSecret,
    NewSource,
    Source,
    SourceChange,
    SourcePage,
    SourceSecret,
)

#: in a class with a method ``list``, the name means that method
TextList: TypeAlias = list[str]


class AsyncSources(AsyncResource):
    """``client.sources``."""

    def list(self) -> AsyncIterator[Source]:
        """Iterate over all sources, by name."""
        return self._runner.iterate(page_call(SourcePage, ListQuery, "sources"))

    async def page(self, *, limit: int | None = None, cursor: str | None = None) -> SourcePage:
        """Return one page of sources, by name."""
        return await self._run(
            page_call(SourcePage, ListQuery, "sources", limit=limit, cursor=cursor)
        )

    async def get(self, name: str) -> Source:
        """Return one source, and whether it accepts requests."""
        return await self._run(get_call(Source, "sources", name))

    async def add(
        self,
        name: str,
        scheme: str,
        *,
        secrets: Sequence[str] = (),
        public_id: str | None = None,
        paused: bool = False,
        idempotency_key: str | None = None,
        options: dict[str, Any] | UnsetType | None = UNSET,
        public_url: str | UnsetType | None = UNSET,
        late: Literal["hold", "run"] | UnsetType | None = UNSET,
        replay: Literal["hold", "run", "drop"] | UnsetType | None = UNSET,
        redelivery: Literal["rearm", "count"] | UnsetType | None = UNSET,
        order_by: str | UnsetType | None = UNSET,
        sequence: str | UnsetType | None = UNSET,
        stale: Literal["skip", "run"] | UnsetType | None = UNSET,
        gap_wait: float | UnsetType | None = UNSET,
        after: dict[str, str] | UnsetType | None = UNSET,
        after_wait: float | UnsetType | None = UNSET,
        tries: int | UnsetType | None = UNSET,
        budget: float | UnsetType | None = UNSET,
        first_wait: float | UnsetType | None = UNSET,
        longest_wait: float | UnsetType | None = UNSET,
        rate: int | UnsetType | None = UNSET,
        concurrency: int | UnsetType | None = UNSET,
        retention: int | UnsetType | None = UNSET,
        mode: Literal["handler", "pull"] | UnsetType | None = UNSET,
        cidrs: TextList | UnsetType | None = UNSET,
        expect: dict[str, str] | UnsetType | None = UNSET,
        allow_unsigned: bool | UnsetType | None = UNSET,
        inbound: bool | UnsetType | None = UNSET,
        inbox: str | UnsetType | None = UNSET,
    ) -> CreatedSource:
        """Add a source; its secrets are encrypted and never shown again.

        The meaning of the fields is that of ``SourceFields``; None is the default.
        """
        body = NewSource(
            name=name,
            scheme=scheme,
            secrets=[*secrets],
            public_id=public_id,
            paused=paused,
            options=options,
            public_url=public_url,
            late=late,
            replay=replay,
            redelivery=redelivery,
            order_by=order_by,
            sequence=sequence,
            stale=stale,
            gap_wait=gap_wait,
            after=after,
            after_wait=after_wait,
            tries=tries,
            budget=budget,
            first_wait=first_wait,
            longest_wait=longest_wait,
            rate=rate,
            concurrency=concurrency,
            retention=retention,
            mode=mode,
            cidrs=cidrs,
            expect=expect,
            allow_unsigned=allow_unsigned,
            inbound=inbound,
            inbox=inbox,
        )
        return await self._run(create_call(CreatedSource, body, idempotency_key, "sources"))

    async def change(
        self,
        name: str,
        *,
        scheme: str | UnsetType = UNSET,
        options: dict[str, Any] | UnsetType | None = UNSET,
        public_url: str | UnsetType | None = UNSET,
        late: Literal["hold", "run"] | UnsetType | None = UNSET,
        replay: Literal["hold", "run", "drop"] | UnsetType | None = UNSET,
        redelivery: Literal["rearm", "count"] | UnsetType | None = UNSET,
        order_by: str | UnsetType | None = UNSET,
        sequence: str | UnsetType | None = UNSET,
        stale: Literal["skip", "run"] | UnsetType | None = UNSET,
        gap_wait: float | UnsetType | None = UNSET,
        after: dict[str, str] | UnsetType | None = UNSET,
        after_wait: float | UnsetType | None = UNSET,
        tries: int | UnsetType | None = UNSET,
        budget: float | UnsetType | None = UNSET,
        first_wait: float | UnsetType | None = UNSET,
        longest_wait: float | UnsetType | None = UNSET,
        rate: int | UnsetType | None = UNSET,
        concurrency: int | UnsetType | None = UNSET,
        retention: int | UnsetType | None = UNSET,
        mode: Literal["handler", "pull"] | UnsetType | None = UNSET,
        cidrs: TextList | UnsetType | None = UNSET,
        expect: dict[str, str] | UnsetType | None = UNSET,
        allow_unsigned: bool | UnsetType | None = UNSET,
        inbound: bool | UnsetType | None = UNSET,
        inbox: str | UnsetType | None = UNSET,
    ) -> Source:
        """Change a source; fields that are not given stay, None restores the default."""
        body = SourceChange(
            scheme=scheme,
            options=options,
            public_url=public_url,
            late=late,
            replay=replay,
            redelivery=redelivery,
            order_by=order_by,
            sequence=sequence,
            stale=stale,
            gap_wait=gap_wait,
            after=after,
            after_wait=after_wait,
            tries=tries,
            budget=budget,
            first_wait=first_wait,
            longest_wait=longest_wait,
            rate=rate,
            concurrency=concurrency,
            retention=retention,
            mode=mode,
            cidrs=cidrs,
            expect=expect,
            allow_unsigned=allow_unsigned,
            inbound=inbound,
            inbox=inbox,
        )
        call = Call(method="PATCH", path=api_path("sources", name), answer=Source, body=body)
        return await self._run(call)

    async def remove(self, name: str) -> None:
        """Remove a source and its secrets; its deliveries stay."""
        await self._run(delete_call(type(None), "sources", name))

    async def pause(self, name: str, *, why: str = "") -> Source:
        """Stop accepting requests of a source and working on its deliveries."""
        return await self._run(post_call(Source, ReasonBody(why=why), "sources", name, "pause"))

    async def resume(self, name: str, *, why: str = "") -> Source:
        """Resume a paused source."""
        return await self._run(post_call(Source, ReasonBody(why=why), "sources", name, "resume"))

    async def add_secret(
        self, name: str, secret: str, *, idempotency_key: str | None = None
    ) -> SourceSecret:
        """Add a secret, which is tried before the older ones."""
        body, path = NewSecret(secret=secret), ("sources", name, "secrets")
        return await self._run(create_call(SourceSecret, body, idempotency_key, *path))

    async def retire_secret(self, name: str, id: str) -> Source:
        """Retire a secret; its value is erased."""
        return await self._run(delete_call(Source, "sources", name, "secrets", id))
