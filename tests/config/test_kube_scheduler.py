"""What a KubeSchedulerConfiguration is parsed to, and that every mistake is reported with its position."""

import pytest

from tests.config.config_files import (
    FILE,
    FULL,
    HEAD,
    comparable,
    notes_of_body,
    parse_body,
    problems_of,
    problems_of_body,
)
from trimtab.config.configuration import ClientConnection, LeaderElection
from trimtab.config.diagnostics import ConfigError
from trimtab.config.kube_scheduler import default_configuration, parse
from trimtab.config.registry import DEFAULT_BINDER, DEFAULT_PLUGINS, IN_TREE
from trimtab.core.plugins.node_name import NodeName
from trimtab.core.plugins.node_resources_fit import NodeResourcesFit


def test_no_file() -> None:
    """Without a file there is one profile, called trimtab, with the default plugins and the lease trimtab."""
    configuration = default_configuration()
    (profile,) = configuration.settings.profiles
    assert "trimtab" == profile.name
    weights = {"TaintToleration": 3, "NodeAffinity": 2, "NodeResourcesFit": 1}
    weights |= {"NodeResourcesBalancedAllocation": 1, "ImageLocality": 1}
    assert weights.items() <= {each.name: each.weight for each in profile.scores}.items()
    assert LeaderElection(name="trimtab", namespace="trimtab") == configuration.leader_election


def test_smallest_file() -> None:
    """A file without profiles serves default-scheduler under kube-scheduler's own lease, as kube-scheduler would."""
    configuration = parse_body("")
    (profile,) = configuration.settings.profiles
    assert "default-scheduler" == profile.name
    assert LeaderElection(True, 15, 10, 2, "kube-scheduler", "kube-system") == configuration.leader_election
    assert ClientConnection("", None, 100) == configuration.client_connection
    assert (1, 10) == (configuration.settings.initial_backoff, configuration.settings.max_backoff)


def test_smallest_file_has_the_default_profile() -> None:
    """Reading the defaults out of an empty file gives the same plugins as building them without one."""
    read_back = parse_body("profiles: [{schedulerName: trimtab}]\n")
    assert comparable(default_configuration()) == comparable(read_back)


def test_full_file() -> None:
    """Every supported field of a file ends up in the settings."""
    configuration = parse(FULL, FILE)
    packing, plain = configuration.settings.profiles
    assert ("packing", "plain") == (packing.name, plain.name)
    assert LeaderElection(True, 20, 15, 2.5, "mine", "team-a") == configuration.leader_election
    assert ClientConnection("/etc/kubernetes/scheduler.conf", 12.5, 7) == configuration.client_connection
    assert (2, 20) == (configuration.settings.initial_backoff, configuration.settings.max_backoff)
    weights = {"NodeResourcesFit": 9, "NodeAffinity": 2, "NodeResourcesBalancedAllocation": 1, "ImageLocality": 4}
    assert weights == {each.name: each.weight for each in packing.scores if each.name in weights}
    assert set() == {"TaintToleration", "PodTopologySpread"} & {each.name for each in packing.scores}
    assert "NodeResourcesFit" == packing.scores[0].name


def test_percentage_of_nodes_to_score() -> None:
    """Of a profile before that of all; here all nodes are scored, but a plan must know what kube-scheduler does."""
    profiles = "profiles: [{schedulerName: a}, {schedulerName: b, percentageOfNodesToScore: 7}]\n"
    found = parse(HEAD + "percentageOfNodesToScore: 50\n" + profiles, FILE).settings.profiles
    assert {"a": 50, "b": 7} == {each.name: each.percentage_of_nodes_to_score for each in found}


def test_lease_of_a_profile_of_its_own() -> None:
    """Only a profile called default-scheduler uses kube-scheduler's lease, whatever its position."""
    own = parse_body("profiles: [{schedulerName: a}]\n").leader_election
    shared = parse_body("profiles: [{schedulerName: a}, {schedulerName: default-scheduler}]\n").leader_election
    assert ("trimtab", "trimtab") == (own.namespace, own.name)
    assert ("kube-system", "kube-scheduler") == (shared.namespace, shared.name)


