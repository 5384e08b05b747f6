"""The pages of Spark's web UI, as a user would click through them."""

from __future__ import annotations

import html
import re
import urllib.error
import urllib.parse
import urllib.request

from testkit.driver.in_process_driver import InProcessDriver


def ui_pages(driver: InProcessDriver) -> dict[str, str]:
    """All pages of Spark's web UI that lead to one another, and those of its REST API."""
    session = driver.runtime.session
    if session is None:  # what failed was permanent
        return {}
    port = urllib.parse.urlsplit(session.sparkContext.uiWebUrl or "").port
    root = f"http://127.0.0.1:{port}"
    api = f"/api/v1/applications/{session.sparkContext.applicationId}"
    ahead = ["/", "/nowhere", "/jobs/", "/StreamingQuery/", "/SQL/", "/environment/", "/executors/"]
    ahead += [f"{api}/{each}" for each in ("jobs", "stages?details=true", "sql", "environment")]
    found: dict[str, str] = {}
    while ahead and len(found) < 60:
        path = ahead.pop()
        if path in found or "/static/" in path or "/logPage" in path or "threadDump" in path:
            continue
        try:
            with urllib.request.urlopen(root + path, timeout=30) as answer:
                found[path] = answer.read().decode(errors="replace")
        except urllib.error.HTTPError as error:
            found[path] = error.read().decode(errors="replace")
        except OSError:  # a query that fails again and again gets another session
            break
        links = re.findall(r'href="(/[^"#]*)"', found[path])
        ahead += [html.unescape(link) for link in links]
    return found
