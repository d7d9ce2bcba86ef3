"""Parses a /metrics page with Prometheus' own client, for tests to query."""

from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

LE = "le"


class MetricShape(NamedTuple):
    """One metric of a page."""

    type: str
    help: str
    labels: frozenset[str]
    limits: frozenset[float]


class Exposition:
    """One page."""

    def __init__(self, text: str) -> None:
        """Parse the page; a page that cannot be parsed raises."""
        self.families = {self._name(each.name, each.type): each for each in text_string_to_metric_families(text)}

    @staticmethod
    def _name(name: str, kind: str) -> str:
        return f"{name}_total" if kind == "counter" else name

    def value(self, name: str, /, **labels: str) -> float | None:
        """One sample (for a histogram name its _sum or _count); None where there is no such series."""
        samples = (sample for family in self.families.values() for sample in family.samples)
        return next((each.value for each in samples if (each.name, each.labels) == (name, labels)), None)

    def shape(self, name: str) -> MetricShape | None:
        """Type, help, label names and bucket limits of a metric; None where it is missing."""
        family = self.families.get(name)
        if family is None:
            return None
        limits = {float(sample.labels[LE]) for sample in family.samples if LE in sample.labels}
        labels = {label for sample in family.samples for label in sample.labels} - {LE}
        return MetricShape(family.type, family.documentation, frozenset(labels), frozenset(limits))
