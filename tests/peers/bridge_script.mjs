// Runs the script that relays messages of a page, with stand-ins for the browser, and prints what it did as JSON.
import { readFileSync } from "node:fs";
import vm from "node:vm";

const posted = [];
const delivered = [];
const streams = [];
let status = 202;
const view = { postMessage: (message, target) => delivered.push([message, target]) };
const frame = {
  contentWindow: view, clientWidth: 640, style: {}, attributes: {}, isRemoved: false,
  getAttribute: (name) => frame.attributes[name] ?? null,
  setAttribute: (name, value) => { frame.attributes[name] = value; },
  remove: () => { frame.isRemoved = true; },
};
const notice = { hidden: true, textContent: "" };
const listeners = [];
const resized = [];
class EventSource {
  static CLOSED = 2;
  constructor(url) { this.url = url; this.readyState = 1; this.handlers = {}; this.isClosed = false; streams.push(this); }
  addEventListener(name, handler) { this.handlers[name] = handler; }
  close() { this.isClosed = true; }
}
const context = vm.createContext({
  EventSource, JSON, Math, Number, Promise, setTimeout,
  document: {
    body: { dataset: { page: "/page/", messages: "/t/s/messages", events: "/t/s/events", closed: "This page is closed." } },
    getElementById: (id) => (id === "page" ? frame : notice),
  },
  window: { innerWidth: 800, addEventListener: (name, handler) => (name === "resize" ? resized : listeners).push(handler) },
  fetch: async (url, options) => { posted.push([url, options.body]); return { status, ok: status < 300 }; },
});
vm.runInContext(readFileSync(process.argv[2], "utf-8"), context);
const settle = () => new Promise((resolve) => setTimeout(resolve, 5));
const say = (data, source = view, origin = "null") => listeners.forEach((one) => one({ data, source, origin }));
const out = { url: streams[0].url, early: frame.attributes.src ?? null };
streams[0].handlers.open();
out.src = frame.attributes.src;
say({ jsonrpc: "2.0", id: 1, method: "other window" }, {});
say({ jsonrpc: "2.0", id: 1, method: "other origin" }, view, "https://evil.example");
say({ jsonrpc: "2.0", method: "ui/notifications/sandbox-resource-ready" });
say("text"); say(null); say({ jsonrpc: "1.0", id: 1, method: "x" });
await settle();
out.ignored = posted.length;
say({ jsonrpc: "2.0", id: 2, method: "ping" });
await settle();
out.posted = posted.map(([url, body]) => [url, JSON.parse(body)]);
const heights = [];
for (const height of [333.2, 1, 1e9, "x", NaN]) {
  say({ jsonrpc: "2.0", method: "ui/notifications/size-changed", params: { height } });
  heights.push(frame.style.height);
}
say({ jsonrpc: "2.0", method: "ui/notifications/size-changed" });
out.heights = heights;
say({ jsonrpc: "2.0", id: 3, method: "ui/message", params: "x".repeat(1000000) });
status = 429;
say({ jsonrpc: "2.0", id: 4, method: "ping" });
await settle();
out.refused = delivered.map(([message, target]) => [message.id, message.error.code, target]);
streams[0].handlers.message({ data: '{"jsonrpc":"2.0","id":2,"result":{}}' });
out.delivered = delivered.at(-1);
const widths = [];
const resize = (width) => { frame.clientWidth = width; resized.forEach((one) => one()); };
const told = () => { widths.push(delivered.splice(0).map(([message]) => message.params?.containerDimensions?.width)); };
status = 202;
told();
resize(500); told(); // not before the page is initialized
say({ jsonrpc: "2.0", method: "ui/initialize", id: 8 });
say({ jsonrpc: "2.0", method: "ui/notifications/initialized" }); told();
resize(500); told(); // nothing changed
resize(700); told();
out.resized = widths.slice(1);
await settle();
status = 410;
say({ jsonrpc: "2.0", id: 5, method: "ping" });
await settle();
const before = posted.length;
say({ jsonrpc: "2.0", id: 6, method: "ping" });
await settle();
out.closed = [frame.isRemoved, streams[0].isClosed, notice.textContent, notice.hidden, posted.length - before];
console.log(JSON.stringify(out));
