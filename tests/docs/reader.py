"""Does what a page tells its reader, in a folder and with a Kafka of its own."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Final
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, build_opener

from commands import ROOT, environment
from pages import Command, File, NotRun, Python, Step, Stop, Visit, is_service, only_reads
from python_process import PythonProcess
from shown_output import difference

KAFKA: Final = re.compile(r"(?:localhost|127\.0\.0\.1):9092\b")
_COMMAND_S: Final = 120
_REPEAT_S: Final = 60
_START_S: Final = 3
_STOP_S: Final = 40
# Programs that change more than the page's folder: a page that shows them says why they are not run.
_WITHHELD: Final = ("docker", "git", "kubectl", "make")
# What a page installs, such as an example, comes from its own folder and stays there. "0" means no isolation.
_PIP: Final = {
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_BUILD_ISOLATION": "0",
    "PIP_NO_DEPS": "1",
    "PIP_NO_INDEX": "1",
}
# What a page may use of the repository that its reader stands in.
_REPOSITORY: Final = ("deploy/", "examples/")


_WITHIN_WORDS: Final = re.compile(r"</?(?:mark|span|bdi|b|a|code|time)\b[^>]*>")
_TAG: Final = re.compile(r"<[^>]*>")


class Unlike(AssertionError):
    """A page is not true: page, line, command, what was expected and what came."""


@dataclass
class Service:
    """A command that runs beside the others until the page ends."""

    line: int
    command: str
    process: subprocess.Popen[bytes]
    log: Path
    began: float = field(default_factory=time.monotonic)


@dataclass
class Reader:
    """Follows one page. Exported variables and `cd` last, as in the one shell that the reader types into."""

    page: str
    folder: Path
    bootstrap: str | None
    base_port: int
    _variables: dict[str, str] = field(default_factory=dict)
    _services: list[Service] = field(default_factory=list)
    _where: Path = field(init=False)
    _python: PythonProcess | None = None

    def __post_init__(self) -> None:
        self._where = self.folder
        (self.folder.parent / f"{self.folder.name}-bin").mkdir()
        self._program("ragweir", f'exec {sys.executable} -P -m ragweir.streams.commands "$@"')
        for name in ("python", "python3"):
            self._program(name, f'exec {sys.executable} "$@"')
        for name in _WITHHELD:
            why = f"{name} is not run here; say why in the page: <!-- not run: ... -->"
            self._program(name, f"echo '{why}' >&2; exit 1")
        for name in _REPOSITORY:
            if (ROOT / name).exists():
                shutil.copytree(ROOT / name, self.folder / name, ignore=shutil.ignore_patterns("__pycache__", ".env"))
        activate = self.folder / ".venv" / "bin" / "activate"  # the environment is the tests' own
        activate.parent.mkdir(parents=True)
        activate.touch()
        # COLUMNS is what fits on a page.
        self._variables = environment(COLUMNS="100", RAGWEIR_TELEMETRY__PORT=str(self.base_port))
        self._variables["RAGWEIR_CONSOLE__PORT"] = str(self.base_port + _PORTS[8600])
        site, programs = (str(self.folder.parent / f"{self.folder.name}-{part}") for part in ("site", "bin"))
        self._variables |= _PIP | {"PIP_TARGET": site, "PYTHONPATH": os.pathsep.join([site, str(ROOT)])}
        self._variables["PATH"] = os.pathsep.join([programs, str(Path(sys.executable).parent), os.environ["PATH"]])
        if self.bootstrap is not None:
            self._variables["RAGWEIR_KAFKA__BOOTSTRAP_SERVERS"] = self.bootstrap

    def _program(self, name: str, line: str) -> None:
        program = self.folder.parent / f"{self.folder.name}-bin" / name
        program.write_text(f"#!/bin/sh\n{line}\n")
        program.chmod(0o755)

    def link(self, program: Path) -> None:
        """Put a program onto the reader's path."""
        (self.folder.parent / f"{self.folder.name}-bin" / program.name).symlink_to(program)

    def follow(self, step: Step) -> None:
        """Do one step.

        Raises:
            Unlike: it did not go as the page says.
        """
        if isinstance(step, File):
            self._write(step)
        elif isinstance(step, Python):
            self._run_python(step)
        elif isinstance(step, Stop):
            self._stop(step)
        elif isinstance(step, Visit):
            self._visit(step)
        elif isinstance(step, Command):
            self._require_services(step)
            if is_service(step.text):
                self._start(step)
            elif self._services and only_reads(step.text):
                self._repeat(step)
            else:
                self._check(step, *self._run(step))
        else:
            assert isinstance(step, NotRun)

    def close(self) -> None:
        """Stop the services, the last one first.

        Raises:
            Unlike: one did not end in order.
        """
        failures = [failure for service in reversed(self._services) if (failure := self._stopped(service))]
        self._services.clear()
        if self._python is not None:
            self._python.close()
        if failures:
            raise Unlike("\n".join(failures))

    def _write(self, step: File) -> None:
        path = self._where / step.name
        if (ROOT / step.name).exists() and step.name.startswith(_REPOSITORY):
            lines = iter((ROOT / step.name).read_text(encoding="utf-8").splitlines())
            if not all(line in lines for line in step.text.splitlines() if line.strip()):  # in this order
                raise Unlike(f"{self.page}:{step.line}: {step.name} of the repository does not hold this text")
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        text = self._local(step.text)
        if step.added and path.exists():
            text = path.read_text(encoding="utf-8") + "\n" + text
        path.write_text(text, encoding="utf-8")

    def _run(self, step: Command) -> tuple[int, str]:
        """Run a command in the state that the commands before it left, and keep the state that it leaves."""
        state = self.folder.parent / f"{self.folder.name}-state"
        quoted = shlex.quote(str(state))
        # A trap, so that the state is kept when the command ends the shell.
        script = f"trap 'status=$?; pwd > {quoted}; env -0 >> {quoted}; exit $status' EXIT\n{self._local(step.text)}"
        process = subprocess.Popen(
            ["bash", "-c", script],
            cwd=self._where,
            env=self._variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=_COMMAND_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            raise Unlike(self._told(step, f"did not end in {_COMMAND_S} s", self._foreign(output))) from None
        if state.exists():
            where, _, variables = state.read_bytes().partition(b"\n")
            self._where = Path(where.decode())
            pairs = (pair.decode(errors="surrogateescape").partition("=") for pair in variables.split(b"\0") if pair)
            self._variables = {name: value for name, _, value in pairs if name not in {"_", "SHLVL", "PWD", "OLDPWD"}}
            state.unlink()
        return process.returncode, self._foreign(output)

    def _check(self, step: Command, status: int, output: str) -> None:
        if problem := self._problem(step, status, output):
            raise Unlike(self._told(step, problem, output))

    @staticmethod
    def _problem(step: Command, status: int, output: str) -> str | None:
        if status:
            return f"exit status {status} instead of 0"
        return difference(_shown(step), output.splitlines()) if step.output else None

    def _repeat(self, step: Command) -> None:
        """Repeat a command that reads until the services have done what it is to show."""
        deadline = time.monotonic() + _REPEAT_S
        while self._problem(step, *(done := self._run(step))) and time.monotonic() < deadline:
            self._require_services(step)
            time.sleep(0.5)
        self._check(step, *done)

    def _start(self, step: Command) -> None:
        log = self.folder.parent / f"{self.folder.name}-service-{step.line}.log"
        command = self._local(step.text).rstrip().removesuffix("&")
        simple = re.match(r"[\w./]", command) and not re.search(r"[;|\n]", command.replace("\\\n", ""))
        with log.open("wb") as file:
            process = subprocess.Popen(
                ["bash", "-c", f"exec env {command}" if simple else command],
                cwd=self._where,
                env=self._variables,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        service = Service(step.line, step.text, process, log)
        self._services.append(service)
        deadline = time.monotonic() + _REPEAT_S
        while problem := difference((*_shown(step), "..."), self._foreign(log.read_bytes()).splitlines()):
            self._require_services(step)
            if time.monotonic() > deadline:
                raise Unlike(self._told(step, problem, self._foreign(log.read_bytes())))
            time.sleep(0.2)

    def _require_services(self, step: Command | Visit) -> None:
        for service in self._services:
            if (status := service.process.poll()) is not None:
                problem = f"the service of line {service.line}, `{service.command}`, has ended with status {status}"
                raise Unlike(self._told(step, problem, self._foreign(service.log.read_bytes())))

    def _visit(self, step: Visit) -> None:
        """Open a page of the console as a person who is logged in, until it shows its words."""
        address = self._local("http://127.0.0.1:8600")
        deadline = time.monotonic() + _REPEAT_S
        while lacking := (
            step.words if (text := self._page(address, step.text)) is None else _lacking(step.words, text)
        ):
            self._require_services(step)
            if time.monotonic() > deadline:
                shown = "does not answer" if text is None else f"lacks {', '.join(map(repr, lacking))}"
                raise Unlike(self._told(step, f"the page {shown}", self._foreign((text or "").encode())))
            time.sleep(0.5)

    def _page(self, address: str, path: str) -> str | None:
        """Return the text of a page; None if it is not there yet."""
        kept = self._where / "ragweir-console" / "token"
        logs = "".join(each.log.read_text(errors="replace") for each in self._services)
        printed = re.search(r"/login#(\w+)", logs)
        opener = build_opener(HTTPCookieProcessor())
        opener.addheaders = [("Sec-Fetch-Site", "same-origin")]
        try:
            token = printed[1] if printed else kept.read_text().strip()
            form = urlencode({"token": token, "name": "Reader", "next": path})
            with opener.open(f"{address}/login", form.encode(), timeout=_COMMAND_S) as answer:
                return " ".join(unescape(_TAG.sub(" ", _WITHIN_WORDS.sub("", answer.read().decode()))).split())
        except OSError:  # No token yet, or no answer.
            return None

    def _stop(self, step: Stop) -> None:
        ended = [service for service in self._services if service.command.startswith(step.text)]
        if not ended:
            raise Unlike(f"{self.page}:{step.line}: no `{step.text}` runs that could be stopped")
        for service in ended:
            self._services.remove(service)
            if failure := self._stopped(service):
                raise Unlike(failure)

    def _stopped(self, service: Service) -> str | None:
        while (ended := service.process.poll()) is None and time.monotonic() < service.began + _START_S:
            time.sleep(0.1)  # one that cannot start says so by then
        if ended is None:
            service.process.send_signal(signal.SIGTERM)
        try:
            status = service.process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            status = None
        with_children = _group_exists(service.process.pid)
        if with_children:
            os.killpg(service.process.pid, signal.SIGKILL)
            service.process.wait()
        if ended is None and status in {0, -signal.SIGTERM, 128 + signal.SIGTERM} and not with_children:
            return None
        problem = f"ended by itself with status {ended}" if ended is not None else f"when stopped: status {status}"
        return self._told(Command(service.line, service.command), problem, self._foreign(service.log.read_bytes()))

    def _run_python(self, step: Python) -> None:
        if self._python is None:
            self._python = PythonProcess(self._where, self._variables, _COMMAND_S)
        if failed := self._python.run(self._local(step.text), self.page, step.line):
            raise Unlike(f"{self.page}:{step.line}: the Python block fails\n{failed}")

    def _local(self, text: str) -> str:
        """Replace the addresses of the page by those of this run."""
        if self.bootstrap is not None:
            text = KAFKA.sub(self.bootstrap, text)
        for documented, offset in _PORTS.items():
            text = re.sub(rf"(?<=localhost:|127\.0\.0\.1:){documented}\b", str(self.base_port + offset), text)
            text = re.sub(rf"(?<=--port ){documented}\b", str(self.base_port + offset), text)
        return text

    def _foreign(self, output: bytes) -> str:
        """Replace the addresses of this run by those of the page."""
        text = output.decode(errors="replace")
        if self.bootstrap is not None:
            text = text.replace(self.bootstrap, "localhost:9092")
        for documented, offset in _PORTS.items():
            text = re.sub(rf"\b{self.base_port + offset}\b", str(documented), text)
        return text

    def _told(self, step: Command | Visit, problem: str, output: str) -> str:
        command = "\n".join(
            f"    {'$' if number == 0 else '>'} {part}" for number, part in enumerate(step.text.split("\n"))
        )
        lines = output.splitlines()
        shown = lines if len(lines) <= 60 else [*lines[:30], f"[{len(lines) - 60} more lines]", *lines[-30:]]
        return "\n".join(
            [f"{self.page}:{step.line}", command, problem, "whole output:", *(f"    {line}" for line in shown)]
        )


# Ports that pages name, and their places in a range that is free here: telemetry of evaluate, aggregate, export, judge,
# and the supervisor, the simulated judge, Prometheus, Alertmanager and the console.
_PORTS: Final = {9464: 0, 9564: 100, 9664: 200, 9764: 300, 9864: 400, 9554: 90, 8089: 50, 9090: 51, 9093: 52, 8600: 53}


@contextmanager
def reading(page: str, folder: Path, bootstrap: str | None, base_port: int) -> Iterator[Reader]:
    """Follow a page for the length of a block; its services are stopped at the end."""
    reader = Reader(page, folder, bootstrap, base_port)
    try:
        yield reader
    except BaseException:
        _quietly(reader.close)
        raise
    reader.close()


def _lacking(words: Sequence[str], text: str) -> list[str]:
    return [each for each in words if each not in text]


def _shown(step: Command) -> tuple[str, ...]:
    return tuple(KAFKA.sub("localhost:9092", line) for line in step.output)


def _quietly(close: Callable[[], None]) -> None:
    try:
        close()
    except Unlike as second:  # the first failure explains it
        print(second)


def _group_exists(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
