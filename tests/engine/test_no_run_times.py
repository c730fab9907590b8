"""No policy can see how long a job will run, wherever it looks in its view."""

from __future__ import annotations

import re
import types
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from worlds import FAST, World

from beasy_sched.engine import Session, SessionOptions
from beasy_sched.engine.actions import Action
from beasy_sched.engine.policy import View
from beasy_sched.formats.batsim_events import ExternalEvent
from beasy_sched.formats.batsim_workload import read_workload
from beasy_sched.formats.simgrid_xml import SimGridPlatform
from beasy_sched.generate.noise import noisy_workload
from beasy_sched.generate.workload import GeneratedWorkload, synthetic_workload
from beasy_sched.generate.workload_options import ProfileType, SyntheticOptions
from beasy_sched.policies.easy import Easy
from beasy_sched.simulator import Simulation, SimulationOptions
from beasy_sched.testing.random_plans import random_plans

_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_CODE = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, property)
"""What holds no data of a run; of a method, what it is bound to is looked at."""


def numbers_in(start: object) -> np.ndarray:
    """All numbers that can be reached from ``start``, those within texts, too; sorted."""
    arrays: list[np.ndarray] = []
    numbers: list[float] = []
    seen: set[int] = set()
    keep: list[object] = []  # an object that is gone could lend its id to another
    stack: list[object] = [start]
    while stack:
        one = stack.pop()
        if isinstance(one, (bool, int, float)):
            numbers.append(float(one))
            continue
        if isinstance(one, str):
            numbers += map(float, _NUMBER.findall(one))
            continue
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        keep.append(one)
        if isinstance(one, np.ndarray) and one.dtype != object:
            if one.dtype.kind in "iuf":
                arrays.append(np.unique(one).astype(float))
        elif isinstance(one, Mapping):
            stack += [*one.keys(), *one.values()]
        elif isinstance(one, Collection):
            stack += one
        elif isinstance(one, types.MethodType):
            stack.append(one.__self__)
        if not isinstance(one, _CODE):
            stack += _members(one)
    return np.unique(np.concatenate([*arrays, numbers]))


def _members(one: object) -> Iterator[object]:
    yield from getattr(one, "__dict__", {}).values()
    for kind in type(one).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            yield getattr(one, name, None)
    for name in getattr(one, "__struct_fields__", ()):
        yield getattr(one, name)


class Nosy(Easy):
    """EASY that looks everywhere, now and then, for run times and flops of jobs that have not ended."""

    def __init__(self, workload: GeneratedWorkload) -> None:
        super().__init__()
        flops = workload.run_s * workload.reference_speed_flops
        self.secrets = {
            f"w0!{job_id}": secrets
            for job_id, *secrets in zip(workload.ids, workload.run_s.tolist(), flops.tolist(), strict=True)
        }
        self.calls = self.looked_for = 0
        self.found: set[str] = set()

    def schedule(self, view: View) -> Sequence[Action]:
        for job in view.ended:
            del self.secrets[job.id]
        self.calls += 1
        if self.calls % 8 == 0:
            self.look(view)
        return super().schedule(view)

    def look(self, view: View) -> None:
        seen = numbers_in(view)
        for job_id, secrets in self.secrets.items():
            for secret in secrets:
                self.looked_for += 1
                near = seen[np.searchsorted(seen, secret * (1 - 1e-9)) :][:1]
                if len(near) and near[0] <= secret * (1 + 1e-9):
                    self.found.add(job_id)


def drawn(profile_type: ProfileType = "parallel_homogeneous") -> GeneratedWorkload:
    """Jobs whose run times are no round numbers, and do not follow from their walltimes."""
    options = SyntheticOptions(
        reference_speed_flops=FAST.reference_speed_flops,
        jobs=50,
        hosts=4,
        day_shares=(1.0,),
        run_median_s=200.0,
        seed=5,
        profile_type=profile_type,
    )
    workload = noisy_workload(synthetic_workload(options), seed=5, walltimes="keep")
    return replace(workload, submit_s=np.round(workload.submit_s / 12, 6))


def look_through(workload: GeneratedWorkload, folder: Path, *, with_site: bool = True) -> Nosy:
    """Run the workload as a file is run; return the policy that looked."""
    workload.write(folder / "w.json")
    world = World(4, 0, (), (450.0,) * 150, capacity_j=5e6, discharge_limit_w=1e4)
    events = [ExternalEvent(0.0, "power", {"type": "power", "power_available": 450.0})]
    simulation = Simulation(
        SimGridPlatform(world.platform, "master"),
        [read_workload(folder / "w.json")],
        [events],
        SimulationOptions(energy=True, forward_unknown_events=True, forward_profiles=True),
    )
    policy = Nosy(workload)
    plans = random_plans(world) if with_site else None
    session = Session(policy, SessionOptions(site=world.site if with_site else None, plans=plans))
    simulation.run(session.step)
    assert policy.looked_for > 300
    return policy


@pytest.mark.parametrize("profile_type", ["parallel_homogeneous", "delay"])
@pytest.mark.parametrize("with_site", [False, True])
def test_a_view_holds_no_run_time(tmp_path: Path, profile_type: ProfileType, with_site: bool) -> None:
    assert not look_through(drawn(profile_type), tmp_path, with_site=with_site).found


@pytest.mark.parametrize("how", ["{:.6f}", "p{:.6f}", "about {:.6f} s"])
def test_one_that_leaked_would_be_found(tmp_path: Path, how: str) -> None:
    workload = drawn()
    told = [how.format(run_s) for run_s in workload.run_s.tolist()]
    found = look_through(replace(workload, extras={"comment": told}), tmp_path).found
    assert len(found) > 30
