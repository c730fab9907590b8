"""Initialization of a run: checks settings against the simulator's platform."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from beasy_sched.energy.site import Site
from beasy_sched.engine.agenda import Agenda, Due, Turn
from beasy_sched.engine.call_lead import CallLead
from beasy_sched.engine.policy import Policy, PolicyCaller
from beasy_sched.engine.power_side import PowerSide, SessionOptions
from beasy_sched.engine.run_findings import (
    KnownInputs,
    look_at_start,
    plan_length,
    plan_start,
    unknown_speeds,
)
from beasy_sched.errors import ConfigError
from beasy_sched.model.choices import EnergySource, Placement
from beasy_sched.model.cluster import Cluster
from beasy_sched.model.events import SimulationBegins
from beasy_sched.model.platform import Platform, host_powers, old_name_note, start_note

_NO_QUERIES = (
    "energy queries are disabled with --no-power-actions: energy is computed from host states and powers"
)


def storage_power_w(event: SimulationBegins) -> float:
    """Return the power of the storage hosts at rest, W. Raises ConfigError for powers that cannot be read."""
    total_w = 0.0
    for resource in event.storage_resources:
        idle_w = host_powers(resource.properties, resource.cores)[0]
        total_w += idle_w[resource.pstate or 0] if len(idle_w) > (resource.pstate or 0) else 0.0
    return total_w


def with_base_load(options: SessionOptions, power_w: float) -> SessionOptions:
    """Return options with ``power_w`` added to the base load of the site, if there is one."""
    site = options.site
    if site is None or not power_w:
        return options
    return replace(options, site=replace(site, base_w=site.base_w + power_w))


def hosts_notes(event: SimulationBegins, platform: Platform, options: SessionOptions) -> Iterator[str]:
    """Yield warnings about the hosts as the simulator describes them."""
    old_names = (old_name_note(resource.name, resource.properties) for resource in event.resources)
    if note := next(filter(None, old_names), None):
        yield note
    if options.platform is None and (note := start_note(event, platform)):
        yield note


def energy_source(options: SessionOptions, answers_queries: bool) -> EnergySource:
    """Return the source of the energy used in this run."""
    return options.energy if answers_queries and options.power_actions else EnergySource.MODEL


def power_side(
    site: Site, cluster: Cluster, options: SessionOptions, source: EnergySource, lead: CallLead, due: Due
) -> PowerSide:
    """Return the power side of a run on ``site``. Raises ConfigError for a plan that does not fit."""
    if options.plans is not None:
        try:
            options.plans.check_fits(cluster.platform, site)
        except ConfigError as error:
            raise ConfigError(f"the plan does not fit this run: {error}") from None
    return PowerSide(site, cluster, replace(options, energy=source), lead, due)


def check_placement(placement: Placement, policy: Policy, name: str) -> None:
    """Raise ConfigError if others place jobs, and the policy cannot offer servers."""
    if placement is Placement.EXTERNAL and not policy.can_offer:
        raise ConfigError(
            f"policy {name!r} does not support external placement: it cannot offer servers to another"
            " scheduler; choose one that can (see 'beasy-sched policies NAME'), such as easy or beasy"
        )


def check_platform(options: SessionOptions, policy: Policy, name: str) -> None:
    """Check a run before its simulator connects, on the platform of the options, if they have one.

    The simulator may have fewer hosts than the file (Batsim's ``--mmax``): a plan for fewer is not checked.
    Raises ConfigError for an error that would end the run with its first message.
    """
    platform = options.platform
    if platform is None:
        return
    for _ in speeds_notes(policy, name, platform):
        pass
    if (site := options.site) is not None:
        planned = None if options.plans is None else options.plans[0].servers
        if planned is not None and len(planned.kind_of) < platform.size:
            options = replace(options, plans=None)
        due = Agenda().enter(Turn.STEP)
        power_side(site, Cluster(platform), options, options.energy, CallLead(0.0), due)


def power_notes(site: Site, options: SessionOptions, answers_queries: bool) -> Iterator[str]:
    """Yield warnings about the site's energy source and its plan."""
    if answers_queries and not options.power_actions and options.energy is EnergySource.BATSIM:
        yield _NO_QUERIES
    if options.plans is None or (options.inputs_checked and not options.replan):
        return
    if (finding := plan_start(options.plans)) is not None:
        yield finding.text
    finding = None if options.replan else plan_length(options.plans, site, options.windows)
    if finding is not None:
        yield finding.text


def speeds_notes(policy: Policy, name: str, platform: Platform) -> Iterator[str]:
    """Yield a warning if speeds are unknown. Raises ConfigError for a policy that needs them."""
    if platform.has_speeds:
        return
    if policy.needs_speeds:
        kind = next(index for index, kind in enumerate(platform.kinds) if not kind.speeds_flops)
        host = platform.names[int(np.argmax(platform.kind_of == kind))]
        raise ConfigError(
            f"policy {name!r} requires the servers' speeds, but the simulator sent none"
            f" for host {host!r}: pass the platform file with -p/--platform, or use one made by"
            " 'beasy-sched generate platform'"
        )
    if (finding := unknown_speeds(platform)) is not None:
        yield finding.text


def inputs_notes(platform: Platform, options: SessionOptions, policy: PolicyCaller) -> Iterator[str]:
    """Yield warnings about inputs that were not checked before the run."""
    if not options.inputs_checked:
        inputs = KnownInputs(platform, site=options.site, windows=options.windows, policy=policy)
        for finding in look_at_start(inputs):
            yield finding.text
