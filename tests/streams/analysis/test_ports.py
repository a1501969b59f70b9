"""`doctor` on telemetry ports, free, held by ragweir or by another program, and on the supervisors behind them."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from ragweir.errors import PermanentError
from ragweir.streams.analysis.checks.context import CheckContext, CheckFailed
from ragweir.streams.analysis.checks.local import supervision, telemetry
from ragweir.streams.analysis.checks.ports import ports
from ragweir.streams.commands import services
from ragweir.streams.runtime.processes.supervisor import UP_PORT
from ragweir.streams.runtime.serving.discovery import discovery
from ragweir.streams.runtime.serving.health import Health, serve
from ragweir.streams.runtime.serving.instruments import PROCESS, KnownLabels
from ragweir.streams.runtime.serving.port_holder import PortHolder
from ragweir.streams.services.instruments import telemetry_of
from ragweir.streams.services.slot import started
from ragweir.streams.settings import JudgeSettings, Settings, TelemetrySettings
from ragweir.streams.settings.events import InputSettings

HOST = "127.0.0.1"
OFFSETS = (0, 1, 2, 90, 100, 190, 200, 290, 300, 390, 400, 500, 600)


@pytest.fixture
def base() -> int:
    """A base whose ports are all free."""
    for candidate in range(20_000, 32_000, 500):
        with ExitStack() as stack, suppress(OSError):
            for offset in OFFSETS:
                probe = stack.enter_context(socket.socket())
                probe.bind((HOST, candidate + offset))
            return candidate
    pytest.fail("no free ports")


def settings(base: int, **judge: str) -> Settings:
    return Settings(telemetry=TelemetrySettings(host=HOST, port=base), judge=JudgeSettings(**judge))


@contextmanager
def program(port: int, answer: bytes) -> Iterator[None]:
    """Another program that listens, and says this to whoever connects, or nothing at all."""
    with socket.create_server((HOST, port)) as listener:

        def say() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    held.append(client)
                    client.sendall(answer)
                    if answer:
                        client.shutdown(socket.SHUT_WR)

        held: list[socket.socket] = []
        thread = threading.Thread(target=say, daemon=True)
        thread.start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(10)
            for client in held:
                client.close()


def identity(name: str, slot: int, prefix: str) -> PortHolder:
    return PortHolder(service=name, slot=slot, prefix=prefix, pid=os.getpid())


@contextmanager
def supervising(port: int, trouble: str, prefix: str = "rag.") -> Iterator[None]:
    """A supervisor's server, and the state of its workers."""
    registry = telemetry_of("supervisor", 0).registry
    with discovery(HOST, port, list, registry, Health(not_ready=trouble), identity("supervisor", 0, prefix)):
        yield


@contextmanager
def service(name: str, slot: int, port: int, prefix: str = "rag.") -> Iterator[None]:
    """What a running slot shows."""
    with serve(telemetry_of(name, slot).registry, Health(), HOST, port, identity=identity(name, slot, prefix)):
        yield


def test_all_services_are_looked_at(base: int) -> None:
    """Those that `up` starts, judge and assemble where they are needed, at the offsets that they listen on."""
    assert [(port.service, port.number, port.state) for port in ports(settings(base))] == [
        ("evaluate", base, "free"),
        ("aggregate", base + 100, "free"),
        ("export", base + 200, "free"),
    ]
    judged = ports(settings(base, base_url="http://judge/v1"))
    assert ("judge", base + 300) in [(port.service, port.number) for port in judged]
    traced = ports(settings(base).model_copy(update={"input": InputSettings(format="otlp")}))
    assert {("key", base + 500), ("join", base + 600)} <= {(port.service, port.number) for port in traced}
    assert telemetry(CheckContext(settings(base))).startswith(
        f"on {HOST} {base} (evaluate, slot 0) is free; {base + 100} "
    )


@pytest.mark.slow
def test_a_service_that_runs_is_well_and_the_next_slot_is_looked_at(base: int) -> None:
    """However many slots there are."""
    with service("evaluate", 0, base), service("evaluate", 1, base + 1), service("export", 0, base + 200):
        found = {(port.service, port.slot): port.state for port in ports(settings(base))}
        said = telemetry(CheckContext(settings(base)))
    assert found == {
        ("evaluate", 0): "ours",
        ("evaluate", 1): "ours",
        ("evaluate", 2): "free",
        ("aggregate", 0): "free",
        ("export", 0): "ours",
        ("export", 1): "free",
    }
    assert f"{base + 1} (evaluate, slot 1) is in use by this service, which runs; {base + 2} " in said


@pytest.mark.slow
@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n# not ragweir\nup 1\n",
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/metrics\r\n\r\n",
        b'HTTP/1.1 200 OK\r\n\r\n{"service": "aggregate", "slot": 0, "prefix": "rag."}',
        b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\nx",
    ],
    ids=["silent", "no HTTP", "HTTP", "redirect", "half of ours", "lies of its length"],
)
def test_another_program_is_wrong_whatever_it_answers(base: int, answer: bytes) -> None:
    with program(base + 100, answer), pytest.raises(CheckFailed) as found:
        telemetry(CheckContext(settings(base)))
    assert f"{base + 100} (aggregate, slot 0) is in use by another program; set telemetry." in str(found.value)


