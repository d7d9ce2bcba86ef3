"""How many new TLS connections a host may open: a handshake costs CPU time that scheduling needs."""

from __future__ import annotations

PER_SECOND, BURST = 50.0, 200.0  # a scraper opens one in many seconds, a kubelet a few per second
MAX_HOSTS = 4096


class ConnectionRate:
    """A token bucket for each host; those that are full are forgotten when there are many."""

    def __init__(self, per_second: float = PER_SECOND, burst: float = BURST) -> None:
        self._per_second, self._burst = per_second, burst
        self._buckets: dict[str, tuple[float, float]] = {}  # tokens, and when that was

    def allows(self, host: str, now: float) -> bool:
        """Take a token of this host, if it has one."""
        tokens = self._tokens(host, now)
        if len(self._buckets) >= MAX_HOSTS and host not in self._buckets:
            self._buckets = {
                each: kept for each, kept in self._buckets.items() if self._tokens(each, now) < self._burst
            }
        self._buckets[host] = (tokens - 1 if tokens >= 1 else tokens), now
        return tokens >= 1

    def _tokens(self, host: str, now: float) -> float:
        tokens, at = self._buckets.get(host, (self._burst, now))
        return min(self._burst, tokens + (now - at) * self._per_second)
