"""Batsim 4 (JSON over ZeroMQ): bytes to typed messages and back. Only this package knows its words.

Batsim's side speaks with `encode_message` and `decode_reply`, the scheduler's with `decode_message`
and `encode_reply`. Unknown event types and fields are kept and named, never a crash; a malformed
message is a ProtocolError that names the place.
"""

from beasy_sched.protocol.batsim4.decisions import decode_reply, encode_reply
from beasy_sched.protocol.batsim4.events import decode_message, encode_message, job_object

__all__ = ["decode_message", "decode_reply", "encode_message", "encode_reply", "job_object"]
