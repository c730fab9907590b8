"""Periodic calls and probes of Batsim 5; probes read the energy of hosts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from beasy_sched.arrays import FloatArray
from beasy_sched.errors import DecisionRefused
from beasy_sched.model import decisions as d
from beasy_sched.model.events import Event, RequestedCall, UnknownEvent
from beasy_sched.model.hosts import HostSet
from beasy_sched.simulator.clock import CALL, PROBE, Action
from beasy_sched.simulator.execution import host_powers_w
from beasy_sched.simulator.world import World

_SAME_TICK: Final = 1e-9
"""Share of a period by which the clock may be short of a multiple that counts as reached."""


@dataclass(slots=True, eq=False)
class _Trigger:
    """A periodic call, or a probe."""

    period_ms: int
    left: int | None
    """Number of calls or readings left; None if unlimited."""
    probe: Mapping[str, Any] | None = None
    """Request of a probe, in the words of the wire; None for a call."""
    armed: bool = False
    """Whether a probe has passed its first period, in which it sends nothing, and which does not count."""


class Periodic:
    """Periodic calls and probes: each is due at the multiples of its period, counted from time 0."""

    def __init__(self, world: World, names: Sequence[str]) -> None:
        self._world = world
        self._everybody = HostSet(np.arange(len(names)))
        self._energies_j: FloatArray | None = None
        """Energy of each host since time 0, J, if it is kept."""
        self._calls: dict[str, _Trigger] = {}
        self._probes: dict[str, _Trigger] = {}
        self._wait: Action | None = None
        self._at_ms = 0

    def call(self, asked: d.CallPeriodically) -> None:
        """Begin periodic calls."""
        if asked.offset_ms:
            raise DecisionRefused(
                f"CallMeLater (id='{asked.id}') has non-zero offset ({asked.offset_ms} ms), which is not"
                " supported"
            )
        if asked.count is not None and asked.count < 1:
            raise DecisionRefused(f"invalid CallMeLater (call_id='{asked.id}'): finite but nb_periods=0")
        if asked.id in self._calls:
            raise DecisionRefused(
                f"received a new CallMeLater with call_id='{asked.id}' while this call_id is already in use"
            )
        self._add(self._calls, asked.id, _Trigger(asked.period_ms, asked.count))

    def stop_call(self, asked: d.StopCalls) -> None:
        """End periodic calls; unknown ones are ignored, as Batsim does (with a warning in its log)."""
        self._remove(self._calls, asked.id)

    def probe(self, asked: d.ProbeRequest) -> None:
        """Create or stop a probe."""
        name = str(asked.data["probe_id"])
        if asked.kind == "StopProbeEvent":
            self._remove(self._probes, name)
            return
        if asked.kind != "CreateProbeEvent":
            raise DecisionRefused(f"Unhandled event type received ({asked.kind.removesuffix('Event')})")
        if name in self._probes:
            raise DecisionRefused(f"received a new probe with probe_id='{name}' while this one is in use")
        self._add(self._probes, name, self._checked_probe(name, asked.data))

    def _checked_probe(self, name: str, data: Mapping[str, Any]) -> _Trigger:
        """Check that a probe reads what is simulated: the energy that hosts have used since time 0.

        That of single hosts is kept if a probe asks for it at the very start. Without energy, anything will
        do until the first reading, on which Batsim aborts.
        """

        def refuse(what: str, wanted: str) -> DecisionRefused:
            return DecisionRefused(f"the probe '{name}' {what}, which is not simulated: expected {wanted}")

        policy = data.get("measurement_triggering_policy", {})
        when = policy.get("temporal_trigger", {})
        if policy.get("temporal_trigger_type") != "Periodic" or when.get("offset", 0):
            raise refuse("is not periodic", "a period without offset")
        ms = 1 if when.get("time_unit", "Second") == "Millisecond" else 1000
        count = when.get("mode", {}).get("nb_periods") if when.get("mode_type") != "Infinite" else None
        trigger = _Trigger(int(when.get("period", 0)) * ms, count, data)
        if not self._world.energy:
            return trigger
        if data.get("metrics", "Power") != "Power":
            raise refuse(f"measures {data['metrics']}", "Power")
        if data.get("resources_type") != "HostResources":
            raise refuse("does not measure hosts", "HostResources")
        hosts, how = _hosts_of(data), data.get("resources_aggregation_function_type")
        if not len(hosts) or hosts.ids.item(-1) >= len(self._everybody):
            raise DecisionRefused(f"the probe '{name}' measures hosts '{hosts}', of which some do not exist")
        if how not in ("Sum", "ArithmeticMean", "NoResourcesAggregation"):
            raise refuse(
                f"has the resources_aggregation_function {how}",
                "Sum, ArithmeticMean or NoResourcesAggregation",
            )
        gathered = data.get("data_accumulation_strategy", {})
        if (
            data.get("data_accumulation_strategy_type") != "ProbeDataAccumulation"
            or gathered.get("cumulative_function") != "Sum"
            or gathered.get("reset_mode_type") != "NoReset"
            or gathered.get("temporal_normalization", False)
            or data.get("temporal_aggregation_function_type", "NoTemporalAggregation")
            != "NoTemporalAggregation"
            or data.get("emission_filtering_policy_type", "NoFiltering") != "NoFiltering"
        ):
            raise refuse("accumulates otherwise", "a Sum without reset, normalization, aggregation or filter")
        if hosts != self._everybody or how == "NoResourcesAggregation":
            self._keep_energies(name)
        return trigger

    def _keep_energies(self, name: str) -> None:
        """Keep the energy of each host from now on, which must be the start."""
        world = self._world
        if self._energies_j is None:
            if world.now > 0.0:
                raise DecisionRefused(
                    f"the probe '{name}' measures single hosts, and is created later than at time 0: that is"
                    " not simulated"
                )
            self._energies_j = np.zeros(len(self._everybody))
            world.before_time_passes = self._time_passes

    def _time_passes(self, lasted_s: float) -> None:
        world = self._world
        if self._energies_j is not None:
            self._energies_j += host_powers_w(world.machines, filter(None, world.slots)) * lasted_s

    def _add(self, triggers: dict[str, _Trigger], name: str, trigger: _Trigger) -> None:
        if trigger.period_ms < 1:
            raise DecisionRefused(f"the period of '{name}' is 0")
        for other in self._all():
            short, long = sorted((trigger.period_ms, other.period_ms))
            if long % short:
                raise DecisionRefused(
                    f"Period inconsistency found: {long} ms is not a multiple of {short} ms; longer periods"
                    " must be multiples of all shorter ones"
                )
        triggers[name] = trigger
        self._world.calls += 1
        self._arm()

    def _remove(self, triggers: dict[str, _Trigger], name: str) -> None:
        if triggers.pop(name, None) is not None:
            self._world.calls -= 1
            self._arm()

    def _all(self) -> list[_Trigger]:
        return [*self._calls.values(), *self._probes.values()]

    def _arm(self) -> None:
        """Wait for the next multiple of the shortest period."""
        clock = self._world.clock
        if self._wait is not None:
            self._wait.cancel()
            self._wait = None
        triggers = self._all()
        if not triggers:
            return
        shortest = min(trigger.period_ms for trigger in triggers)
        now_ms = clock.now * 1000.0
        self._at_ms = (math.floor(now_ms / shortest + _SAME_TICK) + 1) * shortest
        due = any(self._at_ms % probe.period_ms == 0 for probe in self._probes.values())
        wait_s = self._at_ms / 1000.0 - clock.now
        self._wait = clock.wait(PROBE if due else CALL, self, wait_s)

    def tick(self) -> list[Event]:
        """Return the events due now, calls before probes, each by name; wait for the next one."""
        world = self._world
        events: list[Event] = []
        for name, trigger in self._due(self._calls):
            events.append(RequestedCall(world.stamp, name, self._count(self._calls, name, trigger)))
        for name, trigger in self._due(self._probes):
            if not world.energy:
                raise DecisionRefused(
                    "trying to probe energy on hosts but their energy is not simulated: start with"
                    " --energy-host"
                )
            if trigger.armed and trigger.probe is not None:
                events.append(self._reading(trigger.probe))
                self._count(self._probes, name, trigger)
            trigger.armed = True
        self._wait = None
        self._arm()
        return events

    def _due(self, triggers: dict[str, _Trigger]) -> list[tuple[str, _Trigger]]:
        return sorted(pair for pair in triggers.items() if self._at_ms % pair[1].period_ms == 0)

    def _count(self, triggers: dict[str, _Trigger], name: str, trigger: _Trigger) -> bool:
        """Count one time; return whether it was the last."""
        if trigger.left is None:
            return False
        trigger.left -= 1
        if trigger.left > 0:
            return False
        del triggers[name]
        self._world.calls -= 1
        return True

    def _reading(self, probe: Mapping[str, Any]) -> Event:
        """Return the reading of a probe: joules since time 0."""
        world, hosts, how = self._world, _hosts_of(probe), probe["resources_aggregation_function_type"]
        total_j = world.meter.meter_all(world.now)
        data: float | list[float] = total_j
        if how == "NoResourcesAggregation" and self._energies_j is not None:
            data = self._energies_j[hosts.ids].tolist()
        elif hosts != self._everybody and self._energies_j is not None:
            data = float(self._energies_j[hosts.ids].sum())
        if how == "ArithmeticMean" and isinstance(data, float):
            data /= len(hosts)
        return UnknownEvent(
            world.stamp,
            "ProbeDataEmittedEvent",
            {
                "probe_id": probe["probe_id"],
                "resources_type": "HostResources",
                "resources": {"host_ids": str(hosts)},
                "metrics": "Power",
                "data_type": "VectorialProbeData" if isinstance(data, list) else "AggregatedProbeData",
                "data": {"data": data},
                "manually_triggered": False,
                "nb_emitted": 0,
                "nb_triggered": 0,
            },
        )


def _hosts_of(probe: Mapping[str, Any]) -> HostSet:
    try:
        return HostSet.parse(probe.get("resources", {}).get("host_ids", ""))
    except ValueError as error:
        raise DecisionRefused(f"the probe '{probe['probe_id']}': host_ids: {error}") from None
