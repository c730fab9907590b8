"""The plan of a tuple: what ``beasy-sched plan`` makes of the same files."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from beasy_sched._version import __version__
from beasy_sched.energy.site import parse_site
from beasy_sched.experiments.scenario import PlanPart
from beasy_sched.formats.plan_file import write_plans
from beasy_sched.formats.power_series import read_power_series
from beasy_sched.formats.simgrid_xml import read_simgrid_platform
from beasy_sched.formats.workload_demand import workload_demand_w
from beasy_sched.plan.offline import OfflineOptions, plan_windows
from beasy_sched.plan.plan import Provenance
from beasy_sched.plan.servers import ServerRules


@dataclass(frozen=True)
class PlanTask:
    """Everything that a plan depends on."""

    site: str
    """Text of the site file, without a guard: plans do not depend on it."""
    windows: int
    platform: bytes
    workload: bytes
    production: bytes
    options: PlanPart

    @property
    def recipe(self) -> str:
        """SHA-256 of all of it, and of the program's version."""
        options = {name: str(getattr(self.options, name)) for name in self.options.__struct_fields__}
        head = json.dumps([__version__, self.windows, options, self.site]).encode()
        digests = [hashlib.sha256(part).digest() for part in (self.platform, self.workload, self.production)]
        return hashlib.sha256(b"".join([hashlib.sha256(head).digest(), *digests])).hexdigest()


def make_plan(task: PlanTask) -> bytes:
    """Return the plan file. Raises ConfigError, InputError and NoPlan."""
    with TemporaryDirectory(prefix="beasy-plan-") as place:
        folder = Path(place)
        (folder / "platform.xml").write_bytes(task.platform)
        (folder / "workload.json").write_bytes(task.workload)
        (folder / "power.txt").write_bytes(task.production)
        site = parse_site(task.site, "site")
        platform = read_simgrid_platform(folder / "platform.xml").platform
        steps = site.steps * task.windows
        plans = plan_windows(
            site,
            platform,
            workload_demand_w([folder / "workload.json"], platform, steps=steps, step_s=site.step_s),
            read_power_series(folder / "power.txt", steps=steps, step_s=site.step_s),
            options=_choices(task.options),
            provenance=Provenance(f"beasy-sched {__version__}", inputs=_hashes(task)),
        )
        write_plans(folder / "plan.msgpack", plans)
        return (folder / "plan.msgpack").read_bytes()


def _choices(part: PlanPart) -> OfflineOptions:
    return OfflineOptions(
        surplus=part.surplus,
        load_uncertainty=part.uncertainty("load"),
        renew_uncertainty=part.uncertainty("renew"),
        rules=ServerRules(minimum_on_s=part.minimum_on_s),
    )


def _hashes(task: PlanTask) -> dict[str, str]:
    """SHA-256 of each input, under the names that ``beasy-sched plan`` gives them."""
    contents = {
        "platform": task.platform,
        "production": task.production,
        "workload 0": task.workload,
        "site": task.site.encode(),
    }
    return {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
