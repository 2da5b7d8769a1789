// The official clients are connected to the MCP address of an app by signing in (specification, "Connected programs").
import assert from 'node:assert/strict';
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { appOf } from '../../testing/apps.ts';
import { gatewayOfSuite } from '../../testing/edges.ts';
import { root } from '../../testing/gateway.ts';
import { type Joined, join as joinGateway } from '../../testing/people.ts';
import { inTime, LONG_MS } from '../../testing/waiting.ts';

const programs = join(root, 'scripts/agents/node_modules/.bin');
const skip = (name: string) => {
  if (!existsSync(join(programs, name))) return `${name} is not installed: npm ci --prefix scripts/agents`;
  return existsSync('/usr/bin/script') && process.platform === 'linux' ? false : 'needs the command script of Linux';
};
/** How a program is told the address of the app, how it signs in, where that is another command, and how it lists what it reaches. */
const CLIENTS = {
  codex: {
    add: () => null,
    login: (url: string) => ['mcp', 'add', 'notes', '--url', url],
    atTerminal: false,
    signedIn: /notes.*OAuth/,
  },
  claude: {
    add: (url: string) => ['mcp', 'add', '--transport', 'http', 'notes', url],
    // It asks people only, at a terminal.
    login: () => ['mcp', 'login', 'notes'],
    atTerminal: true,
    signedIn: /notes.*Connected/,
  },
};

describe('clients that sign in', () => {
  // Nothing here reaches the addresses by which these programs name themselves.
  const gateway = gatewayOfSuite({ config: { egress: { deny: ['*'] } } });
  const home = mkdtempSync(join(tmpdir(), 'svc-sign-in-'));
  const env = { PATH: process.env.PATH ?? '', HOME: home, CODEX_HOME: join(home, 'codex') };
  const quiet = { ...env, TERM: 'xterm', CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1' };
  let ada: Joined;
  before(async () => {
    mkdirSync(env.CODEX_HOME);
    writeFileSync(join(env.CODEX_HOME, 'config.toml'), 'mcp_oauth_credentials_store = "file"\n');
    await gateway.install('notes', appOf('notes', { queries: { all: '() => []' } }));
    ada = await joinGateway(gateway, 'Ada', { grants: [{ app: 'notes', role: 'editor' }] });
  });
  after(() => rmSync(home, { recursive: true, force: true }));

  for (const [name, { add, login, atTerminal, signedIn }] of Object.entries(CLIENTS)) {
    test(`${name} prints where to sign in, and is connected when a person has agreed`, {
      skip: skip(name),
    }, async (t) => {
      const run = async (args: string[]) => {
        const options = { env: quiet, cwd: home, timeout: LONG_MS };
        return (await promisify(execFile)(join(programs, name), args, options)).stdout;
      };
      const url = `${gateway.url}/svc/notes/_mcp`;
      const adding = add(url);
      if (adding !== null) await run(adding);
      const command = [join(programs, name), ...login(url)];
      const [file = '', ...args] = atTerminal ? terminal(command) : command;
      const program = spawn(file, args, { env: quiet, cwd: home, timeout: LONG_MS });
      t.after(() => program.kill());
      const ended = once(program, 'close');
      const { search } = new URL(await inTime(addressFrom(program), 'the address to sign in at', LONG_MS));
      const query = search.slice(1);
      const agreed = await ada.origin.call('POST', '/svc/_oauth/consent', { body: { query, role: 'viewer' } });
      assert.equal(agreed.status, 201, agreed.text);
      // Its own server takes the answer.
      await fetch(agreed.json.url);
      assert.deepEqual(await inTime(ended, 'the end of the program', LONG_MS), [0, null]);
      assert.match(await run(['mcp', 'list']), signedIn);
      const [row] = (await ada.origin.call('GET', '/svc/_people/me/connections')).json;
      assert.deepEqual(
        [row.app.id, row.role, new RegExp(name, 'i').test(row.name)],
        ['notes', 'viewer', true],
        row.name,
      );
      await ada.origin.call('DELETE', `/svc/_people/me/connections/${row.id}`);
    });
  }
});

/** The command at a terminal that breaks no lines. Programs of the test's own would need a native package. */
function terminal(command: string[]): string[] {
  return ['script', '-qec', `stty cols 2000; ${command.join(' ')}`, '/dev/null'];
}

/** The address of the console that a program prints. */
function addressFrom({ stdout, stderr }: ChildProcess): Promise<string> {
  let said = '';
  return new Promise((resolve) => {
    for (const stream of [stdout, stderr])
      stream?.on('data', (chunk: Buffer) => {
        said += chunk;
        const [found] = /http[^\s\p{Cc}]+\/_oauth\/authorize\?[^\s\p{Cc}]+(?=[\s\p{Cc}])/u.exec(said) ?? [];
        if (found !== undefined) resolve(found);
      });
  });
}
