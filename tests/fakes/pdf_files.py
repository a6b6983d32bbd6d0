"""Hand-written PDF files for the tests, some of them hostile."""

import io
import zlib

from pypdf import PdfWriter


def make_pdf(*pages: str, extra: bytes = b"", compress: bool = True) -> bytes:
    """Return a PDF file with one line of ASCII text on each page; *extra* is added to the content of each page."""
    contents = [f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET ".encode("ascii") + extra for text in pages]
    return make_pdf_of(*contents, compress=compress)


def make_pdf_of(*contents: bytes, compress: bool = True, filters: str = "") -> bytes:
    """Return a PDF file whose pages have the given content streams."""
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(contents)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(contents)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    for number, content in enumerate(contents):
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * number} 0 R "
            f"/Resources << /Font << /F1 3 0 R >> >> >>".encode()
        )
        stream = zlib.compress(content, 9) if compress else content
        used = filters or ("/Filter /FlateDecode" if compress else "")
        objects.append(f"<< /Length {len(stream)} {used} >>\nstream\n".encode() + stream + b"\nendstream")
    return _write(objects)


def _write(objects: list[bytes]) -> bytes:
    out = bytearray(b"%PDF-1.7\n")
    places: list[int] = []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n".encode() + body + b"\nendobj\n"
    table = len(out)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode()
    for place in places:
        out += f"{place:010} 00000 n \n".encode()
    out += f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{table}\n%%EOF\n".encode()
    return bytes(out)


def encrypt_pdf(body: bytes, password: str, algorithm: str = "AES-256") -> bytes:
    """Return the PDF file encrypted with a password; any program can open it if the password is empty."""
    writer = PdfWriter(clone_from=io.BytesIO(body))
    writer.encrypt(password, "owner", algorithm=algorithm)
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()
