"""What each scope allows on the page, and what the page may load."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from livesvm.service.access.keys import SCOPES, new_key
from tests.browser.conftest import Open, Picture, Serve, learnt
from tests.service.process import ServiceProcess

pytestmark = pytest.mark.browser


def test_a_key_is_asked_for_kept_for_the_tab_and_its_scope_obeyed(
    serve: Serve, open_page: Open, picture: Picture
) -> None:
    secrets = {scope: new_key(scope, scope) for scope in SCOPES}
    service = serve(api_keys=",".join(entry for _, entry in secrets.values()))
    with service.http() as http:
        http.headers["authorization"] = f"Bearer {secrets['admin'][0]}"
        learnt(http, "guarded")
    page = open_page(service.url)
    entry = page.get_by_label("API key")
    entry.fill("lsk_nothing")
    page.get_by_role("button", name="Enter").click()
    expect(page.get_by_text("That is no key of this service.")).to_be_visible()
    picture(page, "key")
    entry.fill(secrets["read"][0])
    page.wait_for_timeout(1000)
    entry.press("Enter")
    expect(page.get_by_role("row", name="guarded")).to_be_visible()
    assert page.evaluate("[sessionStorage.length, localStorage.length, document.cookie]") == [1, 0, ""]
    for address, absent in (
        ("/models/guarded", "Restore"),
        ("/models/guarded/path", "Walk the path"),
        ("/models/guarded/labels", "Find them"),
    ):
        page.goto(f"{service.url}/#{address}")
        expect(page.get_by_role("heading", name="guarded")).to_be_visible()
        expect(
            page.get_by_text("The current version is 1")
            if absent == "Restore"
            else page.get_by_text("This key can look")
        ).to_be_visible()
        assert page.get_by_role("button", name=absent).count() == 0
    expect(page.get_by_role("link", name="Data in")).to_have_count(0)
    page.get_by_role("button", name="Forget the key (read, read)").click()
    page.get_by_label("API key").fill(secrets["learn"][0])
    page.get_by_role("button", name="Enter").click()
    expect(page.get_by_role("button", name="Find them")).to_be_visible()
    expect(page.get_by_role("link", name="Data in")).to_have_count(0)
    page.reload()
    expect(page.get_by_role("button", name="Find them")).to_be_visible()
    page.get_by_role("button", name="Forget").click()
    page.get_by_label("API key").fill(secrets["admin"][0])
    page.get_by_role("button", name="Enter").click()
    expect(page.get_by_role("link", name="Data in")).to_be_visible()


def test_nothing_but_files_of_the_service_can_run(
    service: ServiceProcess, open_page: Open, expected: list[str]
) -> None:
    expected += ["Content Security Policy", "TrustedHTML", "TrustedScript", "asked https://example.org/", "asked data:"]
    page = open_page(service.url)
    expect(page.locator("#connection")).to_have_text("live")
    tried = page.evaluate("""async () => {
        const script = document.createElement("script");
        try { script.textContent = "window.ran = true"; } catch {}
        try { script.append("window.ran = true"); document.body.append(script); } catch {}
        const style = document.createElement("style");
        style.textContent = "body { display: none }";
        document.head.append(style);
        const markup = (() => { try { document.body.innerHTML = "<b>x</b>"; return true; } catch { return false; } })();
        const other = await fetch("https://example.org/").then(() => true, () => false);
        return [window.ran === true, getComputedStyle(document.body).display === "none", markup, other];
    }""")
    assert tried == [False, False, False, False]


def test_the_page_can_be_turned_off(serve: Serve) -> None:
    with serve(page="false").http() as http:
        assert [http.get(path).status_code for path in ("/", "/page/main.js")] == [404, 404]
        assert http.get("/models").status_code == 200
