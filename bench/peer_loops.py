"""The loops that `peers_kafka` compares with ragweir's: the same tasks with other packages.

Each package is used as its documentation does, with lz4 and all acknowledgements.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from dataclasses import replace
from typing import Any

from bench.kafka_loops import AT_LEAST_ONCE, BARE, BATCH, EXACTLY_ONCE, RAGWEIR, Loop, LoopTask, MeteredAgent
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.kafka_services import SERVICES


def _ragweir_faust(task: LoopTask, agent: MeteredAgent) -> None:
    """Run one slot of `ragweir evaluate --runtime faust`."""
    from ragweir.streams.services.faust import runtime  # noqa: PLC0415 (only the process of this loop needs the package)

    given: dict[str, Any] = vars(runtime)
    given["SERVICES"] = {**SERVICES, "evaluate": replace(SERVICES["evaluate"], agent=lambda *_: agent)}
    runtime.run_slot(task.settings, 0, lambda: False)


def _aiokafka(task: LoopTask, agent: MeteredAgent) -> None:
    """Run the transactional consume-process-produce loop of aiokafka's documentation."""
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer  # noqa: PLC0415 (as above)

    group = f"{task.prefix}aiokafka"

    async def run() -> None:
        consumer = AIOKafkaConsumer(
            task.source,
            bootstrap_servers=task.bootstrap,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        producer = AIOKafkaProducer(
            bootstrap_servers=task.bootstrap, transactional_id=f"{group}-0", compression_type="lz4", linger_ms=5
        )
        async with consumer, producer:
            while not agent.done:
                began_s = time.monotonic()
                async with producer.transaction():
                    while time.monotonic() - began_s <= task.interval_ms / 1000:
                        batches = await consumer.getmany(timeout_ms=100, max_records=BATCH)
                        messages = [message for batch in batches.values() for message in batch]
                        if not messages:
                            break
                        records = [
                            Record(m.topic, m.partition, m.offset, m.key, m.value, m.timestamp) for m in messages
                        ]
                        for each in agent.handle(records).emissions:
                            await producer.send(
                                task.output,
                                each.value,
                                each.key,
                                headers=[(name, value or b"") for name, value in each.headers],
                            )
                        offsets = {partition: batch[-1].offset + 1 for partition, batch in batches.items()}
                        await producer.send_offsets_to_transaction(offsets, group)
                agent.on_commit()

    asyncio.run(run())


def _faust(task: LoopTask, agent: MeteredAgent) -> None:
    """Run an agent of faust-streaming as its tutorial writes one."""
    import faust  # noqa: PLC0415 (as above)

    with tempfile.TemporaryDirectory() as folder:
        app = faust.App(
            f"{task.prefix}faust",
            broker=f"kafka://{task.bootstrap}",
            datadir=folder,
            topic_allow_declare=False,
            topic_disable_leader=True,
            web_enabled=False,
            producer_compression_type="lz4",
            consumer_auto_offset_reset="earliest",
        )
        raw: dict[str, Any] = {"key_type": bytes, "value_type": bytes, "key_serializer": "raw"}
        raw["value_serializer"] = "raw"
        source, output = app.topic(task.source, **raw), app.topic(task.output, **raw)

        async def evaluate(stream: Any) -> None:
            async for event in stream.events():
                read = event.message
                timestamp = round(read.timestamp * 1000)
                record = Record(read.topic, read.partition, read.offset, read.key, read.value, timestamp)
                for each in agent.handle([record]).emissions:
                    await output.send(
                        key=each.key, value=each.value, headers=[(name, value or b"") for name, value in each.headers]
                    )
                if agent.handled and not agent.done:
                    await app.producer.flush()
                    agent.on_commit()

        app.agent(source)(evaluate)
        app.finalize()
        worker = faust.Worker(app, quiet=True, override_logging=False, redirect_stdouts=False)
        worker.spinner = None
        worker.execute_from_commandline()


def _quix_at_least_once(task: LoopTask, agent: MeteredAgent) -> None:
    _quix(task, agent, "at-least-once")


def _quix_exactly_once(task: LoopTask, agent: MeteredAgent) -> None:
    _quix(task, agent, "exactly-once")


def _quix(task: LoopTask, agent: MeteredAgent, guarantee: Any) -> None:
    """Run Quix Streams with its defaults, apart from the commit interval, which is five seconds by default."""
    from quixstreams import Application, message_context  # noqa: PLC0415 (as above)

    def work(value: bytes, key: bytes, timestamp: int, _: Any) -> Any:
        at = message_context()
        return agent.handle([Record(at.topic, at.partition, at.offset, key, value, timestamp)]).emissions[0]

    with tempfile.TemporaryDirectory() as folder:
        app = Application(
            broker_address=task.bootstrap,
            consumer_group=f"{task.prefix}quix",
            auto_offset_reset="earliest",
            processing_guarantee=guarantee,
            commit_interval=task.interval_ms / 1000,
            producer_extra_config={"compression.type": "lz4"},
            state_dir=folder,
            loglevel="ERROR",
            auto_create_topics=False,
            use_changelog_topics=False,
        )
        output = app.topic(task.output, value_serializer="bytes")
        frame = app.dataframe(app.topic(task.source, value_deserializer="bytes"))
        frame = frame.apply(work, metadata=True)
        frame = frame.set_headers(lambda each, *_: list(each.headers))
        frame.apply(lambda each: each.value).to_topic(output)
        app.run(count=task.events, collect=False)  # It commits the last interval when it ends.
        agent.on_commit()


LOOPS = (
    RAGWEIR,
    Loop("ragweir, --runtime faust", "faust-streaming", AT_LEAST_ONCE, _ragweir_faust),
    BARE,
    Loop("aiokafka, transactional loop", "aiokafka", EXACTLY_ONCE, _aiokafka),
    Loop("faust-streaming, as in its tutorial", "faust-streaming", AT_LEAST_ONCE, _faust),
    Loop("Quix Streams", "quixstreams", AT_LEAST_ONCE, _quix_at_least_once),
    Loop("Quix Streams, exactly-once", "quixstreams", EXACTLY_ONCE, _quix_exactly_once),
)
