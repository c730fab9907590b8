"""Answers in the shape of Slurm 23.11 and 24.05 (its data parser v0.0.40), with the members that are read.

`as_of` changes a row to the shape of 24.11, 25.11 or 26.05."""

from __future__ import annotations

import json
from typing import Any


def number(value: float | None = None, *, infinite: bool = False) -> dict[str, Any]:
    """A number; None: not set."""
    return {"set": value is not None, "infinite": infinite, "number": value or 0}


def answer(key: str, rows: list[dict[str, Any]]) -> bytes:
    """What a command prints."""
    meta = {
        "plugin": {
            "type": "openapi/slurmctld",
            "name": "Slurm OpenAPI slurmctld",
            "data_parser": "data_parser/v0.0.40",
            "accounting_storage": "accounting_storage/slurmdbd",
        },
        "command": [],
        "slurm": {
            "version": {"major": "24", "micro": "3", "minor": "05"},
            "release": "24.05.3",
            "cluster": "hpc",
        },
    }
    return json.dumps({key: rows, "meta": meta, "errors": [], "warnings": []}).encode()


_ADDED: dict[str, dict[str, Any]] = {
    "24.11": {"minimum_cpus_per_node": number(1), "required_switches": 0, "contiguous": False, "prefer": ""},
    "25.11": {"step_id": {"job_id": number(1), "step_id": "entire"}, "shared": []},
    "26.05": {"licenses_allocated": "", "segment_size": 0, "memory_per_cpu": number()},
}
"""Fields that each version has beside those of the one before."""
_LOST = {"26.05": ("power", "exclusive", "tres_weighted")}


def as_of(version: str, row: dict[str, Any]) -> dict[str, Any]:
    """A row in the shape of a version: with its own fields, unless the row has them."""
    added = {
        name: value for one, fields in _ADDED.items() if one <= version for name, value in fields.items()
    }
    return {name: value for name, value in (added | row).items() if name not in _LOST.get(version, ())}


def squeue_row(**changed: Any) -> dict[str, Any]:
    """A running job of ``squeue --json``; ``changed`` are other values of its members."""
    return {
        "account": "acoustic",
        "accrue_time": number(1731425717),
        "admin_comment": "",
        "array_job_id": number(0),
        "array_task_id": number(),
        "array_max_tasks": number(0),
        "array_task_string": "",
        "batch_host": "cn975",
        "flags": ["EXACT_TASK_COUNT_REQUESTED", "JOB_WAS_RUNNING"],
        "cluster": "hpc",
        "comment": "",
        "cpus_per_task": number(1),
        "dependency": "",
        "eligible_time": number(1731425717),
        "end_time": number(1732030616),
        "excluded_nodes": "",
        "exit_code": {"status": ["SUCCESS"], "return_code": number(0)},
        "features": "",
        "het_job_id": number(0),
        "het_job_offset": number(0),
        "job_id": 424855,
        "job_resources": {"nodes": "cn[975-980]", "allocated_hosts": 6, "allocated_nodes": []},
        "job_state": ["RUNNING"],
        "licenses": "",
        "max_nodes": number(0),
        "name": "wrap",
        "nodes": "cn[975-980]",
        "cpus": number(256),
        "node_count": number(6),
        "partition": "normal",
        "hold": False,
        "priority": number(90),
        "required_nodes": "",
        "requeue": True,
        "restart_cnt": 0,
        "resv_name": "",
        "exclusive": [],
        "start_time": number(1732027016),
        "state_description": "",
        "state_reason": "None",
        "submit_time": number(1731425717),
        "time_limit": number(60),
        "tres_per_job": "",
        "tres_per_node": "",
        "tres_per_socket": "",
        "tres_per_task": "cpu=1",
        "tres_req_str": "cpu=256,mem=128G,node=6,billing=256",
        "user_name": "pkerr",
        **changed,
    }


def node_row(**changed: Any) -> dict[str, Any]:
    """An idle node of ``scontrol show nodes --json``."""
    return {
        "architecture": "x86_64",
        "boot_time": number(1731514097),
        "cores": 32,
        "cpus": 64,
        "effective_cpus": 64,
        "features": ["gpu", "ib"],
        "active_features": ["gpu", "ib"],
        "gres": "",
        "name": "cn1",
        "address": "cn1",
        "hostname": "cn1",
        "state": ["IDLE"],
        "partitions": ["normal", "long"],
        "reason": "",
        "real_memory": 131072,
        "weight": 1,
        **changed,
    }


def sacct_row(**changed: Any) -> dict[str, Any]:
    """A job of ``sacct --json``: it asked for tasks, and got 87 nodes for them."""
    return {
        "account": "optic",
        "comment": {"administrator": "", "job": "", "system": ""},
        "allocation_nodes": 87,
        "array": {
            "job_id": 0,
            "limits": {"max": {"running": {"tasks": 0}}},
            "task_id": number(),
            "task": "",
        },
        "cluster": "hpc",
        "time": {
            "elapsed": 622,
            "eligible": 1732194673,
            "end": 1732195871,
            "start": 1732195249,
            "submission": 1732194673,
            "suspended": 0,
            "limit": number(10),
        },
        "het": {"job_id": 0, "job_offset": number()},
        "job_id": 599930,
        "name": "wrap",
        "nodes": "cn[642-722,765-770]",
        "partition": "batch",
        "state": {"current": ["TIMEOUT"], "reason": "None"},
        "steps": [{"step": {"id": "599930.batch", "name": "batch"}, "state": ["CANCELLED"]}],
        "user": "jcampbell",
        **changed,
    }
