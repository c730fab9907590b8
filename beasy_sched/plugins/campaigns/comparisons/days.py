"""Workload and weather of comparisons: generated days, or the user's own files.

Generated days have a forecast, from which the plan is made, and actual values. The week of the GreenSlot
paper is another kind, in `greenslot_days`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal, NamedTuple, Protocol

from beasy_sched import declared
from beasy_sched.declared import SEEDS, OptionDoc
from beasy_sched.errors import ConfigError
from beasy_sched.extras import is_installed, require
from beasy_sched.formats.atomic import remove_old, write_atomic
from beasy_sched.generate.workload_options import ArrivalShape, SwfOptions
from beasy_sched.model.choices import SIGMA
from beasy_sched.numbers import Range
from beasy_sched.units import SECONDS_PER_DAY, SECONDS_PER_HOUR

if TYPE_CHECKING:
    from beasy_sched.energy.site import Site
    from beasy_sched.plugins.campaigns.comparisons.repeated_command import Commands


HOSTS: Final = 50
JOBS_PER_DAY: Final = 300
PV_KW: Final = 10
WIND_KW: Final = 7
QUICK_H: Final = 24
SHAPED_DAYS: Final = 3
"""Length of a workload with most arrivals at its start or end, days."""
POLICIES: Final = (
    "bid-price", "beasy", "follow-plan", "peak", "next", "last", "workload", "power-reactive",
    "workload-reactive",
)  # fmt: skip
"""Policies compared by default: those of beasy-sched and of the BEASY paper."""

Production = Literal["exact", "best", "worst", "between"]
"""Position of the actual production in the band of its forecast."""


class MadeFiles(NamedTuple):
    """All files of generated days: inputs of the runs, inputs of the plan, and the plan."""

    platform: str = "platform.xml"
    workload: str = "workload.json"
    power: str = "power.txt"
    site: str = "site.toml"
    forecast_workload: str = "forecast_workload.json"
    forecast_power: str = "forecast_power.txt"
    plan: str = "plan.msgpack"
    figure: str = "plan.png"
    forecast: str = "forecast.csv"


def files_in(folder: Path) -> MadeFiles:
    """Return the paths of all files in a folder."""
    return MadeFiles(*(str(folder / name) for name in MadeFiles()))


@dataclass(frozen=True)
class DayInputs:
    """Inputs of the runs of all policies."""

    platform: str
    workloads: Sequence[str]
    events: Sequence[str]
    site: str | None = None
    plan: str | None = None
    forecast: str | None = None
    """Source of predictions of the production, as for ``--forecast``."""
    windows: int = 1
    master_host: str | None = None
    made: Sequence[str] = ()
    """Input files created by the comparison."""

    @property
    def simulator(self) -> list[str]:
        """Return the arguments with the inputs of the simulator."""
        words = ["-p", self.platform]
        words += [word for path in self.workloads for word in ("-w", path)]
        words += [word for path in self.events for word in ("--events", path)]
        return words + ([] if self.master_host is None else ["-m", self.master_host])

    @property
    def place(self) -> list[str]:
        """Return the arguments for site, length, plan and forecast of a run."""
        words = [] if self.site is None else ["--site", self.site]
        words += self.planned
        words += [] if self.forecast is None else ["--forecast", self.forecast]
        return words + ([] if self.windows == 1 else ["--windows", str(self.windows)])

    @property
    def planned(self) -> list[str]:
        """Return the option --plan, if there is a plan."""
        return [] if self.plan is None else ["--plan", self.plan]


class ComparedDays(Protocol):
    """Workload and weather for a comparison."""

    @property
    def policies(self) -> Mapping[str, tuple[str, Sequence[str]]]:
        """Policies compared by default: the policy of each name, and the arguments with its options."""

    @property
    def example_job(self) -> str | None:
        """A job of these days, as an example for `explain`."""

    @property
    def example_policy(self) -> str | None:
        """The policy for examples, if it is compared; otherwise the first one is used."""

    @property
    def in_words(self) -> str:
        """Description of the days, and their deviation from the forecast."""

    @property
    def given(self) -> DayInputs | None:
        """Return the inputs of the runs if they are the user's own; None if they must be created."""

    def make(self, folder: Path, commands: Commands) -> DayInputs:
        """Write missing files to ``folder``; return the inputs of the runs. Raises BeasyError."""


