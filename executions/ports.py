"""Where a process may listen, in words: `host:port` or `host:first-last`. Pure: no Django."""


def parsed(address: str) -> tuple[str, range]:
    """Host and ports. Raises ValueError."""
    host, colon, ports = address.rpartition(":")
    first, _, last = ports.partition("-")
    found = range(int(first), int(last or first) + 1)
    if not colon or not host or not found or not 0 < found[0] <= found[-1] < 65536:
        raise ValueError(address)
    return host.strip("[]"), found
