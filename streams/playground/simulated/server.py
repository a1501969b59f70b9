"""The simulated judge over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ragweir.streams.playground.local.node import LOOPBACK
from ragweir.streams.playground.serving import Server, serving
from ragweir.streams.playground.simulated.endpoint import Endpoint, JudgeOptions
from ragweir.streams.playground.simulated.faults import Faults
from ragweir.streams.runtime.machine import machine


class SimulatedJudge:
    """A running simulated judge. Its methods may be called from any thread."""

    def __init__(self, endpoint: Endpoint, server: Server) -> None:
        self._endpoint, self._server = endpoint, server
        self.base_url = f"{server.url}/v1"
        """Base URL of its API, such as http://127.0.0.1:8089/v1."""

    def calls(self) -> dict[str, Any]:
        """Return the calls, as GET /admin/calls does."""
        return self._server.call(self._endpoint.calls)

    def set_faults(self, **changes: Any) -> Faults:
        """Set the initial faults with these changes of fields of `Faults`; schedule and random numbers start again.

        Raises:
            WrongFaults: if the changes are invalid.
        """
        return self._server.call(lambda: self._endpoint.set_faults(changes, machine.time()))


@contextmanager
def simulated_judge(
    host: str = LOOPBACK, port: int = 0, *, faults: Faults | None = None, **options: Any
) -> Iterator[SimulatedJudge]:
    """Run a simulated judge in this process for the length of a `with` block.

    Args:
        host: the address to listen on.
        port: the port to listen on; 0 lets the system choose.
        faults: the faults, until others are set; none by default.
        options: fields of `JudgeOptions`.

    Raises:
        OSError: if it cannot listen on the port.
    """
    endpoint = Endpoint(JudgeOptions(**options), faults or Faults(), machine.time())
    with serving(lambda request: endpoint.respond(request, machine.time()), host, port) as server:
        yield SimulatedJudge(endpoint, server)
