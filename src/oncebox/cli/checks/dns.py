"""Doctor checks of DNS: MX and address records of our mail domains."""

import asyncio
from collections.abc import Sequence

from oncebox.cli.checks import Check, ok, warn
from oncebox.errors.mail import DnsRecordNotFound, ResolverError
from oncebox.model.inboxes.addresses import dns_records
from oncebox.settings import Settings
from oncebox.workers.mail.dns_resolver import DnsResolver, Resolver

#: domains that are asked for, and the seconds that all of them may take together
_MAX_DOMAINS = 50
_TIMEOUT = 6.0


async def check_domains(
    settings: Settings, domains: Sequence[str], within: float = _TIMEOUT
) -> list[Check]:
    """Ask for the mail servers of each domain, and for their addresses."""
    public = [each for each in domains if dns_records(each, "")][:_MAX_DOMAINS]
    if not public:
        return [ok("dns", "no domain of ours is known outside")]
    resolver = DnsResolver(settings.mail.dns_servers)
    asked = {each: asyncio.create_task(_check_domain(resolver, settings, each)) for each in public}
    await asyncio.wait(asked.values(), timeout=within)
    return [
        task.result() if task.done() else _dns_timeout(name, task) for name, task in asked.items()
    ]


async def _check_domain(resolver: Resolver, settings: Settings, name: str) -> Check:
    ours = settings.inboxes.host or f"mail.{name}"
    wanted = next(f"{each.name} {each.type} {each.value}" for each in dns_records(name, ours))
    try:
        hosts = [host.lower() for _, host in sorted(await resolver.mx(name))]
    except DnsRecordNotFound:
        return _dns_warning(
            name, "has no MX record, so no mail from outside comes", f"set: {wanted}"
        )
    except ResolverError:
        return _dns_warning(
            name, "cannot be asked for just now", "check the network, or mail.dns_servers"
        )
    if ours.lower() not in hosts:
        message = f"has its mail taken to {', '.join(hosts)}, not to {ours}"
        return _dns_warning(
            name, message, f"set: {wanted}; or set inboxes.host to the name of this host"
        )
    if not await _has_address(resolver, ours):
        return _dns_warning(name, f"{ours} has no address", f"set an A or AAAA record for {ours}")
    return ok("dns", f"{name}: mail comes to {ours}")


async def _has_address(resolver: Resolver, host: str) -> bool:
    found = await asyncio.gather(resolver.a(host), resolver.aaaa(host), return_exceptions=True)
    return any(isinstance(each, list) and each for each in found)


def _dns_warning(name: str, message: str, remedy: str) -> Check:
    return warn("dns", f"{name}: {message}", remedy)


def _dns_timeout(name: str, task: "asyncio.Task[Check]") -> Check:
    task.cancel()
    return _dns_warning(name, "did not answer in time", "check the network, or mail.dns_servers")
