"""The measured energy use of a cluster, which answers the scheduler's energy queries.

Readings are a power, which holds until the next reading, or a counter of energy, of which the growth counts.
`SlurmSource` reads the power of nodes from Slurm's own energy accounting.
"""

from __future__ import annotations

import math
from typing import Final

from beasy_sched.errors import ConfigError
from beasy_sched.model.host_power import PowerModel
from beasy_sched.model.platform import Platform
from beasy_sched.plugins.slurm.live_settings import MODEL
from beasy_sched.plugins.slurm.readings import ENERGY_FIELD, METER, Reading
from beasy_sched.plugins.slurm.records import FALLING, OFF, WAKING, SlurmAway
from beasy_sched.plugins.slurm.slurm_commands import CommandFailed, Slurm
from beasy_sched.plugins.slurm.sources.base import Source
from beasy_sched.plugins.slurm.sources.source_opening import open_source
from beasy_sched.run.programs import Pause

_SLURM: Final = "slurm"
_EXPECTED: Final = f"{MODEL}, {_SLURM}, command:PROGRAM ARGS or prometheus:URL?query=..."
_NONE: Final = "acct_gather_energy/none"


class EnergyMeter:
    """The energy used since a run began, from the readings of a source."""

    def __init__(self, epoch_s: float) -> None:
        """``epoch_s``: time 0 of the run, s since 1970; times below count from it."""
        self._epoch_s = epoch_s
        self._used_j = 0.0
        self._counted_s = 0.0
        """Time up to which power has been counted."""
        self._power_w = math.nan
        """NaN before the first power, which counts from time 0."""
        self._counter_j = math.nan

    def take(self, reading: Reading) -> None:
        """Continue from a new reading."""
        if ENERGY_FIELD in reading.fields:
            self._count_growth(reading.fields[ENERGY_FIELD])
            return
        power_w = reading.fields[METER.field]
        if math.isnan(self._power_w):
            self._power_w = power_w
        self._count_power(reading.at - self._epoch_s)
        self._power_w = power_w

    def used_j(self, now_s: float) -> float:
        """Return the energy used by ``now_s``, J: never less than before."""
        self._count_power(now_s)
        return self._used_j

    def _count_power(self, at_s: float) -> None:
        if at_s > self._counted_s and not math.isnan(self._power_w):
            self._used_j += self._power_w * (at_s - self._counted_s)
            self._counted_s = at_s

    def _count_growth(self, counter_j: float) -> None:
        """Add the growth of a counter; one that has decreased has been reset to 0."""
        before_j, self._counter_j = self._counter_j, counter_j
        if not math.isnan(before_j):
            self._used_j += counter_j - before_j if counter_j >= before_j else counter_j


class SlurmSource(Source):
    """The power of a platform's nodes, as last measured by Slurm's energy accounting.

    Nodes that are off or switching have no daemon that measures; they count with the platform's powers.
    """

    def __init__(self, slurm: Slurm, platform: Platform, interval_s: float = 15.0) -> None:
        """Start without a reading."""
        super().__init__("slurm", METER, None)
        self._slurm, self._platform, self._interval_s = slurm, platform, interval_s
        self._power = PowerModel(platform)
        self._pause = Pause()

    def close(self) -> None:
        """Do nothing."""

    def _look(self, now: float) -> None:
        if not self._pause.comes_round(now, self._interval_s):
            return
        try:
            self._take(repr(self._power_w()).encode(), now)
        except SlurmAway:
            pass  # which the service reports
        except (CommandFailed, LookupError) as error:
            self._trouble(now, "slurm", f"cannot be read: {error.args[0]}")

    def _power_w(self) -> float:
        """Return the power of all nodes, W. Raises LookupError for a node that has none."""
        found, power, total_w = self._slurm.node_powers(), self._power, 0.0
        for name, kind in zip(self._platform.names, self._platform.kind_of.tolist(), strict=True):
            flags, measured_w = found.get(name, (frozenset[str](), None))
            if flags & WAKING:
                total_w += power.on_w.item(kind)
            elif FALLING in flags:
                total_w += power.off_w.item(kind)
            elif OFF in flags:
                total_w += power.sleep_w.item(kind)
            elif measured_w:
                total_w += measured_w
            else:
                raise LookupError(
                    f"Slurm has no power of node {name}: see CurrentWatts in 'scontrol show node {name}'"
                )
        return total_w


def open_meter(text: str, slurm: Slurm, platform: Platform, epoch_s: float) -> Source | None:
    """Return the named source of measurements; None for the scheduler's own model.

    ``epoch_s`` is that of `open_source`. Raises ConfigError for an invalid name, and if Slurm does not
    measure energy.
    """
    if text == MODEL:
        return None
    if text == _SLURM:
        _check_accounting(slurm.config())
        return SlurmSource(slurm, platform)
    if text.partition(":")[0] in ("command", "prometheus"):
        return open_source(text, METER, epoch_s=epoch_s)
    raise ConfigError(f"--meter: found {text!r}, expected {_EXPECTED}")


def _check_accounting(config: dict[str, str]) -> None:
    kind, frequency = config.get("AcctGatherEnergyType", _NONE), config.get("AcctGatherNodeFreq", "0")
    if kind == _NONE:
        found, line = kind, "AcctGatherEnergyType=acct_gather_energy/ipmi (or rapl) and AcctGatherNodeFreq=30"
    elif frequency.split()[0] == "0":
        found, line = f"AcctGatherNodeFreq={frequency}", "AcctGatherNodeFreq=30"
    else:
        return
    raise ConfigError(
        f"--meter slurm: Slurm does not measure the power of nodes ({found}): add to slurm.conf: {line}"
    )