@pytest.mark.slow
def test_a_service_on_another_ones_port_is_named(base: int) -> None:
    """As where a second installation has a base 100 below, or other topics."""
    with service("evaluate", 0, base + 100), pytest.raises(CheckFailed, match=r"is in use by ragweir's evaluate-0"):
        telemetry(CheckContext(settings(base)))
    with service("evaluate", 0, base, "test."), pytest.raises(CheckFailed, match=r"ragweir's evaluate-0 of .* test\. "):
        telemetry(CheckContext(settings(base)))


@pytest.mark.slow
def test_a_second_up_is_told_of_the_first_one(base: int) -> None:
    """Another telemetry.port would let both run, and each take the other's topics away; the first one is named."""

    def second() -> str:
        with pytest.raises(PermanentError) as found:
            services._supervise([], settings(base), UP_PORT, lambda: True)
        return str(found.value)

    sentence = f"the supervisor's port {base + UP_PORT} cannot be opened (Address already in use)"
    process = f"(process {os.getpid()})"
    with supervising(base + UP_PORT, ""):
        assert second() == (
            f"{sentence}: ragweir's supervisor-0 of the prefix rag. {process} runs already; end it first, or set"
            " telemetry.port if this one is for another Kafka"
        )
    with supervising(base + UP_PORT, "", "test."):
        assert second() == (
            f"{sentence}: ragweir's supervisor-0 of the prefix test. {process} listens on it; set telemetry.port"
        )
    with program(base + UP_PORT, b"SSH-2.0-OpenSSH_9.6\r\n"):
        assert second() == f"{sentence}; set telemetry.port"


@pytest.mark.slow
def test_a_second_worker_is_told_of_the_first_one(base: int) -> None:
    """As a supervisor is: a slot that runs twice is fenced for ever."""
    with started("evaluate", 0, settings(base), 0, PROCESS, KnownLabels(), lambda: True):
        same = (
            rf"^the telemetry port {base} cannot be opened .*: ragweir's evaluate-0 of the prefix rag\. .* runs already"
        )
        with (
            pytest.raises(PermanentError, match=same),
            started("evaluate", 0, settings(base), 0, PROCESS, KnownLabels(), lambda: True),
        ):
            pass


def test_a_port_that_cannot_be_is_wrong() -> None:
    """Beyond the last port, or on an address that is not this machine's."""
    with pytest.raises(CheckFailed, match=r"65700 \(export, slot 0\) is no port: the last one is 65535"):
        telemetry(CheckContext(settings(65_500)))
    with pytest.raises(CheckFailed, match=r"cannot be opened on 192\.0\.2\.1 \(Cannot assign requested address\)"):
        telemetry(CheckContext(Settings(telemetry=TelemetrySettings(host="192.0.2.1", port=9_464))))
    assert telemetry(CheckContext(settings(0))) == f"the system chooses the ports on {HOST}"


@pytest.mark.slow
def test_doctor_names_the_worker_that_a_supervisor_lacks(base: int) -> None:
    """The supervisor of `up` and those of services that run alone are asked, and no others."""
    findings = CheckContext(settings(base))
    assert supervision(findings) == "no supervisor runs on this machine"
    with supervising(base + 400, ""):
        assert supervision(findings) == f"all workers run under `ragweir up` (port {base + 400})"
        with supervising(base + 190, "aggregate-1 is down and is not restarted: mend me"):
            with pytest.raises(CheckFailed, match=r"^aggregate: aggregate-1 is down and is not restarted: mend me$"):
                supervision(findings)
            assert telemetry(findings), "its port is not one of a slot"
    assert supervision(CheckContext(settings(0))) == "not checked, since the system chooses the ports"


@pytest.mark.heavy
def test_a_program_on_the_port_of_up_is_named(base: int) -> None:
    """It keeps `ragweir up` from starting; on the port of a service alone it may be anybody's."""
    findings = CheckContext(settings(base))
    with program(base + 90, b""):
        assert supervision(findings) == "no supervisor runs on this machine"
    told = rf"^{base + 400} \(supervisor, slot 0\) is in use by another program; `ragweir up` cannot start: "
    with program(base + 400, b""), pytest.raises(PermanentError, match=told):
        supervision(findings)
    with (
        service("evaluate", 7, base + 400),
        pytest.raises(PermanentError, match=r"evaluate-7 of the prefix rag\. \(process \d+\); `ragweir "),
    ):
        supervision(findings)
    with pytest.raises(PermanentError, match=r"65900 \(supervisor, slot 0\) is no port"):
        supervision(CheckContext(settings(65_500)))
