"""The story of one event for a terminal: its origin, its scores and their meaning, routing, judge and windows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ragweir.schemas.dead_letter import DeadLetter
from ragweir.schemas.evaluation import Evaluation
from ragweir.streams.analysis.dead_letters.letters import Letter, position, shown
from ragweir.streams.analysis.evidence.answer_evidence import EvidenceRules, answer_evidence
from ragweir.streams.analysis.explain import Searched, Story
from ragweir.streams.commands.screens.routing import routing_lines
from ragweir.streams.commands.screens.scores import ScoreScreen
from ragweir.streams.commands.screens.texts import TextScreen
from ragweir.streams.commands.screens.trace import TraceScreen
from ragweir.streams.runtime.records import Record
from ragweir.streams.runtime.text.terminal import Terminal, printable, record_time
from ragweir.streams.services.shared.routing_rows import Selection
from ragweir.streams.settings import WindowSettings

_MAX_REASON = 400
"""Characters of a judge's reason that are shown."""


def redriven_from(record: Record) -> DeadLetter | None:
    """Return the dead letter that a record of the redrive topic was made from; None for any other record."""
    try:
        return DeadLetter.from_headers(record.headers)
    except ValueError:
        return None


def place(record: Record) -> str:
    """Return topic, partition and offset of a record."""
    return f"{record.topic}/{record.partition}/{record.offset}"


def searched(each: Searched) -> str:
    """Describe how much of a topic or file was searched."""
    return f"{each.where} ({'all' if each.whole else 'only the newest'} {each.records:,} records)"


@dataclass(frozen=True, slots=True)
class StoryScreen:
    """Prints stories.

    Args:
        terminal: the console to print on.
        rules: the metrics, and the bounds by which answers are shown.
        windows: the settings of the windows.
        metrics: the metrics to show; all, and those that have no value, by default.
        shipped: the routing row of applications without one; None shows no rows.
        text: true to show the texts of an event that was read again.
        evidence: true to show its evidence.
    """

    terminal: Terminal
    rules: EvidenceRules
    windows: WindowSettings
    metrics: Collection[str] | None = None
    shipped: Selection | None = None
    text: bool = True
    evidence: bool = True

    def show(self, story: Story) -> None:
        """Print the story of one event."""
        say = self.terminal.say
        original = story.original
        at = f", {printable(original.place, None)}" if original is not None and original.interaction is not None else ""
        say(f"Event {shown(story.event_id)}{at}", "bold")
        if story.evaluation is None:
            say("It was not evaluated, as far as was searched.")
        else:
            found = answer_evidence(story.evaluation, original, self.rules)
            say(found.verdict.text)
            self._origin(story, story.evaluation)
            if original is not None:
                TextScreen(self.terminal, self.text, self.evidence).show(found)
            ScoreScreen(self.terminal, self.rules.catalogue, self.metrics).show(story.evaluation)
            self._judge(story, story.evaluation)
            self._windows(story)
        if story.trace is not None:
            TraceScreen(self.terminal).show(story.trace)
        for each in story.letters:
            self._dead_letter(each)
        say(f"\nSearched: {', '.join(map(searched, story.searched))}.", "dim")

    def _origin(self, story: Story, evaluation: Evaluation) -> None:
        say = self.terminal.say
        say(f"at {evaluation.event_time.isoformat()}")
        names = "application tenant environment pipeline_version model question_id session_id trace_id".split()
        facts = [f"{name} {shown(value, 200)}" for name in names if (value := getattr(evaluation, name)) is not None]
        facts += [f"labels.{shown(name, 100)} {shown(value, 200)}" for name, value in evaluation.labels.items()]
        if facts:
            say(", ".join(facts))
        source, record = evaluation.source, story.source
        if source is not None:
            gone = ", which Kafka no longer holds, or the user may not read" if story.source_searched else ""
            written = f", written {record_time(record.timestamp_ms)}" if record else gone
            say(f"read at {position(source.topic, source.partition, source.offset, source.index)}{written}")
            if record is not None and (before := redriven_from(record)) is not None:
                reason = f"{before.error_class}: {shown(before.message)}"
                say(f"redriven: first read at {_read_at(before)} and rejected as {reason}")
        evaluated = f"evaluated {story.times} times; the newest is " if story.times > 1 else ""
        run = f", run {shown(evaluation.run_id)}" if evaluation.run_id else ""
        say(f"{evaluated}{evaluation.stage}, catalogue {shown(evaluation.catalogue_version)}{run}, {story.found_at}")
        if evaluation.document_ids:
            say(f"documents {', '.join(shown(each, 100) for each in evaluation.document_ids)}")
        if evaluation.flags:
            say(f"flags {', '.join(shown(flag, 200) for flag in evaluation.flags)}")

    def _judge(self, story: Story, evaluation: Evaluation) -> None:
        say = self.terminal.say
        say("\nJudge", "bold underline")
        if not evaluation.decision.suites:
            say("  no judge was set up, or none of its suites was on")
        for each in evaluation.decision.suites:
            because = f", because of {', '.join(map(shown, each.because))}" if each.because else ""
            say(f"  {shown(each.suite)}: {each.status.replace('_', ' ')}; probability {each.probability:g}{because}")
            if each.row is not None and self.shipped is not None:
                risk = evaluation.scores.get("unsupported_risk")
                for line in routing_lines(each, story.row, self.shipped, risk):
                    say(f"    {line}")
        judge = evaluation.judge
        if judge is not None:
            tokens = f"{judge.input_tokens:,} input and {judge.output_tokens:,} output tokens"
            cached = ", all from the cache" if judge.cached else ""
            say(f"  {shown(judge.model)}, {tokens}, ${judge.cost_usd:,.6f}{cached}; {shown(judge.prompt_version)}")
        for wait in story.pending:
            since = f" since {wait.since.isoformat()}" if wait.since else ""
            until = f", not before {wait.not_before.isoformat()}" if wait.not_before else ""
            why = f": {shown(wait.why, _MAX_REASON)}" if wait.why else ""
            tried = f", given up {wait.attempts} times" if wait.attempts else ""
            say(f"  waits in {wait.topic}{since}{until}{tried}{why}")

    def _windows(self, story: Story) -> None:
        say = self.terminal.say
        say("\nWindows", "bold underline")
        if not story.windows:
            say("  none: its time is at the end of the calendar")
            return
        for each in story.windows:
            say(f"  {each.window}  {each.start.isoformat()} to {each.end.isoformat()}")
        labels = ", ".join(f"{name}={shown(value) or '(none)'}" for name, value in story.windows[0].dimensions.items())
        most, new = self.windows.max_series, self.windows.new_series_per_hour
        say(f"  counted under {labels}, unless {most} label sets came before it, or {new} new ones within an hour")

    def _dead_letter(self, each: Letter) -> None:
        said, say = each.details, self.terminal.say
        say(f"\nDead letter {place(each.record)}", "bold underline")
        written, reason = record_time(each.record.timestamp_ms), f"{said.error_class}: {shown(said.message)}"
        say(f"  rejected {written} by {shown(each.service)} as {reason}")
        say(f"  read at {_read_at(said)}")


def _read_at(said: DeadLetter) -> str:
    return position(said.source_topic, said.source_partition, said.source_offset, said.source_index)
