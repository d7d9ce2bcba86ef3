"""`make bench`: runs every benchmark that needs no control plane and prints its table."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from bench import decisions, decode, load, load_plugins, plan_cost, preemption, stalls, steady_arrivals, unschedulable


def show(console: Console, title: str, heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    table = Table(title=title, title_justify="left")
    for index, head in enumerate(heads):
        table.add_column(head, justify="left" if index == 0 else "right")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def main() -> None:
    console = Console()
    with console.status("decisions"):
        decision_rows = decisions.decision_costs()
    heads: tuple[str, ...] = ("nodes", "uncached", "cached, 1 template", "cached, 90 templates", "uncached / cached")
    show(console, "CPU µs per decision (default profile, all nodes evaluated)", heads, decision_rows)
    with console.status("decisions with constraints"):
        constrained = decisions.constrained_costs()
    heads = ("workload", "uncached", "vs plain", "cached", "vs plain")
    show(console, "CPU µs per decision at 5,000 nodes and 20,000 running pods", heads, constrained)
    with console.status("ingesting samples"):
        cycle, queries = load.scrapes()
    show(console, "CPU ms per scrape at 5,000 nodes and 50,000 pods", ("step", "ms", "goal"), cycle)
    show(console, "CPU µs of queries and pod changes", ("operation", "first time", "each time"), queries)
    with console.status("load-aware plugins"):
        load_rows = load_plugins.costs()
    heads = ("plugin", "between scrapes", "first pod after a scrape")
    show(console, "CPU µs that a load-aware plugin adds to a decision at 5,000 nodes", heads, load_rows)
    with console.status("preemption"):
        dry_runs = preemption.dry_runs()
    heads = ("urgent pod", "20,000 running pods", "50,000 running pods")
    show(console, "CPU ms to find preemption victims on 5,000 full nodes, 50 disruption budgets", heads, dry_runs)
    with console.status("unschedulable pods"):
        deletions = unschedulable.deletions()
    heads = ("unschedulable pods", "µs per deletion", "requeued")
    show(console, "CPU µs per pod deletion that helps none of the unschedulable pods, 5,000 nodes", heads, deletions)
    with console.status("pods that arrive beside unschedulable ones"):
        arrivals = steady_arrivals.costs()
    heads = ("unschedulable pods", "p50", "p99", "maximum", "attempts", "p99 ratio", "goal")
    show(console, "ms from arrival to decision of 10 plain pods a second, 5,000 nodes", heads, arrivals)
    with console.status("a plan of moves"):
        plan_rows = plan_cost.costs()
    show(console, plan_cost.TITLE, ("what", "measured", "goal"), plan_rows)
    with console.status("objects of 1.5 MB"):
        stall_rows = stalls.costs()
    heads = ("object", "step", "CPU ms", "goal")
    show(console, "Longest single steps beside objects of up to 1.5 MB, 5,000 nodes", heads, stall_rows)
    with console.status("events"):
        events = decisions.event_rates()
    show(console, "Through Engine.handle, 5,000 nodes", ("event", "per second of CPU"), events)
    with console.status("decoding"):
        decode.main()


if __name__ == "__main__":
    main()
