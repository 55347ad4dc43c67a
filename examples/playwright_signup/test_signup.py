"""A signup in a real browser, with a real mail in between.

    pip install pytest-playwright && playwright install chromium    # or a chromium of the system
    pytest examples/playwright_signup

`inbox` comes with Oncebox, `page` with Playwright. The service is started for the tests, every test
has an address of its own, and a copy of the mail does no harm.
"""

from playwright.sync_api import Page, expect

from oncebox.client import Inbox


def test_signup(page: Page, inbox: Inbox) -> None:
    page.goto("/")
    page.get_by_label("Email").fill(inbox.email)
    page.get_by_role("button", name="Sign up").click()

    code = inbox.wait_for_code(sender="shop.example", within=60).value
    page.get_by_label("Code").fill(code)
    page.get_by_role("button", name="Verify").click()

    expect(page.get_by_text("Welcome!")).to_be_visible()
