"""Where the project lives: its repository, and the pages of its codes."""

REPOSITORY = "https://github.com/amp-migrate/amp-migrate"
ISSUES = f"{REPOSITORY}/issues"
DOCS = "https://amp-migrate.github.io/amp-migrate"


def page_of(code: str) -> str:
    """The page of a code, as `amp-migrate explain` prints it: a URL."""
    return f"{DOCS}/rules/{code}/"
