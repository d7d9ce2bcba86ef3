"""`make bench`: prints every table that needs no cluster; what is measured is decided in the files beside this one."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from bench import decisions, decode, load, load_plugins, preemption, unschedulable


def show(console: Console, title: str, heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    table = Table(title=title, title_justify="left")
    for place, head in enumerate(heads):
        table.add_column(head, justify="left" if place == 0 else "right")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def main() -> None:
    console = Console()
    with console.status("deciding"):
        decision_rows = decisions.decision_costs()
    heads: tuple[str, ...] = ("nodes", "uncached", "cached, 1 template", "cached, 90 templates", "uncached / cached")
    show(console, "CPU µs a decision (default profile, all nodes looked at)", heads, decision_rows)
    with console.status("deciding under constraints"):
        constrained = decisions.constrained_costs()
    heads = ("workload", "uncached", "against plain", "cached", "against plain")
    show(console, "CPU µs a decision at 5,000 nodes and 20,000 running pods", heads, constrained)
    with console.status("reading measured load"):
        cycle, answers = load.scrapes()
    show(console, "CPU ms a scrape at 5,000 nodes and 50,000 pods", ("what", "ms", "at most"), cycle)
    show(console, "CPU µs of what follows it", ("what", "the first time", "each time"), answers)
    with console.status("deciding by measured load"):
        load_rows = load_plugins.costs()
    heads = ("plugin", "between scrapes", "first pod after a scrape")
    show(console, "CPU µs that a plugin over measured load adds to a decision at 5,000 nodes", heads, load_rows)
    with console.status("preempting"):
        dry_runs = preemption.dry_runs()
    heads = ("urgent pod", "20,000 running pods", "50,000 running pods")
    show(console, "CPU ms to find room by preemption on 5,000 full nodes, 50 budgets", heads, dry_runs)
    with console.status("waking nobody"):
        deletions = unschedulable.deletions()
    heads = ("parked pods", "µs a deletion", "woken")
    show(console, "CPU µs a deletion that helps none of the parked pods, 5,000 nodes", heads, deletions)
    with console.status("taking facts in"):
        events = decisions.event_rates()
    show(console, "Through Engine.handle, 5,000 nodes", ("what", "a second of CPU"), events)
    with console.status("decoding"):
        decode.main()


if __name__ == "__main__":
    main()
