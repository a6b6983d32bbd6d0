"""Tests for adapting attachments to the model: PDF files as text, large images scaled down, the rest reported."""

import base64
import io
import threading
from collections.abc import AsyncIterator

import pytest
from PIL import Image

from mcphost.errors import UsageError
from mcphost.host.conversation import attachment_fitting
from mcphost.host.conversation.attachment_fitting import MAX_IMAGE_BYTES, SCALED_SIDE, AttachmentFitter
from mcphost.host.conversation.local_files import MAX_BINARY_BYTES, Attachment
from mcphost.llm.messages import FilePart, ImagePart, Part, ResourcePart, TextPart
from mcphost.llm.model import ModelFacts
from mcphost.serialization import replace
from tests.fakes.pdf_files import encrypt_pdf, make_pdf, make_pdf_of

pytestmark = pytest.mark.anyio

TAKES, REFUSES, UNKNOWN = ModelFacts(supports_pdf=True), ModelFacts(supports_pdf=False), ModelFacts()


@pytest.fixture
async def fitter() -> AsyncIterator[AttachmentFitter]:
    fitter = AttachmentFitter()
    yield fitter
    await fitter.close()


def pdf(body: bytes, server: str = "") -> Attachment:
    name = "paper.pdf"
    return Attachment(name=name, part=FilePart(name, "application/pdf", base64.b64encode(body).decode(), server))


def picture(width: int, height: int, kind: str = "PNG") -> Attachment:
    body = io.BytesIO()
    Image.new("RGB", (width, height), (9, 99, 199)).save(body, kind)
    data = base64.b64encode(body.getvalue()).decode()
    return Attachment(name="shot", part=ImagePart(f"image/{kind.lower()}", data, name="shot"))


@pytest.mark.parametrize("facts", [REFUSES, UNKNOWN])
async def test_a_model_that_is_not_known_to_take_pdf_files_gets_the_text(
    fitter: AttachmentFitter, facts: ModelFacts
) -> None:
    found = await fitter.fit(pdf(make_pdf("The tide is high", "and rising")), facts)
    assert isinstance(found.part, ResourcePart)
    assert (found.part.uri, found.part.mime_type) == ("paper.pdf", "application/pdf")
    assert found.part.text.startswith("[Page 1]\nThe tide is high\n\n[Page 2]\nand rising\n")
    assert found.note == "only the text of the PDF file is attached, without its pictures and layout"
    assert found.note in found.part.text, "the model is told too"


async def test_where_a_link_to_a_pdf_file_led_is_still_reported_when_its_text_is_attached(
    fitter: AttachmentFitter,
) -> None:
    linked = replace(pdf(make_pdf("The tide is high")), note="a link to private/salary.pdf")
    assert (await fitter.fit(linked, REFUSES)).note.startswith("a link to private/salary.pdf; only the text")


async def test_a_model_that_takes_pdf_files_gets_the_file(fitter: AttachmentFitter) -> None:
    whole = pdf(make_pdf("The tide is high"))
    assert await fitter.fit(whole, TAKES) == whole
    large = pdf(make_pdf("The tide is high") + b"\n%" + bytes(MAX_BINARY_BYTES))
    assert isinstance((await fitter.fit(large, TAKES)).part, ResourcePart), "over what is sent as a file"


async def test_a_large_pdf_file_is_decoded_in_pieces_off_the_event_loop(
    fitter: AttachmentFitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths, threads, decode = list[int](), set[int](), base64.b64decode

    def watched(data: str) -> bytes:
        lengths.append(len(data))
        threads.add(threading.get_ident())
        return decode(data)

    whole = pdf(make_pdf("The tide is high") + b"\n%" + bytes(MAX_BINARY_BYTES))
    monkeypatch.setattr(base64, "b64decode", watched)
    found = await fitter.fit(whole, REFUSES)
    assert isinstance(found.part, ResourcePart)
    assert "The tide is high" in found.part.text
    assert len(lengths) > 2
    assert max(lengths) <= 4 * 1024 * 1024
    assert threading.get_ident() not in threads


async def test_a_pdf_file_without_text_is_tried_or_refused_with_the_fix(fitter: AttachmentFitter) -> None:
    scan = pdf(make_pdf_of(b"0 0 100 100 re f"))
    assert await fitter.fit(scan, UNKNOWN) == scan
    with pytest.raises(UsageError, match=r"paper\.pdf has no text in its 1 page, which may be pictures") as refused:
        await fitter.fit(scan, REFUSES)
    assert "/model" in refused.value.hint
    with pytest.raises(UsageError, match=r"paper\.pdf cannot be read as a PDF file: it is protected with a password"):
        await fitter.fit(pdf(encrypt_pdf(make_pdf("x"), "sesame")), REFUSES)


async def test_a_long_pdf_file_is_cut_at_a_page_and_both_sides_are_told(fitter: AttachmentFitter) -> None:
    found = await fitter.fit(pdf(make_pdf(*["word " * 400] * 200)), REFUSES)
    assert isinstance(found.part, ResourcePart)
    assert "only the first 130 of 200 pages" in found.note
    assert found.part.text.endswith(f"[{found.note}]")


async def test_a_resource_that_cannot_be_made_to_fit_becomes_a_note(fitter: AttachmentFitter) -> None:
    broken = pdf(b"%PDF-1.7 nothing", "papers")
    (found,) = await fitter.fit_resources([broken], REFUSES)
    assert isinstance(found.part, ResourcePart)
    assert found.part.server == "papers"
    assert found.part.text == "[application/pdf, not attached: cannot be read as a PDF file: it is damaged]"
    parts: tuple[Part, ...] = (TextPart("words"), broken.part)
    assert await fitter.fit_parts(parts, REFUSES) == (TextPart("words"), found.part)


async def test_a_picture_over_what_providers_take_is_scaled_down_and_reported(fitter: AttachmentFitter) -> None:
    found = await fitter.fit(picture(9_000, 3_000), UNKNOWN)
    assert isinstance(found.part, ImagePart)
    image = Image.open(io.BytesIO(base64.b64decode(found.part.data)))
    assert (image.size, image.format, found.part.mime_type) == ((SCALED_SIDE, 683), "JPEG", "image/jpeg")
    assert found.note.startswith("scaled down to 2,048 x 683 from 9,000 x 3,000 pixels")
    small = picture(800, 600)
    assert await fitter.fit(small, UNKNOWN) == small


async def test_a_picture_with_too_many_bytes_is_scaled_down(fitter: AttachmentFitter) -> None:
    body = io.BytesIO()
    Image.effect_noise((2_500, 2_000), 90).save(body, "PNG")
    assert len(body.getvalue()) > MAX_IMAGE_BYTES
    part = ImagePart("image/png", base64.b64encode(body.getvalue()).decode(), name="noise")
    found = await fitter.fit(Attachment(name="noise", part=part), UNKNOWN)
    assert isinstance(found.part, ImagePart)
    assert len(base64.b64decode(found.part.data)) <= MAX_IMAGE_BYTES


async def test_without_pillow_a_large_picture_is_refused_with_the_fix(
    fitter: AttachmentFitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attachment_fitting, "is_installed", lambda: False)
    with pytest.raises(UsageError, match="shot is larger than providers accept: 9,000 x 3,000 pixels") as refused:
        await fitter.fit(picture(9_000, 3_000), UNKNOWN)
    assert "mcphost[images]" in refused.value.hint