def test_lease_named_by_the_file() -> None:
    """The file's own lease overrides both; for default-scheduler a note warns of a second leader."""
    body = "leaderElection: {resourceName: mine}\n"
    assert ("kube-system", "mine") == (
        parse_body(body).leader_election.namespace,
        parse_body(body).leader_election.name,
    )
    assert [
        "f.yaml:3:32: leaderElection.resourceName: a kube-scheduler for default-scheduler does not use this lease: "
        "never run the two together"
    ] == notes_of_body(body)


@pytest.mark.parametrize("qps", ["", "qps: 0", "qps: -1", "qps: null"])
def test_no_limit(qps: str) -> None:
    """A qps that is unset, zero or negative means no limit at all."""
    assert parse_body(f"clientConnection: {{{qps}}}\n").client_connection.qps is None


@pytest.mark.parametrize(
    ("body", "note"),
    [
        ("parallelism: 4\n", "f.yaml:3:14: parallelism: ignored: all nodes are evaluated at once"),
        ("percentageOfNodesToScore: 50\n", "f.yaml:3:27: percentageOfNodesToScore: ignored: all nodes are always"),
        ("profiles: [{percentageOfNodesToScore: 5}]\n", "profiles[0].percentageOfNodesToScore: ignored: all nodes"),
        ("enableProfiling: true\n", "enableProfiling: ignored: there is no profiling endpoint"),
        ("enableContentionProfiling: true\n", "enableContentionProfiling: ignored: there are no locks"),
        (
            "delayCacheUntilActive: true\n",
            "delayCacheUntilActive: ignored: a standby always keeps its cache up to date",
        ),
        ("clientConnection: {contentType: x}\n", "clientConnection.contentType: ignored: requests are always"),
        ("clientConnection: {acceptContentTypes: x}\n", "clientConnection.acceptContentTypes: ignored: responses are"),
        (
            "profiles: [{plugins: {score: {disabled: [{name: '*', weight: 2}]}}}]\n",
            "plugins.score.disabled[0].weight: ignored: a disabled plugin has no weight",
        ),
        (
            "profiles: [{plugins: {score: {enabled: [{name: ImageLocality, weight: 0}]}}}]\n",
            "plugins.score.enabled[0].weight: counts as 1, as in kube-scheduler",
        ),
        (
            "profiles: [{plugins: {filter: {enabled: [{name: NodeName, weight: 2}]}}}]\n",
            "plugins.filter.enabled[0]: ignored: a weight only applies to score plugins",
        ),
        (
            "profiles: [{plugins: {multiPoint: {disabled: [{name: NodeAffinity}]}}, "
            "pluginConfig: [{name: NodeAffinity, args: {}}]}]\n",
            "pluginConfig[0].args: ignored: NodeAffinity is not enabled in this profile",
        ),
    ],
)
def test_notes(body: str, note: str) -> None:
    """A field without effect is noted with its position, and the file is valid."""
    (found,) = notes_of_body(body)
    assert note in found


