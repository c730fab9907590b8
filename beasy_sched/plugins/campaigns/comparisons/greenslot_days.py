"""The week of the GreenSlot paper: workflows with deadlines on solar power and the grid."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from beasy_sched.energy.site import Site
from beasy_sched.errors import ConfigError
from beasy_sched.formats.atomic import write_atomic
from beasy_sched.formats.batsim_events import power_event_lines
from beasy_sched.formats.file_set import together
from beasy_sched.formats.site_file import parse_site, read_site_text
from beasy_sched.plugins.campaigns.comparisons.days import (
    DayInputs,
    MadeFiles,
    files_in,
    look_at,
    make_folder,
    shipped_site,
)
from beasy_sched.plugins.campaigns.comparisons.greenslot_runs import GREENSLOT_RUNS
from beasy_sched.plugins.campaigns.comparisons.repeated_command import Commands
from beasy_sched.units import SECONDS_PER_HOUR


@dataclass(frozen=True)
class GreenslotDays:
    """GreenSlot's workflows, Monday to Friday, on 16 servers; solar power as measured, and predicted."""

    site: Path | None = None
    """Site file; None for the site of the paper."""
    exact: bool = False
    """Whether the predictions are the actual production, instead of those of the paper's predictor."""

    policies = GREENSLOT_RUNS
    example_job = "W2.5.1.8"
    example_policy = "greenslot"
    given = None

    @property
    def in_words(self) -> str:
        """Description of the days, and of the predictions of solar power."""
        how = "exactly" if self.exact else "by the paper's predictor"
        return f"GreenSlot's workflows, Monday to Friday; solar power from 12 July 2010, predicted {how}"

    @property
    def site_text(self) -> str:
        """Return the content of the site file. Raises InputError."""
        return shipped_site("greenslot") if self.site is None else read_site_text(self.site)

    def make(self, folder: Path, commands: Commands) -> DayInputs:
        """Write the platform, the workload, and solar power with its predictions.

        Raises ConfigError for steps that do not fit the solar data.
        """
        from beasy_sched.generate.greenslot_week import NODES

        name = str(self.site or "site.toml")
        site = parse_site(self.site_text, name)
        if SECONDS_PER_HOUR % site.step_s:
            raise ConfigError(
                f"{name}: time.step_s: found {site.step_s:g}, expected a divisor of an hour: the solar"
                " power of this scenario has hourly values"
            )
        make_folder(folder)
        files = files_in(folder)
        with together():
            write_atomic(files.site, self.site_text)
            lines = _write_week(files, site)
            commands.generate(("platform", "--servers", f"greenslot-xeon:{NODES}", "-o", files.platform))
        for line in lines:
            commands.say(line)
        inputs = DayInputs(
            files.platform,
            [files.workload],
            [files.power],
            files.site,
            forecast=f"perfect:{files.power}" if self.exact else files.forecast,
            made=files,
        )
        look_at(inputs, commands)
        return inputs


def _write_week(files: MadeFiles, site: Site) -> list[str]:
    """Write the workload, solar power and its predictions; return lines that describe them."""
    from beasy_sched.generate.greenslot_week import (
        ACTUAL_W,
        PREDICTED_W,
        forecast_lines,
        step_power_w,
        workflow_workload,
    )
    from beasy_sched.generate.workflow_options import WorkflowOptions

    week = workflow_workload(WorkflowOptions())
    week.write(files.workload)
    power_w = step_power_w(ACTUAL_W, site.step_s)[: site.steps]
    write_atomic(files.power, power_event_lines(power_w, site.step_s))
    write_atomic(files.forecast, forecast_lines(PREDICTED_W))
    load = f"{100 * week.load:.1f} % of the capacity of the servers"
    window = f"a window of {site.window_s / SECONDS_PER_HOUR:g} h"
    return [
        f"{files.workload}: {week.size} jobs in workflows with deadlines, {load}",
        f"{files.power}: {ACTUAL_W.sum() / 1000.0:.1f} kWh of solar; {files.forecast}: its predictions",
        f"site: {files.site}, with a grid connection, {window}",
    ]
