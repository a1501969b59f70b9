"""What tests of HTML pages share."""

from html.parser import HTMLParser


class Tags(HTMLParser):
    """Which elements and attributes a page has, and its texts."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes |= {name for name, _ in attributes}

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
