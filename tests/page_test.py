#!/usr/bin/env python3
"""The dashboard and the chat in headless Chromium, before a real `ropeway serve` and `ropeway gateway`. It installs Chromium
(scripts/setup.sh page), and Selenium and axe in a venv of its own.

usage: page_test.py --ropeway PROGRAM --model FILE.gguf [--update]     (./test --suite page)

--update writes the screenshots of docs/pictures/ anew.
"""
import argparse
import http.client
import http.server
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "pictures"
PACKAGES = ("selenium==4.51.0",)
AXE = ("axe-playwright-python==0.1.8",)  # For its axe.min.js.
TESTS = ("DashboardTest", "GatewayTest", "ChatTest", "TextTest", "LookTest", "TopTest")
PROGRAM = os.environ.get("ROPEWAY_TEST_PROGRAM", "")  # Set where a test runs in its venv.
MODEL = os.environ.get("ROPEWAY_TEST_MODEL", "")
UPDATE = os.environ.get("ROPEWAY_TEST_UPDATE", "") == "1"

if PROGRAM:
    import backend_double
    import page_server
    import record_events
    from browser import NARROW, TALL, WIDE, Browser
    from gateway_server import Gateway, backend
    from ropeway_server import RopewayServer, eventually

    class Replica(RopewayServer):
        """It takes requests of a gateway, and goes on with those of another."""
        key = "key-of-the-gateway-0123"


# What would tell if it were taken for HTML.
ATTACK = '<img src=x onerror="window.taken=1"><script>window.taken=1</script>'
STATE, BACKEND, PREEMPTED = 3, 4, 7  # Columns of #batch-table.
ROWS = "#batch-table tbody tr"


def request(server, key="", **fields):
    """Sends it and lets it run."""
    body = {"prompt": "The cable car leaves the valley and", "max_tokens": 400, "ignore_eos": True, **fields}

    def send():
        try:
            server.request("POST", "/v1/completions", body, key)
        except (OSError, http.client.HTTPException):
            pass  # The test is over, and so is the server.

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    return thread


class PageCase(unittest.TestCase):
    """A browser, and after each test: nothing was asked of another origin, and the console is silent."""

    allowed = ()  # Words of messages of the console that a test provokes.

    @classmethod
    def setUpClass(cls):
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.quit)

    def serve(self, *flags, model=None):
        return self.started(RopewayServer(PROGRAM, model or MODEL, *flags))

    def started(self, server):
        self.addCleanup(server.process.wait)
        self.addCleanup(server.process.kill)
        return server

    def open(self, server, path="/"):
        """Opens a page of the server. What the browser does from here on is held against the rules at the end."""
        browser = self.browser
        browser.open("about:blank")
        browser.read_logs()
        browser.asked.clear()
        browser.console.clear()
        self.origin = f"http://127.0.0.1:{server.port}"
        browser.open(self.origin + path)
        return browser

    def check_rules(self):
        self.assertEqual(self.browser.foreign(self.origin), [])
        self.assertTrue(self.browser.asked)
        self.assertEqual([line for line in self.browser.console if not any(word in line for word in self.allowed)], [])
        self.assertFalse(self.browser.run("return 'taken' in window"))

    def load(self, server, until, tenants=("",), clients=12):
        """The load of the recorded minute, until the test ends."""
        for number in range(clients):
            record_events.Tenant(server.port, tenants[number % len(tenants)], number, time.monotonic() + until).start()

    def live(self):
        """Waits until events come."""
        self.browser.until(lambda: self.browser.run("return document.querySelector('#status').dataset.state") == "live", "it is live")


