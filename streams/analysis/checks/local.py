"""Checks of this machine: the configuration, its secrets, the telemetry ports and the supervisors."""

from __future__ import annotations

from ragweir.streams.analysis.checks.context import CheckContext, CheckFailed, CheckWarning
from ragweir.streams.analysis.checks.ports import ports, supervisors
from ragweir.streams.runtime.kernel_choice import kernel_choice
from ragweir.streams.runtime.text.terminal import printable
from ragweir.streams.services.evaluate.from_settings import evaluate_config
from ragweir.streams.settings import DEFAULT_ROUTING_KEY_WARNING
from ragweir.streams.settings.permissions import readable_by_others

_MAX_CHARACTERS = 2_000
"""The characters that are shown of a supervisor's report."""
_LIBRARIES = ("plugin.library.paths", "ssl.engine.location", "ssl.providers")
"""The librdkafka properties that load libraries into the process."""


def configuration(context: CheckContext) -> str:
    """Check that the catalogue, the packs and the map can be loaded."""
    config = evaluate_config(context.settings, context.settings.input_topic)
    return f"{len(config.catalogue.free)} metrics are on"


def kernel(context: CheckContext) -> str:
    """Check that the kernel can be used, if it has to be, and name what counts texts."""
    return kernel_choice(context.settings.kernel).sentence


def secrets(context: CheckContext) -> str:
    """Check that secrets are not readable by others, and that no setting loads a library."""
    settings = context.settings
    warnings = []
    if settings.uses_default_routing_key:
        warnings.append(DEFAULT_ROUTING_KEY_WARNING)
    warnings += [
        f"{name} can be read by other users of this machine; chmod 600 {file}"
        for name, file in settings.judge.secret_files.items()
        if readable_by_others(file)
    ]
    warnings += [
        f"kafka.client loads libraries by {name}, which run with all rights of ragweir"
        for name in _LIBRARIES
        if name in settings.kafka.client
    ]
    if warnings:
        raise CheckWarning("; ".join(warnings))
    return "none is known to others by these settings, and kafka.client loads no library"


def telemetry(context: CheckContext) -> str:
    """Check that each service's telemetry port is free, or used by that service."""
    host = context.settings.telemetry.host
    if not context.settings.telemetry.port:
        return f"the system chooses the ports on {host}"
    found = ports(context.settings)
    if wrong := [str(port) for port in found if not port.usable]:
        raise CheckFailed(f"on {host} {'; '.join(wrong)}; set telemetry.host and telemetry.port")
    return f"on {host} {'; '.join(map(str, found))}"


def supervision(context: CheckContext) -> str:
    """Check that all workers of each supervisor on this machine run."""
    if not context.settings.telemetry.port:
        return "not checked, since the system chooses the ports"
    found = supervisors(context.settings)
    if problems := [printable(f"{each.command}: {each.problem}", _MAX_CHARACTERS) for each in found if each.problem]:
        raise CheckFailed("; ".join(problems))
    names = ", ".join(f"`ragweir {each.command}` (port {each.port})" for each in found)
    return f"all workers run under {names}" if names else "no supervisor runs on this machine"
