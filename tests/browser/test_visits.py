"""The browser reports what the tests of the page rely on."""

from __future__ import annotations

from pathlib import Path

import pytest

import visits


def test_errors_and_requests_of_a_page_are_recorded(visit, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(
        "<!DOCTYPE html><html lang=en><title>t</title><img src=missing.png alt=''>"
        "<script>console.error('said'); throw new Error('thrown')</script>"
    )
    seen = visit()
    seen.open(page)
    assert [url.rpartition("/")[2] for url in seen.requests] == ["page.html", "missing.png"]
    assert any("said" in error for error in seen.errors)
    assert any("thrown" in error for error in seen.errors)


def test_without_scripts_none_runs(visit, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<title>as written</title><script>document.title='run'</script>")
    assert visit(scripts=False).open(page).title() == "as written"
    assert visit().open(page).title() == "run"


def test_axe_finds_an_image_without_a_text(visit, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(
        "<!DOCTYPE html><html lang=en><meta http-equiv=Content-Security-Policy content=\"default-src 'none'\">"
        "<title>t</title><main><h1>h</h1><img src=x.png></main></html>"
    )
    seen = visit()
    seen.open(page)
    assert [rule.partition(":")[0] for rule in seen.serious_violations()] == ["image-alt"]


def test_a_missing_browser_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visits, "CHROMIUM", "/usr/bin/no-such-browser")
    assert "apt-get install chromium-headless-shell" in visits.missing_tools()
