"""Question packs: the three of the expected-answer benchmark, and what is wrong with a user's own, said clearly."""

from pathlib import Path
from typing import Any

import pytest

from ragweir.errors import PackError
from ragweir.metrics.catalogue import Catalogue, Scored
from ragweir.metrics.extension import Extension
from ragweir.metrics.metric import Metric
from ragweir.metrics.packs import SHIPPED, load_packs, parse_packs
from ragweir.metrics.view import example

METRICS = tuple(metric for metrics in SHIPPED.values() for metric in metrics)
CATALOGUE = Catalogue(METRICS)


def metrics_of(packs: tuple[Extension, ...]) -> list[Metric]:
    return [metric for pack in packs for metric in pack.metrics]


def scored(question: str, response: str, expected: Any = None) -> Scored:
    return CATALOGUE.score(example(question_id=question, response=response, expected=expected))


def test_a_pack_is_chosen_by_its_question_id_alone() -> None:
    for question, count in (("EF_1", 3), ("EF_2", 9), ("EF_3", 6), ("EF_4", 0), ("ef_1", 0), (None, 0)):
        names = CATALOGUE.score(example(question_id=question, response="yes")).scores
        assert len(names) == count
        assert all(name.startswith(f"{question}.") for name in names)


def test_every_metric_of_a_pack_describes_itself() -> None:
    for metric in METRICS:
        assert metric.meaning.endswith(".")
        assert len(metric.meaning) <= 120
        assert all(
            part in metric.text for part in ("Formula: ", "Range: ", "Undefined: ", f"Reference: {metric.source}")
        )


# EF_1

RULES = "Rules:\n* Limits of Liability\n* **Rule C-1**: Base Rates\n* Payment Plans (Rule C-7)\n\nSee also Rule C-9."


@pytest.mark.parametrize(
    ("response", "found"),
    [
        (RULES, 4),
        ("", 0),
        ("Limits of Liability", 0),  # not a list item
        ("* Limits of Liability", 1),
        ("- limits of LIABILITY - how much is paid", 1),
        ("1. Limits of Liability: how much is paid", 1),
        ("* Limits of Liability and more", 0),
        ("* Base Rates\n* Payment plans", 2),  # by name, without the identifier
        ("It has Rule C-1, rule c-7 and Rule C-9.", 3),  # by identifier, without the name
        ("* Rule C-1\n* Base Rates", 1),  # twice the same
        ("Rule C-12, C-7", 0),
        ("**Limits of Liability**", 0),  # bold type, no list
    ],
)
def test_rules_are_found_by_name_in_a_list_or_by_identifier(response: str, found: int) -> None:
    scores = scored("EF_1", response, RULES).scores
    assert scores == {"EF_1.rules_found": found, "EF_1.total_rules": 4, "EF_1.rules_coverage": found / 4}


def test_the_documents_coverage_of_four_in_five() -> None:
    expected = "\n".join(f"* Rule Number {name}" for name in "ABCDE")
    assert scored("EF_1", expected.replace("E", "F"), expected).scores["EF_1.rules_coverage"] == 0.8


def test_the_best_covered_of_several_expected_lists_counts() -> None:
    scores = scored("EF_1", "* a1 b\n* c", ["no list", "* c\n* d\n* e", "* c\n* d"]).scores
    assert scores == {"EF_1.rules_found": 1, "EF_1.total_rules": 2, "EF_1.rules_coverage": 0.5}


def test_an_expected_answer_without_a_list_has_no_coverage() -> None:
    result = scored("EF_1", "* Base Rates", "Base Rates")
    assert result.scores == {"EF_1.rules_found": 0, "EF_1.total_rules": 0, "EF_1.rules_coverage": None}
    assert result.reasons == {"EF_1.rules_coverage": "the expected answer lists nothing"}
    assert set(scored("EF_1", "* Base Rates").reasons.values()) == {"the event has no expected"}


# EF_2

FULL = "Yes. Territory 118: 0.305%, Territory 117: -0.133%. GRG 51 and GRG 15 have a difference of 36."