class DashboardTest(PageCase):
    def test_it_shows_what_runs(self):
        server = self.serve("--max-num-seqs", "2")
        browser = self.open(server)
        self.live()
        browser.until(lambda: browser.visible("#idle"), "it says that nothing runs")
        name = json.loads(server.get("/v1/models")[1])["data"][0]["id"]
        self.assertIn(name, browser.text("#server"))
        threads = [request(server, priority=one) for one in ("high", "low", "medium")]

        def two_run_and_one_waits():
            rows = browser.rows(ROWS)
            states = [re.match(r"\w+", row[STATE])[0] for row in rows]
            # Where "high" came last, it took a place.
            waits = states.count("waiting") + states.count("preempted") == 1
            return rows if waits and states.count("decode") == 2 else None

        rows = browser.until(two_run_and_one_waits, "two run and one waits")
        self.assertEqual({row[1] for row in rows[:3]}, {"high", "medium", "low"})
        self.assertFalse(browser.visible("#idle"))
        browser.until(lambda: "tokens" in browser.text("#rates"), "rates have units")
        for thread in threads:
            thread.join()
        browser.until(lambda: any("finished" in row[STATE] or "ended" in row[STATE] for row in browser.rows(ROWS)), "it shows ends")
        self.check_rules()

    def test_it_shows_a_preemption_and_why_a_request_waits(self):
        server = self.serve(*record_events.FLAGS)
        browser = self.open(server)
        self.load(server, 40)
        browser.until(lambda: any(row[PREEMPTED].isdigit() and int(row[PREEMPTED]) > 0 for row in browser.rows(ROWS)),
                      "a request was preempted")
        browser.until(lambda: any("preempted" in row[STATE] for row in browser.rows(ROWS)), "one is preempted now")

        def opened():
            browser.run("""const rows = [...document.querySelectorAll('#ropeway-rows button')];
                           const one = rows.find((row) => /waiting|preempted/.test(row.textContent + row.ariaLabel));
                           if (one) one.click();""")
            return browser.visible("#request-panel") and browser.text("#why")

        self.assertRegex(browser.until(opened, "the panel says why"), r"\w+ .*\.$")
        browser.click("#panel-close")
        self.assertFalse(browser.visible("#request-panel"))
        self.check_rules()

    def test_the_key_is_asked_for_and_is_in_no_url(self):
        self.allowed = ("401",)  # The browser's own words for the answer.
        server, folder = record_events.start(PROGRAM, MODEL)
        self.addCleanup(folder.cleanup)
        browser = self.open(self.started(server))
        for key, good in (("not-the-key", False), (record_events.ADMIN_KEY, True)):
            browser.until(lambda: browser.visible("#key-form"), "it asks for the key")
            before = browser.text("#key-message")
            browser.find("#key-input").clear()
            browser.find("#key-input").send_keys(key)
            browser.click("#key-form button[type=submit]")
            if not good:
                browser.until(lambda: browser.text("#key-message") != before, "it says that the key is wrong")
        self.live()
        self.assertFalse(browser.visible("#key-form"))
        browser.driver.refresh()
        self.live()  # The tab remembers it.
        self.assertEqual(browser.run("return localStorage.length"), 0)
        self.check_rules()
        self.assertFalse([url for url in browser.asked if record_events.ADMIN_KEY in url])
        browser.click("#key-forget")
        browser.until(lambda: browser.visible("#key-form"), "it forgot the key")

    def test_it_comes_back_after_the_server_was_away(self):
        self.allowed = ("ERR_CONNECTION", "ERR_INCOMPLETE", "ERR_EMPTY")
        server = self.serve()
        browser = self.open(server)
        self.live()
        server.process.kill()
        server.process.wait()
        browser.until(lambda: browser.run("return document.querySelector('#status').dataset.state") == "lost", "it says so")
        again = self.started(RopewayServer(PROGRAM, MODEL, port=server.port))
        self.live()
        self.assertEqual(again.port, server.port)
        self.check_rules()


