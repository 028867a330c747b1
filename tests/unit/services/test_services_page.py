"""docs/services.md: its tables are the services', and its changes make Debian's own files run and prove themselves."""

import doc_tables

PAGE = doc_tables.PAGE.read_text()


def test_docs_page_on_services_has_tables_that_match_the_services() -> None:
    assert doc_tables.written(PAGE) == PAGE, "run python tests/support/doc_tables.py"
