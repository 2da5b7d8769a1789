// The tools of the MCP servers that tests start, over stdio and HTTP.
import { spawn } from 'node:child_process';
import { appendFileSync } from 'node:fs';
import { Server } from '@modelcontextprotocol/server';

const text = (value) => ({ content: [{ type: 'text', text: value }] });

let calls = 0;
const TOOLS = {
  echo: (args) => text(JSON.stringify(args)),
  plain: () => text('not JSON'),
  structured: ({ n }) => ({ ...text('for people'), structuredContent: { double: 2 * n } }),
  parts: () => ({
    content: [
      { type: 'text', text: 'a' },
      { type: 'text', text: 'b' },
    ],
  }),
  refuse: () => ({ ...text('there is no such city'), isError: true }),
  throws: () => {
    throw new Error('it broke');
  },
  crash: () => process.exit(7),
  big: ({ bytes }) => text('x'.repeat(bytes)),
  // Numbers the calls of this process, so that a test sees whether they shared one.
  count: () => text(JSON.stringify({ pid: process.pid, call: ++calls })),
  environment: () => text(JSON.stringify(process.env)),
  // A child process of the server, which does not end by itself.
  spawn: () => {
    const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore' });
    return text(JSON.stringify({ server: process.pid, child: child.pid }));
  },
  // Records in `file` that it began, and that it was cancelled.
  hang: ({ file }, signal) =>
    new Promise(() => {
      appendFileSync(file, 'began\n');
      signal.addEventListener('abort', () => appendFileSync(file, 'cancelled\n'));
    }),
};

export function toolServer() {
  const server = new Server({ name: 'test', version: '1.0.0' }, { capabilities: { tools: {} } });
  server.setRequestHandler('tools/list', () => ({
    tools: Object.keys(TOOLS).map((name) => ({ name, inputSchema: { type: 'object' } })),
  }));
  server.setRequestHandler('tools/call', (request, ctx) =>
    TOOLS[request.params.name](request.params.arguments ?? {}, ctx.mcpReq.signal),
  );
  return server;
}
