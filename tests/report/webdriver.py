# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, controlled over the WebDriver protocol: only what the report's tests need."""

import base64
import json
import re
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

ARGUMENTS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars", "--force-color-profile=srgb"]
DRIVER = shutil.which("chromedriver")
BROWSER = shutil.which("chromium")


class Browser:
    def __init__(self):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.driver = subprocess.Popen([DRIVER, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.session = None
        try:
            self.port = self.find_port()
            answer = self.call("POST", "/session", {"capabilities": {"alwaysMatch": {
                "browserName": "chrome",
                "goog:chromeOptions": {"binary": BROWSER, "args": ARGUMENTS + ["--user-data-dir=" + self.profile.name]},
                "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}}})
            self.session = "/session/" + answer["sessionId"]
            self.call("POST", self.session + "/timeouts", {"script": 120000, "pageLoad": 120000})
            self.call("POST", self.session + "/url", {"url": "about:blank"})
            self.requests()  # those of the browser's own first page
        except BaseException:
            self.close()
            raise

    def find_port(self):
        for line in self.driver.stdout:
            found = re.search(r"successfully on port (\d+)", line)
            if found:
                return int(found.group(1))
        raise RuntimeError("chromedriver does not start")

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request("http://127.0.0.1:%d%s" % (self.port, path), data=data, method=method, headers={"Content-Type": "application/json"})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=180) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            value = json.load(error)["value"]
            raise RuntimeError("%s %s: %s" % (method, path, value.get("message", value))) from None

    def open(self, path):
        self.call("POST", self.session + "/url", {"url": "file://" + path})

    def run(self, script, *arguments):
        """The value that `script`, the body of an asynchronous function, returns."""
        wrapped = "const done = arguments[arguments.length - 1]; const args = [...arguments].slice(0, -1);" \
                  "(async () => { %s })().then((v) => done({value: v}), (e) => done({error: String(e && e.stack || e)}));" % script
        answer = self.call("POST", self.session + "/execute/async", {"script": wrapped, "args": list(arguments)})
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer.get("value")

    def command(self, name, **parameters):
        return self.call("POST", self.session + "/goog/cdp/execute", {"cmd": name, "params": parameters})

    def size(self, width, height, mobile=False):
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)
        self.command("Emulation.setTouchEmulationEnabled", enabled=mobile)

    def scheme(self, name):
        self.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def key(self, text):
        self.command("Input.dispatchKeyEvent", type="keyDown", key=text, text=text if len(text) == 1 else "")
        self.command("Input.dispatchKeyEvent", type="keyUp", key=text)

    def mouse(self, kind, x, y, **more):
        self.command("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def screenshot(self, path, whole=False):
        options = {}
        if whole:
            box = self.command("Page.getLayoutMetrics")["cssContentSize"]
            options = {"captureBeyondViewport": True, "clip": {"x": 0, "y": 0, "width": box["width"], "height": min(box["height"], 6000), "scale": 1}}
        data = self.command("Page.captureScreenshot", format="png", **options)["data"]
        with open(path, "wb") as f:
            f.write(base64.b64decode(data))

    def console_messages(self):
        """Errors and warnings of the console since the last call."""
        entries = self.call("POST", self.session + "/se/log", {"type": "browser"})
        # that canvases are read often is the test's own doing
        return [e["message"] for e in entries if e["level"] in ("SEVERE", "WARNING") and "willReadFrequently" not in e["message"]]

    def requests(self):
        """URLs that the pages requested since the last call."""
        urls = []
        for entry in self.call("POST", self.session + "/se/log", {"type": "performance"}):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                urls.append(message["params"]["request"]["url"])
        return urls

    def close(self):
        try:
            if self.session:
                self.call("DELETE", self.session)
        except (OSError, RuntimeError):
            pass
        self.driver.terminate()
        try:
            self.driver.wait(10)
        except subprocess.TimeoutExpired:
            self.driver.kill()
            self.driver.wait()
        time.sleep(0.1)
        self.profile.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
