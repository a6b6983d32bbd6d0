// A server of the TypeScript SDK with the surface that the interop matrix probes.
// Usage: node typescript_peer.mjs NODE_MODULES PACKAGE MODE TRANSPORT DELAY
//   PACKAGE is sdk-first (1.0), sdk-one (1.x) or server (2.x); MODE is dual, modern or legacy (2.x only);
//   TRANSPORT is stdio, http or sse, and the last two listen on $PEER_PORT (0 by default) and print their port;
//   DELAY in seconds comes before anything is read.
// If $PEER_STARTS names a file, each start appends a line to it, and the process that wrote line N offers the tool
// start_N as well.
import { randomUUID } from 'node:crypto';
import { appendFileSync, readFileSync } from 'node:fs';
import http from 'node:http';
import { createRequire } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';

const [modules, name, mode, transport, delay] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const isTwo = name === 'server';
const load = (path) => require(isTwo ? `@modelcontextprotocol/server${path}` : `${name}/${path}`);
const types = isTwo ? load('') : load('types.js');
const { Server } = isTwo ? types : load('server/index.js');

const METHODS = {
  'tools/list': 'ListToolsRequestSchema', 'tools/call': 'CallToolRequestSchema',
  'resources/list': 'ListResourcesRequestSchema', 'resources/templates/list': 'ListResourceTemplatesRequestSchema',
  'resources/read': 'ReadResourceRequestSchema', 'resources/subscribe': 'SubscribeRequestSchema',
  'resources/unsubscribe': 'UnsubscribeRequestSchema', 'prompts/list': 'ListPromptsRequestSchema',
  'prompts/get': 'GetPromptRequestSchema', 'completion/complete': 'CompleteRequestSchema',
  'logging/setLevel': 'SetLevelRequestSchema',
};
const FORM = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] };
const QUESTION = { messages: [{ role: 'user', content: { type: 'text', text: 'Capital?' } }], maxTokens: 20 };
const NAMES = [
  'add', 'steps', 'log', 'wait', 'waiting', 'cancelled', 'change', 'touch', 'form', 'model', 'folders', 'crash', 'greeted',
];
// A server over HTTP may be made anew for each request: what it must remember is kept here.
const tools = [...NAMES];
const hasMore = () => tools.includes('added');
let wasCancelled = false;
let isWaiting = false;
let greeting = 'no question at the start'; // or the answer to the form of the newest session, or its error
let notifier; // tells subscribers, where instances live for one request only

const text = (words) => ({ content: [{ type: 'text', text: String(words) }] });

function build({ era } = {}) {
  const capabilities = {
    tools: { listChanged: true }, resources: { subscribe: true, listChanged: true },
    prompts: { listChanged: true }, logging: {},
    ...(name === 'sdk-first' ? {} : { completions: {} }),
  };
  const server = new Server({ name: `typescript-${name}`, version: '1' }, { capabilities });
  const handle = (method, work) => server.setRequestHandler(isTwo ? method : types[METHODS[method]], work);
  const isModern = era === 'modern';

  handle('tools/list', () => ({ tools: tools.map((one) => ({ name: one, inputSchema: { type: 'object' } })) }));
  handle('resources/list', () => ({
    resources: ['greeting', ...(hasMore() ? ['added'] : [])].map((one) => ({ uri: `demo://${one}`, name: one })),
  }));
  handle('resources/templates/list', () => ({
    resourceTemplates: [{ uriTemplate: 'demo://items/{ident}', name: 'item' }],
  }));
  handle('resources/read', ({ params: { uri } }) => ({
    contents: [{ uri, text: uri === 'demo://greeting' ? 'hello' : `item ${uri.split('/').pop()}` }],
  }));
  handle('prompts/list', () => ({
    prompts: [
      { name: 'review', arguments: [{ name: 'code', required: true }] }, ...(hasMore() ? [{ name: 'added' }] : []),
    ],
  }));
  handle('prompts/get', ({ params }) => ({
    messages: [{ role: 'user', content: { type: 'text', text: `Please review: ${params.arguments.code}` } }],
  }));
  handle('completion/complete', ({ params }) => ({
    completion: { values: ['python', 'pascal'].filter((one) => one.startsWith(params.argument.value)) },
  }));
  if (!isTwo) handle('logging/setLevel', () => ({}));
  if (!isModern) {
    handle('resources/subscribe', () => ({}));
    handle('resources/unsubscribe', () => ({}));
  }
  handle('tools/call', async (request, context) => {
    const { name: tool, arguments: given } = request.params;
    const request1 = isTwo ? context.mcpReq : context;
    const tell = (method, params) =>
      isTwo ? request1.notify({ method, params })
        : (context.sendNotification ?? server.notification.bind(server))({ method, params });
    const meta = (isTwo ? request1._meta : request.params._meta) ?? {};
    const ask = (kind, params) => {
      if (isTwo) return types.inputRequired({ inputRequests: { it: types.inputRequired[kind](params) } });
      return undefined;
    };
    const answered = isTwo ? request1.inputResponses?.it : undefined;
    switch (tool) {
      case 'add': return text(given.a + given.b);
      case 'steps':
        for (let step = 1; step <= 3; step += 1) {
          if (meta.progressToken !== undefined) {
            await tell('notifications/progress', { progressToken: meta.progressToken, progress: step, total: 3 });
          }
          await sleep(20);
        }
        return text('done');
      case 'log':
        if (isTwo) await request1.log('warning', 'look here');
        else await tell('notifications/message', { level: 'warning', data: 'look here' });
        return text('logged');
      case 'wait':
        wasCancelled = false;
        isWaiting = true;
        await Promise.race([
          sleep(30_000),
          new Promise((resolve) => {
            request1.signal?.addEventListener('abort', () => { wasCancelled = true; resolve(); });
          }),
        ]);
        isWaiting = false;
        return text('waited');
      case 'waiting': return text(isWaiting);
      case 'cancelled': return text(wasCancelled);
      case 'change':
        if (!hasMore()) tools.push('added');
        for (const kind of ['tool', 'prompt', 'resource']) {
          if (notifier) notifier[`${kind}sChanged`]();
          else await server[`send${kind[0].toUpperCase()}${kind.slice(1)}ListChanged`]();
        }
        return text('changed');
      case 'touch':
        if (notifier) notifier.resourceUpdated('demo://greeting');
        else await server.sendResourceUpdated({ uri: 'demo://greeting' });
        return text('touched');
      case 'form': {
        const params = { message: 'Your name?', requestedSchema: FORM };
        if (isTwo && !answered) return ask('elicit', params);
        const reply = answered ?? (await server.elicitInput(params));
        return text(reply.action === 'accept' ? `Hello ${reply.content.name}` : reply.action);
      }
      case 'model': {
        if (isTwo && !answered) return ask('createMessage', QUESTION);
        const reply = answered ?? (await server.createMessage(QUESTION));
        return text(reply.content.text);
      }
      case 'folders': {
        if (isTwo && !answered) return ask('listRoots');
        const reply = answered ?? (await server.listRoots());
        return text(reply.roots.map((root) => root.uri).join(' '));
      }
      case 'crash': process.exit(3);
      // falls through
      case 'added': return text('new');
      case 'greeted': return text(await greeting);
      default: throw new Error(`no tool ${tool}`);
    }
  });
  if (!isModern) {
    server.oninitialized = () => { greeting = greet(server); };
  }
  return server;
}

