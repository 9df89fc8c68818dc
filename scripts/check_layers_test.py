#!/usr/bin/env python3
"""Plants forbidden arrows in small trees and expects check_layers.py to name each one."""

import pathlib
import tempfile
import unittest
from unittest import mock

import check_layers

SOUND = {
    "include/ropeway/status.h": "#include <string>\n",
    "include/ropeway/engine.h": '#include "ropeway/status.h"\n',
    "src/base/clock.h": '#include "ropeway/status.h"\n',
    "src/core/batch.h": '#include "base/clock.h"\n#include <vector>\n',
    "src/service/front_desk.h": '#include "core/batch.h"\n',
    "src/engine/llm_engine.h": '#include "service/front_desk.h"\n',
    "src/server/http.cc": '#include "service/front_desk.h"\n#include <boost/beast.hpp>\n',
    "src/core/test_batches.h": '#include "engine/llm_engine.h"\n',
    "src/core/batch_test.cc": '#include "core/test_batches.h"\n#include "gtest/gtest.h"\n',
    "src/main.cc": '#include "engine/llm_engine.h"\n#include "core/batch.h"\n',
    "src/core/CMakeLists.txt": "ropeway_room(core DEPS base LIBS fmt::fmt)\n",
    "sim/sim_main.cc": '#include "engine/llm_engine.h"\n',
}


class CheckLayersTest(unittest.TestCase):
    def problems(self, changes):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in {**SOUND, **changes}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            return check_layers.check(root)

    def expect(self, name, text, words):
        problems = self.problems({name: text})
        self.assertEqual(len(problems), 1, problems)
        self.assertIn(words, problems[0])

    def test_sound_tree_passes(self):
        self.assertEqual(self.problems({}), [])

    def test_arrow_upwards(self):
        self.expect("src/core/x.cc", '#include "service/front_desk.h"\n', "core may include only: base")

    def test_arrow_sideways(self):
        self.expect("src/tokenizer/x.cc", '  #  include "core/batch.h"\n', "tokenizer may include")

    def test_angle_brackets_and_dots_hide_nothing(self):
        self.expect("src/base/x.cc", "#include <core/batch.h>\n", "src/core/batch.h")
        self.expect("src/base/x.cc", '#include "../core/batch.h"\n', "src/core/batch.h")

    def test_server_sees_only_the_backend_of_the_engine(self):
        self.expect("src/server/x.cc", '#include "engine/llm_engine.h"\n', "server may include only")

    def test_public_header_includes_no_room(self):
        self.expect("include/ropeway/x.h", '#include "base/clock.h"\n', "includes no room")

    def test_nothing_includes_the_simulation(self):
        changes = {"sim/world.h": "", "src/engine/x.cc": '#include "sim/world.h"\n'}
        self.assertEqual(len(self.problems(changes)), 1)
        changes = {"sim/world.h": "", "src/engine/x_test.cc": '#include "sim/world.h"\n'}
        self.assertEqual(len(self.problems(changes)), 1)

    def test_nothing_includes_the_benchmarks(self):
        self.expect("src/loadgen/x.cc", '#include "core/batch.h"\n', "loadgen may include only: base, flags, net")
        changes = {"bench/tool.h": "", "src/core/x.cc": '#include "../../bench/tool.h"\n'}
        self.assertEqual(len(self.problems(changes)), 1)

    def test_program_includes_no_test_file(self):
        self.expect("src/core/x.cc", '#include "core/test_batches.h"\n', "only tests")

    def test_unknown_room(self):
        self.expect("src/utils/x.cc", "", "no room of the table")
        self.expect("src/x.cc", "", "no room of the table")

    def test_missing_header(self):
        self.expect("src/core/x.cc", '#include "base/gone.h"\n', "does not exist")

    def test_cycle_of_files(self):
        changes = {"src/core/a.h": '#include "core/b.h"\n', "src/core/b.h": '#include "a.h"\n'}
        self.assertEqual(self.problems(changes),
                         ["cycle: src/core/a -> src/core/b -> src/core/a"])

    def test_cycle_of_a_header_and_another_ones_source(self):
        changes = {"src/core/a.h": "", "src/core/a.cc": '#include "core/a.h"\n#include "core/b.h"\n',
                   "src/core/b.h": '#include "core/a.h"\n'}
        self.assertEqual(self.problems(changes),
                         ["cycle: src/core/a -> src/core/b -> src/core/a"])

    def test_cycle_through_a_test_is_none(self):
        self.assertEqual(self.problems({"src/core/test_batches.h": '#include "core/a.h"\n',
                                        "src/core/a.h": "",
                                        "src/core/a_test.cc": '#include "core/test_batches.h"\n'}), [])

    def test_a_public_header_belongs_to_the_room_of_its_source(self):
        source = {"src/engine/engine.cc": '#include "ropeway/engine.h"\n#include "core/batch.h"\n'}
        self.assertEqual(self.problems(source), [])
        self.assertEqual(self.problems({**source, "src/core/x.cc": '#include "ropeway/engine.h"\n'}), [
            "src/core/x.cc: includes include/ropeway/engine.h: core may include only: base"])
        self.assertEqual(self.problems({**source, "src/engine/open.h": '#include "ropeway/engine.h"\n',
                                        "src/engine/engine.cc": '#include "ropeway/engine.h"\n'
                                                                '#include "engine/open.h"\n'}), [
            "cycle: src/engine/engine -> src/engine/open -> src/engine/engine"])

    def test_cycle_of_rooms(self):
        with mock.patch.dict(check_layers.ALLOWED, {"base": ["core"]}):
            self.assertEqual(self.problems({}), ["cycle in the table of rooms: base -> core -> base"])

    def test_comments_are_no_arrows(self):
        self.assertEqual(self.problems({"src/core/x.cc": '// #include "service/front_desk.h"\n'
                                        '/*\n#include "service/front_desk.h"\n*/\n'}), [])

    def test_linking_is_an_arrow_too(self):
        self.expect("src/core/CMakeLists.txt", "ropeway_room(core DEPS base engine LIBS fmt::fmt)\n",
                    "core may not depend on engine")
        self.expect("src/core/CMakeLists.txt", "ropeway_room(core LIBS fmt::fmt)\n", "core lacks base")
        self.assertEqual(self.problems({"src/server/CMakeLists.txt":
                                        "ropeway_room(server DEPS base core net http\n  api store service LIBS x)\n"}), [])

    def test_the_table_of_the_documents_is_the_same(self):
        rows = {room: f"| `src/{room}/` | a room | {' '.join(arrows) or chr(0x2013)} |"
                for room, arrows in check_layers.ALLOWED.items()}
        self.assertEqual(self.problems({"docs/architecture.md": "\n".join(rows.values())}), [])
        rows["policy"] = "| `src/policy/` | a room | core engine |"
        self.assertEqual(self.problems({"docs/architecture.md": "\n".join(rows.values())}),
                         ["docs/architecture.md: policy may not depend on engine",
                          "docs/architecture.md: policy lacks base"])


if __name__ == "__main__":
    unittest.main()
