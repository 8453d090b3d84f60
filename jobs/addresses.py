"""Which IP addresses a callback may go to. Pure: no Django.

Owns the rule. Invariant: an address is public, or lies in a network that the operator allowed; whatever form hides an
address of the inside (mapped, translated, tunnelled) is refused. Python's own `is_global` takes several of them for
public, so the rule is written out.
"""

from collections.abc import Collection
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# Protocols and relays; and an address that looks public and is the metadata of a machine in Azure.
_NOT_FOR_HOSTS = tuple(map(IPv4Network, ("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32")))
_PUBLIC_IPV6 = IPv6Network("2000::/3")
_WITHIN_IT = tuple(map(IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")))


def network(text: str) -> Network:
    """Raises ValueError for what is none."""
    return ip_network(text)


def unwrapped(address: Address) -> Address:
    """An IPv4 address that is written as an IPv6 one is reached as the IPv4 address it is."""
    return address if isinstance(address, IPv4Address) else address.ipv4_mapped or address


def is_allowed(address: Address, allowed: Collection[Network] = ()) -> bool:
    address = unwrapped(address)
    if any(address.version == each.version and address in each for each in allowed):
        return True
    return _is_public_4(address) if isinstance(address, IPv4Address) else _is_public_6(address)


def _is_public_4(address: IPv4Address) -> bool:
    is_special = address.is_multicast or address.is_reserved or any(address in each for each in _NOT_FOR_HOSTS)
    return address.is_global and not is_special


def _is_public_6(address: IPv6Address) -> bool:
    return address in _PUBLIC_IPV6 and address.scope_id is None and not any(address in each for each in _WITHIN_IT)


def literal(host: str) -> Address | None:
    """The address that a host of a URL is, if it is one and not a name. Only the one usual way to write it counts."""
    try:
        return ip_address(host)
    except ValueError:
        return None
