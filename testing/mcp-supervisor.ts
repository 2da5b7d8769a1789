/** A process that starts MCP servers like a gateway, to be killed by a test. Prints the pids that must end with it. */
import { startServers, stdioServer } from './tool-servers.ts';

const running = await startServers({ one: stdioServer(), stubborn: stdioServer('stubborn') });
const pids = [await running.call('one.spawn'), await running.call('stubborn.spawn')];
console.log(JSON.stringify({ pids, mcp: running.tree.agents?.pid }));
