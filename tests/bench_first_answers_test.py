#!/usr/bin/env python3
"""The benchmark of first answers: what counts as a right one, its page, and a run of it with the tiny model.

usage: bench_first_answers_test.py --ropeway PROGRAM --model TINY.gguf
"""
import pathlib
import tempfile
import unittest

import bench_runner
from bench_runner import ARGS, bench
from ropeway_bench import first_answers
from ropeway_bench.metrics import ABOUT, Metrics, Where


class FirstAnswersTest(unittest.TestCase):
    def test_a_right_answer_is_known_by_its_words(self):
        question = first_answers.Question("What is 7 plus 5?", r"\b(12|twelve)\b")
        for answer, right in (("The answer is 12.", True), ("Twelve!", True), ("It is 125.", False), ("", False)):
            self.assertEqual(question.is_answered_by(answer), right, answer)
        self.assertEqual(len(first_answers.QUESTIONS), 20)
        self.assertEqual(len({question.text for question in first_answers.QUESTIONS}), 20)

    def test_repetition_is_a_share_of_four_words(self):
        self.assertEqual(first_answers.repeated("one two three"), 0)
        self.assertEqual(first_answers.repeated("a b c d e"), 0)
        self.assertAlmostEqual(first_answers.repeated("a b c d a b c d"), 1 / 5)
        self.assertGreater(first_answers.repeated("no " * 50), 0.9)

    def made_up(self):
        metrics = Metrics()
        metrics.add(Where(ABOUT), date="2026-11-23", machine="a CPU", isa="avx2")
        metrics.add(Where("download", "small"), seconds=7.25, bytes=98e6)
        for system, right, answer in (("small, greedy", 1, "Paris it is"), ("small, as it comes", 0, "Rome"),
                                      ("large, greedy", 0, "Rome\nor not")):
            metrics.add(Where("answers", system), right=right, ended=1, repeated=0.125, tokens=3)
            metrics.add(Where("answers", system, 1, "1"), right=right, answer=answer)
        return metrics

    def test_the_page_shows_each_model_at_its_best(self):
        text = first_answers.report_text(self.made_up(), None)
        self.assertRegex(text, r"\| small +\| 98 +\| 7.2 ")
        self.assertIn("Most answers are right with: small, greedy.", text)
        self.assertIn("\n- small, greedy: Paris it is\n", text)
        self.assertIn("\n- large, greedy (not what was expected): Rome or not\n", text)
        self.assertNotIn("as it comes: Rome", text)
        self.assertEqual(first_answers.models_of(self.made_up()), ["small", "large"])

    def test_texts_survive_the_csv(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "first-answers.csv"
            self.made_up().write(path)
            self.assertEqual(first_answers.report_text(Metrics.read(path), None),
                             first_answers.report_text(self.made_up(), None))

    def test_a_model_that_is_not_there_is_named(self):
        reply = bench("first-answers", "--cached", "--name", "no-such-model")
        self.assertEqual((reply.returncode, reply.stdout), (1, ""))
        self.assertIn("no model 'no-such-model'", reply.stderr)


class RunTest(bench_runner.BenchTest):
    def test_a_model_is_asked(self):
        report = self.run_bench("first-answers", "--cached", "--name", ARGS.model, "--questions", "3", "--max-tokens",
                                "8")
        self.assertGreater(self.value("first answer", ARGS.model, "first_text_s"), 0)
        for variant in first_answers.SAMPLING:
            self.assertLessEqual(self.value("answers", f"{ARGS.model}, {variant}", "tokens"), 8)
            self.assertEqual(len(first_answers.answers_of(self.metrics, f"{ARGS.model}, {variant}")), 3)
        self.assertIn("**What is the capital of France?**", report)
        self.assertNotIn("download s", report)


if __name__ == "__main__":
    bench_runner.main()
