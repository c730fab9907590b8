"""Run where evalys is installed: read a run's CSV files with it, draw them, print figures as JSON.

usage: evalys_reads.py PREFIX PICTURE.png
"""

import json
import sys

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from evalys.jobset import JobSet
from evalys.mstates import MachineStatesChanges
from evalys.pstates import PowerStatesChanges
from evalys.visu.legacy import plot_gantt, plot_load, plot_mstates
from matplotlib.patches import Rectangle


def draw(jobs, states, picture):
    """Draw load, Gantt chart and machine states; return how many rectangles the Gantt chart has."""
    figure, axes = plt.subplots(nrows=3, sharex=True, figsize=(12, 9))
    plot_load(jobs.utilisation, jobs.MaxProcs, legend_label="utilisation", ax=axes[0])
    plot_gantt(jobs, ax=axes[1])
    plot_mstates(states.df, ax=axes[2], title="Machine states")
    figure.savefig(picture)
    return sum(type(child) is Rectangle for child in axes[1].get_children()) - 1  # the background is one


def main(prefix, picture):
    """Print the figures."""
    jobs = JobSet.from_csv(prefix + "_jobs.csv")
    states = MachineStatesChanges(prefix + "_machine_states.csv")
    pstates = PowerStatesChanges(prefix + "_pstate_changes.csv")
    figures = {
        "jobs": len(jobs.df),
        "succeeded": int(jobs.df.success.sum()),
        "hosts": [jobs.res_bounds.inf, jobs.res_bounds.sup],
        "mean_utilisation": float(jobs.mean_utilisation()),
        "machine_totals": sorted(set(map(int, states.df.total))),
        "machine_states": states.df.values.tolist(),
        "machine_state_columns": list(states.df.columns),
        "pstate_periods": [
            [row.begin, row.end, int(row.pstate), [list(i) for i in pstates.intervals[row.interval_id]]]
            for row in pstates.pseudo_jobs.itertuples()
        ],
        "pstate_hosts": list(pstates.res_bounds),
        "rectangles": draw(jobs, states, picture),
    }
    json.dump(figures, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
