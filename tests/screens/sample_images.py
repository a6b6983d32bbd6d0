"""Generated sample images: a sunset with a transparent corner, and an icon."""

import base64
import io

from PIL import Image, ImageDraw

from mcphost.llm.messages import ImagePart


def icon_data_url(kind: str = "PNG", size: int = 64) -> str:
    """Return an icon as a data URL: a red disk on a blue background."""
    image = Image.new("RGB", (size, size), (0, 0, 255))
    ImageDraw.Draw(image).ellipse((size // 8, size // 8, size * 7 // 8, size * 7 // 8), fill=(255, 0, 0))
    body = io.BytesIO()
    image.save(body, kind, quality=95)
    return f"data:image/{kind.lower()};base64,{base64.b64encode(body.getvalue()).decode()}"


def sunset_image(width: int = 320, height: int = 180) -> ImagePart:
    """Return a true-colour PNG image whose upper right corner is transparent."""
    image = Image.new("RGBA", (width, height))
    brush = ImageDraw.Draw(image)
    for y in range(height):
        share = y / height
        brush.line((0, y, width, y), fill=(40 + int(200 * share), 60 + int(70 * share), 150 - int(90 * share), 255))
    brush.ellipse((width * 0.4, height * 0.35, width * 0.6, height * 0.75), fill=(255, 214, 90, 255))
    brush.rectangle((0, height * 0.68, width, height), fill=(18, 44, 84, 255))
    for y in range(int(height * 0.72), height, 14):
        brush.line((width * 0.42, y, width * 0.58, y), fill=(240, 190, 90, 255), width=4)
    brush.polygon(((width, 0), (width * 0.8, 0), (width, height * 0.4)), fill=(0, 0, 0, 0))
    body = io.BytesIO()
    image.save(body, "PNG")
    return ImagePart("image/png", base64.b64encode(body.getvalue()).decode())
