#!/usr/bin/env python3
"""`ropeway run` as a chat in a terminal, through a pseudo-terminal: answers stream, turns are remembered,
Ctrl-C stops an answer and keeps the chat, Ctrl-D leaves. Where the texts do not matter, a tiny model answers.

usage: chat_test.py --ropeway PROGRAM --model FILE.gguf --tiny TINY.gguf
"""
import argparse
import fcntl
import json
import os
import pty
import re
import resource
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import unittest

ARGS = argparse.Namespace()
PATIENCE = 120  # Seconds that a busy machine may take for one answer.


# What moves the cursor, sets modes, or stands before the end of a line.
MOVES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")


class Chat:
    """`ropeway run` with a terminal of its own."""

    def __init__(self, model, *flags, rows=24, columns=0, **environment):
        self.shown = ""  # All that was shown and not yet waited for, without what moves the cursor.
        self.reads = 0
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.execve(ARGS.ropeway, [ARGS.ropeway, "run", "--model", model, "--temperature", "0", *flags],
                      {**os.environ, "TERM": "xterm", **environment})

    def read(self, patience=PATIENCE):
        ready, _, _ = select.select([self.terminal], [], [], patience)
        if not ready:
            raise AssertionError(f"nothing came; shown so far: {self.shown!r}")
        try:
            data = os.read(self.terminal, 65536)
        except OSError:  # The other side is closed.
            data = b""
        self.shown = MOVES.sub("", self.shown + data.decode(errors="replace"))
        self.reads += 1
        return bool(data)

    def wait_for(self, pattern):
        """Reads until `pattern` matches; replies with all that was shown up to its end."""
        while True:
            found = re.search(pattern, self.shown, re.DOTALL)
            if found:
                text, self.shown = self.shown[:found.end()], self.shown[found.end():]
                return text
            if not self.read():
                raise AssertionError(f"ended without {pattern!r}: {self.shown!r}")

    def send(self, text):
        os.write(self.terminal, text.encode())

    def ask(self, question):
        """One turn: replies with the answer, and the stats line's numbers of tokens."""
        self.send(question + "\n")
        text = self.wait_for(r"\((\d+) prompt tokens, (\d+) tokens in [^\n]*\)\n>>> ")
        numbers = re.search(r"\((\d+) prompt tokens, (\d+) tokens", text)
        answer = text[:numbers.start()].split("\n", 1)[1]  # Without the echo of the question.
        return answer, int(numbers.group(1)), int(numbers.group(2))

    def end(self):
        """The exit code, once the program ended."""
        while self.read():
            pass
        os.close(self.terminal)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def kill(self):
        try:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass


class ChatCase(unittest.TestCase):
    def chat(self, *flags, model=None, rows=24, columns=0, **environment):
        if not hasattr(self, "state"):
            temporary = tempfile.TemporaryDirectory(prefix="ropeway-state-")
            self.addCleanup(temporary.cleanup)
            self.state = temporary.name
        chat = Chat(model or ARGS.model, *flags, rows=rows, columns=columns,
                    **{"XDG_STATE_HOME": self.state, **environment})
        self.addCleanup(chat.kill)
        chat.greeting = chat.wait_for(r">>> ")
        self.assertIn("Ctrl-D leaves", chat.greeting)
        return chat


