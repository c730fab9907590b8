"""Former name of `beasy_sched.model.host_power`."""

raise ImportError("beasy_sched.model.power is now beasy_sched.model.host_power: import PowerModel from there")
