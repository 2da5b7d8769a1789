/** The gateway's own runners: found, asked about themselves, and taking the turns of `ctx.agent`. */
import assert from 'node:assert/strict';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { before, describe, type TestContext, test } from 'node:test';
import type { RunnerEntry } from '../protocol/agents/agents.ts';
import { LIMITS } from '../protocol/limits.ts';
import { eventually, gatewayOfSuite } from '../testing/edges.ts';
import { root, type StartOptions, startGateway, type TestGateway } from '../testing/gateway.ts';
import { NOTES, nodesOf, notesOf, push, runToEnd } from '../testing/runs.ts';

const STUB = join(root, 'testing/stub-agent.mjs');
/** Node, and the programs of the system: no agent that is installed on this machine. */
const PLAIN_PATH = `${dirname(process.execPath)}:/usr/bin:/bin`;

const stub = (...args: string[]): RunnerEntry => ({ kind: 'acp', command: [process.execPath, STUB, ...args] });

function withRunners(runners: Record<string, RunnerEntry>, env: Record<string, string> = {}): StartOptions {
  return { config: { runners }, env: { PATH: PLAIN_PATH, ...env } };
}

/** A folder with programs of these names, which are scripts of the shell. */
function programs(t: TestContext, scripts: Record<string, string>): string {
  const folder = mkdtempSync(join(tmpdir(), 'svc-programs-'));
  t.after(() => rmSync(folder, { recursive: true }));
  for (const [name, script] of Object.entries(scripts)) {
    writeFileSync(join(folder, name), `#!/bin/sh\n${script}\n`);
    chmodSync(join(folder, name), 0o755);
  }
  return folder;
}

const ASKS = 'async ({ ctx, input }) => ({ output: await ctx.agent({ prompt: input }) })';
/** What the automations of an app may use, by their names. */
const REQUIRES = {
  anything: {},
  reading: { tools: ['svc_read'] },
  nothing: { tools: [] },
  large: { model: 'other/stub-large' },
  huge: { model: 'other/huge' },
};

/** Publishes an app whose automations ask an agent. */
async function install(gateway: TestGateway, app: string): Promise<void> {
  const automations = Object.entries(REQUIRES).map(([name, requires]) => [name, { requires, run: ASKS }]);
  await push(gateway, app, { ...NOTES, automations: Object.fromEntries(automations) });
}

/** The answer of an agent of an automation of `app` to `script`. */
function ask(gateway: TestGateway, app: string, script: string, automation: keyof typeof REQUIRES = 'anything') {
  return runToEnd(gateway, `${app}/${automation}`, script);
}

// biome-ignore lint/suspicious/noExplicitAny: the tests look into it
const statusOf = async (gateway: TestGateway, query = ''): Promise<any> =>
  (await gateway.call('GET', `/svc/_agents/status${query}`)).json;

const settled = (gateway: TestGateway, name: string) =>
  eventually(async () => ['ready', 'failed'].includes((await statusOf(gateway))[`${name}ToolsStatus`]));