class ChatTest(ChatCase):
    def test_turns_stream_and_are_remembered(self):
        chat = self.chat("--stats", "--max-tokens", "48")
        chat.reads = 0
        answer, first, tokens = chat.ask("Write one sentence about the sea.")
        self.assertGreater(len(answer.strip()), 10)
        self.assertGreater(tokens, 5)
        self.assertGreater(chat.reads, 3, "the answer came in one piece")
        _, second, _ = chat.ask("And one about mountains.")
        self.assertGreater(second, first + tokens, "the second turn contains the first")
        chat.send("/clear\n")
        chat.wait_for(r"a new chat.*>>> ")
        again, third, _ = chat.ask("Write one sentence about the sea.")
        self.assertEqual((again, third), (answer, first))
        chat.send("\x04")
        self.assertEqual(chat.end(), 0)

    def test_ctrl_c_stops_the_answer_and_keeps_the_chat(self):
        chat = self.chat("--ignore-eos")
        chat.send("Count to one thousand.\n")
        chat.wait_for(r"\n[^\n]*[a-zA-Z0-9]")
        chat.send("\x03")
        chat.wait_for(r"\(stopped\)\n>>> ")
        chat.send("/stats\n")
        chat.wait_for(r"prompt tokens.*>>> ")
        chat.send("Go on.\n")
        chat.wait_for(r"\n[^\n]*[a-zA-Z0-9]")
        chat.send("\x03")
        chat.wait_for(r"\(stopped\)\n>>> ")
        chat.send("half a line\x03")  # At the prompt it drops the line only.
        chat.wait_for(r"Ctrl-D leaves\)\n>>> ")
        chat.send("\x04")
        self.assertEqual(chat.end(), 0)

    def test_commands(self):
        chat = self.chat(model=ARGS.tiny)
        chat.send("/help\n")
        self.assertIn("/clear", chat.wait_for(r"list\n.*>>> "))
        chat.send("/nonsense\n")
        self.assertIn("There is no /nonsense", chat.wait_for(r"next one\.\n>>> "))
        chat.send("\n")
        chat.wait_for(r">>> ")
        chat.send("/exit\n")
        self.assertEqual(chat.end(), 0)

    def test_a_chat_that_grew_too_long_says_so_and_can_be_cleared(self):
        chat = self.chat("--max-model-len", "128", "--ignore-eos", model=ARGS.tiny)
        chat.send("Tell me about the sea.\n")
        self.assertIn("cut off:", chat.wait_for(r"\)\n>>> "))
        chat.send("And the mountains?\n")
        rejection = chat.wait_for(r"not answered: .*\)\n>>> ")
        self.assertIn("128", rejection)
        self.assertIn("/clear", rejection)
        chat.send("/clear\n")
        chat.wait_for(r"a new chat.*>>> ")
        chat.send("Tell me about the sea.\n")
        self.assertIn("cut off:", chat.wait_for(r"\)\n>>> "))
        chat.send("\x04")
        self.assertEqual(chat.end(), 0)

    def test_a_system_message_and_a_line_that_goes_on(self):
        plain = self.chat("--stats", "--max-tokens", "8", model=ARGS.tiny)
        _, without, _ = plain.ask("Hello.")
        _, longer, _ = plain.ask("Hello.\\\nAgain.\\\nAnd again.")
        self.assertGreater(longer, without)
        guided = self.chat("--stats", "--max-tokens", "8", "--system",
                           "You are a sailor, and all your answers are about the sea and ships, "
                           "storms, islands, whales and harbours of the whole wide world.", model=ARGS.tiny)
        _, with_system, _ = guided.ask("Hello.")
        self.assertNotEqual(with_system, without)
        for chat in (plain, guided):
            chat.send("\x04")
            self.assertEqual(chat.end(), 0)


