"""One policy at one moment of a scenario, explained as `trimtab explain` explains a live one."""

from __future__ import annotations

import difflib
import re

from trimtab.apps.simulate.policies import Policy, settings_of
from trimtab.config.diagnostics import did_you_mean
from trimtab.core.model.duration import DAY, parse_duration
from trimtab.core.scheduling.controller import Scheduling
from trimtab.core.scheduling.explain import NodeExplanation, PodExplanation, explain_node, explain_pod, find_pod
from trimtab.sim.scenario import NAMESPACE, Scenario
from trimtab.sim.scenario_file.values import clock_text, parse_clock
from trimtab.sim.simulation import Simulation

NAMES_SHOWN = 5
_DAYS = re.compile(r"(?P<days>\d+)d(?P<rest>.*)")


class MomentError(Exception):
    """Nothing can be explained, and why."""


def parse_moment(text: str, scenario: Scenario) -> float:
    """A time of the scenario: "14:30", or since its beginning "1d2h" or seconds. Raises MomentError."""
    at = _seconds(text, scenario)
    if at is None:
        raise MomentError(
            f'{text[:50]!r} is no time: write "14:30", or since the beginning "1d2h" or a number of seconds'
        )
    if not scenario.begins < at <= scenario.ends:
        begins, ends = clock_text(scenario.begins), clock_text(scenario.ends)
        meant = "" if clock_text(at) == text else f" ({clock_text(at)})"
        raise MomentError(f"{text}{meant} is outside of the scenario: choose a time after {begins} and up to {ends}")
    return at


def _seconds(text: str, scenario: Scenario) -> float | None:
    if (clock := parse_clock(text)) is not None:
        return clock
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return scenario.begins + float(text)
    days = 0
    if match := _DAYS.fullmatch(text):
        days, text = int(match["days"]), match["rest"] or "0"
    rest = parse_duration(text)
    return None if rest is None or rest < 0 else scenario.begins + days * DAY + rest


def parse_subject(text: str) -> tuple[str, str]:
    """`pod` and namespace/name, or `node` and name. Raises MomentError."""
    kind, _, name = text.partition("/")
    if kind == "pod" and name and name.count("/") <= 1:
        return kind, name if "/" in name else f"{NAMESPACE}/{name}"
    if kind == "node" and name:
        return kind, name
    raise MomentError(f"{text[:100]!r} is neither pod/NAME, pod/NAMESPACE/NAME nor node/NAME")


def explain_moment(
    scenario: Scenario, policy: Policy, seed: int, at: float, kind: str, name: str
) -> PodExplanation | NodeExplanation:
    """Runs to this moment. Raises MomentError."""
    simulation = Simulation(scenario, settings_of(policy, scenario), seed)
    simulation.run_until(at)
    try:
        scheduling = simulation.engine.controller(Scheduling)
    except LookupError as error:
        raise MomentError(f"at {clock_text(at)} {error}: choose another time") from None
    if kind == "node":
        explained = explain_node(scheduling, name)
        if explained is None:
            raise MomentError(_unknown_node(simulation, name))
        return explained
    pod = find_pod(simulation.engine.cluster, name)
    if pod is None:
        raise MomentError(_unknown_pod(simulation, name))
    return explain_pod(scheduling, pod)


def _unknown_node(simulation: Simulation, name: str) -> str:
    now, known = simulation.clock.now, simulation.world.nodes
    later = next((each for each in simulation.scenario.nodes if each.node.name == name), None)
    if later is not None and later.joins > now:
        return f"node {name} joins at {clock_text(later.joins)}: choose a later time"
    return f"there is no node {name} at {clock_text(now)}{did_you_mean(name, known)}"


def _unknown_pod(simulation: Simulation, key: str) -> str:
    """Says when the pod leaves or arrives; the simulation goes on to its end to find out."""
    now, world = simulation.clock.now, simulation.world
    text = f"there is no pod {key} at {clock_text(now)}"
    gone = [life for life in world.lives.values() if life.key == key and life.removed is not None]
    if gone and gone[-1].removed is not None:
        return f"{text}: it was removed at {clock_text(gone[-1].removed)} ({gone[-1].left})"
    present = {pod.key for pod in world.pods.values()}
    simulation.run()
    later = [life.created for life in world.lives.values() if life.key == key]
    if later:
        return f"{text}: it arrives at {clock_text(later[0])}"
    near = difflib.get_close_matches(key, sorted(present), n=NAMES_SHOWN, cutoff=0.4) or sorted(present)[:NAMES_SHOWN]
    return f"{text}, and none arrives later; there are {', '.join(near)}" if near else f"{text}, nor any other"
