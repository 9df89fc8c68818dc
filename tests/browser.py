"""Headless Chromium by WebDriver, as the page's tests drive it. Needs Selenium, Chromium and the wheel of axe (page_test.py)."""
import json
import pathlib
import time
import urllib.parse

import axe_playwright_python
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

AXE = pathlib.Path(axe_playwright_python.__file__).parent / "axe.min.js"
WIDE, TALL, NARROW = (1280, 900), (1280, 1240), (360, 740)
PATIENCE = 60


class Browser:
    def __init__(self):
        options = Options()
        options.binary_location = "/usr/bin/chromium"
        for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars", "--disable-gpu"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
        self.driver.set_page_load_timeout(PATIENCE)
        self.asked = []    # URLs.
        self.console = []  # Warnings and errors.
        self.show()

    def quit(self):
        self.driver.quit()

    def open(self, url):
        self.driver.get(url)

    def show(self, scheme="light", size=WIDE):
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": scheme}]})
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False})

    def run(self, script, *args):
        return self.driver.execute_script(script, *args)

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def click(self, selector):
        self.run("document.querySelector(arguments[0]).click()", selector)

    def text(self, selector):
        """What it says, shown or not; "" where there is none."""
        return self.run("const e = document.querySelector(arguments[0]); return e ? e.textContent.trim() : ''", selector)

    def all_text(self, selector):
        """The texts of all of them, in order."""
        return self.run("return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent.trim())", selector)

    def visible(self, selector):
        return self.run("const e = document.querySelector(arguments[0]); return !!e && e.checkVisibility()", selector)

    def rows(self, selector):
        """The cells of a table's rows."""
        return self.run("return [...document.querySelectorAll(arguments[0])].map("
                        "(row) => [...row.cells].map((cell) => cell.textContent.trim()))", selector)

    def until(self, holds, what, patience=PATIENCE):
        deadline = time.monotonic() + patience
        while True:
            found = holds()
            if found:
                return found
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {patience} s: {what}; console: {self.read_logs()}; the page: {self.text('main')[:2000]}")
            time.sleep(0.05)

    def read_logs(self):
        """Adds to `asked` and `console`."""
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                self.asked.append(message["params"]["request"]["url"])
            if message["method"] == "Network.webSocketCreated":
                self.asked.append(message["params"]["url"])
        self.console += [f"{entry['level']}: {entry['message']}" for entry in self.driver.get_log("browser")
                         if entry["level"] in ("WARNING", "SEVERE")]
        return self.console

    def foreign(self, origin):
        """What was asked of others than `origin`."""
        self.read_logs()
        return [url for url in self.asked if urllib.parse.urlsplit(url).scheme not in ("data", "blob", "about")
                and not url.startswith(origin + "/")]

    def faults(self):
        """What axe finds that is serious or critical, a line each."""
        self.run(AXE.read_text(encoding="utf-8"))
        found = self.driver.execute_async_script(
            "const done = arguments[0]; axe.run(document, {resultTypes: ['violations']})"
            ".then((all) => done(all.violations), (error) => done([{impact: 'critical', id: String(error), nodes: []}]))")
        return [f"{one['id']} ({one['impact']}): {node['html'][:150]} {node['failureSummary'][:300]}"
                for one in found if one["impact"] in ("serious", "critical") for node in one["nodes"] or
                [{"html": "", "failureSummary": ""}]]

    def wider_than_screen(self):
        return self.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth") > 0

    def picture(self, path):
        self.driver.save_screenshot(str(path))
