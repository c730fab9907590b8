"""Raw messages for tests of the codec, put together by hand."""

from __future__ import annotations

from beasy_sched.protocol import batsim4

DECODERS = [batsim4.decode_message, batsim4.decode_reply]


def message(kind: str, data: str) -> bytes:
    """One event with ``data``, a JSON text."""
    return f'{{"now":1,"events":[{{"timestamp":1,"type":"{kind}","data":{data}}}]}}'.encode()


def submitted(**fields: str) -> bytes:
    """A submitted job; ``fields`` are JSON texts."""
    job = {"id": '"w0!a"', "subtime": "0", "res": "1", **fields}
    text = ",".join(f'"{name}":{value}' for name, value in job.items())
    return message("JOB_SUBMITTED", f'{{"job_id":"w0!a","job":{{{text}}}}}')


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth
