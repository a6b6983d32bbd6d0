// A real authorization server (oidc-provider) with a thin MCP resource behind it, on one loopback port.
// Usage: node oidc.mjs NODE_MODULES TOKEN_SECONDS. Prints its address as one line of JSON, then one line for each event.
import http from 'node:http';

const [modules, seconds] = process.argv.slice(2);
const { default: Provider } = await import(`${modules}/oidc-provider/lib/index.js`);
const say = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);

let provider;
let origin;
const resource = () => `${origin}/mcp`;

async function mcp(request, response) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const token = await provider.AccessToken.find((request.headers.authorization ?? '').replace(/^Bearer /, ''));
  const needs = (status, more) => {
    const place = `${origin}/.well-known/oauth-protected-resource/mcp`;
    response.writeHead(status, { 'www-authenticate': `Bearer resource_metadata="${place}"${more}` }).end();
  };
  if (!token || token.isExpired || ![token.aud].flat().includes(resource())) return needs(401, '');
  if (request.method !== 'POST') return response.writeHead(405).end();
  const message = JSON.parse(Buffer.concat(chunks));
  const scopes = (token.scope ?? '').split(' ');
  const needed = message.method === 'tools/call' && message.params.name === 'whoami';
  if (needed && !scopes.includes('tools:write')) {
    return needs(403, ', error="insufficient_scope", scope="tools:write"');
  }
  if (message.id === undefined) return response.writeHead(202).end();
  const results = {
    initialize: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 'oidc', version: '1' } },
    'tools/list': { tools: ['whoami', 'peek'].map((name) => ({ name, inputSchema: { type: 'object' } })) },
    'tools/call': { content: [{ type: 'text', text: `${token.accountId} may ${token.scope}` }] },
  };
  const result = results[message.method];
  const answer = result ? { result } : { error: { code: -32601, message: 'unknown' } };
  response.writeHead(result ? 200 : 404, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ jsonrpc: '2.0', id: message.id, ...answer }));
}

const server = http.createServer((request, response) => {
  const path = request.url.split('?')[0];
  if (path === '/mcp') return mcp(request, response);
  if (path === '/.well-known/oauth-protected-resource/mcp') {
    response.writeHead(200, { 'content-type': 'application/json' });
    const scopes = ['tools:read'];
    return response.end(JSON.stringify({ resource: resource(), authorization_servers: [origin], scopes_supported: scopes }));
  }
  return provider.callback()(request, response);
});

server.listen(0, '127.0.0.1', () => {
  origin = `http://127.0.0.1:${server.address().port}`;
  provider = new Provider(origin, {
    scopes: ['openid', 'offline_access', 'tools:read', 'tools:write'],
    features: {
      devInteractions: { enabled: true },
      registration: { enabled: true },
      revocation: { enabled: true },
      deviceFlow: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: () => ({
          scope: 'tools:read tools:write', audience: resource(), accessTokenTTL: Number(seconds), accessTokenFormat: 'opaque',
        }),
        useGrantedResource: () => true,
      },
    },
    pkce: { required: () => true },
    issueRefreshToken: async (context, client) => client.grantTypeAllowed('refresh_token'),
    rotateRefreshToken: true,
    findAccount: (context, id) => ({ accountId: id, claims: async () => ({ sub: id }) }),
    cookies: { keys: ['only for tests'] },
    renderError: async (context, out, error) => {
      say({ event: 'error', text: `${error.message}: ${error.error_description ?? ''}` });
      context.body = out;
    },
  });
  for (const event of ['grant.success', 'grant.error', 'grant.revoked', 'registration_create.success']) {
    provider.on(event, (context, ...more) => {
      const error = more.find((value) => value instanceof Error);
      const grant = context?.oidc?.params?.grant_type ?? '';
      const told = error ? `${error.message}: ${error.error_description ?? ''}` : '';
      const refresh = event === 'grant.success' ? context.body?.refresh_token : undefined;
      say({ event, grant, error: told, refresh, client: context?.oidc?.client?.clientId });
    });
  }
  say({ origin });
});
