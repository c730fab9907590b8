"""Policies over a year in one run each, with a new plan at the start of every window."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from beasy_sched.declared import HOSTS, OptionDoc, default_of
from beasy_sched.errors import Interrupted
from beasy_sched.extras import require
from beasy_sched.formats.atomic import write_atomic
from beasy_sched.numbers import Range
from beasy_sched.plugins.campaigns.comparisons.days import (
    DayOptions,
    MadeFiles,
    files_in,
    make_folder,
    shipped_site,
)
from beasy_sched.run.settings import ReplanSettings, RunSettings
from beasy_sched.units import SECONDS_PER_DAY

if TYPE_CHECKING:
    from beasy_sched.outputs.tables import Contender
    from beasy_sched.plugins.campaigns.comparisons.repeated_command import Commands
    from beasy_sched.plugins.campaigns.comparisons.side_by_side import RunProgress
    from beasy_sched.plugins.campaigns.workers import Failure, Task
    from beasy_sched.simulator import Inputs


YEAR_SERVERS: Final = 20
YEAR_JOBS_PER_DAY: Final = 100
YEAR_PV_KW: Final = 6
YEAR_WIND_KW: Final = 4
YEAR_DAYS: Final = 366
YEAR_POLICIES: Final = ("bid-price", "beasy", "power-reactive")
SHARE: Final = "progress"
"""A file in a policy's folder: the share of the jobs that have been submitted."""
_SEASON: Final = "season.msgpack"
_TELL_S: Final = 0.5


@dataclass(frozen=True)
class YearInputs:
    """Inputs of the runs of all policies."""

    files: MadeFiles
    windows: int
    """Number of the site's windows that cover the days."""
    season: str | None
    """File of the seasonal plan, if the site has hydrogen."""