class GatewayTest(PageCase):
    def test_a_stream_changes_its_backend(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        keys = pathlib.Path(folder.name) / "keys.toml"
        keys.touch(mode=0o600)
        keys.write_text(f'[[keys]]\nname = "gateway"\nkey = "{Replica.key}"\ngateway = true\n', encoding="utf-8")
        flags = ("--max-num-seqs", "4", "--kv-cache-size", "96MiB", "--api-keys", keys)
        replicas = [self.started(Replica(PROGRAM, MODEL, *flags)) for _ in range(2)]
        gateway = self.started(Gateway(PROGRAM, *(word for number, one in enumerate(replicas) for word in backend(
            f"http://127.0.0.1:{one.port}", kind="ropeway", model="ours", upstream="default", name=f"replica-{number}",
            key_env="REPLICA_KEY")), environment={"REPLICA_KEY": Replica.key}))
        browser = self.open(gateway)
        self.live()
        browser.until(lambda: "replica-0" in browser.text("#backends") and "replica-1" in browser.text("#backends"), "both are shown")
        thread = request(gateway, model="ours", stream=True, max_tokens=1500)
        row = browser.until(lambda: next((row for row in browser.rows(ROWS) if row[BACKEND].startswith("replica")), None), "it runs")
        eventually(lambda: any(one.metric("ropeway_num_requests_running") for one in replicas), "it is computed")
        first = row[BACKEND].split()[0]
        replicas[int(first[-1])].process.kill()
        other = f"replica-{1 - int(first[-1])}"
        browser.until(lambda: any(again[0] == row[0] and again[BACKEND].startswith(other) for again in browser.rows(ROWS)),
                      "the same request is at the other")
        browser.until(lambda: re.search("ejected|not answering|not reached|cannot|refused", browser.text("#backends")),
                      "the dead one is shown")
        self.check_rules()
        self.assertTrue(thread.is_alive(), "the test saw nothing of a running stream")


class ChatTest(PageCase):
    def setUp(self):
        self.server = self.serve("--max-num-seqs", "4")
        browser = self.open(self.server, "/chat")
        browser.until(lambda: self.browser.run("return document.querySelector('#model')?.value"), "the model is known")

    def send(self, text):
        self.browser.find("#input").send_keys(text)
        self.browser.click("#send")

    def answers(self):
        return self.browser.all_text("#pane-a .answer .text")

    def test_an_answer_streams(self):
        browser = self.browser
        self.send("Tell me a long story about a cable car.")
        first = browser.until(lambda: self.answers() and self.answers()[-1], "the first words")
        browser.until(lambda: len(self.answers()[-1]) > len(first), "more words")
        browser.until(lambda: not browser.visible("#stop"), "the end", 300)
        facts = browser.all_text("#pane-a .answer .facts")[-1]
        self.assertRegex(facts, r"tokens/s|tok/s")
        self.assertRegex(facts, r"\d")
        self.assertTrue(browser.text("#pane-a .turn .user").startswith("Tell me a long story about a cable car."))
        browser.driver.refresh()
        browser.until(lambda: self.answers() and len(self.answers()[-1]) > len(first), "the browser has kept it")
        self.check_rules()

    def test_stop_stops_the_server(self):
        browser = self.browser
        self.send("Count to one thousand, one number per line.")
        browser.until(lambda: self.answers() and self.answers()[-1], "the first words")
        eventually(lambda: self.server.metric("ropeway_num_requests_running") == 1, "it runs")
        browser.click("#stop")
        eventually(lambda: self.server.metric("ropeway_num_requests_running") == 0, "the server stops")
        browser.until(lambda: not browser.visible("#stop") and browser.visible("#send"), "it can be asked again")
        text = self.answers()[-1]
        self.assertTrue(text)
        browser.until(lambda: self.answers()[-1] == text, "nothing more comes")
        self.check_rules()

    def test_two_panes_with_the_same_settings_agree(self):
        browser = self.browser
        browser.click("#compare")
        browser.click("#preset-same")
        self.send("Why is the sky blue? One sentence.")
        browser.until(lambda: browser.text("#same"), "it says whether they are equal", 300)
        self.assertEqual(self.answers(), browser.all_text("#pane-b .answer .text"))
        self.assertTrue(self.answers()[0])
        self.check_rules()


class TextTest(PageCase):
    """What others wrote stays text."""

    def check_text(self, selector, wanted):
        browser = self.browser
        browser.until(lambda: wanted in browser.text(selector), f"{wanted} is shown")
        self.assertEqual(browser.run("return document.querySelectorAll(arguments[0] + ' img, ' + arguments[0] + ' script,' "
                                     "+ arguments[0] + ' iframe').length", selector), 0)

    def test_a_models_output(self):
        lines = [ATTACK, "\n\n[a link](javascript:window.taken=1) ", "[b](data:text/html,<script>window.taken=1</script>)",
                 "\n\n![image](http://elsewhere.example/x.png)\n\n", "```html\n" + ATTACK + "\n```\n"]

        def behave(exchange):
            stream = backend_double.OpenAi(exchange)
            for line in lines:
                stream.piece(line)
            stream.finish("stop")

        double = backend_double.Double(behave)
        self.addCleanup(double.close)
        gateway = self.started(Gateway(PROGRAM, *backend(double)))
        browser = self.open(gateway, "/chat")
        browser.until(lambda: browser.run("return document.querySelector('#model')?.value"), "the model is known")
        browser.find("#input").send_keys(ATTACK)
        browser.click("#send")
        self.check_text("#pane-a .answer .text", ATTACK)
        self.check_text("#pane-a .turn .user", ATTACK)
        browser.until(lambda: not browser.visible("#stop"), "the end")
        hrefs = browser.run("return [...document.querySelectorAll('#messages a')].map((a) => a.getAttribute('href'))")
        self.assertFalse([href for href in hrefs if not href.startswith(("http://", "https://"))], hrefs)
        self.check_rules()

    def test_names_of_models(self):
        server = self.serve("--served-model-name", ATTACK[:36])
        browser = self.open(server)
        self.live()
        self.assertIn(ATTACK[:36], browser.text("body"))
        self.assertEqual(browser.run("return document.querySelectorAll('img').length"), 0)
        self.check_rules()
        browser.open(self.origin + "/chat")
        browser.until(lambda: browser.run("return document.querySelector('#model')?.value") == ATTACK[:36], "the model is known")
        self.assertEqual(browser.run("return document.querySelectorAll('img').length"), 0)
        self.check_rules()

    def test_a_server_that_lies_in_every_text(self):
        """Tenants of a real one have plain names only."""
        class Handler(page_server.Handler):
            def changed(self, frame):
                for one in frame["requests"] + frame["ended"]:
                    one.update(tenant=ATTACK, backend=ATTACK)
                for tenant in frame["queue"]["tenants"]:
                    tenant["name"] = ATTACK
                frame["queue"]["blocked_by"] = ATTACK
                frame["backends"] = [{"model": ATTACK, "name": ATTACK, "state": ATTACK, "reason": ATTACK, "in_flight": 1,
                                      "outstanding_tokens": 1, "concurrency": {"limit": 1, "learned": True},
                                      "latency_ms": {"p50": 1, "p99": None}, "sent": 1, "completed": 1, "retries": 0,
                                      "resumptions": 0, "failures": {"unreachable": 0, "busy": 0, "broken": 0, "rejected": 0,
                                                                     "timeouts": 0, "ejections": 0}}]
                return frame

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads, server.port = True, server.server_port
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        browser = self.open(server)
        self.live()
        self.check_text("#batch-table", ATTACK)
        self.check_text("#queues", ATTACK)
        browser.click("#ropeway-rows button")
        self.check_text("#request-panel", ATTACK)
        self.assertEqual(browser.run("return document.querySelectorAll('img').length"), 0)
        self.check_rules()


class LookTest(PageCase):
    """What axe finds, 360 px, and the pictures of the documents."""

    def check_look(self, name):
        browser = self.browser
        for scheme in ("light", "dark"):
            for size in (NARROW, WIDE):
                browser.show(scheme, size)
                time.sleep(1)  # It is drawn anew.
                with self.subTest(page=name, scheme=scheme, width=size[0]):
                    self.assertEqual(browser.faults(), [])
                    self.assertFalse(browser.wider_than_screen())
            if UPDATE:
                browser.show(scheme, TALL if name == "dashboard" else WIDE)
                time.sleep(1)
                IMAGES.mkdir(exist_ok=True)
                browser.picture(IMAGES / f"{name}-{scheme}.png")
                self.assertLess((IMAGES / f"{name}-{scheme}.png").stat().st_size, 200_000)
        browser.show()
        # Each control is named, and can be reached by the keyboard.
        unnamed = browser.run("""return [...document.querySelectorAll('button, a[href], input, select, textarea, summary')]
            .filter((e) => e.checkVisibility() && e.tabIndex < 0).map((e) => e.outerHTML.slice(0, 100))""")
        self.assertEqual(unnamed, [])

    def test_the_dashboard(self):
        server, folder = record_events.start(PROGRAM, MODEL)
        self.addCleanup(folder.cleanup)
        self.load(self.started(server), 60, tenants=list(record_events.KEYS.values()))
        self.allowed = ("401",)
        browser = self.open(server)
        browser.until(lambda: browser.visible("#key-form"), "it asks for the key")
        browser.find("#key-input").send_keys(record_events.ADMIN_KEY)
        browser.click("#key-form button[type=submit]")
        self.live()
        browser.until(lambda: any("preempted" in row[STATE] for row in browser.rows(ROWS)), "it is busy")
        time.sleep(10 if UPDATE else 2)  # So that the ropeway has columns.
        self.check_look("dashboard")
        browser.click("#ropeway-rows button")
        browser.until(lambda: browser.visible("#request-panel"), "the panel")
        self.assertEqual(browser.faults(), [])
        self.check_rules()

    def test_the_chat(self):
        server = self.serve("--max-num-seqs", "4")
        browser = self.open(server, "/chat")
        browser.until(lambda: browser.run("return document.querySelector('#model')?.value"), "the model is known")
        browser.run("document.querySelector('#settings-a').open = true")
        browser.find("#temperature").send_keys("0")
        browser.find("#input").send_keys("Write a Python function that adds two numbers.")
        browser.click("#send")
        browser.until(lambda: browser.all_text("#pane-a .answer .facts"), "the answer", 300)
        browser.until(lambda: not browser.visible("#stop"), "the end", 300)
        self.check_look("chat")
        browser.click("#compare")
        self.assertEqual(browser.faults(), [])
        self.check_rules()


class TopTest(PageCase):
    """`ropeway top` in tmux, as on a server."""

    @classmethod
    def setUpClass(cls):
        """It needs no browser."""

    TMUX = ("tmux", "-L", f"ropeway-test-{os.getpid()}", "-f", "/dev/null")

    def tmux(self, *words):
        return subprocess.run([*self.TMUX, *words], capture_output=True, text=True, check=False, timeout=30).stdout

    def screen(self):
        return self.tmux("capture-pane", "-p", "-t", "top")

    def test_it_draws_obeys_keys_and_gives_the_terminal_back(self):
        server = self.serve("--max-num-seqs", "4")
        self.addCleanup(self.tmux, "kill-server")
        self.tmux("new-session", "-d", "-s", "top", "-x", "100", "-y", "30", "sh")
        self.tmux("send-keys", "-t", "top", f"PS1='ready> '; {PROGRAM} top --url http://127.0.0.1:{server.port}", "Enter")
        eventually(lambda: "Slots" in self.screen(), "it draws")
        request(server)
        eventually(lambda: re.search(r"1/4 running", self.screen()), "it shows the request")
        self.tmux("send-keys", "-t", "top", "h")
        eventually(lambda: re.search(r"^ *hour ", self.screen(), re.M), "it shows the hour")
        self.tmux("resize-window", "-t", "top", "-x", "60", "-y", "20")
        eventually(lambda: "Slots" in self.screen() and max(map(len, self.screen().splitlines())) <= 60, "it fits")
        self.tmux("send-keys", "-t", "top", "q")
        eventually(lambda: self.screen().rstrip().endswith("ready>") and "Slots" not in self.screen(), "the shell is back")


def main():
    from client_venvs import run_in_venvs

    parser = argparse.ArgumentParser()
    parser.add_argument("--ropeway", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--update", action="store_true")
    args = parser.parse_args()
    subprocess.run([ROOT / "scripts" / "setup.sh", "page"], check=True)
    with tempfile.TemporaryDirectory() as home:  # Chromium keeps things there.
        passed = run_in_venvs(__file__, dict.fromkeys(TESTS, PACKAGES), {
            "ROPEWAY_TEST_PROGRAM": str(pathlib.Path(args.ropeway).resolve()), "ROPEWAY_TEST_MODEL": args.model,
            "ROPEWAY_TEST_UPDATE": "1" if args.update else "0", "HOME": home}, alone=AXE)
    return 0 if passed else 1


if __name__ == "__main__":
    if PROGRAM:
        unittest.main()
    sys.exit(main())
