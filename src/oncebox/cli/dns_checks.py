"""The doctor's checks of the DNS: does mail for our domains find its way to us?"""

import asyncio
from collections.abc import Sequence

from oncebox.cli.findings import Check, Status
from oncebox.config import Settings
from oncebox.mail_errors import NoSuchRecord, ResolverError
from oncebox.model.domain import records
from oncebox.worker.resolver import DnsResolver, Resolver

#: domains that are asked for, and the seconds that all of them may take together
_MOST = 50
_WITHIN = 6.0


async def names(settings: Settings, domains: Sequence[str], within: float = _WITHIN) -> list[Check]:
    """Ask for the mail servers of each domain, and for their addresses."""
    public = [each for each in domains if records(each, "")][:_MOST]
    if not public:
        return [Check("dns", Status.OK, "no domain of ours is known outside")]
    resolver = DnsResolver(settings.mail.dns_servers)
    asked = {each: asyncio.create_task(_domain(resolver, settings, each)) for each in public}
    await asyncio.wait(asked.values(), timeout=within)
    return [task.result() if task.done() else _silent(name, task) for name, task in asked.items()]


async def _domain(resolver: Resolver, settings: Settings, name: str) -> Check:
    ours = settings.inboxes.host or f"mail.{name}"
    wanted = next(f"{each.name} {each.type} {each.value}" for each in records(name, ours))
    try:
        hosts = [host.lower() for _, host in sorted(await resolver.mx(name))]
    except NoSuchRecord:
        return _found(name, "has no MX record, so no mail from outside comes", f"set: {wanted}")
    except ResolverError:
        return _found(
            name, "cannot be asked for just now", "check the network, or mail.dns_servers"
        )
    if ours.lower() not in hosts:
        message = f"has its mail taken to {', '.join(hosts)}, not to {ours}"
        return _found(name, message, f"set: {wanted}; or set inboxes.host to the name of this host")
    if not await _has_address(resolver, ours):
        return _found(name, f"{ours} has no address", f"set an A or AAAA record for {ours}")
    return Check("dns", Status.OK, f"{name}: mail comes to {ours}")


async def _has_address(resolver: Resolver, host: str) -> bool:
    found = await asyncio.gather(resolver.a(host), resolver.aaaa(host), return_exceptions=True)
    return any(isinstance(each, list) and each for each in found)


def _found(name: str, message: str, remedy: str) -> Check:
    return Check("dns", Status.WARN, f"{name}: {message}", remedy)


def _silent(name: str, task: "asyncio.Task[Check]") -> Check:
    task.cancel()
    return _found(name, "did not answer in time", "check the network, or mail.dns_servers")
