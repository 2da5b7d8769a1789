// An MCP server over streamable HTTP with sessions, at the port of its first argument; it prints the port on which it
// listens.
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { NodeStreamableHTTPServerTransport } from '@modelcontextprotocol/node';
import { toolServer } from './mcp-tools.mjs';

const sessions = new Map();
const seen = [];

const server = createServer(async (request, response) => {
  if (request.url === '/seen') {
    response.end(JSON.stringify(seen));
    return;
  }
  seen.push({ method: request.method, authorization: request.headers.authorization ?? null });
  const id = request.headers['mcp-session-id'];
  let transport = sessions.get(id);
  if (id && !transport) {
    response.writeHead(404).end();
    return;
  }
  if (!transport) {
    transport = new NodeStreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (session) => sessions.set(session, transport),
    });
    await toolServer().connect(transport);
  }
  await transport.handleRequest(request, response);
});
server.listen(Number(process.argv[2] ?? 0), '127.0.0.1', () => console.log(server.address().port));
process.stdin.on('end', () => process.exit(0));
process.stdin.resume();
