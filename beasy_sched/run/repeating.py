"""Simulated runs that can be repeated: what they were made from is kept with their files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from beasy_sched.errors import BeasyError, InputError, PathLike
from beasy_sched.formats.repeatable import (
    InputFile,
    RunInputsFile,
    checked_paths,
    file_of,
    read_run_inputs,
    relative_folder,
)
from beasy_sched.formats.run_files import INPUTS, path_of
from beasy_sched.formats.site_file import files_named_by
from beasy_sched.policies.registry import check_named_in_data
from beasy_sched.run.following import RunFollower
from beasy_sched.run.settings import RunSettings

if TYPE_CHECKING:
    from beasy_sched.engine.observed import ObservedSession
    from beasy_sched.outputs.files import RunFiles
    from beasy_sched.simulator import Inputs, Simulation

_FILE_KINDS: Final = ("perfect", "predictor")
"""Beginnings of a forecast's source that a file follows."""


class InputsKeeper(RunFollower):
    """Adds the file with a run's inputs to those of the run, unless an input is not a regular file."""

    def __init__(self, prefix: str, inputs: Inputs, settings: RunSettings, metering: bool = True) -> None:
        """``prefix`` is that of the run's files; ``metering`` is as in `run_in_process`."""
        self._prefix, self._inputs, self._settings, self._metering = prefix, inputs, settings, metering
        self._text: str | None = None

    def begin(self, simulation: Simulation, running: ObservedSession) -> None:
        """Read the hashes of the inputs, before they can change."""
        inputs, settings = self._inputs, self._settings
        others = [*_files_of(settings)]
        named = [inputs.platform, *inputs.workloads, *inputs.events, *others]
        if inputs.failures is not None:
            named.append(inputs.failures)
        if not all(Path(path).is_file() for path in named):
            return

        def entries(paths: Iterator[PathLike]) -> tuple[InputFile, ...]:
            return tuple(file_of(self._prefix, path) for path in paths)

        try:
            kept = RunInputsFile(
                platform=file_of(self._prefix, inputs.platform),
                workloads=entries(iter(inputs.workloads)),
                events=entries(iter(inputs.events)),
                failures=None if inputs.failures is None else file_of(self._prefix, inputs.failures),
                others=entries(iter(others)),
                master=inputs.master,
                metering=self._metering,
                settings=msgspec.to_builtins(settings),
                folder=relative_folder(self._prefix),
            )
        except (BeasyError, ValueError, TypeError):  # such as options that are objects, or another drive
            return
        self._text = msgspec.json.format(msgspec.json.encode(kept)).decode() + "\n"

    def end(self, files: RunFiles) -> None:
        """Add the file."""
        if self._text is not None:
            try:
                files.add(INPUTS, self._text)
            except InputError:
                return  # the other files of the run fail for the same reason


def _files_of(settings: RunSettings) -> Iterator[str]:
    """Yield the files that the settings, and their site file, name."""
    if settings.site is not None:
        yield from map(str, files_named_by(settings.site, settings.site_name))
    if settings.plan is not None:
        yield settings.plan
    if settings.forecast is not None:
        kind, _, path = settings.forecast.rpartition(":")
        if kind in _FILE_KINDS or Path(settings.forecast).is_file():
            yield path if kind in _FILE_KINDS else settings.forecast
    if settings.replan is not None:
        yield from settings.replan.workloads
        for named in (settings.replan.demand, settings.replan.season, settings.replan.production):
            if named is not None and Path(named).is_file():
                yield named


@dataclass(frozen=True)
class RepeatableRun:
    """A run that can be repeated from its inputs."""

    prefix: str
    inputs: Inputs
    settings: RunSettings
    metering: bool


def repeatable_run(prefix: str) -> RepeatableRun:
    """Read what a run was made from.

    Raises InputError if that is unknown, has changed, or is gone, and ConfigError for a policy whose code
    would be imported because a file names it.
    """
    from beasy_sched.simulator import Inputs

    kept = read_run_inputs(prefix)
    platform, *_ = checked_paths(prefix, [kept.platform])
    failures = None if kept.failures is None else checked_paths(prefix, [kept.failures])[0]
    checked_paths(prefix, kept.others)
    inputs = Inputs(
        platform,
        checked_paths(prefix, kept.workloads),
        checked_paths(prefix, kept.events),
        kept.master,
        failures=failures,
    )
    try:
        settings = msgspec.convert(kept.settings, RunSettings)
    except msgspec.ValidationError as error:
        raise InputError(path_of(prefix, INPUTS), f"settings: {error}") from None
    check_named_in_data(settings.policy, (), "run 'simulate' again with a built-in policy")
    folder = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(prefix)), kept.folder))
    return RepeatableRun(prefix, inputs, _moved(settings, folder), kept.metering)


def _moved(settings: RunSettings, folder: str) -> RunSettings:
    """Return settings whose paths, which are relative to ``folder``, are valid here."""
    if folder == os.getcwd():
        return settings

    def moved(path: str | None) -> str | None:
        return None if path is None else os.path.join(folder, path)

    forecast = settings.forecast
    if forecast is not None:
        kind, _, path = forecast.rpartition(":")
        is_file = kind in _FILE_KINDS or os.path.isfile(os.path.join(folder, forecast))
        forecast = forecast if not is_file else f"{kind}:{moved(path)}" if kind else moved(path)
    replan = settings.replan
    if replan is not None:
        production = moved(replan.production)
        replan = msgspec.structs.replace(
            replan,
            workloads=tuple(os.path.join(folder, path) for path in replan.workloads),
            demand=moved(replan.demand),
            season=moved(replan.season),
            production=production if production and os.path.isfile(production) else replan.production,
        )
    return msgspec.structs.replace(
        settings,
        site_name=os.path.join(folder, settings.site_name),
        plan=moved(settings.plan),
        forecast=forecast,
        replan=replan,
    )