describe('a gateway with runners', () => {
  // An automation may never be granted more than its file says, even if the runner's entry allows it.
  const mine: RunnerEntry = { ...stub('--models'), permission: 'allow', env: { MINE: 'x' } };
  const gone: RunnerEntry = { kind: 'acp', command: ['/nowhere/agent'] };
  const secrets = { SVC_SECRET: 'secret', OPENAI_API_KEY: 'secret', ANTHROPIC_API_KEY: 'secret' };
  const gateway = gatewayOfSuite(withRunners({ mine, other: stub('--models'), gone }, { ...secrets, LC_ALL: 'C' }));
  before(() => install(gateway, 'app'));

  test('an agent of an automation calls a tool of its app, and its usage is in the run', async () => {
    const script = ['say Adding.', 'call add {"text":"milk"}', 'say Added {result}', 'usage 42 0.25'].join('\n');
    const run = await ask(gateway, 'app', script);
    assert.deepEqual([run.state, run.error], ['ok', null]);
    assert.equal(String(run.output).trim(), 'Added "milk"');
    assert.deepEqual(await notesOf(gateway, 'app'), ['milk']);
    const [node, ...more] = await nodesOf(gateway, run.runId);
    assert.deepEqual([node?.kind, node?.ok, more.length], ['agent', true, 0]);
    assert.equal(run.usage.costUsd, 0.25);
    const folder = join(gateway.dataDir, 'agents', 'app');
    assert.deepEqual(existsSync(folder) ? readdirSync(folder) : [], [], 'the folder of the run is left');
  });

  test("of the gateway's environment an agent gets the variables on the list", async () => {
    const run = await ask(gateway, 'app', 'env\nsay {result}');
    const given = JSON.parse(String(run.output).slice(String(run.output).indexOf('{')));
    assert.deepEqual([given.LC_ALL, given.MINE, given.PATH], ['C', 'x', PLAIN_PATH]);
    assert.doesNotMatch(String(run.output), /secret/);
    assert.doesNotMatch(String(run.output), new RegExp(gateway.token));
  });

  test('it works in a separate empty folder below the data directory', async () => {
    const { output } = await ask(gateway, 'app', 'folder\nsay {result}');
    assert.ok(String(output).includes(join(gateway.dataDir, 'agents', 'app')), String(output));
  });

  test('an agent may use only the tools in requires.tools', async () => {
    const tools = async (automation: keyof typeof REQUIRES) =>
      String((await ask(gateway, 'app', 'tools\nsay {result}', automation)).output);
    const before = await notesOf(gateway, 'app');
    const all = await tools('anything');
    for (const name of ['list', 'add', 'svc_sql_read', 'svc_sql_write']) assert.match(all, new RegExp(`\\b${name}\\b`));
    const reading = await tools('reading');
    assert.match(reading, /\blist\b.*\bsvc_sql_read\b/s);
    assert.doesNotMatch(reading, /\badd\b|svc_sql_write/);
    assert.doesNotMatch(await tools('nothing'), /list|add|svc_sql/);
    const refused = await ask(gateway, 'app', 'call add {"text":"milk"}\nsay {result}', 'reading');
    assert.match(String(refused.output), /no tool add/);
    assert.deepEqual(await notesOf(gateway, 'app'), before);
  });

  test('an agent waits for an app that is busy for longer than SQL may take', async () => {
    const busyMs = LIMITS.sqlMs + 500;
    // The thread works on 64 calls at a time, and a run may ask for 64 things.
    const most = `Array.from({ length: 60 }, () => ctx.tool('svc_read', { app: 'busy', query: 'sleep' }))`;
    await push(gateway, 'busy', {
      ...NOTES,
      queries: { ...NOTES.queries, sleep: `() => new Promise((done) => setTimeout(done, ${busyMs}, 1))` },
      automations: {
        asks: {
          run: `async ({ ctx, input }) => {
            const calls = ${most};
            const output = await ctx.agent({ prompt: input });
            await Promise.all(calls);
            return { output };
          }`,
        },
      },
    });
    const others = Array.from({ length: 8 }, () => gateway.read('busy', 'sleep'));
    const run = await runToEnd(gateway, 'busy/asks', 'say Here.');
    await Promise.all(others);
    assert.deepEqual([run.state, run.error], ['ok', null]);
    assert.equal(String(run.output).trim(), 'Here.');
  });

  test('a permission for a tool that requires.tools does not name is denied', async () => {
    assert.match(String((await ask(gateway, 'app', 'ask fly\nsay {result}')).output), /rejected/);
  });

  test('requires.model names a runner and one of its models', async () => {
    await settled(gateway, 'other');
    const { otherModels } = await statusOf(gateway);
    assert.deepEqual(
      otherModels.map(({ id }: { id: string }) => id),
      ['stub-small', 'stub-large'],
    );
    assert.equal((await ask(gateway, 'app', 'say hello', 'large')).state, 'ok');
    const { state, runId } = await ask(gateway, 'app', 'say hello', 'huge');
    const [{ error } = { error: null }] = await nodesOf(gateway, runId);
    assert.deepEqual([state, error?.code, error?.path], ['error', 'BAD_REQUEST', 'model']);
    assert.match(error?.message ?? '', /"other" has no model "other\/huge"; it has: stub-small, stub-large/);
  });

  test("an app's folder is removed with it", async () => {
    await install(gateway, 'removed');
    await ask(gateway, 'removed', 'say hello');
    const folder = join(gateway.dataDir, 'agents', 'removed');
    mkdirSync(join(folder, 'w'), { recursive: true });
    assert.equal((await gateway.call('DELETE', '/svc/_apps/removed')).status, 200);
    assert.equal(existsSync(folder), false);
  });

  test('the status says what each runner has, and it is there after a restart', async () => {
    await settled(gateway, 'mine');
    const status = await statusOf(gateway);
    assert.equal(status.mineKind, 'acp');
    assert.equal(status.mineAvailable, true);
    assert.equal(status.mineEnforcesData, false);
    assert.match(status.mineVersion, /1\.2\.3/);
    assert.deepEqual([status.goneAvailable, status.goneDetail], [false, 'There is no program /nowhere/agent.']);
    const runner = (await gateway.call('GET', '/svc/_turn/runner-status?refresh=1')).json;
    assert.deepEqual([runner.kind, runner.ok, runner.runner], ['acp', true, 'mine']);
    assert.equal(runner.models.length, 2);
    const file = join(gateway.dataDir, 'model-catalog.json');
    assert.deepEqual(JSON.parse(readFileSync(file, 'utf8')).runners.mine.models, status.mineModels);
    await gateway.kill();
    await gateway.start();
    assert.deepEqual((await gateway.call('GET', '/svc/_turn/runner-status')).json.models, status.mineModels);
    assert.equal((await gateway.call('GET', '/svc/_agents/status', { token: null })).status, 401);
  });

  test('a damaged catalog counts as none', async () => {
    await gateway.kill();
    writeFileSync(join(gateway.dataDir, 'model-catalog.json'), '{"runners": {"mine": [');
    await gateway.start();
    await settled(gateway, 'mine');
    assert.equal((await statusOf(gateway)).mineModels.length, 2);
  });
});

