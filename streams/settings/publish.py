"""Settings of applications that publish by `ragweir.publish`."""

from __future__ import annotations

from ragweir.streams.settings.group import SettingsGroup


class PublishSettings(SettingsGroup):
    """The events that an application publishes by `ragweir.publish`."""

    topic: str | None = None
    """Topic that applications publish interactions to. Unset: `interactions` with `topics.prefix`."""
    application: str | None = None
    """Name of the application in published events that have none."""
    environment: str | None = None
    """Environment, such as prod, in published events that have none."""
    pipeline_version: str | None = None
    """Version of the pipeline in published events that have none."""
    labels: dict[str, str] = {}
    """Labels of all published events. A label of the same name in an event replaces it."""
