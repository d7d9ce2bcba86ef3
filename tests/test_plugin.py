"""Proves what authors of plugins can import from one place."""

from trimtab import plugin

NAMES = (
    "ALL MAX_SCORE Ahead Among Bools Change Filter Gate Go Ints Kept Node Normalise Observe Only Order Permit Plugin Pod "
    "PostFilter PreBind Prefilter Prefiltered Refuse Remarks Requirement Reserve Room Rows Score Staged Stuck View Wait "
    "Wakes Warn Watches codes"
)


def test_names_for_authors() -> None:
    """The module offers exactly these names, and nothing else by accident."""
    public = {name for name in vars(plugin) if not name.startswith("_")}
    assert set(NAMES.split()) == public == set(plugin.__all__)
