"""Fields of the Standard Workload Format (SWF)."""

from __future__ import annotations

from typing import Final

_NAMES = (
    "job_number submit_s wait_s run_s allocated_processors cpu_time_s used_memory_kb requested_processors"
    " requested_time_s requested_memory_kb status user group executable queue partition preceding_job"
    " think_time_s"
)


SWF_FIELDS: Final = {name: number for number, name in enumerate(_NAMES.split(), 1)}
"""Our names for the fields, and their numbers in the format (from 1)."""


FIELDS_A_ROW: Final = len(SWF_FIELDS)