@dataclass(frozen=True, kw_only=True)
class DayOptions:
    """Base of generated days and a generated year."""

    site: Path | None = None
    """Site file; None for the site of this package."""
    seed: Annotated[int, OptionDoc("seed of all random numbers", range=SEEDS)] = 1
    sigma_pct: Annotated[
        float,
        OptionDoc(
            "deviation of actual arrivals and run times from the forecast: Gaussian noise, percent",
            range=Range(0, 100),
        ),
    ] = 100.0 * SIGMA
    swf: Annotated[Path | None, OptionDoc("your trace (SWF, plain or gzip) instead of generated jobs")] = None
    cores_per_host: Annotated[
        int,
        OptionDoc(
            f"processors of the trace per server. [default: {SwfOptions.cores_per_host}]",
            range=declared.HOSTS,
        ),
    ] = SwfOptions.cores_per_host
    max_run_s: Annotated[float | None, OptionDoc("omit jobs of the trace that ran for longer")] = None
    ninja_pv: Annotated[Path | None, OptionDoc("your Renewables.ninja export for solar")] = None
    ninja_wind: Annotated[Path | None, OptionDoc("your Renewables.ninja export for wind")] = None

    def trace_arguments(self, days: float) -> list[str]:
        """Return the arguments of `generate workload` for ``days`` of the trace; none without one."""
        if self.swf is None:
            return []
        longest = [] if self.max_run_s is None else ["--max-run-time", f"{self.max_run_s:.17g}"]
        hosts = ["--cores-per-host", str(self.cores_per_host)]
        return ["--swf", str(self.swf), "--duration", f"{days:g}d", *hosts, *longest]

    def power_arguments_of(self, pv_kw: float, wind_kw: float, *window: str) -> list[str]:
        """Return the arguments of `generate power`: the given exports, or synthetic weather, in a window."""
        sources = []
        if self.ninja_pv is not None:
            sources += ["--pv", str(self.ninja_pv), "--pv-kw", f"{pv_kw:g}"]
        if self.ninja_wind is not None:
            sources += ["--wind", str(self.ninja_wind), "--wind-kw", f"{wind_kw:g}"]
        if not sources:
            sources = ["--synthetic", "--pv-kw", f"{pv_kw:g}", "--wind-kw", f"{wind_kw:g}"]
        return [*sources, *window, "--seed", str(self.seed)]


