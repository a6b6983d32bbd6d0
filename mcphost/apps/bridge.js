// Relay between a page in the sandboxed frame and mcphost. Messages of the page are untrusted: they are
// passed on as JSON text, and mcphost checks them. Only messages of the frame itself are read.
"use strict";

const MAX_MESSAGE = 900000; // in characters; mcphost accepts 1 MiB of UTF-8
const MAX_WAITING = 100;
const MIN_HEIGHT = 80;
const MAX_HEIGHT = 10000;
const MAX_FAILURES = 3; // attempts to connect again before the page counts as closed

const data = document.body.dataset;
const frame = document.getElementById("page");
const notice = document.getElementById("notice");
let waiting = 0;
let sending = Promise.resolve();
let isOpen = true;
let failures = 0;
let isInitialized = false;
const connectedWidth = Math.round(frame.clientWidth || window.innerWidth); // what mcphost tells the page
let toldWidth = connectedWidth;

function end(text) {
  isOpen = false;
  events.close();
  frame.remove();
  notice.textContent = text;
  notice.hidden = false;
}

function deliver(message) {
  if (isOpen && frame.contentWindow) {
    // The frame has an opaque origin, which only "*" matches; frame-src keeps every other document out of it.
    frame.contentWindow.postMessage(message, "*");
  }
}

function refuse(message, text) {
  if (message.id !== undefined && typeof message.method === "string") {
    deliver({ jsonrpc: "2.0", id: message.id, error: { code: -32000, message: text } });
  }
}

async function post(message, text) {
  try {
    const response = await fetch(data.messages, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: text,
      credentials: "omit",
      cache: "no-store",
    });
    if (response.status === 404 || response.status === 410) {
      end(data.closed);
    } else if (!response.ok) {
      refuse(message, "mcphost did not accept the message (HTTP " + response.status + ").");
    }
  } catch (error) {
    refuse(message, "mcphost cannot be reached.");
  } finally {
    waiting -= 1;
  }
}

function resize(params) {
  const height = params && Number(params.height);
  if (Number.isFinite(height)) {
    frame.style.height = Math.min(Math.max(Math.ceil(height), MIN_HEIGHT), MAX_HEIGHT) + "px";
  }
}

function tellWidth() {
  const width = Math.round(frame.clientWidth);
  if (isInitialized && width > 0 && width !== toldWidth) {
    toldWidth = width;
    const params = { containerDimensions: { width, maxHeight: MAX_HEIGHT } };
    deliver({ jsonrpc: "2.0", method: "ui/notifications/host-context-changed", params });
  }
}

function followHandshake(method) {
  if (method === "ui/initialize") {
    isInitialized = false;
    toldWidth = connectedWidth;
  } else if (method === "ui/notifications/initialized") {
    isInitialized = true;
    tellWidth();
  }
}

window.addEventListener("resize", tellWidth);
window.addEventListener("message", (event) => {
  const message = event.data;
  if (!isOpen || event.source !== frame.contentWindow || event.origin !== "null") {
    return;
  }
  if (message === null || typeof message !== "object" || message.jsonrpc !== "2.0") {
    return;
  }
  if (typeof message.method === "string" && message.method.startsWith("ui/notifications/sandbox-")) {
    return;
  }
  if (message.method === "ui/notifications/size-changed") {
    resize(message.params);
    return;
  }
  followHandshake(message.method);
  let text;
  try {
    text = JSON.stringify(message);
  } catch (error) {
    return;
  }
  if (text.length > MAX_MESSAGE || waiting >= MAX_WAITING) {
    refuse(message, text.length > MAX_MESSAGE ? "The message is too long." : "Too many messages are waiting.");
    return;
  }
  waiting += 1;
  sending = sending.then(() => post(message, text));
});

const events = new EventSource(data.events + "?width=" + connectedWidth);
events.addEventListener("open", () => {
  failures = 0;
  if (!frame.getAttribute("src")) {
    frame.setAttribute("src", data.page);
  }
});
events.addEventListener("message", (event) => deliver(JSON.parse(event.data)));
events.addEventListener("end", () => end(data.closed));
events.addEventListener("error", () => {
  failures += 1;
  if (events.readyState === EventSource.CLOSED || failures > MAX_FAILURES) {
    end(data.closed);
  }
});
