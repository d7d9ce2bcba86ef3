"""How the two documents of a file go together, and the fields that are not about sources."""

import re
from pathlib import Path

import pytest

from tests.config.config_files import FILE, FULL, HEAD, TRIMTAB_FULL, TRIMTAB_HEAD, comparable, problems_of
from trimtab.config.kube_scheduler import default_configuration, parse
from trimtab.config.trimtab.document import documented_fields
from trimtab.config.trimtab.settings import LoggingSettings, MetricsSettings, TrimtabConfiguration
from trimtab.core.load.settings import LoadSettings
from trimtab.sources.registry import SOURCE_SETTINGS

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"


def test_either_order() -> None:
    """The order of the two documents does not matter, and neither changes the other."""
    both = parse(f"{FULL}---\n{TRIMTAB_FULL}", FILE)
    assert comparable(both) == comparable(parse(f"{TRIMTAB_FULL}---\n{FULL}", FILE))
    assert parse(TRIMTAB_FULL, FILE).trimtab == both.trimtab
    assert parse(FULL, FILE).leader_election == both.leader_election


def test_alone() -> None:
    """A TrimtabConfiguration alone leaves the default profile."""
    assert comparable(default_configuration()) == comparable(parse(TRIMTAB_HEAD, FILE))


def test_every_field() -> None:
    """Every field of load, logging and metrics is parsed."""
    configuration = parse(TRIMTAB_FULL, FILE)
    load = LoadSettings(90.0, 240.0, 600.0, 0.3, ("siblings", "trimaran"))
    own = configuration.trimtab
    assert load == configuration.settings.load
    assert (LoggingSettings("json", "debug", False), MetricsSettings(True)) == (own.logging, own.metrics)


