#!/usr/bin/env python3
"""One conversation on two devices: PoCL's OpenCL gives the same bits as the CPU, whatever was computed where. The environment
has ROPEWAY_TEST_MODEL."""

import os
import tempfile
import unittest

import ropeway

MODEL = os.environ["ROPEWAY_TEST_MODEL"]
PROMPT = "A list of rivers and the seas into which they flow, with a sentence about each of them: " * 4
FIELDS = {"max_tokens": 8, "temperature": 0.8, "seed": 5, "logprobs": 2}


def open_engine(device, **options):
    return ropeway.Engine(MODEL, device=device, threads=1, kv_cache_size="32MiB", max_model_len=1024, **options)


def key_of(result):
    return result.token_ids, result.logprobs.tobytes(), result.top_ids.tobytes(), result.top_logprobs.tobytes()


class DevicesTest(unittest.TestCase):
    def test_blocks_on_disk_serve_both(self):
        with open_engine("cpu") as engine:
            expected = key_of(engine.generate(PROMPT, **FIELDS))
        for first, second in (("cpu", "opencl"), ("opencl", "cpu")):
            with self.subTest(first), tempfile.TemporaryDirectory() as folder:
                disk = {"kv_disk_path": folder, "kv_disk_size": "64MiB"}
                with open_engine(first, **disk) as engine:
                    self.assertEqual(key_of(engine.generate(PROMPT, **FIELDS)), expected)
                with open_engine(second, **disk) as engine:
                    result = engine.generate(PROMPT, **FIELDS)
                    self.assertGreater(result.usage.cached_tokens, 48)
                    self.assertEqual(key_of(result), expected)

    def test_a_conversation_goes_on_at_the_other_device(self):
        turns = [[{"role": "user", "content": "Name a river."}], [{"role": "user", "content": "And another one?"}]]

        def talk(*devices):
            results = []
            with tempfile.TemporaryDirectory() as folder:
                for device, messages in zip(devices, turns):
                    with open_engine(device, state_path=folder) as engine:
                        results.append(key_of(engine.generate(messages=messages, session="s", **FIELDS)))
            return results

        expected = talk("cpu", "cpu")
        self.assertEqual(talk("cpu", "opencl"), expected)
        self.assertEqual(talk("opencl", "cpu"), expected)

    def test_preempted_requests_are_as_in_quiet(self):
        prompts = ["A story about rain", "A story about snow"]
        fields = {"max_tokens": 24, "temperature": 0.8, "ignore_eos": True, "logprobs": 1}
        with open_engine("cpu") as engine:
            expected = [key_of(engine.generate(prompt, seed=i, **fields)) for i, prompt in enumerate(prompts)]
        with open_engine("opencl", max_num_seqs=2) as engine:
            handles = [engine.submit(prompt, seed=i, priority="low", **fields) for i, prompt in enumerate(prompts)]
            for handle in handles:
                next(iter(handle))
            urgent = [engine.submit("Quick", max_tokens=4, priority="high") for _ in range(2)]
            for handle in urgent:
                handle.wait()
            results = [handle.wait() for handle in handles]
            self.assertGreater(sum(result.preemptions for result in results), 0)
            self.assertEqual([key_of(result) for result in results], expected)

    def test_an_output_goes_on_at_the_other_device(self):
        fields = {name: value for name, value in FIELDS.items() if name != "logprobs"}
        with open_engine("cpu") as engine:
            whole = engine.generate("Once upon a time", **fields).token_ids
        with open_engine("opencl") as engine:
            rest = engine.generate("Once upon a time", resume_ids=whole[:3], **fields).token_ids
        self.assertEqual(rest, whole[3:])

    def test_metrics_say_what_the_device_does(self):
        values = {}
        with open_engine("opencl") as engine:
            engine.generate("Once upon a time", max_tokens=4, temperature=0)
            for line in engine.metrics().splitlines():
                if line.startswith("ropeway_device_"):
                    name, value = line.split(" ")
                    values[name] = float(value)
            self.assertRegex(engine.metrics(), r'ropeway_engine_info{.*kernels="opencl:0, ')
        self.assertGreater(values["ropeway_device_busy_seconds_total"], 0)
        self.assertGreater(values["ropeway_device_copied_bytes_total"], 1000)
        # The weights of 135 million parameters, and the 32 MiB of the KV cache.
        self.assertGreater(values["ropeway_device_memory_bytes"], 110e6)

    def test_what_is_no_device_is_said(self):
        with self.assertRaisesRegex(ropeway.InvalidArgumentError, "must be one of cpu, auto, cuda, cuda:NUMBER, opencl, opencl:NUMBER, not 'gpu'") as raised:
            open_engine("gpu")
        self.assertEqual(raised.exception.field, "device")
        with self.assertRaisesRegex(ropeway.NotFoundError, "there is no OpenCL device 9"):
            open_engine("opencl:9")


if __name__ == "__main__":
    unittest.main()