@pytest.mark.parametrize(
    ("fact", "response", "value"),
    [
        ("has_yes", "YES, it is", 1),
        ("has_yes", "yesterday, eyes", 0),
        ("has_territory_118", "**Territory 118:**", 1),
        ("has_territory_118", "Territory 1180, territory 11.8", 0),
        ("has_territory_118", "Territory\n118", 1),
        ("has_territory_117", "Territory 118", 0),
        ("has_territory_117", "Territories 117 and 118", 1),
        ("has_territory_118", "Territories 117 and 118", 1),
        ("has_rate_0_305", "0.305", 1),
        ("has_rate_0_305", "+0.3050 %", 1),
        ("has_rate_0_305", "-0.305%, 10.305%, 0.3051", 0),
        ("has_rate_neg_0_133", "\u22120.133%", 1),
        ("has_rate_neg_0_133", "(-0.133%)", 1),
        ("has_rate_neg_0_133", "0.133%", 0),
        ("has_grg_51", "GRG 51", 1),
        ("has_grg_51", "GRG 15, and 51", 0),
        ("has_grg_15", "GRGs 15 and 51", 1),
        ("has_difference_36", "a difference of 36", 1),
        ("has_difference_36", "51 - 15 = 36", 1),
        ("has_difference_36", "the gap exceeds 30", 1),
        ("has_difference_36", "it does not exceed 30", 0),
        ("has_difference_36", "no more than 30", 0),
        ("has_difference_36", "see page 36", 0),
        ("has_difference_36", "a difference of 3.6 or 136", 0),
    ],
)
def test_a_fact_is_any_of_its_phrases_and_none_that_takes_it_back(fact: str, response: str, value: int) -> None:
    assert scored("EF_2", response).scores[f"EF_2.{fact}"] == value


@pytest.mark.parametrize(
    ("response", "score"), [(FULL, 1), (FULL.replace("Yes", "No"), 0.875), ("Yes, by 0.305", 0.25), ("", 0)]
)
def test_the_fact_score_is_the_mean_of_eight(response: str, score: float) -> None:
    assert scored("EF_2", response).scores["EF_2.fact_score"] == score


# EF_3


@pytest.mark.parametrize(
    ("response", "value"),
    [
        ("293 × 2.061", 1),
        ("293×2.061", 1),
        ("$293 * $2.061", 1),
        ("293*2.061", 1),
        ("(293) x (2.061)", 1),
        ("293 x 2.061", 1),
        ("1.5% × .5", 1),
        (r"$293 \times 2.061$", 1),
        (r"293 \* 2.061", 1),
        ("Multiply the base rate by it", 1),
        ("293 multiplied by 2.061", 1),
        ("**604**", 0),
        ("**293** **2.061**", 0),
        ("*293* 2.061", 0),
        ("293 ** 2", 0),
        ("293\n* 2.061 is the factor", 0),
        ("base rate × factor", 0),
        ("293 x-rays, 2 xylophones", 0),
        ("multiplex", 0),
        ("", 0),
    ],
)
def test_a_calculation_is_a_sign_between_numbers_or_the_word(response: str, value: int) -> None:
    assert scored("EF_3", response).scores["EF_3.has_calculation"] == value


@pytest.mark.parametrize(
    ("response", "facts"),
    [
        ("The premium is 293 × 2.061 = **$604**.", (1, 1, 1, 1, 0, 1)),
        ("It is $603.87", (0, 0, 0, 0, 0, 0)),
        ("$604.00", (1, 0, 0, 0, 0, 1)),
        ("I cannot calculate the premium; it may be $604.", (1, 0, 0, 0, 1, 0)),
        ("I can’t calculate it.", (0, 0, 0, 0, 1, 0)),
        ("It cannot be calculated from 293.", (0, 1, 0, 0, 1, 0)),
        ("", (0, 0, 0, 0, 0, 0)),
    ],
)
def test_an_answer_is_right_with_604_and_without_saying_that_it_failed(response: str, facts: tuple[int, ...]) -> None:
    names = ("has_604", "has_293", "has_2_061", "has_calculation", "cannot_calculate", "is_correct")
    assert scored("EF_3", response).scores == {f"EF_3.{name}": value for name, value in zip(names, facts, strict=True)}


# A user's own

MINE = """
question = "Q-7"
form = "facts"
[[facts]]
name = "has_deductible"
any = ["deductible of 250"]
unless = ["no deductible"]
"""


