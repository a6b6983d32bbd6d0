"""Dialogs to choose where to store secrets if there is no keyring, and to unlock the encrypted secrets file."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Button, Input

from mcphost.host.questions.sign_in import (
    ChooseSecretStorage,
    EnterPassphrase,
    KeepInEncryptedFile,
    KeepInMemory,
    KeepInPlainFile,
    LeaveLocked,
    SecretStorageVerdict,
    UnlockSecrets,
    UnlockVerdict,
)
from mcphost.translation import N_, _, join_list, translate_sentence
from mcphost.tui.dialogs.dialog import Dialog
from mcphost.tui.screen_text import clean, clean_line
from mcphost.tui.widgets.key_values import KeyValueList
from mcphost.tui.widgets.text_inputs import LabeledInput, LabeledInputGroup

_MAX_PATH = 4_096


class ChooseSecretStorageDialog(Dialog[SecretStorageVerdict]):
    """Dialog that asks whether to keep secrets in memory only, in an encrypted file or in a plain file."""

    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("refuse", N_("This session only")),
        ("encrypt", N_("Encrypted file")),
        ("plain", N_("Plain file")),
    )
    KEYS: ClassVar[str] = N_("esc/d this session only · e encrypted file · f plain file")
    ENTRY_KEYS: ClassVar[str] = N_("esc/d do not store · f plain file")
    INPUT_KEYS: ClassVar[str] = N_("enter continue · esc back")
    INPUT_ACTIONS: ClassVar[frozenset[str]] = frozenset({"encrypt"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "refuse", show=False),
        Binding("e", "encrypt", show=False, priority=True),
        Binding("f", "plain", show=False),
    ]

    def __init__(self, question: ChooseSecretStorage) -> None:
        super().__init__(question)
        self.details = question
        self._rejected_values: tuple[str, ...] = ()

    def headline(self) -> str:
        """Return the title, which names the servers whose credentials would be stored."""
        text = _("Store the secrets of {servers}?") if self._is_for_entry else _("Store your sign-in for {servers}?")
        return text.format(servers=join_list(self.details.servers))

    @property
    def _is_for_entry(self) -> bool:
        return not self.details.sealed_file

    def key_hints(self) -> str:
        """Return the key hints for the available choices.

        Secrets from a server's configuration cannot be stored in the encrypted file, so the hints then omit its key.
        """
        return self.ENTRY_KEYS if self._is_for_entry else self.KEYS

    def on_mount(self) -> None:
        """Adapt the buttons if the secrets are from a server's configuration.

        Such secrets cannot be stored in the encrypted file, so the button for that file is hidden. The first button is
        labeled "Do not store" instead of offering to keep the secrets in memory.
        """
        if self._is_for_entry:
            self.query_one("#refuse", Button).label = Content(_("Do not store"))
            self.query_one("#encrypt").display = False
            self.show_key_hints(_(self.ENTRY_KEYS))

    def preview(self) -> str:
        """Return the reason why no keyring can be used, for the card shown while the dialog is minimized."""
        return self.details.reason or _("There is no usable keyring.")

    def body(self) -> list[Content | Widget]:
        """Return the dialog's body: the reason why no keyring can be used, and what each choice means."""
        asked = self.details
        out: list[Content | Widget] = []
        if asked.note:
            out.append(Content.styled(clean(translate_sentence(asked.note)) + "\n", "bold $warning"))
        out.append(Content(clean(translate_sentence(asked.reason) or _("There is no usable keyring.")) + "\n"))
        if self._is_for_entry:
            file = clean_line(asked.plain_file, _MAX_PATH) + _("\nmode 0600; all your programs can read it")
            pairs = [(_("do not store"), _("the server is not saved")), (_("plain file"), file)]
            note = _('\nThe file is used from now on and written to config.toml as store = "file", under [secrets].')
            return [*out, KeyValueList(pairs), Content.styled(note, "$faint")]
        pairs = [
            (_("this session only"), _("nothing is saved; you sign in again next time")),
            (
                _("encrypted file"),
                clean_line(asked.sealed_file, _MAX_PATH) + _("\nyou enter its passphrase once per session"),
            ),
            (
                _("plain file"),
                clean_line(asked.plain_file, _MAX_PATH) + _("\nmode 0600; all your programs can read it"),
            ),
        ]
        out.append(KeyValueList(pairs))
        out.append(
            Content.styled(
                _(
                    "\nYou are signed in now, whatever you choose. A file that you choose is used from now on "
                    'and written to config.toml as store, under [secrets]. store = "session" ends this question.'
                ),
                "$faint",
            )
        )
        return out

    def compose_extra(self) -> ComposeResult:
        """Yield an input for the passphrase and, if a new passphrase is being set, another to repeat it."""
        if self.details.is_new:
            yield LabeledInputGroup(
                LabeledInput(_("new passphrase"), "phrase", hidden=True),
                LabeledInput(_("repeat it"), "again", hidden=True),
            )
        else:
            yield LabeledInputGroup(LabeledInput(_("passphrase"), "phrase", hidden=True))

    def action_refuse(self) -> None:
        """Close the passphrase fields if they are shown; otherwise close the dialog and keep secrets in memory only."""
        if not self.close_extra():
            self.dismiss(KeepInMemory())

    def action_plain(self) -> None:
        """Store secrets in a plain file.

        Do nothing while an input is open, because the key is then typed into the input.
        """
        if not self.query("#extra.shown"):
            self.dismiss(KeepInPlainFile())

    def action_encrypt(self) -> None:
        """Open the inputs for the passphrase."""
        if self._is_for_entry:
            return
        self.open_extra("phrase", self.INPUT_KEYS)

    def open_retry_input(self) -> None:
        """Open the inputs for the passphrase, because the previously entered passphrase was wrong."""
        self.action_encrypt()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Clear the error message once the inputs differ from the values that caused it."""
        event.stop()
        if tuple(box.value for box in self.query(Input)) != self._rejected_values:
            self.update_remaining()

    def on_labeled_input_group_submitted(self, event: LabeledInputGroup.Submitted) -> None:
        """Close the dialog with the passphrase, if it is valid.

        The passphrase must not be empty. A new passphrase must be repeated correctly.
        """
        event.stop()
        self._rejected_values = event.values
        phrase, *again = event.values
        if not phrase:
            self.query_one(LabeledInputGroup).focus_input()
            self.show_hint(_("enter a passphrase"))
        elif event.index < len(again):
            return
        elif again and again != [phrase]:
            self.show_hint(_("the passphrases differ"))
        else:
            self.dismiss(KeepInEncryptedFile(phrase))


class UnlockSecretsDialog(Dialog[UnlockVerdict]):
    """Dialog that asks for the passphrase of the encrypted secrets file, once per run of mcphost."""

    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("refuse", N_("Leave it locked")),
        ("unlock", N_("Type the passphrase")),
    )
    KEYS: ClassVar[str] = N_("esc/d leave it locked · p type the passphrase")
    INPUT_KEYS: ClassVar[str] = N_("enter open the file · esc back")
    INPUT_ACTIONS: ClassVar[frozenset[str]] = frozenset({"unlock"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "refuse", show=False),
        Binding("p", "unlock", show=False, priority=True),
    ]

    def __init__(self, question: UnlockSecrets) -> None:
        super().__init__(question)
        self.details = question

    def headline(self) -> str:
        """Return the dialog's title."""
        return _("Unlock your sign-ins?")

    def preview(self) -> str:
        """Return the path of the secrets file for the card shown while the dialog is minimized."""
        return self.details.file

    def body(self) -> list[Content | Widget]:
        """Return the dialog's body: the path of the secrets file, and what happens if it stays locked."""
        out: list[Content | Widget] = []
        if self.details.note:
            out.append(Content.styled(clean(translate_sentence(self.details.note)) + "\n", "bold $warning"))
        out.append(KeyValueList([(_("file"), clean_line(self.details.file, _MAX_PATH))]))
        out.append(
            Content.styled(
                _(
                    "\nWhile the file is locked, you must sign in again. Once it is open, its key stays in memory "
                    "until mcphost quits."
                ),
                "$faint",
            )
        )
        return out

    def compose_extra(self) -> ComposeResult:
        """Yield the input for the passphrase, which is hidden until an action opens it."""
        yield LabeledInputGroup(LabeledInput(_("passphrase"), "phrase", hidden=True))

    def action_refuse(self) -> None:
        """Close the passphrase field if it is shown; otherwise close the dialog and leave the secrets file locked."""
        if not self.close_extra():
            self.dismiss(LeaveLocked())

    def action_unlock(self) -> None:
        """Open the input for the passphrase."""
        self.open_extra("phrase", self.INPUT_KEYS)

    def open_retry_input(self) -> None:
        """Open the input for the passphrase, because the previously entered passphrase was wrong."""
        self.action_unlock()

    def on_labeled_input_group_submitted(self, event: LabeledInputGroup.Submitted) -> None:
        """Close the dialog with the passphrase, unless it is empty."""
        event.stop()
        if event.values[0]:
            self.dismiss(EnterPassphrase(event.values[0]))
