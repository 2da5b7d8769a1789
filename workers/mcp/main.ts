/**
 * The process that talks to MCP servers. Entry of dist/mcp.js. What they send is not ours: it is read here, where it can block
 * or crash nothing else. When this process loses its supervisor it ends its servers, then itself.
 */
import { createInterface } from 'node:readline';
import { type Frame, Kind } from '../../protocol/frames.ts';
import type { ToolServersBootstrap } from '../../protocol/tool-servers.ts';
import { openLink, pong } from '../link.ts';
import { Calls } from './calls.ts';
import { ToolServer } from './tool-server.ts';

function run({ supervisorSocket, ticket, servers, limits }: ToolServersBootstrap): void {
  const now = () => performance.now();
  const tools = Object.entries(servers).map(
    ([name, entry]) =>
      new ToolServer(name, entry, {
        limits,
        now,
        random: Math.random,
        onState: (state, detail, said) => link.send([Kind.toolServer, name, state, detail, said]),
        onProcess: (pid, alive) => link.send([Kind.toolProcess, pid, alive]),
      }),
  );
  const calls = new Calls({
    servers: new Map(tools.map((server) => [server.name, server])),
    send: (frame) => link.send(frame),
    now,
  });
  let ending = false;
  const end = () => {
    if (ending) return;
    ending = true;
    void Promise.all(tools.map((server) => server.close())).then(() => process.exit(0));
  };
  const link = openLink(supervisorSocket, ticket, {
    onFrame: (frame: Frame) => {
      if (frame[0] === Kind.dispatch) void calls.dispatch(frame);
      else if (frame[0] === Kind.cancel) calls.cancel(frame);
      else if (frame[0] === Kind.ping) link.send(pong(frame[1], { calls: calls.running }));
    },
    onClose: end,
  });
  // Whatever ends this process, its servers are not left behind.
  process.on('exit', () => {
    for (const server of tools) server.kill();
  });
  process.stdin.on('close', end);
  link.send([Kind.ready, { pid: process.pid }]);
}

const lines = createInterface({ input: process.stdin });
lines.once('line', (line) => run(JSON.parse(line) as ToolServersBootstrap));