class TerminalTest(ChatCase):
    def say(self, chat, text, pattern):
        """What is shown until `pattern`, with the echo of the text, and the next prompt."""
        chat.send(text)
        return chat.wait_for(pattern + r".*?>>> ")

    def test_lines_are_edited_and_remembered(self):
        chat = self.chat(model=ARGS.tiny)
        self.say(chat, "/hlp\x1b[D\x1b[De\n", "/clear .*next one")
        self.say(chat, "/stats\n", "no answer yet")
        self.say(chat, "\x1b[A\n", "no answer yet")
        self.say(chat, "\x1b[A\x1b[A\n", "/clear .*next one")
        chat.send("/bye\n")
        self.assertEqual(chat.end(), 0)
        history = os.path.join(self.state, "ropeway", ".history")
        self.assertEqual(os.stat(history).st_mode & 0o777, 0o600)
        with open(history, encoding="utf-8") as file:
            self.assertEqual(file.read(), "/help\n/stats\n/help\n/bye\n")
        chat = self.chat(model=ARGS.tiny)
        self.say(chat, "\x1b[A\x1b[A\x1b[A\n", "no answer yet")
        chat.kill()
        chat = self.chat("--history", "off", model=ARGS.tiny)
        self.say(chat, "/set\n", "temperature")
        chat.kill()
        with open(history, encoding="utf-8") as file:
            self.assertNotIn("/set", file.read())

    def test_what_is_pasted_is_one_message(self):
        chat = self.chat(model=ARGS.tiny)
        chat.send("/system \x1b[200~B\u00e9 a\rsailor.\x07\rAlways\x1b[201~")
        chat.wait_for("Always")
        self.say(chat, "!\n", "applies from the next answer on")
        shown = self.say(chat, "/system\n", "Always!\n")
        self.assertIn("\nB\u00e9 a\nsailor.\nAlways!\n", shown)
        chat.send("\x04")
        self.assertEqual(chat.end(), 0)

    def test_commands_set_system_retry_save_and_sessions(self):
        chat = self.chat("--stats", "--max-tokens", "48", model=ARGS.tiny)
        for said, answer in (("/set max-tokens 4", "(max_tokens 4)"), ("/set top_p 0.5", "(top_p 0.5)"),
                             ("/set seed none", "(seed none)"), ("/set ignore-eos true", "(ignore_eos true)"),
                             ("/set top_p 7", "(top_p: expected a number, above 0, to 1, not '7')"),
                             ("/set top_k x", "(top_k: expected a whole number, -1 to 2147483647, not 'x')"),
                             ("/set topk 4", "(there is no parameter 'topk': did you mean 'top_k'?)"),
                             ("/set heat 4", "(there is no parameter 'heat'; the parameters are:)"),
                             ("/system", "(no system message)"), ("/retry", "(there is no message to answer again yet)"),
                             ("/sessions", "(no saved conversations: ropeway run --session NAME starts one)"),
                             ("/save", "(/save needs a file name)"),
                             ("/save ~/x", "(cannot write the file: No such file or directory)")):
            with self.subTest(said=said):
                self.assertIn(answer, self.say(chat, said + "\n", r"\n\([^\n]*\)\n"))
        shown = self.say(chat, "/set\n", r"ignore_eos [^\n]*\n")
        self.assertRegex(shown, r"max_tokens +4 +Maximum number of tokens")
        first = chat.ask("Hello.")
        self.assertEqual(first[2], 4)
        chat.send("/retry\n")
        again = chat.wait_for(r"\((\d+) prompt tokens, (\d+) tokens in [^\n]*\)\n>>> ")
        self.assertTrue(again.startswith("/retry\n" + first[0] + f"({first[1]} prompt tokens, "), again)
        path = os.path.join(self.state, "saved.json")
        self.say(chat, "/system Be a sailor.\n", "applies from the next answer on")
        self.assertIn("(3 messages saved)", self.say(chat, f"/save {path}\n", "saved"))
        self.assertIn("the file already exists", self.say(chat, f"/save {path}\n", "already"))
        _, most = resource.prlimit(chat.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(chat.pid, resource.RLIMIT_FSIZE, (0, most))
        self.assertIn("(cannot write the file: File too large)", self.say(chat, f"/save {path}.2\n", "too large"))
        resource.prlimit(chat.pid, resource.RLIMIT_FSIZE, (most, most))
        with open(path, encoding="utf-8") as file:
            saved = json.load(file)
        self.assertEqual([message["role"] for message in saved], ["system", "user", "assistant"])
        self.assertEqual([message["content"] for message in saved[:2]], ["Be a sailor.", "Hello."])
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        self.assertGreater(chat.ask("Hello.")[1], first[1])
        chat.kill()
        kept = self.chat("--session", "sea", "--max-tokens", "4", model=ARGS.tiny)
        kept.send("Hello.\n")
        kept.wait_for(r"cut off: [^\n]*\n>>> ")
        self.assertIn("needs a chat without --session", self.say(kept, "/retry\n", "session"))
        self.assertIn("\nsea\n", self.say(kept, "/sessions\n", "to continue one"))
        kept.kill()
        again = self.chat("--session", "sea", "--system", "Be a sailor.", "--max-tokens", "4", model=ARGS.tiny)
        again.send("And now?\n")
        again.wait_for(r"cut off: [^\n]*\n>>> ")
        path = os.path.join(self.state, "rest.json")
        self.assertIn("(2 messages saved, without the restored turns)",
                      self.say(again, f"/save {path}\n", "saved"))
        again.kill()

    def test_words_are_not_cut_at_the_edge(self):
        flags = ("--max-tokens", "40", "--stats")
        question = "Write one sentence about the sea."
        wide = self.chat(*flags).ask(question)[0]
        narrow = self.chat(*flags, columns=40).ask(question)[0].split("\n(cut")[0]
        self.assertEqual(narrow.split(), wide.split("\n(cut")[0].split())
        self.assertGreater(len(narrow.splitlines()), 2)
        self.assertLessEqual(max(map(len, narrow.splitlines())), 40)
        whole = self.chat(*flags, "--word-wrap", "off", columns=40).ask(question)[0]
        self.assertEqual(whole, wide)

    def test_a_line_follows_the_terminals_size(self):
        chat = self.chat(model=ARGS.tiny, columns=80)
        chat.send("/stats is not all that stands here")
        chat.wait_for("stands here")
        fcntl.ioctl(chat.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 20, 0, 0))
        chat.wait_for(r">>> /stats is not al\W+l that")
        # Where the line has two rows in both widths, it is shown anew from its first.
        fcntl.ioctl(chat.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 25, 0, 0))
        shown = b""
        while not re.search(rb"\x1b\[1A\r\x1b\[J.*stands", shown, re.DOTALL):
            shown += os.read(chat.terminal, 65536)
        chat.send("\x15\x04")
        self.assertEqual(chat.end(), 0)

    def test_a_signal_leaves_the_terminal_as_it_was(self):
        for ends in (signal.SIGTERM, signal.SIGHUP):
            with self.subTest(ends=ends):
                chat = self.chat(model=ARGS.tiny)
                chat.send("half a line")
                chat.wait_for("half a line")
                os.kill(chat.pid, ends)
                shown = b""
                while b"\x1b[?2004l" not in shown:
                    shown += os.read(chat.terminal, 65536)
                self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(chat.pid, 0)[1]), -ends)
                modes = termios.tcgetattr(chat.terminal)[3]
                self.assertEqual(modes & (termios.ICANON | termios.ECHO), termios.ICANON | termios.ECHO)
                os.close(chat.terminal)

    def test_a_stopped_terminal_does_not_keep_it_from_its_end(self):
        chat = self.chat(model=ARGS.tiny)
        fcntl.ioctl(chat.terminal, termios.TIOCPKT, struct.pack("i", 1))
        chat.send("\x13")  # Ctrl-S.
        while os.read(chat.terminal, 65536)[0] & termios.TIOCPKT_STOP == 0:
            pass
        chat.send("half a line")
        os.kill(chat.pid, signal.SIGTERM)
        shown = b""
        while b"\x1b[?2004l" not in shown:
            ready, _, _ = select.select([chat.terminal], [], [], PATIENCE)
            self.assertTrue(ready, "it waits for the terminal")
            shown += os.read(chat.terminal, 65536)[1:]  # Without the packet's kind.
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(chat.pid, 0)[1]), -signal.SIGTERM)
        self.assertTrue(termios.tcgetattr(chat.terminal)[3] & termios.ICANON)
        os.close(chat.terminal)

    def test_a_terminal_that_says_it_is_huge_costs_no_memory(self):
        def peak():
            with open(f"/proc/{chat.pid}/status", encoding="utf-8") as status:
                return int(re.search(r"VmPeak:\s+(\d+) kB", status.read()).group(1)) >> 10

        chat = self.chat(model=ARGS.tiny, columns=80)
        before = peak()
        huge = struct.pack("HHHH", 65535, 65535, 0, 0)
        fcntl.ioctl(chat.terminal, termios.TIOCSWINSZ, huge)
        chat.send("/stats\n")
        chat.wait_for("no answer yet.*>>> ")
        chat.send("/stats\n")
        chat.wait_for("no answer yet.*>>> ")
        self.assertLess(peak() - before, 256)
        chat.kill()
        chat = self.chat(model=ARGS.tiny, rows=65535, columns=65535)
        chat.send("/stats\n")
        chat.wait_for("no answer yet.*>>> ")
        self.assertLess(peak() - before, 256)

    def test_a_terminal_that_cannot_move_its_cursor_will_do(self):
        chat = self.chat(model=ARGS.tiny, TERM="dumb")
        self.say(chat, "/stats\n", "no answer yet")
        chat.send("\x04")
        self.assertEqual(chat.end(), 0)