// Over HTTP a request is lost if the client does not read the stream yet: ask again.
async function greet(server, tries = 5) {
  try {
    const reply = await server.elicitInput({ message: 'Who starts me?', requestedSchema: FORM }, { timeout: 2000 });
    return `Good morning ${reply.content.name}`;
  } catch (error) {
    if (tries > 1 && error.message.includes('timed out')) return greet(server, tries - 1);
    return error.message;
  }
}

function listen(handler) {
  const listener = http.createServer(handler);
  listener.listen(Number(process.env.PEER_PORT ?? 0), '127.0.0.1', () => process.stdout.write(`${listener.address().port}\n`));
}

// One server for each session, as the SDK's own examples do it.
function sessionful(Transport) {
  const sessions = new Map();
  return async (request, response) => {
    const known = sessions.get(request.headers['mcp-session-id']);
    if (known) return known.handleRequest(request, response);
    const fresh = new Transport({
      sessionIdGenerator: () => randomUUID(),
      onsessioninitialized: (ident) => sessions.set(ident, fresh),
    });
    await build({ era: 'legacy' }).connect(fresh);
    return fresh.handleRequest(request, response);
  };
}

function overSse({ SSEServerTransport }) {
  const streams = new Map();
  return async (request, response) => {
    const url = new URL(request.url, 'http://127.0.0.1');
    if (request.method === 'GET') {
      const fresh = new SSEServerTransport('/messages', response);
      streams.set(fresh.sessionId, fresh);
      await build().connect(fresh);
    } else if (url.pathname === '/messages') {
      await streams.get(url.searchParams.get('sessionId')).handlePostMessage(request, response);
    } else {
      response.writeHead(404).end();
    }
  };
}

if (process.env.PEER_STARTS) {
  appendFileSync(process.env.PEER_STARTS, 'start\n');
  tools.push(`start_${readFileSync(process.env.PEER_STARTS, 'utf8').trim().split('\n').length}`);
}
await sleep(Number(delay) * 1000);
if (transport === 'stdio') {
  if (isTwo && mode !== 'legacy') {
    load('/stdio').serveStdio(build, { legacy: mode === 'dual' ? 'serve' : 'reject' });
  } else {
    const { StdioServerTransport } = isTwo ? load('/stdio') : load('server/stdio.js');
    await build({ era: 'legacy' }).connect(new StdioServerTransport());
  }
} else if (transport === 'sse') {
  listen(overSse(load('server/sse.js')));
} else if (isTwo && mode !== 'legacy') {
  const handler = types.createMcpHandler(build, { legacy: mode === 'dual' ? 'stateless' : 'reject' });
  notifier = handler.notify;
  listen(require('@modelcontextprotocol/node').toNodeHandler(handler));
} else {
  const { NodeStreamableHTTPServerTransport: Two } = isTwo ? require('@modelcontextprotocol/node') : {};
  listen(sessionful(Two ?? load('server/streamableHttp.js').StreamableHTTPServerTransport));
}
