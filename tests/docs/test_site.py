"""The site: built without a warning, nothing loaded from elsewhere, no dead link, and it fits a desk and a phone."""

import os
import re
import subprocess
import sys
import threading
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urldefrag, urljoin

import pytest
from blocks import ROOT

pytest.importorskip("mkdocs")
pytest.importorskip("mkdocstrings")
pytestmark = pytest.mark.slow

MOST_SECONDS = 120


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--config-file", ROOT / "mkdocs.yml", "--site-dir", folder]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=MOST_SECONDS, check=False)
    assert done.returncode == 0 and "WARNING" not in done.stderr, done.stderr
    return folder


class Page(HTMLParser):
    """What a page loads, where its links lead, and the places that can be linked to."""

    def __init__(self, file):
        super().__init__()
        self.loaded, self.links, self.places = [], [], set()
        self.feed(file.read_text())

    def handle_starttag(self, tag, attrs):
        has = dict(attrs)
        self.places |= {has[name] for name in ("id", "name") if has.get(name)}
        loads = tag == "link" and has.get("rel") not in ("canonical", "next", "prev")
        self.loaded += [has[name] for name in ("src", "srcset", "data", "poster") if has.get(name)]
        self.loaded += [has["href"]] if loads else []
        self.links += [has["href"]] if tag == "a" and "href" in has else []


def pages(site):
    return {str(file.relative_to(site)): Page(file) for file in sorted(site.rglob("*.html"))}


def test_nothing_is_loaded_from_elsewhere(site):
    for name, page in pages(site).items():
        assert page.loaded and not [at for at in page.loaded if re.match(r"(https?:)?//", at)], name
    for file in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import)\s*['\"]?(https?:)?//", file.read_text()), file


def test_every_link_leads_to_a_page_and_a_place(site):
    actual = pages(site)
    dead = []
    for name, page in actual.items():
        for link in page.links if name != "404.html" else []:
            target, place = urldefrag(urljoin(name, link))
            if re.match(r"https?:", link) or not link or link == ".":
                continue
            target = unquote(target) or name
            there = actual.get(target)
            if not (site / target).exists() or (place and there and unquote(place) not in there.places | {"__top"}):
                dead.append((name, link))
    assert not dead


def test_every_page_is_there_as_markdown_and_in_llms_txt(site):
    listed = set(re.findall(r"\]\(([^)]+)\)", (site / "llms.txt").read_text()))
    made = {str(file.relative_to(site).with_suffix(".md")) for file in site.rglob("*.html")} - {"404.md"}
    assert listed == made
    for name in made:
        text = (site / name).read_text()
        assert text.startswith(("# ", "---\n# ")) and ":::" not in text, name
    detectors = (site / "reference" / "index.md").read_text()
    assert "isobag.IDKGroupDetector" in detectors and "n_estimators : int" in detectors


def test_a_public_name_without_a_page_fails_the_build(monkeypatch):
    from mkdocs.exceptions import Abort

    from website import hooks

    names = hooks.public_names()
    assert {"isobag.IDKPointDetector", "isobag.datasets.load"} <= set(names)
    monkeypatch.setattr(hooks, "_anchors", set(names) - {"isobag.compare"})
    with pytest.raises(Abort, match=r"isobag\.compare\."):
        hooks.on_post_build(config=None)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def address(site):
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.mark.browser
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_every_page_fits_its_window_and_says_and_asks_nothing_odd(browser, site, address, width, scheme):
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    complaints, requests = [], set()
    page.on("console", lambda message: complaints.append((page.url, message.text)))
    page.on("pageerror", lambda error: complaints.append((page.url, str(error))))
    # The next page breaks off what the one before still asks for; anything else is a failure.
    broken_off = "net::ERR_ABORTED"
    page.on("requestfailed", lambda asked: asked.failure == broken_off or complaints.append((asked.url, asked.failure)))
    page.on("response", lambda response: response.status < 400 or complaints.append((response.url, response.status)))
    page.on("request", lambda request: requests.add(request.url))
    for name in pages(site):
        if name != "404.html":
            page.goto(address + name, wait_until="load")
            assert page.evaluate("document.documentElement.scrollWidth") <= width, name
            unseen = page.evaluate(
                "[...document.images].filter(one => one.checkVisibility() && !one.naturalWidth).length"
            )
            assert unseen == 0, name
    page.close()
    assert complaints == []
    assert all(url.startswith(address) for url in requests)


@pytest.mark.browser
def test_the_search_finds_a_word(browser, address):
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(address + "index.html")
    page.locator("input.md-search__input").click()
    page.locator("input.md-search__input").press_sequentially("voronoi", delay=50)
    page.wait_for_selector(".md-search-result__item a")
    assert page.locator(".md-search-result__item").count() >= 1
    page.close()
