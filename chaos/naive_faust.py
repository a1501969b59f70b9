"""An evaluation with faust-streaming as textbooks write it: an agent that reads, scores and sends. Not exactly once.

Run as `python -m chaos.naive_faust BOOTSTRAP PREFIX FOLDER`. It computes only the metrics that the checker compares.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import faust


def application(bootstrap: str, prefix: str, folder: str) -> faust.App:
    """Return the app with its agent, whose data are in a folder."""
    app = faust.App(
        f"{prefix}naive",
        broker=f"kafka://{bootstrap}",
        datadir=folder,
        value_serializer="raw",
        topic_allow_declare=False,
        topic_disable_leader=True,
        web_enabled=False,
        # Instead of a minute, after which a killed worker's partitions are assigned to the next one.
        broker_session_timeout=3.0,
        broker_heartbeat_interval=1.0,
    )
    interactions = app.topic(f"{prefix}interactions", value_type=bytes)
    evaluations = app.topic(f"{prefix}evaluations", value_type=bytes)

    @app.agent(interactions)
    async def evaluate(stream: Any) -> None:
        async for event in stream.events():
            evaluation = scored(event.value, event.message.partition, event.message.offset)
            await evaluations.send(key=event.key, value=evaluation)

    return app


def scored(value: bytes, partition: int, offset: int) -> bytes:
    """Return the evaluation of one interaction."""
    event = json.loads(value)
    scores = {"total_latency_ms": event["ended_at"] - event["started_at"]} | event["usage"]
    source = {"partition": partition, "offset": offset}
    evaluation = {"event_id": event["event_id"], "stage": "scored", "scores": scores, "source": source}
    return json.dumps(evaluation).encode()


if __name__ == "__main__":
    app = application(*sys.argv[1:4])
    app.finalize()
    faust.Worker(app, loglevel="INFO").execute_from_commandline()