@dataclass(frozen=True, kw_only=True)
class Year(DayOptions):
    """The policies and days of a comparison, and the folder of the results."""

    out: Path
    policies: Sequence[str] = YEAR_POLICIES
    days: int = YEAR_DAYS
    servers: Annotated[int, OptionDoc("number of servers; generated jobs are proportional", range=HOSTS)] = (
        YEAR_SERVERS
    )
    pv_kw: Annotated[float, OptionDoc("size of the solar plant", range=Range(0, 1e6))] = YEAR_PV_KW
    wind_kw: Annotated[float, OptionDoc("size of the wind plant", range=Range(0, 1e6))] = YEAR_WIND_KW
    start: datetime | None = None
    """First day within the weather exports; None for the first of 2024."""

    def prepare(self, commands: Commands) -> YearInputs:
        """Check the policies; write platform and site, workload and power (forecast and actual values).

        Raises BeasyError.
        """
        from beasy_sched.formats.file_set import together
        from beasy_sched.formats.site_file import parse_site
        from beasy_sched.policies.registry import make_policy

        require("highspy", "beasy-sched[plan]", "planning")
        require("matplotlib", "beasy-sched[plot]", "the figure of a year")
        require("pandas", "beasy-sched[data]", "the table by month")
        for policy in self.policies:
            make_policy(policy, {})  # raises for an unknown policy
        text = self._site_text()
        site = parse_site(text, str(self.site or "year.toml"))
        windows = math.ceil(self.days * SECONDS_PER_DAY / site.window_s - 1e-9)
        make_folder(self.out)
        files = files_in(self.out)
        jobs = self._workload_arguments()
        start = self.start or datetime(2024, 1, 1)
        window = ["--days", str(self.days), "--dt", f"{site.step_s:g}", "--start", f"{start:%Y-%m-%d}"]
        power = self.power_arguments_of(self.pv_kw, self.wind_kw, *window)
        with together():
            write_atomic(files.site, text)
            commands.generate(
                ("platform", "--servers", f"gros:{self.servers}", "-o", files.platform),
                ("workload", *jobs, "-o", files.forecast_workload, "-q"),
                ("workload", *jobs, "--noise", f"{self.sigma_pct:g}", "-o", files.workload),
                ("power", *power, "-o", files.forecast_power, "-q"),
                ("power", *power, "--case", "between", "-o", files.power),
            )
        inputs = ["-p", files.platform, "-w", files.workload, "--events", files.power, "--site", files.site]
        commands.run("check", *inputs, "--windows", str(windows), "-q")  # prints its findings
        hydrogen = site.storage.hydrogen is not None
        return YearInputs(
            files, windows, self._make_season(files, commands) if hydrogen and windows > 1 else None
        )

    def _site_text(self) -> str:
        from beasy_sched.formats.site_file import read_site_text

        text = shipped_site("year") if self.site is None else read_site_text(self.site)
        if self.start is None:
            return text
        start = f'start = "{self.start:%Y-%m-%dT%H:%M:%S+00:00}"'
        return re.sub(r"^start = .*", start, text, flags=re.MULTILINE)

    def _workload_arguments(self) -> list[str]:
        """Return the arguments of `generate workload`: the given trace, or a fixed number of jobs per day."""
        from beasy_sched.generate.workload_options import SyntheticOptions

        shared = ["--hosts", str(self.servers), "--seed", str(self.seed)]
        if self.swf is not None:
            return [*self.trace_arguments(self.days), *shared]
        jobs = YEAR_JOBS_PER_DAY * self.days * self.servers // YEAR_SERVERS
        shape = ["--day-shares", ",".join(["1"] * self.days), "--night-ratio", "0.3"]
        shares = default_of(SyntheticOptions, "host_shares")
        fitting = [f"{count}:{share:g}" for count, share in shares.items() if count <= self.servers]
        if len(fitting) < len(shares):
            shape += ["--host-shares", ",".join(fitting)]
        return ["--synthetic", "--jobs", str(jobs), *shape, *shared]

    def _make_season(self, files: MadeFiles, commands: Commands) -> str:
        """Compute the seasonal plan of hydrogen; return its file. Raises StepFailed."""
        from beasy_sched.plugins.campaigns.comparisons.repeated_command import StepFailed

        inputs = ["-p", files.platform, "-w", files.forecast_workload, "--production", files.forecast_power]
        out = self.out / _SEASON
        command = ["plan", "--season", *inputs, "--site", files.site, "-o", str(out)]
        if code := commands.run(*command, "--figure", str(out.with_suffix(".png")), "-q"):
            raise StepFailed(f"the seasonal plan ended with exit code {code}", code)
        return str(out)

    def run(
        self, inputs: YearInputs, commands: Commands, progress: RunProgress
    ) -> tuple[list[Contender], Interrupted | None]:
        """Run all policies, several in parallel; return the outcomes, and the signal that stopped them.

        A policy that fails, or is stopped with the program, is a contender with this problem.
        """
        from beasy_sched.formats.reading import read_text
        from beasy_sched.plugins.campaigns.comparisons.policy_run import contender
        from beasy_sched.plugins.campaigns.workers import Failure, work_through
        from beasy_sched.simulator import Inputs

        self._show(inputs, commands)
        files = inputs.files
        site_text = read_text(Path(files.site))
        expected = ReplanSettings(
            "window", (files.forecast_workload,), production=files.forecast_power, season=inputs.season
        )
        failures: dict[str, str | None] = {}
        stop = None

        def tasks() -> Iterator[Task]:
            for policy in self.policies:
                settings = RunSettings(
                    policy=policy,
                    site=site_text,
                    site_name=files.site,
                    windows=inputs.windows,
                    replan=expected,
                )
                progress.began(policy)
                read = Inputs(files.platform, [files.workload], [files.power])
                yield policy, _simulate, _YearRun(settings, read, self.out / policy)

        def done(policy: str, result: float | Failure) -> None:
            failures[policy] = result.error if isinstance(result, Failure) else None
            progress.ended(policy, result.error if isinstance(result, Failure) else f"{result:.0f} s")

        try:
            work_through(commands.executor, tasks(), done)
        except Interrupted as error:
            stop = error
        problems = {policy: str(stop) for policy in self.policies} | failures
        return [contender(name, self.out / name, problems[name]) for name in self.policies], stop

    def _show(self, inputs: YearInputs, commands: Commands) -> None:
        """Print the command of a policy's run."""
        files = inputs.files
        command = ["simulate", "-p", files.platform, "-w", files.workload, "--events", files.power, "--site",
                   files.site, "--windows", str(inputs.windows), "--replan", "window", "--replan-workload",
                   files.forecast_workload, "--replan-production", files.forecast_power]  # fmt: skip
        command += [] if inputs.season is None else ["--replan-season", inputs.season]
        commands.show([*command, "--policy", "POLICY", "-e", str(self.out / "POLICY" / "run")])


@dataclass(frozen=True)
class _YearRun:
    """A run, executed by a process."""

    settings: RunSettings
    inputs: Inputs
    folder: Path


def _simulate(run: _YearRun) -> float:
    """Run a policy, in a separate process; return its duration, s. Raises StepFailed and others."""
    from beasy_sched.outputs.files import RunFiles
    from beasy_sched.plugins.campaigns.comparisons.repeated_command import StepFailed
    from beasy_sched.run.in_process import run_in_process

    began_s = time.monotonic()
    share = run.folder / SHARE
    run.folder.mkdir(parents=True, exist_ok=True)
    try:
        files = RunFiles(str(run.folder / "run"), run.settings)
        summary = run_in_process(run.inputs, files, _now_and_then(share))
    finally:
        share.unlink(missing_ok=True)
    if not summary.complete:
        raise StepFailed(f"the run is incomplete: {summary.error or 'it ended early'}")
    return time.monotonic() - began_s


def _now_and_then(share: Path) -> Callable[[float], None]:
    """Return a callback that writes the share that is done to a file, at a limited rate."""
    told_s = time.monotonic()

    def report_share(done: float) -> None:
        nonlocal told_s
        if time.monotonic() - told_s > _TELL_S:
            told_s = time.monotonic()
            write_atomic(share, repr(done))

    return report_share
