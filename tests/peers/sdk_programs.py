"""The programs in this folder that are servers written with the official SDK."""

from pathlib import Path

SDK_SERVER = str(Path(__file__).with_name("sdk_server.py"))
PAGE_SERVER = str(Path(__file__).with_name("sdk_page_server.py"))
