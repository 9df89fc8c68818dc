#!/usr/bin/env python3
"""The smallest case of the benchmark of conversations on the real engine: turns find what was said, and polls are answered.

usage: bench_conversations_test.py --ropeway PROGRAM --model FILE.gguf
"""
import bench_runner
from bench_runner import bench


class ConversationsTest(bench_runner.BenchTest):
    SHARED = False

    def test_only_what_is_new_is_sent_and_computed(self):
        report = self.run_bench("conversations", "--part", "turns", "--users", 2, "--turns", 3, "--first-tokens", 60,
                                "--input-tokens", 40, "--output-tokens", 8)
        stored, off, on = "stored", "stateless, cache off", "stateless, cache on"
        for system in (stored, off, on):
            self.assertEqual(self.value("turns", system, "turns"), 6)
            self.assertEqual([x for x, _ in self.metrics.curve("turns", system, "ttft_p50_s")], [1, 2, 3])
            # The server renders the same prompts from what it has kept.
            self.assertEqual(self.value("turns", system, "prompt_tokens"), self.value("turns", off, "prompt_tokens"))
        self.assertEqual(self.value("turns", off, "prefilled_tokens"), self.value("turns", off, "prompt_tokens"))
        # Each of two later turns of two users finds what came before, but for a block.
        self.assertLess(self.value("turns", stored, "prefilled_tokens"), self.value("turns", off, "prompt_tokens") - 2 * 2 * 60)
        self.assertLess(self.value("turns", stored, "sent_kb"), self.value("turns", on, "sent_kb"))
        self.assertIn("turns/s, stored over stateless, cache off", report)

    def test_polls_are_counted(self):
        report = self.run_bench("conversations", "--part", "polling", "--polls", 50, "--poll-seconds", 1)
        self.assertGreater(self.value("polling", "polled", "polls_per_s"), 20)
        self.assertGreater(self.value("polling", "nobody asks", "core_share"), 0)
        self.assertIn("a core's share beyond that of the answer alone", report)

    def test_nonsense_gets_one_sentence(self):
        for flags, words in ((("--turns", "1"), "--turns"), (("--base-url", "http://127.0.0.1:1"), "--base-url")):
            reply = bench("conversations", "--model", bench_runner.ARGS.model, *flags)
            self.assertEqual((reply.returncode, reply.stdout), (1, ""), reply)
            self.assertIn(words, reply.stderr.splitlines()[-1])


if __name__ == "__main__":
    bench_runner.main()
