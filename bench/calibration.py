"""How well PeakRisk's probabilities hold: what it predicted against what the next hour brought.

After each five-minute step of a trace every node has a predicted probability that its CPU exceeds the limit. Predictions are
put into ten classes of ten percent; for each class this compares their mean with the share of the following hour's node-steps
above the limit, and with the share of predictions whose hour had any such step.

    python -m bench.calibration [SCENARIO ...] [--svg docs/img/peak-risk-calibration.svg]

SCENARIO is a scenario file, such as one with a trace, or a shipped name.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from tools.plot import Chart, Line, render_svg
from trimtab.apps.simulate.policies import find_policy, settings_of
from trimtab.core.framework.interface import ALL_ROWS
from trimtab.core.model.duration import HOUR
from trimtab.core.model.resources import CPU
from trimtab.core.plugins.peak_risk import PeakRisk, RiskInputs, mean_and_variance, risk
from trimtab.core.tables import Floats
from trimtab.sim.scenario import Scenario
from trimtab.sim.shipped import find_scenario
from trimtab.sim.simulation import Simulation
from trimtab.sim.usage import StepUsage

HOT_SHARE = 0.8
CLASSES = 10
MIN_PREDICTIONS = 20  # below this a class is left out of the chart


class Predictions:
    """After each step: the predictions for all nodes, and which of them were above the limit in that step."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.predicted: list[Floats] = []
        self.hot: list[Floats] = []
        simulation.world.step_listeners.append(self._step)

    def _step(self, usage: StepUsage) -> None:
        scenario = self.simulation.scenario
        if usage.at <= scenario.begins + scenario.warm_up:
            return
        view, plugin = self.simulation.engine.cluster.view, PeakRisk()
        capacity, trust = view.capacity(CPU).astype(np.float64), view.load.trust(CPU)[: view.count]
        inputs = RiskInputs(
            *mean_and_variance(view, CPU, ALL_ROWS), trust, np.zeros(view.count), capacity, 0.0, 0.0,
            HOT_SHARE, plugin.floor / 100, plugin.spread / 100,
        )  # fmt: skip
        by_name = dict(zip((node.name for node in view.nodes), risk(inputs)[0].tolist(), strict=True))
        self.predicted.append(np.array([by_name[name] for name in usage.nodes]))
        self.hot.append(usage.demand[0] > HOT_SHARE * usage.capacity[0])


def outcomes(scenario: Scenario) -> Floats:
    """Three columns by prediction: the probability, the share of the next hour above the limit, and whether any was."""
    simulation = Simulation(scenario, settings_of(find_policy("PeakRisk"), scenario), seed=1)
    predictions = Predictions(simulation)
    simulation.run()
    ahead = int(HOUR // scenario.step)
    hours = np.lib.stride_tricks.sliding_window_view(np.array(predictions.hot)[1:], ahead, axis=0)
    predicted = np.array(predictions.predicted)[: len(hours)]
    return np.stack([predicted.ravel(), hours.mean(axis=-1).ravel(), hours.any(axis=-1).ravel()], axis=1)


def by_class(predictions: Floats) -> list[tuple[int, float, float, float]]:
    """By class: how many predictions, and the means of the three columns in percent."""
    number = np.minimum((predictions[:, 0] * CLASSES).astype(np.intp), CLASSES - 1)
    members = [predictions[number == each] for each in range(CLASSES)]
    return [(len(each), *(100 * each.mean(axis=0)).tolist()) for each in members if len(each)]


def chart(classes: list[tuple[int, float, float, float]]) -> str:
    drawn = [each for each in classes if each[0] >= MIN_PREDICTIONS]
    lines = (
        Line("as predicted", ((0.0, 0.0), (100.0, 100.0))),
        Line("of the next hour above 80 %", tuple((mean, share) for _, mean, share, _ in drawn)),
        Line("any step of it above 80 %", tuple((mean, ever) for _, mean, _, ever in drawn)),
    )
    return render_svg(Chart("PeakRisk: predicted and observed overload", "predicted probability of overload", lines))


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.calibration", description="PeakRisk's predictions against what came.")
    parser.add_argument("scenarios", nargs="*", default=["zoo"])
    parser.add_argument("--svg", default="")
    options = parser.parse_args()
    classes = by_class(np.concatenate([outcomes(find_scenario(name, seed=1)) for name in options.scenarios]))
    table = Table("predictions", "predicted", "of the next hour", "any step of it", title="percent")
    for count, *means in classes:
        table.add_row(f"{count:,}", *(f"{mean:.1f}" for mean in means))
    Console().print(table)
    if options.svg:
        Path(options.svg).write_text(chart(classes))


if __name__ == "__main__":
    main()
