// An MCP server over stdio; its first argument selects a fault.
import { StdioServerTransport } from '@modelcontextprotocol/server/stdio';
import { toolServer } from './mcp-tools.mjs';

const flaws = {
  none: () => {},
  /** Does not answer. */
  silent: () => process.stdin.resume(),
  /** Writes text between its messages. */
  chatty: () => setInterval(() => console.log('still here'), 5),
  noisy: () => setInterval(() => process.stderr.write('x'.repeat(100_000)), 1),
  dies: () => {
    console.error('the database is locked');
    process.exit(3);
  },
  /** Does not end with its input or on a signal. */
  stubborn: () => {
    process.on('SIGTERM', () => {});
    setInterval(() => {}, 1000);
  },
};
const flaw = process.argv[2] ?? 'none';
flaws[flaw]();
if (flaw !== 'silent') await toolServer().connect(new StdioServerTransport());
