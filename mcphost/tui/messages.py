"""The messages widgets send up: what the user did, never what it means."""

from textual.message import Message


class Submitted(Message):
    """The user sent what is in the composer."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class AttachWanted(Message):
    """The user typed @ and chose a resource."""

    def __init__(self, server: str, uri: str) -> None:
        super().__init__()
        self.server = server
        self.uri = uri


class ScrollWanted(Message):
    """The user wants to read on in the conversation, by so many pages; negative is back."""

    def __init__(self, pages: int) -> None:
        super().__init__()
        self.pages = pages


class DetachWanted(Message):
    """The user removed the newest attachment."""


class PromptWanted(Message):
    """The user chose a server's prompt."""

    def __init__(self, server: str, name: str) -> None:
        super().__init__()
        self.server = server
        self.prompt = name


class ActionWanted(Message):
    """The user clicked or chose an action of the table in `keys`."""

    def __init__(self, action: str) -> None:
        super().__init__()
        self.action = action


class LinkClicked(Message):
    """The user clicked a link; it is shown, never opened by itself."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url


class TextWanted(Message):
    """The user wants to see a whole text."""

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self.title = title
        self.text = text


class CopyWanted(Message):
    """The user wants this text in the clipboard."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class ServerChosen(Message):
    """The user chose a server in the list."""

    def __init__(self, server: str) -> None:
        super().__init__()
        self.server = server