def test_unbuilt_defaults_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unsupported default plugins are noted once per profile, without those that the file disables."""
    for name in ("NodePorts", "TaintToleration", "ImageLocality"):
        monkeypatch.delitem(IN_TREE, name)
    others = ", ".join(
        f"{{name: {name}}}" for name in DEFAULT_PLUGINS if name not in {*IN_TREE, DEFAULT_BINDER, "NodePorts"}
    )
    (note,) = parse_body(f"profiles: [{{plugins: {{multiPoint: {{disabled: [{others}]}}}}}}]\n").notes
    assert (
        "f.yaml:3:12: profiles[0]: default plugins not supported yet, ignored: NodePorts "
        "(a pod that needs one stays pending, with an Event that says so)"
    ) == str(note)


def test_nothing_left_to_note() -> None:
    """A file that disables all defaults and lists its own plugins has no such note."""
    enabled = "[{name: PrioritySort}, {name: NodeName}, {name: DefaultBinder}]"
    body = f"profiles: [{{plugins: {{multiPoint: {{disabled: [{{name: '*'}}], enabled: {enabled}}}}}}}]\n"
    (profile,) = parse_body(body).settings.profiles
    assert ((), (NodeName(),)) == (parse_body(body).notes, profile.filters)


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("paralelism: 4\n", "3:1: paralelism: unknown field (did you mean parallelism?)"),
        ("Profiles: []\n", "3:1: Profiles: unknown field (did you mean profiles?)"),
        ("zzz: 1\n", "3:1: zzz: unknown field"),
        ("metadata: {name: x}\n", "3:1: metadata: unknown field"),
        ("parallelism: many\n", "3:14: parallelism: expected an integer, got the string 'many'"),
        ("parallelism: 0\n", "3:14: parallelism: 0 must be 1 or more"),
        ("parallelism: 1.5\n", "3:14: parallelism: expected an integer, got the number 1.5"),
        ("parallelism: true\n", "3:14: parallelism: expected an integer, got true"),
        ("parallelism: 012\n", "3:14: parallelism: 012 is not a plain decimal number: write it as one"),
        ("percentageOfNodesToScore: 101\n", "3:27: percentageOfNodesToScore: 101 is not between 0 and 100"),
        (
            "enableProfiling: yes\n",
            "3:18: enableProfiling: yes is a boolean to some YAML parsers and a string to others",
        ),
        ("enableProfiling: 1\n", "3:18: enableProfiling: expected true or false, got the number 1"),
        ("profiles: {}\n", "3:11: profiles: expected a list, got a mapping"),
        ("profiles: [x]\n", "3:12: profiles[0]: expected a mapping, got the string 'x'"),
        ("profiles: [~]\n", "3:12: profiles[0]: expected a mapping, got null"),
        (
            "profiles: [{schedulerName: 5}]\n",
            "profiles[0].schedulerName: expected a string, got the number 5: put it in quotes",
        ),
        ("profiles: [{schedulerName: ''}]\n", "3:28: profiles[0].schedulerName: must not be empty"),
        ("profiles: [{schedulerName: a}, {}]\n", "3:32: profiles[1]: schedulerName is missing"),
        (
            "profiles:\n- schedulerName: a\n- schedulerName: a\n",
            "5:18: profiles[1].schedulerName: 'a' is already the name of profiles[0].schedulerName: each profile needs",
        ),
        ("extenders: [{urlPrefix: http://x}]\n", "3:12: extenders: extenders are not supported yet: remove them"),
        ("extenders: yes please\n", "3:12: extenders: extenders are not supported yet"),
        ("podInitialBackoffSeconds: 0\n", "podInitialBackoffSeconds: 0 must be 1 or more"),
        ("podInitialBackoffSeconds: 99999999999999999999\n", "podInitialBackoffSeconds: 99999999999999999999 is no"),
        ("podMaxBackoffSeconds: 0\n", "podMaxBackoffSeconds (0) is less than podInitialBackoffSeconds (1)"),
        ("podInitialBackoffSeconds: 11\n", "podMaxBackoffSeconds (10) is less than podInitialBackoffSeconds (11)"),
        ("clientConnection: {burst: -1}\n", "3:27: clientConnection.burst: -1 must be 0 or more"),
        ("clientConnection: {qps: .inf}\n", "3:25: clientConnection.qps: .inf is not a plain decimal number"),
        ("clientConnection: {qps: fast}\n", "clientConnection.qps: expected a number, got the string 'fast'"),
        ("leaderElection: {leaseDuration: 15}\n", 'expected a duration such as "15s", got the number 15'),
        ("leaderElection: {leaseDuration: 5 min}\n", "'5 min' is not a duration: write a number and a unit"),
        ("leaderElection: {leaseDuration: 1e9h}\n", "'1e9h' is not a duration"),
        ("leaderElection: {retryPeriod: -1s}\n", "leaderElection.retryPeriod: must be positive"),
        ("leaderElection: {leaseDuration: 10s}\n", "leaseDuration (10s) must exceed renewDeadline (10s)"),
        ("leaderElection: {renewDeadline: 2.4s}\n", "renewDeadline (2.4s) must exceed 1.2 × retryPeriod (2s)"),
        ("leaderElection: {retryPeriod: 9s}\n", "renewDeadline (10s) must exceed 1.2 × retryPeriod (9s)"),
        ("leaderElection: {resourceLock: endpoints}\n", "resourceLock: 'endpoints' is not one of leases"),
        ("leaderElection: {resourceName: ../x}\n", "resourceName: '../x' is not a valid object name"),
        ("leaderElection: {leaderElected: true}\n", "unknown field (did you mean leaderElect?)"),
    ],
)
def test_rejected_files(body: str, complaint: str) -> None:
    """A mistake is rejected with its position, what was expected, and the nearest valid name."""
    found = problems_of_body(body)
    assert any(complaint in each for each in found), found


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("[1]\n", "f.yaml:1:1: expected a mapping, got a list"),
        ("just text\n", "f.yaml:1:1: expected a mapping, got the string 'just text'"),
        ("kind: KubeSchedulerConfiguration\n", "f.yaml:1:1: apiVersion is missing"),
        ("apiVersion: kubescheduler.config.k8s.io/v1\n", "f.yaml:1:1: kind is missing"),
        (
            HEAD.replace("/v1", "/v1beta1"),
            "f.yaml:1:13: apiVersion: 'kubescheduler.config.k8s.io/v1beta1' is not supported: write kubescheduler.config",
        ),
        (
            HEAD.replace("/v1", "/v2"),
            "f.yaml:1:13: apiVersion: 'kubescheduler.config.k8s.io/v2' is not supported: write",
        ),
        (HEAD.replace("KubeS", "KubeProxyS"), "f.yaml:2:7: kind: 'KubeProxySchedulerConfiguration' is not one of Kube"),
        (HEAD + "---\nkind: Policy\n", "f.yaml:4:1: a document of kind 'Policy' is not supported: a file holds"),
        (HEAD + "---\n" + HEAD, "f.yaml:4:1: a second KubeSchedulerConfiguration: a file holds one"),
    ],
)
def test_other_documents(content: str, complaint: str) -> None:
    """A file of another kind or version, and a second document of a kind, are rejected by name."""
    (found,) = problems_of(content)
    assert complaint in found


def test_empty_documents_do_not_count() -> None:
    """A separator at the start or end of a file makes no second document."""
    assert [] == problems_of(f"---\n{HEAD}---\n# nothing\n")


def test_leader_election_off() -> None:
    """The times of an unused lease are not compared, as in kube-scheduler."""
    assert [] == problems_of_body("leaderElection: {leaderElect: false, leaseDuration: 1s}\n")


def test_all_problems_at_once() -> None:
    """All problems of a file are reported at once, in the order of its lines."""
    found = problems_of_body(
        "parallelism: x\nfoo: 1\nprofiles:\n- plugins: {filter: {enabled: [{name: NodeNam}]}}\n  bar: 2\n"
    )
    assert ["f.yaml:3", "f.yaml:4", "f.yaml:6", "f.yaml:7"] == [each[:8] for each in found]


def test_queue_order_is_one() -> None:
    """Profiles that sort the queue differently are refused: they share one queue."""

    class Backwards(NodeResourcesFit):
        def queue_sort_key(self, pod: object, queued_at: float) -> tuple[float, ...]:
            return (-queued_at,)

    body = """\
profiles:
- schedulerName: a
- schedulerName: b
  plugins: {multiPoint: {disabled: [{name: PrioritySort}]}, queueSort: {enabled: [{name: Backwards}]}}
"""
    with pytest.raises(ConfigError) as caught:
        parse(HEAD + body, FILE, {"Backwards": Backwards})
    assert (
        "f.yaml:5:18: profiles[1].schedulerName: queueSort must be the same in all profiles: they share one queue"
        == str(caught.value)
    )


def test_names_of_foreign_plugins() -> None:
    """A plugin of another package may not take the name of one that is built in."""
    with pytest.raises(ConfigError, match="an installed package offers a plugin NodeName, but that name is taken"):
        parse(HEAD, FILE, {"NodeName": NodeName})


def test_back_and_forth() -> None:
    """Parsing A, then B or an invalid file, then A again gives the same as parsing A alone."""
    fresh = comparable(parse(FULL, FILE))
    parse(HEAD, FILE)
    problems_of_body("nonsense: 1\n")
    assert fresh == comparable(parse(FULL, FILE))