def test_defaults() -> None:
    """Unset and null fields have their defaults."""
    assert TrimtabConfiguration() == parse(f"{TRIMTAB_HEAD}load:\nlogging: {{}}\nsources: []\n", FILE).trimtab


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (f"{TRIMTAB_HEAD}---\n{TRIMTAB_HEAD}", "f.yaml:4:1: a second TrimtabConfiguration: a file holds one"),
        (f"{TRIMTAB_HEAD}---\n{HEAD}---\n{HEAD}", "f.yaml:7:1: a second KubeSchedulerConfiguration: a file holds one"),
        (f"{TRIMTAB_HEAD}---\nkind: ConfigMap\n", "f.yaml:4:1: a document of kind 'ConfigMap' is not supported"),
        (f"{TRIMTAB_HEAD}---\nkind: KubeSchedulerConfiguration\n", "f.yaml:4:1: apiVersion is missing"),
        (TRIMTAB_HEAD.splitlines()[0], "f.yaml:1:1: kind is missing: the document must start with"),
        ("kind: TrimtabConfiguration\n", "f.yaml:1:1: apiVersion is missing: the document must start with"),
        (
            TRIMTAB_HEAD.replace("v1alpha1", "v1"),
            "f.yaml:1:13: apiVersion: 'trimtab.dev/v1' is not supported: write trimtab.dev",
        ),
        (TRIMTAB_HEAD.replace("uration", ""), "f.yaml:2:7: kind: 'TrimtabConfig' is not one of TrimtabConfiguration"),
        (f"{TRIMTAB_HEAD}source: []\n", "f.yaml:3:1: source: unknown field (did you mean sources?)"),
        (f"{TRIMTAB_HEAD}sources: []\nsources: []\n", "f.yaml:4:1: duplicate key sources, first set in line 3"),
        (f"{TRIMTAB_HEAD}load: []\n", "f.yaml:3:7: load: expected a mapping, got a list"),
        (f"{TRIMTAB_HEAD}load: {{freshfor: 1s}}\n", "load.freshfor: unknown field (did you mean freshFor?)"),
        (f"{TRIMTAB_HEAD}load: {{freshFor: 0s}}\n", "load.freshFor: 0s is not between 1s and 24h"),
        (
            f"{TRIMTAB_HEAD}load: {{freshFor: 6m, staleAfter: 2m}}\n",
            "load.freshFor: freshFor (6m) must not be longer than",
        ),
        (
            f"{TRIMTAB_HEAD}load: {{staleAfter: 1m}}\n",
            "load.staleAfter: freshFor (2m) must not be longer than staleAfter (1m)",
        ),
        (f"{TRIMTAB_HEAD}load: {{window: 2h}}\n", "load.window: 2h is not between 1s and 1h"),
        (f"{TRIMTAB_HEAD}load: {{mostMissing: 0}}\n", "load.mostMissing: 0 is not above 0 and at most 1"),
        (f"{TRIMTAB_HEAD}load: {{mostMissing: 50}}\n", "load.mostMissing: 50 is not above 0 and at most 1"),
        (f"{TRIMTAB_HEAD}load: {{mostMissing: .inf}}\n", "load.mostMissing: .inf is not a plain decimal number"),
        (f"{TRIMTAB_HEAD}load: {{estimates: []}}\n", "load.estimates: must not be empty"),
        (f"{TRIMTAB_HEAD}load: {{estimates: [sibling]}}\n", "load.estimates[0]: 'sibling' is not one of"),
        (f"{TRIMTAB_HEAD}load: {{estimates: [cluster, cluster]}}\n", "load.estimates[1]: cluster is listed twice"),
        (
            f"{TRIMTAB_HEAD}logging: {{level: warn}}\n",
            "logging.level: 'warn' is not one of debug, error, info, warning",
        ),
        (
            f"{TRIMTAB_HEAD}logging: {{format: JSON}}\n",
            "logging.format: 'JSON' is not one of json, text (did you mean json?)",
        ),
        (f"{TRIMTAB_HEAD}logging: {{decisions: 'yes'}}\n", "logging.decisions: expected true or false"),
        (f"{TRIMTAB_HEAD}metrics: {{nodeUsage: on}}\n", "metrics.nodeUsage: on is a boolean to some"),
    ],
)
def test_bad_documents(content: str, expected: str) -> None:
    """An invalid document or field is rejected at its position."""
    (found,) = problems_of(content)
    assert expected in found


@pytest.mark.parametrize(
    ("source", "sources", "expected"),
    [
        ("", "", "add one to sources"),
        ("", "a b", "set source to one of a, b"),
        ("c", "a b", "set source to one of a, b"),
        ("", "a", None),
        ("b", "a b", None),
    ],
)
def test_rules_with_queries(source: str, sources: str, expected: str | None) -> None:
    """A rule with a query names an existing Prometheus, unless there is only one."""
    listed = ", ".join(f"{{name: {each}, prometheus: {{url: 'http://{each}'}}}}" for each in sources.split())
    rule = f"{{name: busy, query: up, above: 5, source: '{source}'}}"
    found = problems_of(f"{TRIMTAB_HEAD}sources: [{listed}]\nlabels: {{rules: [{rule}]}}\n")
    assert (0 if expected is None else 1) == len(found)
    assert all(
        f"f.yaml:4:18: labels.rules[0]: the query of busy needs a Prometheus: {expected}" in each for each in found
    )


def test_all_problems_at_once() -> None:
    """Problems of both documents are reported together, in the order of the file."""
    first, second = problems_of(f"{TRIMTAB_HEAD}logging: {{level: warn}}\n---\n{HEAD}paralelism: 3\n")
    assert "f.yaml:3:18: logging.level" in first
    assert "f.yaml:7:1: paralelism" in second


def test_the_page_says_the_same() -> None:
    """The page's table has every field, line by line."""
    rows = re.findall(r"^\| `(.+?)` \| ([^|]+) \|$", PAGE.read_text(), re.MULTILINE)
    assert list(documented_fields(SOURCE_SETTINGS)) == rows