class SessionTest(ChatCase):
    """--session: the same conversation, however often the program is ended in between."""
    QUESTIONS = ("My name is Ada, and I like the sea.", "Tell me about ships.", "What did I say?")
    FLAGS = ("--stats", "--max-tokens", "24")

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix=f"ropeway-session-{os.getpid()}-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def once(self, *words, state=None, model=None):
        return subprocess.run([ARGS.ropeway, "run", "--model", model or ARGS.model, "--temperature", "0",
                               "--max-tokens", "24", *words], capture_output=True, text=True,
                              check=False, timeout=PATIENCE, stdin=subprocess.DEVNULL,
                              env={**os.environ, "XDG_STATE_HOME": state or self.folder})

    def leave(self, chat):
        chat.send("\x04")
        self.assertEqual(chat.end(), 0)

    def test_restarts_change_no_word(self):
        plain = self.chat(*self.FLAGS)
        expected = [plain.ask(question) for question in self.QUESTIONS]
        self.leave(plain)
        whole = self.chat(*self.FLAGS, "--session", self.path("whole"))
        self.assertNotIn("restored", whole.greeting)
        self.assertEqual([whole.ask(question) for question in self.QUESTIONS], expected)
        self.leave(whole)

        answers = []
        for turn, question in enumerate(self.QUESTIONS):
            chat = self.chat(*self.FLAGS, "--session", self.path("parts"))
            restored = re.search(r"\(session .*: (\d+) tokens of (\d+) turns? restored\)", chat.greeting)
            if turn == 0:
                self.assertIsNone(restored)
            else:
                self.assertEqual(int(restored.group(1)), sum(answers[-1][1:]))
                self.assertEqual(int(restored.group(2)), turn)
            answers.append(chat.ask(question))
            if turn == 0:
                self.leave(chat)
            else:
                chat.kill()  # After the turn's end all of it is on the disk.
        self.assertEqual(answers, expected)

    def test_clear_and_an_answer_that_was_stopped_are_forgotten(self):
        chat = self.chat(*self.FLAGS, "--session", self.path("a.session"), "--ignore-eos")
        first = chat.ask(self.QUESTIONS[0])
        self.leave(chat)
        chat = self.chat("--stats", "--session", self.path("a.session"), "--ignore-eos")
        chat.send("Count to one thousand.\n")
        chat.wait_for(r"\n[^\n]*[a-zA-Z0-9]")
        chat.send("\x03")
        chat.wait_for(r"\(stopped; this turn is not kept\)\n.*>>> ")
        self.leave(chat)
        chat = self.chat(*self.FLAGS, "--session", self.path("a.session"), "--ignore-eos")
        self.assertIn(f"{first[1] + first[2]} tokens of 1 turn restored", chat.greeting)
        chat.send("/clear\n")
        chat.wait_for(r"a new chat.*>>> ")
        self.assertEqual(chat.ask(self.QUESTIONS[0]), first)
        chat.send("/clear\n")
        chat.wait_for(r"a new chat.*>>> ")
        self.leave(chat)
        chat = self.chat(*self.FLAGS, "--session", self.path("a.session"))
        self.assertNotIn("restored", chat.greeting)
        self.leave(chat)

    def test_single_prompts_are_turns_of_a_named_session(self):
        chat = self.chat(*self.FLAGS, "--system", "You are a sailor.")
        expected = [chat.ask(question)[0].split("\n(cut off:")[0].strip() for question in self.QUESTIONS[:2]]
        self.leave(chat)
        first = self.once("--session", "sea", "--system", "You are a sailor.", self.QUESTIONS[0])
        self.assertEqual((first.returncode, first.stdout.strip()), (0, expected[0]), first.stderr)
        self.assertTrue(os.path.isdir(self.path("ropeway/sea")))
        self.assertEqual(os.stat(self.path("ropeway/sea/sessions")).st_mode & 0o777, 0o700)
        second = self.once("--session", "sea", self.QUESTIONS[1])
        self.assertEqual(second.stdout.strip(), expected[1], second.stderr)
        self.assertIn("of 1 turn restored", second.stderr)
        other = self.once("--session", "sea", self.QUESTIONS[1], state=self.path("elsewhere"))
        self.assertNotIn("restored", other.stderr)

    def test_bad_sessions_are_one_sentence(self):
        with open(self.path("file"), "w", encoding="utf-8") as file:
            file.write("no directory")
        for words, expected in ((["--session", self.path("file"), "x"], "is a file"),
                                (["--session", "two words", "x"], "without spaces"),
                                (["--session", "..x", "x"], "dot"),
                                (["--session", "s", "--prompts", self.path("file")], "--prompts"),
                                (["--session", self.path("file") + "/below", "x"], "below")):
            reply = self.once(*words, model=ARGS.tiny)
            self.assertEqual(reply.returncode, 1, words)
            self.assertEqual(reply.stderr.count("\n"), 1, reply.stderr)
            self.assertIn(expected, reply.stderr)

    def test_two_programs_cannot_hold_one_session(self):
        chat = self.chat("--session", self.path("held"), model=ARGS.tiny)
        reply = self.once("--session", self.path("held"), "x", model=ARGS.tiny)
        self.assertEqual(reply.returncode, 1)
        self.assertIn("another process", reply.stderr)
        self.leave(chat)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ropeway", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--tiny", required=True)
    parser.parse_known_args(namespace=ARGS)
    unittest.main(argv=[sys.argv[0], "-v"])
