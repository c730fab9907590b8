"""What pybatsim's ``-o`` JSON may say: the daemon's options, by the same names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from beasy_sched.engine.power import EnergySource
from beasy_sched.errors import ConfigError
from beasy_sched.formats.simgrid_xml import read_simgrid_platform
from beasy_sched.formats.site_file import read_site_text
from beasy_sched.model.platform import Platform
from beasy_sched.settings import RunSettings


class PybatsimOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """The scheduler's options, as a JSON object."""

    policy: str = "easy"
    """A name of ``beasy-sched policies``, or ``package.module:Class``."""
    options: dict[str, Any] = {}
    """The policy's own options."""
    site: str | None = None
    """Site file, or ``"default"``; without one, power is no concern."""
    windows: int = 1
    """How many of the site's windows the run has."""
    energy: EnergySource = EnergySource.BATSIM
    """``"batsim"`` asks the simulator (needs its ``-E``), ``"model"`` keeps its own account."""
    power_actions: bool = True
    """False for a Batsim without ``-E``, which aborts on P-state changes."""
    platform: str | None = None
    """The platform file that Batsim has, where its hosts' properties do not tell their speeds."""
    export: str | None = None
    """Prefix of the files to write: summary, decision log, energy trace."""

    def settings(self) -> RunSettings:
        """Read the site file and return what a session is built from. Raises InputError."""
        return RunSettings(
            policy=self.policy,
            options=self.options,
            site=None if self.site is None else read_site_text(self.site),
            site_name=self.site or "",
            windows=self.windows,
            energy=self.energy,
            power_actions=self.power_actions,
        )

    def read_platform(self) -> Platform | None:
        """Read the platform file, if one is named. Raises InputError."""
        return None if self.platform is None else read_simgrid_platform(Path(self.platform)).platform


def read_options(options: Mapping[str, Any]) -> PybatsimOptions:
    """Check the JSON object. Raises ConfigError that names the option."""
    try:
        return msgspec.convert(dict(options), PybatsimOptions)
    except msgspec.ValidationError as error:
        known = ", ".join(PybatsimOptions.__struct_fields__)
        raise ConfigError(f"options: {error} (known are {known})") from None
