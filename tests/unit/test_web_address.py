"""Which URLs a callback may go to, as far as that can be told without asking anybody."""

import pytest

from jobs.addresses import is_allowed, literal, network
from jobs.http_target import HttpTarget
from jobs.web_address import Rules, Unfit, parsed, port_range

PUBLIC = Rules()
HOSTILE = {
    # Ways to write 127.0.0.1 that a resolver or a library understands.
    "decimal": "http://2130706433/",
    "hexadecimal": "http://0x7f000001/",
    "hexadecimal in parts": "http://0x7f.0x0.0x0.0x1/",
    "octal": "http://017700000001/",
    "octal in parts": "http://0177.0.0.1/",
    "three parts": "http://127.0.1/",
    "two parts": "http://127.1/",
    "zero": "http://0/",
    "plain": "http://127.0.0.1/",
    "another of its network": "http://127.8.9.10/",
    "by name": "http://localhost/",
    "by name below": "http://metadata.localhost/",
    "by name in capitals": "http://LOCALHOST/",
    # Networks that are not public.
    "this network": "http://0.0.0.0/",
    "private 10": "http://10.0.0.1/",
    "private 172": "http://172.16.0.1/",
    "private 192": "http://192.168.1.1/",
    "carrier": "http://100.64.0.1/",
    "link-local": "http://169.254.0.1/",
    "metadata": "http://169.254.169.254/latest/meta-data/",
    "metadata of another cloud": "http://100.100.100.200/",
    "metadata of a third": "http://192.0.0.192/",
    "benchmarks": "http://198.18.0.1/",
    "documentation": "http://203.0.113.7/",
    "metadata of a fourth": "http://168.63.129.16/",
    "relays of 6to4": "http://192.88.99.1/",
    "multicast": "http://224.0.0.1/",
    "reserved": "http://240.0.0.1/",
    "broadcast": "http://255.255.255.255/",
    # The same in IPv6, and IPv4 hidden in it.
    "loopback": "http://[::1]/",
    "unspecified": "http://[::]/",
    "mapped": "http://[::ffff:127.0.0.1]/",
    "mapped in hexadecimal": "http://[::ffff:a9fe:a9fe]/",
    "compatible": "http://[::127.0.0.1]/",
    "NAT64": "http://[64:ff9b::7f00:1]/",
    "local NAT64": "http://[64:ff9b:1::7f00:1]/",
    "6to4": "http://[2002:7f00:1::]/",
    "Teredo": "http://[2001:0:53aa:64c::1]/",
    "unique local": "http://[fd00:ec2::254]/",
    "link-local 6": "http://[fe80::1]/",
    "link-local with a zone": "http://[fe80::1%25eth0]/",
    "site-local": "http://[fec0::1]/",
    "multicast 6": "http://[ff02::1]/",
    "documentation 6": "http://[2001:db8::1]/",
    "newer documentation": "http://[3fff::1]/",
    "discard": "http://[100::1]/",
    # A host that is not the one it seems.
    "user and password": "http://user:word@example.com/",
    "user that looks like a host": "http://example.com@127.0.0.1/",
    "user of a resolver": "http://127.0.0.1#@example.com/",
    "backslash": "http://example.com\\@127.0.0.1/",
    "encoded slash": "http://127.0.0.1%2f@example.com/",
    "encoded letter": "http://ex%61mple.com/",
    "unicode digits": "http://①②⑦.⓪.⓪.①/",
    "fullwidth digits": "http://１２７.0.0.1/",
    "unicode dots": "http://127。0。0。1/",
    "line feed": "http://exam\nple.com/",
    "tab": "http://exam\tple.com/",
    "blank before": " http://example.com/",
    "NUL": "http://example.com\x00.evil/",
    "dot at the end": "http://example.com./",
    "empty label": "http://example..com/",
    "hyphen first": "http://-example.com/",
    "too long a label": f"http://{'a' * 64}.com/",
    "too long a name": f"http://{'a.' * 130}com/",
    "no host": "http:///path",
    "half a bracket": "http://[::1/",
    "something before the bracket": "http://evil.example[2606:4700::1111]/",
    "something after the bracket": "http://[2606:4700::1111]evil.example/",
    "a future address": "http://[v1.fe80::]/",
    # Ports and schemes.
    "a port of another service": "http://example.com:22/",
    "database": "http://example.com:5432/",
    "port zero": "http://example.com:0/",
    "too large a port": "http://example.com:65616/",
    "negative port": "http://example.com:-80/",
    "unicode port": "http://example.com:８０/",
    "no port after the colon": "http://example.com:/",
    "ftp": "ftp://example.com/",
    "file": "file:///etc/passwd",
    "gopher": "gopher://example.com/",
    "script": "javascript:alert(1)",
    "no scheme": "//example.com/",
    "no slashes": "http:example.com",
    "fragment": "http://example.com/#x",
    "too long": "http://example.com/" + "a" * 2000,
    "nothing": "",
}


@pytest.mark.parametrize("url", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_url_is_refused_in_a_sentence(url: str) -> None:
    with pytest.raises(Unfit) as refused:
        parsed(url, PUBLIC)
    assert str(refused.value).endswith(".")
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize(
    ("url", "origin", "path"),
    [
        ("https://example.com", "https://example.com", "/"),
        ("https://API.Example.com/Hooks/1?a=b&c=%20", "https://api.example.com", "/Hooks/1?a=b&c=%20"),
        ("http://example.com:80/", "http://example.com", "/"),
        ("http://example.com:443/", "http://example.com:443", "/"),
        ("https://8.8.8.8/x", "https://8.8.8.8", "/x"),
        ("https://[2606:4700::1111]/x", "https://[2606:4700::1111]", "/x"),
        ("https://xn--bcher-kva.example/", "https://xn--bcher-kva.example", "/"),
        ("https://a_b.example.com/", "https://a_b.example.com", "/"),
        ("https://3com.example/", "https://3com.example", "/"),
    ],
)
def test_a_public_url_is_taken_apart(url: str, origin: str, path: str) -> None:
    found = parsed(url, PUBLIC)
    assert (found.origin, found.path) == (origin, path)


def test_what_people_see_has_no_query() -> None:
    assert HttpTarget("https://example.com/x?token=abc").shown == "POST https://example.com/x?…"


def test_an_allowed_network_opens_itself_and_nothing_else() -> None:
    rules = Rules((network("10.1.0.0/16"), network("fd00:1::/32")))
    assert parsed("http://10.1.2.3/", rules).host == "10.1.2.3"
    assert parsed("http://[fd00:1::5]/", rules).host == "fd00:1::5"
    for url in ("http://10.2.0.1/", "http://[fd00:2::5]/", "http://127.0.0.1/", "http://localhost/"):
        with pytest.raises(Unfit):
            parsed(url, rules)


def test_an_allowed_loopback_may_be_called_by_its_name() -> None:
    assert parsed("http://localhost/", Rules((network("127.0.0.0/8"),))).host == "localhost"


def test_a_mapped_address_is_looked_at_as_the_one_it_hides() -> None:
    mapped = literal("::ffff:10.1.2.3")
    assert mapped is not None
    assert is_allowed(mapped, [network("10.1.0.0/16")])
    assert not is_allowed(mapped, [network("::/0")])


def test_a_port_is_a_number_or_a_range() -> None:
    assert (port_range("80"), port_range("8000-8002")) == (range(80, 81), range(8000, 8003))
    for wrong in ("x", "0", "70000", "9-8", "-", ""):
        with pytest.raises(ValueError, match=r"."):
            port_range(wrong)
