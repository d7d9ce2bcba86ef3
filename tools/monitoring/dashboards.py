"""The four dashboards: their variables, links and rows, as the JSON that Grafana reads from a file or a ConfigMap.

The JSON has no `dashboard` object around it: that is the shape of Grafana's HTTP API, which provisioning does not accept.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from grafana_foundation_sdk.builders import dashboard as grafana
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as model

from tools.monitoring import internals, nodes, overview, rescheduling
from tools.monitoring.panels import DATASOURCE, Panel, Row, build

TAG = "trimtab"
# label_values() of each variable; the first panel query selects by them.
VARIABLES = {
    "job": "label_values(trimtab_build_info, job)",
    "instance": 'label_values(trimtab_build_info{job=~"$job"}, instance)',
}
NODE = {"node": 'label_values(trimtab_node_pods{job=~"$job"}, node)'}


@dataclass(frozen=True)
class Dashboard:
    """One dashboard; `name` is its file and, behind `trimtab-`, its uid."""

    name: str
    title: str
    description: str
    rows: tuple[Row, ...]
    variables: dict[str, str]

    @property
    def panels(self) -> Iterator[Panel]:
        return (panel for row in self.rows for panel in row.panels)


DASHBOARDS = (
    Dashboard(
        "overview",
        "Trimtab / Overview",
        "Is Trimtab running, does it schedule, how fast, and why do pods wait?",
        overview.ROWS,
        VARIABLES,
    ),
    Dashboard(
        "nodes",
        "Trimtab / Nodes and load",
        "How load is spread over nodes, how it compares with requests and forecasts, and whether the data can be trusted.",
        nodes.ROWS,
        VARIABLES | NODE,
    ),
    Dashboard(
        "rescheduling",
        "Trimtab / Rescheduling",
        "Which moves were planned, made and refused, what they were worth, and what is left of the budgets.",
        rescheduling.ROWS,
        VARIABLES,
    ),
    Dashboard(
        "internals",
        "Trimtab / Internals",
        "Where time goes, what the API server answers, and what the processes use.",
        internals.ROWS,
        VARIABLES,
    ),
)


def to_json(dashboard: Dashboard) -> str:
    """The file's text."""
    return json.dumps(_build(dashboard), cls=JSONEncoder, indent=2, sort_keys=True) + "\n"


def _build(dashboard: Dashboard) -> model.Dashboard:
    made = grafana.Dashboard(dashboard.title).uid(f"trimtab-{dashboard.name}").description(dashboard.description)
    made.tags([TAG]).editable().tooltip(model.DashboardCursorSync.CROSSHAIR).refresh("30s").time("now-1h", "now")
    made.timezone("browser").link(_links())
    made.with_variable(grafana.DatasourceVariable("datasource").label("Data source").type("prometheus"))
    for name, values in dashboard.variables.items():
        made.with_variable(_variable(name, values))
    ids = count(1)
    for row in dashboard.rows:
        made.with_row(grafana.Row(row.title).id(next(ids)))
        for panel in row.panels:
            made.with_panel(build(panel, next(ids)))
    return made.build()


def _variable(name: str, values: str) -> grafana.QueryVariable:
    everything = model.VariableOption(selected=True, text="All", value="$__all")
    made = grafana.QueryVariable(name).label(name.capitalize()).query(values).datasource(DATASOURCE)
    made.refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED).sort(model.VariableSort.ALPHABETICAL_ASC)
    return made.multi(True).include_all(True).all_value(".+").current(everything)


def _links() -> grafana.DashboardLink:
    made = grafana.DashboardLink("Trimtab").type(model.DashboardLinkType.DASHBOARDS).tags([TAG])
    return made.as_dropdown(True).include_vars(True).keep_time(True)