test('without any runner ctx.agent says what to do, and so does the status', async (t) => {
  const gateway = await startGateway(t, withRunners({}));
  await install(gateway, 'app');
  const { state, runId } = await ask(gateway, 'app', 'say hello');
  const [{ error } = { error: null }] = await nodesOf(gateway, runId);
  assert.deepEqual([state, error?.code], ['error', 'NO_RUNNER']);
  assert.match(error?.message ?? '', /Install codex or claude .* or configure "runners"/);
  const status = await statusOf(gateway);
  assert.deepEqual(
    [status.codexAvailable, status.codexVersion, status.codexModels, status.codexModelsStatus],
    [false, null, [], 'cold'],
  );
  assert.equal(status['claude-codeAvailable'], false);
  const runner = (await gateway.call('GET', '/svc/_turn/runner-status')).json;
  assert.deepEqual([runner.kind, runner.ok, runner.models], ['none', false, []]);
  assert.match(runner.detail, /Install codex or claude/);
});

test('a program that hangs delays no start, and is killed', async (t) => {
  const marker = mkdtempSync(join(tmpdir(), 'svc-marker-'));
  t.after(() => rmSync(marker, { recursive: true }));
  const folder = programs(t, { codex: `touch ${join(marker, 'started')}; exec sleep 600` });
  const gateway = await startGateway(t, withRunners({}, { PATH: `${folder}:${PLAIN_PATH}` }));
  // It is being asked, for 5 s at most, while the gateway answers.
  assert.equal((await gateway.call('GET', '/svc/_health')).status, 200);
  await eventually(() => existsSync(join(marker, 'started')));
  const status = await statusOf(gateway);
  assert.deepEqual([status.codexAvailable, status.codexVersion], [false, null]);
  assert.match(status.codexDetail, /did not answer within 5 s/);
});
