"""Translates a NetworkPolicy into the nftables rules that a CNI plugin would set for a pod.

What the translation does not know (label expressions, port ranges, exceptions) raises NotImplementedError.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tools.controlplane.client import Document

TABLE = "inet network_policy"
NONE = f"table {TABLE}\ndelete table {TABLE}\n"  # named first, so that it is there to be deleted
# A pod always reaches itself, and answers always pass.
CHAIN = """  chain {name} {{
    type filter hook {hook} priority filter; policy {verdict};
    {interface} lo accept
    ct state established,related accept
{rules}
  }}
"""


@dataclass(frozen=True)
class Place:
    """An address of the cluster; a pod's has a namespace and labels, others have none."""

    address: str
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


def ruleset(policy: Document, places: list[Place]) -> str:
    """The rules of the policy, for input for `nft -f`; they replace those of before."""
    spec = policy["spec"]
    ingress = _chain(spec, "Ingress", "input", "iif", "saddr", places)
    egress = _chain(spec, "Egress", "output", "oif", "daddr", places)
    return f"{NONE}table {TABLE} {{\n{ingress}{egress}}}\n"


def _chain(spec: Document, direction: str, hook: str, interface: str, field: str, places: list[Place]) -> str:
    verdict = "drop" if direction in spec["policyTypes"] else "accept"
    side = "from" if direction == "Ingress" else "to"
    lines = [f"    {line}" for rule in spec.get(direction.lower(), []) for line in _rules(rule, side, field, places)]
    return CHAIN.format(name=direction.lower(), hook=hook, verdict=verdict, interface=interface, rules="\n".join(lines))


def _rules(rule: Document, side: str, field: str, places: list[Place]) -> Iterator[str]:
    """One line for each port; none if the selectors select nobody."""
    _only(rule, {side, "ports"})
    addresses = [address for peer in rule.get(side, []) for address in _addresses(peer, places)]
    if side in rule and not addresses:
        return
    condition = f"ip {field} {{ {', '.join(addresses)} }} " if addresses else ""
    for port in rule["ports"]:
        _only(port, {"protocol", "port"})
        yield f"{condition}{port['protocol'].lower()} dport {port['port']} accept"


def _addresses(peer: Document, places: list[Place]) -> list[str]:
    """The addresses of a peer: its block, or those of the pods that both of its selectors select."""
    if "ipBlock" in peer:
        _only(peer["ipBlock"], {"cidr"})
        return [peer["ipBlock"]["cidr"]]
    _only(peer, {"namespaceSelector", "podSelector"})
    namespaces, pods = _labels(peer["namespaceSelector"]), _labels(peer.get("podSelector", {}))
    return [
        place.address
        for place in places
        if place.namespace
        and namespaces.items() <= {"kubernetes.io/metadata.name": place.namespace}.items()
        and pods.items() <= place.labels.items()
    ]


def _labels(selector: Document) -> dict[str, str]:
    _only(selector, {"matchLabels"})
    return dict(selector.get("matchLabels", {}))


def _only(document: Document, known: set[str]) -> None:
    if unknown := document.keys() - known:
        raise NotImplementedError(f"{sorted(unknown)} of a NetworkPolicy")