def test_a_users_pack_is_read_from_a_folder_and_stands_beside_the_shipped_ones(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(MINE, encoding="utf-8")
    (tmp_path / "notes.txt").write_text("no pack", encoding="utf-8")
    catalogue = Catalogue((*METRICS, *metrics_of(load_packs([tmp_path]))))
    scores = catalogue.score(example(question_id="Q-7", response="A deductible of $250")).scores
    assert scores == {"Q-7.has_deductible": 1, "Q-7.fact_score": 1}


def changed(old: str, new: str) -> str:
    assert old in MINE
    return MINE.replace(old, new)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("x =", "is not TOML: Invalid value (at end of document)"),
        ("x = " + "[" * 5_000, "is nested too deeply"),
        (changed('"facts"', '"quiz"'), "form: is unknown; it is one of list, facts, calculation"),
        (changed('form = "facts"', ""), "form: is missing; it is one of list, facts, calculation"),
        (changed('form = "facts"', "form = []"), "form: is unknown; it is one of list, facts, calculation"),
        (changed('question = "Q-7"', ""), "question: is missing"),
        ('question = "Q"\nform = "facts"\nfacts = []', "facts: is empty"),
        ('question = "Q"\nform = "facts"', "facts: is missing"),
        (changed('["deductible of 250"]', "[]"), "facts[0].any: is empty"),
        (changed('["deductible of 250"]', '["..."]'), "facts[0].any[0]: has no word or number to look for"),
        (changed('["deductible of 250"]', "[250]"), "facts[0].any[0]: is not text"),
        (changed('["deductible of 250"]', '"250"'), "facts[0].any: is not a list"),
        (changed("unless", '"two\\nlines\\u001b"'), "facts[0].'two\\nlines\\x1b': is not a field here"),
        (changed("unless", "unles"), "facts[0].unles: is not a field here"),
        (
            changed("has_deductible", "has deductible"),
            "facts[0].name: is not a name: letters, digits and underscores, at most 64",
        ),
        (changed("has_deductible", "fact_score"), "two metrics of the pack are called fact_score"),
    ],
)
def test_a_faulty_pack_is_refused_with_one_sentence_that_names_file_and_field(text: str, fault: str) -> None:
    with pytest.raises(PackError) as refused:
        parse_packs({"mine.toml": text})
    assert str(refused.value) == f"question pack mine.toml: {fault}"


def test_a_calculation_must_judge_by_one_of_its_facts() -> None:
    pack = """
    question = "Q"
    form = "calculation"
    correct = { name = "is_correct", fact = "has_5" }
    facts = [{ name = "has_4", any = ["4"] }]
    steps = { name = "has_steps", signs = ["+"] }
    failure = { name = "failed", any = ["cannot"] }
    """
    with pytest.raises(
        PackError, match=r"^question pack mine\.toml: correct\.fact is not the name of one of the facts$"
    ):
        parse_packs({"mine.toml": pack})
    metrics = Catalogue(metrics_of(parse_packs({"mine.toml": pack.replace("has_5", "has_4")})))
    scores = metrics.score(example(question_id="Q", response="2 + 2 = 4")).scores
    assert scores == {"Q.has_4": 1, "Q.has_steps": 1, "Q.failed": 0, "Q.is_correct": 1}


def test_all_faults_of_all_files_are_told_at_once() -> None:
    with pytest.raises(PackError) as refused:
        parse_packs({"a.toml": "x =", "b.toml": 'form = "facts"', "c.toml": MINE})
    assert [fault.partition(":")[0] for fault in refused.value.faults] == [
        f"question pack {name}" for name in ("a.toml", "b.toml", "b.toml")
    ]


def test_of_many_faults_the_sentence_names_a_few_and_their_number() -> None:
    with pytest.raises(PackError) as refused:
        parse_packs({f"{number}.toml": "x =" for number in range(9)})
    fault = "is not TOML: Invalid value (at end of document)"
    assert (
        str(refused.value) == "; ".join(f"question pack {number}.toml: {fault}" for number in range(3)) + "; and 6 more"
    )


def test_a_name_that_is_taken_is_refused_with_its_owner(tmp_path: Path) -> None:
    with pytest.raises(PackError) as refused:
        parse_packs({"a.toml": MINE, "b.toml": MINE.replace("has_deductible", "other")})
    assert str(refused.value) == "question pack b.toml: question: Q-7.fact_score is defined already, by a.toml"
    (tmp_path / "own.toml").write_text(MINE.replace("Q-7", "EF_2"), encoding="utf-8")
    with pytest.raises(
        PackError, match=r"^question pack .*own\.toml: question: EF_2\.fact_score .* by a pack that ships"
    ):
        load_packs([tmp_path])


def test_a_folder_or_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        PackError, match=r"^the folder .*nowhere of question packs cannot be read: No such file or directory$"
    ):
        load_packs([tmp_path / "nowhere"])
    (tmp_path / "mine.toml").write_bytes(b"question = '\xff'")
    with pytest.raises(PackError, match=r"^question pack .*mine\.toml: is not UTF-8 text$"):
        load_packs([tmp_path])


@pytest.mark.parametrize("response", ["\ud800", "* " * 20_000, "*\n" * 20_000, "1 * " * 20_000, "* مرحبا\n* 👍🏽"])
@pytest.mark.parametrize("question", ["EF_1", "EF_2", "EF_3"])
def test_every_text_is_survived(question: str, response: str) -> None:
    assert not scored(question, response, response).raised
