"""What authors of plugins can import from `trimtab.plugin`."""

from trimtab import plugin

NAMES = (
    "ALL_ROWS ArgumentError Bools Cacheable Change CustomNormalise Duration ExplainNote Filter FilterStatus Forecast "
    "Forecaster Ints Log MAX_SCORE NeedsKinds NeedsKindsForSomePods Node NodeSubset Normalise ObservesPods Permit "
    "Plugin Pod PostFilter PreBind PreEnqueue PreFilter PreFilterResult PreFilterStatus PreemptionCandidate QueueSort "
    "QueueingHint Reject Requirement Reserve Rows Score Snapshots StageResult StageStatus Strategy StrategyContext "
    "Suggestion View Wait Warn filter_codes setting"
)


def test_names_for_authors() -> None:
    """The module offers exactly these names, and nothing else by accident."""
    public = {name for name in vars(plugin) if not name.startswith("_")}
    assert set(NAMES.split()) == public == set(plugin.__all__)