@dataclass(frozen=True, kw_only=True)
class GeneratedDays(DayOptions):
    """Generated servers, jobs and weather, or the user's own trace and weather on generated servers."""

    quick: Annotated[bool, OptionDoc("one day instead of three")] = False
    """One day is only available with the site of this package."""
    planned: bool = True
    """Whether a plan of the window is made."""
    arrivals: Annotated[ArrivalShape | None, OptionDoc("when most jobs arrive. [default: begin]")] = None
    """None: at the beginning, if the window is long enough."""
    production: Annotated[
        Production,
        OptionDoc(
            "actual production of PV and wind: as forecast, at the upper or the lower bound of the forecast,"
            " or anywhere between"
        ),
    ] = "between"
    begin: Annotated[str | None, OptionDoc("start within the trace, for example 30d")] = None
    start: Annotated[str | None, OptionDoc("start within the exports, for example 2019-06-01")] = None

    policies: ClassVar[Mapping[str, tuple[str, Sequence[str]]]] = {name: (name, ()) for name in POLICIES}
    example_policy = None
    given = None

    @property
    def example_job(self) -> str | None:
        """A job of the generated ones; None for a trace, whose jobs have other numbers."""
        return None if self.swf else "17"

    @property
    def in_words(self) -> str:
        """Return the deviation of the days from their forecast, in words."""
        came = {
            "exact": "production as forecast",
            "best": "production at the upper bound of its forecast",
            "worst": "production at the lower bound of its forecast",
            "between": "production anywhere between the bounds of its forecast",
        }[self.production]
        noise = f"{self.sigma_pct:g} % noise on arrivals and run times"
        jobs = noise if self.sigma_pct else "jobs as forecast"
        shape = "" if self.swf or self.quick else f"arrivals: {self.arrivals or 'begin'}; "
        return f"{shape}{came}; {jobs}; seed {self.seed}"

    @property
    def site_text(self) -> str:
        """Return the content of the site file, with a shorter window for a quick run. Raises InputError."""
        from beasy_sched.formats.site_file import read_site_text

        if self.site is not None:
            return read_site_text(self.site)
        text = shipped_site("days")
        return re.sub(r"^window_h = \S+", f"window_h = {QUICK_H}", text, flags=re.M) if self.quick else text

    def make(self, folder: Path, commands: Commands) -> DayInputs:
        """Write platform, site, workload and power (forecast and actual values), and the plan."""
        from beasy_sched.formats.file_set import together
        from beasy_sched.formats.site_file import parse_site

        text = self.site_text
        site = parse_site(text, str(self.site or "site.toml"))
        if self.planned:
            require("highspy", "beasy-sched[plan]", "planning")
        days = site.window_s / SECONDS_PER_DAY
        workload, power = self.workload_arguments(days), self.power_arguments(site)
        make_folder(folder)
        files = files_in(folder)
        with together():
            write_atomic(files.site, text)
            commands.generate(
                ("platform", "--servers", f"gros:{HOSTS}", "-o", files.platform),
                ("workload", *workload, "-o", files.forecast_workload),
                ("workload", *workload, "--noise", f"{self.sigma_pct:g}", "-o", files.workload),
                ("power", *power, "-o", files.forecast_power),
                ("power", *power, "--case", self.production, "-o", files.power),
            )
        commands.say(f"site: {files.site}, a window of {site.window_s / SECONDS_PER_HOUR:g} h")
        plan = self._plan(files, commands) if self.planned else None
        if plan is None:
            remove_old((files.plan, files.figure))  # of an earlier comparison
        inputs = DayInputs(files.platform, [files.workload], [files.power], files.site, plan, made=files)
        look_at(inputs, commands)
        return inputs

    def workload_arguments(self, days: float) -> list[str]:
        """Return the arguments of `generate workload`. Raises ConfigError for arrivals without a shape."""
        shared = ["--hosts", str(HOSTS), "--seed", str(self.seed)]
        if self.swf is not None:
            return [*self.trace_arguments(days), *(["--from", self.begin] if self.begin else []), *shared]
        if days == SHAPED_DAYS:
            shape = ["--arrivals", self.arrivals or "begin"]
        elif self.arrivals:
            raise ConfigError(
                f"--arrivals requires a window of {SHAPED_DAYS} days, but it has {days:g}: omit the option"
            )
        else:
            shape = ["--day-shares", ",".join(["1"] * max(round(days), 1))]
        return ["--synthetic", "--jobs", str(round(JOBS_PER_DAY * days)), *shape, *shared]

    def power_arguments(self, site: Site) -> list[str]:
        """Return the arguments of `generate power` for a window of the site."""
        window = ["--days", f"{site.window_s / SECONDS_PER_DAY:g}", "--dt", f"{site.step_s:g}"]
        if self.start:
            window += ["--start", self.start]
        return self.power_arguments_of(PV_KW, WIND_KW, *window)

    def _plan(self, files: MadeFiles, commands: Commands) -> str | None:
        """Plan the window from the forecast, with a figure; a failure is not an error."""
        forecast = ["-w", files.forecast_workload, "--production", files.forecast_power]
        picture = ["--figure", files.figure] if is_installed("matplotlib") else []  # of the extra plot
        outputs = ["-o", files.plan, *picture, "-q"]
        if commands.run("plan", "-p", files.platform, "--site", files.site, *forecast, *outputs):
            commands.say("no plan for this window (see above); continuing without one")
            return None
        if not picture:
            remove_old([files.figure])  # of another plan
        return files.plan


@dataclass(frozen=True)
class OwnDays:
    """The user's own files."""

    inputs: DayInputs

    policies = GeneratedDays.policies
    example_job = None
    example_policy = None

    @property
    def given(self) -> DayInputs:
        """Inputs of the runs: the user's own files."""
        return self.inputs

    @property
    def in_words(self) -> str:
        """The names of the files."""
        return ", ".join([self.inputs.platform, *self.inputs.workloads, *self.inputs.events])

    def make(self, folder: Path, commands: Commands) -> DayInputs:
        """Check that the files fit together. Raises StepFailed if a run would fail."""
        from beasy_sched.plugins.campaigns.comparisons.repeated_command import StepFailed

        if look_at(self.inputs, commands) == 2:
            raise StepFailed("no policy was run because each run would fail: see above", 2)
        make_folder(folder)
        return self.inputs


def shipped_site(name: str) -> str:
    """Return the content of a site file of this package: ``days``, ``greenslot`` or ``year``."""
    from beasy_sched.formats.reading import package_text

    return package_text("beasy_sched.plugins.campaigns.comparisons", "sites", f"{name}.toml")


def make_folder(folder: Path) -> None:
    """Create the output folder. Raises ConfigError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise ConfigError(f"--out {folder}: {error.filename} is not a folder: choose another one") from None
    except OSError as error:
        raise ConfigError(f"--out {folder}: cannot be written: {error.strerror}") from None


def look_at(inputs: DayInputs, commands: Commands) -> int:
    """Print the findings of `beasy-sched check` about the inputs; return its exit code."""
    return commands.run("check", *inputs.simulator, *inputs.place, "-q")
