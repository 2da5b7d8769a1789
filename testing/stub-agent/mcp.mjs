/** A client of MCP servers over HTTP, as far as the stub agent needs one. A server is what a session was given: its address and headers. */
import { request as httpRequest } from 'node:http';

let lastId = 0;

/** One message; resolves with the answer's `result`, and the server's id of the session. */
function post(server, message) {
  const body = JSON.stringify({ jsonrpc: '2.0', ...message });
  const headers = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    ...Object.fromEntries((server.headers ?? []).map(({ name, value }) => [name, value])),
    ...(server.session ? { 'mcp-session-id': server.session } : {}),
    ...(message.method === 'initialize' ? {} : { 'mcp-protocol-version': server.version }),
  };
  return new Promise((done, failed) => {
    const sent = httpRequest(server.url, { method: 'POST', headers }, (answer) => {
      let text = '';
      answer.setEncoding('utf8').on('data', (piece) => {
        text += piece;
      });
      answer.on('end', () => {
        if (answer.statusCode >= 400) return failed(new Error(`HTTP ${answer.statusCode} ${text}`));
        server.session ??= answer.headers['mcp-session-id'];
        if (message.id === undefined) return done(undefined);
        const lines = text.startsWith('{') ? [text] : text.split('\n').filter((line) => line.startsWith('data:'));
        const messages = lines.map((line) => JSON.parse(line.replace(/^data:/, '')));
        const found = messages.find(({ id }) => id === message.id);
        if (!found) return failed(new Error('no answer'));
        if (found.error) return failed(new Error(found.error.message));
        done(found.result);
      });
    });
    sent.on('error', failed);
    sent.end(body);
  });
}

/** The tools of a server, from its first list. */
export async function toolsOf(server) {
  if (!server.tools) {
    const clientInfo = { name: 'stub-agent', version: '1' };
    const params = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo };
    const { protocolVersion } = await post(server, { id: ++lastId, method: 'initialize', params });
    server.version = protocolVersion;
    await post(server, { method: 'notifications/initialized' });
    const { tools } = await post(server, { id: ++lastId, method: 'tools/list', params: {} });
    server.tools = tools;
  }
  return server.tools;
}

/** The answer of the first server that has the tool. */
export async function callTool(servers, name, args) {
  for (const server of servers) {
    if (!(await toolsOf(server)).some((tool) => tool.name === name)) continue;
    return await post(server, { id: ++lastId, method: 'tools/call', params: { name, arguments: args } });
  }
  throw new Error(`there is no tool ${name}`);
}
