"""Only the answer of a model that thinks aloud is kept."""

from __future__ import annotations

from typing import Any

import pytest

from worker.llm.thoughts import text_of, without_thoughts

SUMMARY = "The tides follow the moon."


@pytest.mark.parametrize(
    "answer",
    [
        SUMMARY,
        f"<think>Let me see.</think>{SUMMARY}",
        f"<think>\nLet me see.\n\n</think>\n\n{SUMMARY}\n",
        f"Let me see. </think> {SUMMARY}",
        f"<think></think>\n{SUMMARY}",
        f"<THINK>Let me see.</Think>{SUMMARY}",
        f"<thinking>Let me see.</thinking>{SUMMARY}",
        f"<reasoning>Let me see.</reasoning>{SUMMARY}",
        f"Let me see.</reasoning>\n{SUMMARY}",
        f'<thought time="3s">Let me see.</thought>{SUMMARY}',
        f"<think>One.</think>{SUMMARY}<think>Two.</think>",
        f"{SUMMARY}\n<think>Was that all? I wonder",
        f"<think>One <think> two</think>{SUMMARY}",
        f"One</think> two</think>{SUMMARY}",
        f"[THINK]Let me see.[/THINK]{SUMMARY}",
        f"◁think▷Let me see.◁/think▷{SUMMARY}",
        f"<|START_THINKING|>Let me see.<|END_THINKING|><|START_RESPONSE|>{SUMMARY}<|END_RESPONSE|>",
        f"<|begin_of_thought|>Let me see.<|end_of_thought|><|begin_of_solution|>{SUMMARY}<|end_of_solution|>",
        f"<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>{SUMMARY}<|return|>",
        f"analysisLet me see.assistantfinal{SUMMARY}",
        f"<unused94>thought\nLet me see.<unused95>{SUMMARY}",
        f"<seed:think>Let me see.</seed:think>{SUMMARY}",
        f"<think>Let me see.</think><answer>{SUMMARY}</answer>",
    ],
)
def test_only_the_summary_is_kept(answer: str) -> None:
    assert without_thoughts(answer) == SUMMARY


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "<think>I wonder",
        "<reasoning>\nI wonder",
        "<think>I wonder</think>",
        "I wonder</think>  ",
        "<|channel|>analysis<|message|>I wonder",
        "analysisI wonder",
    ],
)
def test_thoughts_alone_are_no_summary(answer: str) -> None:
    assert without_thoughts(answer) == ""


@pytest.mark.parametrize(
    "answer",
    [
        "Models put thoughts before `</think>`, which servers drop.",
        "The tag '<think>' opens it.",
        "Think of tides.",
        "Analysis shows that tides follow the moon.",
        "An <answer> element holds it.",
        "a < b and b > c",
    ],
)
def test_a_text_about_such_marks_stays(answer: str) -> None:
    assert without_thoughts(answer) == answer


@pytest.mark.parametrize("mark", ["<think>", "</think>", "<think", "[THINK]", "<|channel|>final ", "`</think>`"])
def test_many_marks_take_little_time(mark: str) -> None:
    without_thoughts(mark * 50_000)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, ""),
        ("a", "a"),
        ([{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "a"}], "a"),
    ],
)
def test_thoughts_in_parts_of_their_own_are_left_out(content: Any, text: str) -> None:
    assert text_of(content) == text
